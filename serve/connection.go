// This file has the handshake of a TCP connection and its packets (rpc_tcp.md §1).

package serve

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/boardclient"
)

// The numbers that begin the handshake.
const (
	magic       = boardclient.Magic
	keyMismatch = 0xFF273
)

const (
	helloTimeout = 10 * time.Second // for a client to send its key, then for its first packet to begin
	blockTimeout = 10 * time.Second // for a block of a packet
	blockSize    = 64 << 10
	writeTimeout = 60 * time.Second
	leaveTimeout = 500 * time.Millisecond // for replies to a client that sends no more
	lossTimeout  = 15 * time.Second       // for a client's computer to acknowledge data, or a probe of an idle connection
	maxKey       = boardclient.MaxKey
	maxPackets   = 1 << 10 // that a client sends ahead of their replies
	protocol     = boardclient.Protocol
)

// detectLoss ends the connection of a client whose computer has lost its power or its network, so that reads fail. A
// client that is idle or slow stays connected: its system acknowledges.
func detectLoss(c net.Conn) {
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return
	}

	const probes = 2
	// One interval before the first probe, and one after each.
	interval := lossTimeout / (probes + 1)
	_ = tcp.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: interval, Interval: interval, Count: probes})
	limitUnacknowledged(tcp, lossTimeout)
}

// A hello is a client's part of the handshake.
type hello struct {
	key     string        // "client:" and the match key
	timeout time.Duration // of the session; 0: none
}

// readHello reads a client's part of the handshake.
func readHello(c net.Conn) (hello, error) {
	if err := c.SetReadDeadline(time.Now().Add(helloTimeout)); err != nil {
		return hello{}, err
	}

	var head [8]byte
	if _, err := io.ReadFull(c, head[:]); err != nil {
		return hello{}, err
	}

	n := le.Uint32(head[4:])
	if le.Uint32(head[:]) != magic || n > maxKey {
		return hello{}, failure.Errorf(failure.Transport, "%v is no client of TVM's RPC", c.RemoteAddr())
	}

	text := make([]byte, n)
	if _, err := io.ReadFull(c, text); err != nil {
		return hello{}, err
	}
	return parseHello(string(text)), c.SetReadDeadline(time.Time{})
}

func parseHello(text string) (h hello) {
	words := strings.Fields(text)
	if len(words) == 0 {
		return h
	}

	h.key = words[0]
	for _, w := range words[1:] {
		if value, ok := strings.CutPrefix(w, "-timeout="); ok {
			const longest = 1e9 // seconds
			if s, err := strconv.ParseFloat(value, 64); err == nil && s > 0 && s < longest {
				h.timeout = time.Duration(s * float64(time.Second))
			}
		}
	}
	return h
}

// welcome ends the handshake with a client that is served.
func welcome(c net.Conn, key string) error {
	text := "server:" + key
	msg := le.AppendUint32(le.AppendUint32(nil, magic), uint32(len(text)))
	return writeAll(c, append(msg, text...))
}

func writeAll(c net.Conn, msg []byte) error {
	if err := c.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return err
	}
	_, err := c.Write(msg)
	return err
}

var errLong = errors.New("the packet is too long")

// A receiver reads a client's packets ahead of the session, so that the end of the connection is noticed during a call:
// cancel is then called, at once or after leaveTimeout. TVM's clients await each reply: one that has sent too much is
// disconnected. Memory is allocated only for bytes that arrive.
type receiver struct {
	conn    net.Conn
	limit   int // bytes of a packet
	cancel  context.CancelFunc
	first   bool          // no packet was received yet
	begin   func()        // closes begun
	begun   chan struct{} // closed when the first packet, or maxAhead bytes of it, have been received
	open    chan struct{} // closed when the session begins: before, no more than this is received
	done    chan struct{} // closed when the session no longer receives
	packets chan []byte   // has the first one when begun is closed, unless it is longer than maxAhead
	ahead   atomic.Int64  // bytes in packets
	err     error         // valid once packets is closed
}

func newReceiver(c net.Conn, limit int, cancel context.CancelFunc) *receiver {
	begun := make(chan struct{})
	return &receiver{
		conn: c, limit: limit, cancel: cancel, first: true, begun: begun, begin: sync.OnceFunc(func() { close(begun) }),
		open: make(chan struct{}), done: make(chan struct{}), packets: make(chan []byte, maxPackets),
	}
}

func (r *receiver) run() {
	for {
		msg, err := r.receive()
		if err != nil {
			r.end(err)
			return
		}

		ahead := r.ahead.Add(int64(len(msg)))
		select {
		case r.packets <- msg:
		case <-r.done:
			return
		default:
			// No client of TVM sends so many packets ahead.
			r.end(net.ErrClosed)
			return
		}
		if ahead > int64(r.limit)+maxAhead {
			r.end(net.ErrClosed)
			return
		}

		r.first = false
		r.begin()
	}
}

// end ends the receipt. A client that has closed its side of the connection may await replies to what it has sent. They
// have a limit, because the end of a killed client looks the same.
func (r *receiver) end(err error) {
	// In this order: r.err is valid once packets is closed.
	r.err = err
	close(r.packets)

	if !r.first && errors.Is(err, errLong) {
		return // the session answers
	}

	select {
	case <-r.open:
	default:
		err = nil // there is no session
	}

	if errors.Is(err, io.EOF) {
		select {
		case <-time.After(leaveTimeout):
		case <-r.done:
		}
	}
	r.cancel()
}

// receive returns the next packet that is not empty, with its length in front. The first one must begin soon.
func (r *receiver) receive() ([]byte, error) {
	msg := &bytes.Buffer{}
	var n uint64
	for n == 0 {
		msg.Reset()
		if err := r.receiveByte(msg); err != nil {
			return nil, err
		}
		if err := r.read(msg, 7, blockTimeout); err != nil {
			return nil, err
		}
		n = le.Uint64(msg.Bytes())
	}

	if n > uint64(r.limit) {
		return nil, r.discard(msg, n)
	}

	for end := 8 + int(n); msg.Len() < end; {
		// Of a client that waits, only a part of the first packet is received.
		if r.first && msg.Len() >= maxAhead {
			r.begin()
			if err := r.awaitOpen(); err != nil {
				return nil, err
			}
		}
		if err := r.read(msg, min(blockSize, end-msg.Len()), blockTimeout); err != nil {
			return nil, err
		}
	}
	return msg.Bytes(), nil
}

// discard receives a packet that is too long, so that its client, which has then sent it, reads the reply. It returns
// errLong, or an error of the connection.
func (r *receiver) discard(msg *bytes.Buffer, n uint64) error {
	const longest = 1 << 30 // bytes; a longer packet is no upload
	for left := n; left > 0 && n <= longest && !r.first; left -= min(left, blockSize) {
		msg.Reset()
		if err := r.read(msg, int(min(left, blockSize)), blockTimeout); err != nil {
			return err
		}
	}
	return fmt.Errorf("%w: it has %d bytes, and at most %d are accepted", errLong, n, r.limit)
}

// receiveByte waits for the first byte of a packet.
func (r *receiver) receiveByte(msg *bytes.Buffer) error {
	if r.first {
		return r.read(msg, 1, helloTimeout)
	}
	if err := r.read(msg, 1, 0); err != nil {
		return err
	}
	return r.awaitOpen()
}

// awaitOpen waits until the session begins.
func (r *receiver) awaitOpen() error {
	select {
	case <-r.open:
		return nil
	case <-r.done:
		return net.ErrClosed
	}
}

// read appends n bytes to msg. They have a time-out together; 0: none.
func (r *receiver) read(msg *bytes.Buffer, n int, timeout time.Duration) error {
	var deadline time.Time
	if timeout > 0 {
		deadline = time.Now().Add(timeout)
	}

	if err := r.conn.SetReadDeadline(deadline); err != nil {
		return err
	}

	_, err := io.CopyN(msg, r.conn, int64(n))
	return err
}
