// This file accesses the emulated chip's memory through QEMU's qtest socket. Accesses go through the CPU's address
// space, with peripherals and the flash controller, also while the guest runs.

package virtualprobe

import (
	"bufio"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"
)

// maxBlock bounds one qtest command.
const maxBlock = 16 << 10 // words

// A qtest is a connection to QEMU's qtest socket. It is a Bus.
type qtest struct {
	conn    net.Conn
	r       *bufio.Reader
	w       *bufio.Writer
	pending int // replies to writes that were not read yet
}

func newQtest(conn net.Conn) *qtest {
	return &qtest{conn: conn, r: bufio.NewReader(conn), w: bufio.NewWriter(conn)}
}

var widths = map[int]string{1: "b", 2: "w", 4: "l"}

// answerTimeout is the time limit for an answer of QEMU, which takes microseconds unless QEMU hangs.
const answerTimeout = 10 * time.Second

// reply waits for the answer to the oldest pending command.
func (q *qtest) reply() (string, error) {
	if err := q.w.Flush(); err != nil {
		return "", fmt.Errorf("%w: %w", ErrGone, err)
	}

	_ = q.conn.SetReadDeadline(time.Now().Add(answerTimeout)) // the read returns the error
	for {
		line, err := q.r.ReadString('\n')
		if err != nil {
			return "", fmt.Errorf("%w: %w", ErrGone, err)
		}

		line = strings.TrimSpace(line)

		// An interrupt, which is no answer.
		if strings.HasPrefix(line, "IRQ ") {
			continue
		}

		rest, ok := strings.CutPrefix(line, "OK")
		if !ok {
			return "", fmt.Errorf("qtest: %s", line)
		}
		return strings.TrimSpace(rest), nil
	}
}

// drain waits for all pending answers.
func (q *qtest) drain() error {
	for q.pending > 0 {
		q.pending--
		if _, err := q.reply(); err != nil {
			// After an error no answer can be assigned to its command.
			q.pending = 0
			return err
		}
	}
	return nil
}

// maxPending limits the pending answers, so that they fit the socket's buffer.
const maxPending = 256

func (q *qtest) Write(addr uint32, width int, v uint32) error {
	fmt.Fprintf(q.w, "write%s 0x%x 0x%x\n", widths[width], addr, v)
	q.pending++
	if q.pending >= maxPending {
		return q.drain()
	}
	return nil
}

func (q *qtest) Read(addr uint32, width int) (uint32, error) {
	if err := q.drain(); err != nil {
		return 0, err
	}

	fmt.Fprintf(q.w, "read%s 0x%x\n", widths[width], addr)
	s, err := q.reply()
	if err != nil {
		return 0, err
	}

	v, err := strconv.ParseUint(s, 0, 64)
	if err != nil {
		return 0, fmt.Errorf("qtest: %w", err)
	}
	return uint32(v), nil
}

func (q *qtest) ReadBlock(addr uint32, words []uint32) error {
	if err := q.drain(); err != nil {
		return err
	}

	for len(words) > 0 {
		n := min(len(words), maxBlock)
		fmt.Fprintf(q.w, "b64read 0x%x 0x%x\n", addr, 4*n) // the plain read command is slower: it formats byte by byte
		s, err := q.reply()
		if err != nil {
			return err
		}

		b, err := base64.StdEncoding.DecodeString(s)
		if err != nil || len(b) != 4*n {
			return fmt.Errorf("qtest: read of %d bytes answered %d characters", 4*n, len(s))
		}
		for i := range n {
			words[i] = binary.LittleEndian.Uint32(b[4*i:])
		}
		words, addr = words[n:], addr+uint32(4*n)
	}
	return nil
}
