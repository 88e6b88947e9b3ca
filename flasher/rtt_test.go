package flasher

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit"
)

const (
	rttAt   = 0x20000100 // SEGGER's control block: "SEGGER RTT", the numbers of buffers, then 24 bytes for each
	rttUp   = 0x20000200
	rttDown = 0x20000300
	rttSize = 64 // of each buffer
)

// rttWords returns a control block with a buffer for each direction, of which that to the host holds n bytes.
func rttWords(n uint32) []uint32 {
	block := make([]byte, 16)
	copy(block, "SEGGER RTT")
	var words []uint32
	for i := 0; i < len(block); i += 4 {
		words = append(words, binary.LittleEndian.Uint32(block[i:]))
	}
	return append(words, 1, 1, 0, rttUp, rttSize, n, 0, 0, 0, rttDown, rttSize, 0, 0, 0)
}

// setWords writes words to the chip's RAM.
func (b *rig) setWords(at uint32, words ...uint32) {
	b.t.Helper()
	o := &openocd{b.conf}
	must(b.t, inFolder(func(dir string) error {
		args := o.connect(dir, noGDB)
		for i, w := range words {
			args = append(args, "-c", fmt.Sprintf("mww 0x%x 0x%x", at+4*uint32(i), w))
		}
		path, err := o.find()
		return errors.Join(err, o.shadow(dir), o.command(path, append(args, "-c", "shutdown"), dir).Run(b.t.Context()))
	}))
}

// TestServeRTT passes bytes between RTT's buffers in an emulated chip's RAM and a client. The chip's firmware sleeps:
// the buffers are the test's. Without a control block, the error says so.
func TestServeRTT(t *testing.T) {
	t.Parallel()
	f := boardsUnderTest[0].flash
	f.Programmer = "openocd"
	b := openRig(t, f, 0, 1024)
	o := &openocd{b.conf}
	data := []Segment{b.pattern(0, 0)}
	must(t, o.Do(t.Context(), Job{Write: data, Restart: true}))
	ctx := testkit.Context(t)
	port := freeTCPPort(t)
	block := []Range{{Addr: 0x20000000, Size: 0x80}, {Addr: rttAt, Size: 72}}
	unused := func(context.Context) error { return errors.New("used") }
	wantError(t, o.ServeRTT(ctx, port, block, unused), failure.Boot) // without a control block
	b.setWords(rttUp, binary.LittleEndian.Uint32([]byte("hell")), binary.LittleEndian.Uint32([]byte("o\x00\x00\x00")))
	b.setWords(rttAt, rttWords(5)...)
	for wait := 50 * time.Millisecond; ; wait *= 2 { // nothing tells when OpenOCD has written what it received
		got, read := b.exchangeRTT(ctx, port, block, wait)
		if got != "hello" || read[2].Data[0] != 5 {
			t.Fatalf("the host received %q, up to %d", got, read[2].Data[0])
		}
		if bytes.Equal(read[0].Data, []byte("here")) && read[1].Data[0] == 4 {
			return
		}
		b.setWords(rttAt, rttWords(5)...)
	}
}

// exchangeRTT receives five bytes, sends "here" and waits. It returns what was received, and of the chip's RAM the four
// first bytes from the host, their number, and where the host has read.
func (b *rig) exchangeRTT(ctx context.Context, port int, block []Range, wait time.Duration) (string, []Segment) {
	b.t.Helper()
	o, got, used := &openocd{b.conf}, make([]byte, 5), errors.New("used")
	err := o.ServeRTT(ctx, port, block, func(ctx context.Context) error {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			return err
		}
		defer conn.Close()
		_, err = io.ReadFull(conn, got)
		_, sent := conn.Write([]byte("here"))
		time.Sleep(wait)
		return errors.Join(err, sent, used)
	})
	wantIs(b.t, err, used)
	_, read, err := o.Inspect(ctx, []Range{{rttDown, 4}, {rttAt + 24 + 24 + 12, 4}, {rttAt + 24 + 16, 4}})
	must(b.t, err)
	return string(got), read
}

func freeTCPPort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}
