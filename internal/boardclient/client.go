// This file is a client of a server of boards.

package boardclient

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
	"unicode"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/nextstep"
	"github.com/boardsmith/boardsmith/internal/tvmrpc"
	"github.com/boardsmith/boardsmith/transport"
)

const (
	answerTimeout = 30 * time.Second // for a server's part of the handshake and for lookups
	maxReply      = 1 << 20          // bytes of a packet of a server
)

// A Client has the board of one server to itself, until Close. One goroutine at a time calls its methods, besides
// IsLost and Close, and uses its link. Each method but these closes the link.
type Client struct {
	address string
	conn    transport.Link
	handles map[string]uint64 // of functions
	lost    atomic.Bool

	link atomic.Pointer[clientLink] // that was opened last; nil: it was closed

	sending   sync.Mutex
	receiving sync.Mutex // guards the rest
	in        []byte     // received and not decoded
	buf       []byte
}

// Dial asks the tracker for a board with a key, waits until one is free, and connects to its server. Of several clients
// that wait, the one of the highest priority comes first. Errors: of class config for a server without the functions of
// a serve.Place; of class network for a tracker or server that cannot be reached, where another attempt may succeed;
// those of ctx.
func Dial(ctx context.Context, tracker, key string, priority int) (*Client, error) {
	address, matchKey, err := requestServer(ctx, tracker, key, priority)
	if err != nil {
		return nil, trackerError(ctx, tracker, err)
	}

	conn, err := transport.DialTCP(ctx, transport.TCPConfig{Address: address})
	if err != nil {
		if ctx.Err() != nil {
			return nil, failure.Stopped(ctx, "connect to %s", address)
		}
		return nil, failure.Errorf(failure.Network, "key %s: server %s: %w", key, address, err)
	}
	c := &Client{address: address, conn: conn, handles: map[string]uint64{}, buf: make([]byte, 64<<10)}

	// Only the tracker lets a client wait for long.
	limited, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	if err := c.begin(limited, matchKey); err != nil {
		_ = c.Close()
		if ctx.Err() != nil {
			return nil, failure.Stopped(ctx, "connect to %s", address)
		}
		return nil, fmt.Errorf("key %s: server %s: %w", key, address, err)
	}
	return c, nil
}

// begin makes the handshake, initializes the session and looks the functions up.
func (c *Client) begin(ctx context.Context, matchKey string) error {
	key := "client:" + matchKey
	hello := le.AppendUint32(le.AppendUint32(nil, Magic), uint32(len(key)))
	if err := c.conn.Write(ctx, append(hello, key...)); err != nil {
		return lostError(err)
	}

	var head [8]byte
	if err := c.readFull(ctx, head[:4]); err != nil {
		return err
	}
	if code := le.Uint32(head[:]); code != Magic {
		return failure.Errorf(failure.Network, "it answered %#x to the key of the tracker: another client has used it", code)
	}

	if err := c.readFull(ctx, head[4:]); err != nil {
		return err
	}

	n := le.Uint32(head[4:])
	if n > MaxKey {
		return failure.Errorf(failure.Transport, "a key of %d bytes", n)
	}
	// The server's key is skipped.
	if err := c.readFull(ctx, make([]byte, n)); err != nil {
		return err
	}

	reply, err := c.request(ctx, &tvmrpc.Packet{Code: tvmrpc.CodeInitServer, Version: []byte(Protocol)})
	if err != nil {
		return err
	}
	if len(reply) != 16 || le.Uint32(reply[12:]) != 0 { // TVM's own server returns a value, in an encoding of its version
		return notPlace(DescribeName)
	}

	// All of them now, so that an older server is refused before it is used.
	for _, name := range []string{DescribeName, PrepareName, ResetName, LinkName} {
		if err := c.lookup(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// readFull reads bytes before the first packet.
func (c *Client) readFull(ctx context.Context, p []byte) error {
	for len(p) > 0 {
		n, err := c.conn.Read(ctx, p)
		if err != nil {
			return lostError(err)
		}
		p = p[n:]
	}
	return nil
}

// lostError is the error of a server that did not answer, or closed the connection.
func lostError(err error) error { return failure.Errorf(failure.Network, "%w", err) }

// notPlace is the error of a server that is not boardsmith's, or too old.
func notPlace(missing string) error {
	return failure.New(failure.Config, "offer the board by "+nextstep.Target("serve")+" of the same version",
		"an RPC server without the function %s: firmware cannot be put onto its board", missing)
}

func (c *Client) lookup(ctx context.Context, name string) error {
	reply, err := c.request(ctx, &tvmrpc.Packet{
		Code: tvmrpc.CodeGetGlobalFunc, Args: []tvmrpc.Value{tvmrpc.Text(name)},
	})
	if err != nil {
		return err
	}

	var p tvmrpc.Packet
	if err := p.Parse(reply); err != nil {
		return err
	}

	switch {
	case p.Code == tvmrpc.CodeException && len(p.Args) == 1: // it has no room for this client
		return failure.Errorf(failure.Network, "%s", printable(p.Args[0].Data))
	case p.Code != tvmrpc.CodeReturn || len(p.Args) != 1 || p.Args[0].Word == 0:
		return notPlace(name)
	}
	c.handles[name] = p.Args[0].Word
	return nil
}

// Address returns the server's host and port.
func (c *Client) Address() string { return c.address }

// IsLost reports whether the connection has ended, and with it the use of the board.
func (c *Client) IsLost() bool { return c.lost.Load() }

// Close ends the use of the board.
func (c *Client) Close() error {
	c.lost.Store(true)
	return c.conn.Close()
}

// Describe is serve.Place's Describe.
func (c *Client) Describe(ctx context.Context) (json.RawMessage, error) {
	return c.call(ctx, DescribeName)
}

// Prepare is serve.Place's Prepare.
func (c *Client) Prepare(ctx context.Context, description, image []byte) (json.RawMessage, error) {
	return c.call(ctx, PrepareName, tvmrpc.Text(string(description)), tvmrpc.Raw(image))
}

// Reset is serve.Place's Reset.
func (c *Client) Reset(ctx context.Context, try int) error {
	_, err := c.call(ctx, ResetName, tvmrpc.Int(int64(try)))
	return err
}

// Link is serve.Place's Link. The link ends also with the next call of a method.
func (c *Client) Link(ctx context.Context) (transport.Link, error) {
	result, err := c.call(ctx, LinkName)
	if err != nil {
		return nil, err
	}

	var facts LinkFacts
	if err := json.Unmarshal(result, &facts); err != nil {
		return nil, failure.Errorf(failure.Transport, "server %s: its link: %w", c.address, err)
	}

	l := &clientLink{c: c, facts: facts}
	c.link.Store(l)
	return l, nil
}

// call calls a function. Unless the server reports an error, another one ends the connection: a late reply could be
// mistaken for that of the next call.
func (c *Client) call(ctx context.Context, name string, args ...tvmrpc.Value) (json.RawMessage, error) {
	reply, err := c.request(ctx, &tvmrpc.Packet{Code: tvmrpc.CodeCallFunc, Handle: c.handles[name], Args: args})
	if err != nil {
		return nil, fmt.Errorf("server %s: %w", c.address, err)
	}

	var p tvmrpc.Packet
	if err := p.Parse(reply); err != nil {
		_ = c.Close()
		return nil, fmt.Errorf("server %s: %w", c.address, err)
	}

	switch {
	case p.Code == tvmrpc.CodeException && len(p.Args) == 1:
		return nil, failure.Errorf(failure.Transport, "server %s: %s", c.address, printable(p.Args[0].Data))
	case p.Code != tvmrpc.CodeReturn || len(p.Args) != 2 || p.Args[1].Type != tvmrpc.TypeStr:
		_ = c.Close()
		return nil, failure.Errorf(failure.Transport, "server %s: it answered %s by another value", c.address, name)
	}

	return parseReply(p.Args[1].Data)
}

// parseReply returns the result or the error in a reply.
func parseReply(text []byte) (json.RawMessage, error) {
	var r reply
	if err := json.Unmarshal(text, &r); err != nil {
		return nil, failure.Errorf(failure.Transport, "a server's reply: %w", err)
	}
	if r.Error == "" {
		return r.Result, nil
	}

	class := failure.Class(printable([]byte(r.Class)))
	return nil, failure.New(class, printable([]byte(r.Next)), "%s", printable([]byte(r.Error)))
}

// printable removes control characters of a text from a server, such as those that change a terminal.
func printable(text []byte) string {
	return string(bytes.Map(func(r rune) rune {
		if r == '\n' || unicode.IsPrint(r) {
			return r
		}
		return -1
	}, text))
}

// request sends a packet and returns the reply. It closes the link first and drops what arrives from there.
func (c *Client) request(ctx context.Context, p *tvmrpc.Packet) (reply []byte, err error) {
	if l := c.link.Swap(nil); l != nil {
		_ = l.Close() // ends a Read in another goroutine
	}

	c.receiving.Lock()
	defer c.receiving.Unlock()
	// After an error, a late reply could be mistaken for the next one.
	defer func() {
		if err != nil {
			_ = c.Close()
		}
	}()

	if ctx.Err() != nil {
		return nil, failure.Stopped(ctx, "request")
	}
	if err := c.write(ctx, p.Append(nil)); err != nil {
		return nil, err
	}

	for {
		code, msg, err := c.receive(ctx)
		switch {
		case err != nil:
			return nil, err
		case code == tvmrpc.CodeReturn, code == tvmrpc.CodeException:
			return msg, nil
		case code != CodeLinkBytes && code != CodeLinkEnd:
			return nil, failure.Errorf(failure.Transport, "it sent a packet of %v", code)
		}
	}
}

// write sends a packet. An error ends the connection: an unknown part of the packet was sent.
func (c *Client) write(ctx context.Context, msg []byte) error {
	c.sending.Lock()
	defer c.sending.Unlock()
	err := c.conn.Write(ctx, msg)
	if err != nil {
		_ = c.Close()
	}
	return err
}

// receive returns the next packet, with its length in front. After the end of ctx it may be called again. The caller
// holds c.receiving.
func (c *Client) receive(ctx context.Context) (tvmrpc.Code, []byte, error) {
	const head = 12
	for {
		if len(c.in) >= head {
			n := le.Uint64(c.in)
			if n < head-8 || n > maxReply {
				_ = c.Close()
				return 0, nil, failure.Errorf(failure.Transport, "it sent a packet of %d bytes", n)
			}
			if end := 8 + int(n); len(c.in) >= end {
				msg := c.in[:end:end]
				c.in = c.in[end:]
				return tvmrpc.Code(le.Uint32(msg[8:])), msg, nil
			}
		}

		n, err := c.conn.Read(ctx, c.buf)
		if errors.Is(err, transport.ErrClosed) {
			c.lost.Store(true)
		}
		if err != nil {
			return 0, nil, err
		}
		c.in = append(c.in, c.buf[:n]...)
	}
}

// A clientLink is the link of a board behind a server.
type clientLink struct {
	c     *Client
	facts LinkFacts

	rest []byte // received and not read; guarded by c.receiving
	err  error  // ended the board's link; guarded by c.receiving

	mu     sync.Mutex
	closed bool
	cancel context.CancelFunc // ends a Read; nil: none waits
}

// Lossy implements transport.Link.
func (l *clientLink) Lossy() bool { return l.facts.Lossy }

// Bounded reports whether the link drops bytes for which the device has no room.
func (l *clientLink) Bounded() bool { return l.facts.Bounded }

// Read implements transport.Link.
func (l *clientLink) Read(ctx context.Context, p []byte) (int, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// From here on, Close ends the wait.
	if !l.setCancel(cancel) {
		return 0, transport.ErrClosed
	}

	l.c.receiving.Lock()
	defer l.c.receiving.Unlock()
	for len(l.rest) == 0 && l.err == nil && len(p) > 0 {
		code, msg, err := l.c.receive(ctx)
		switch {
		case err != nil && l.isClosed():
			return 0, transport.ErrClosed
		case err != nil:
			return 0, err
		case code == CodeLinkBytes:
			l.rest = msg[12:]
		case code == CodeLinkEnd:
			_, err := parseReply(msg[12:])
			l.err = fmt.Errorf("%w%.0w", err, transport.ErrClosed) // the link ended on its server
		default:
			_ = l.c.Close()
			return 0, failure.Errorf(failure.Transport, "server %s: it sent a packet of %v to a link", l.c.address, code)
		}
	}

	if len(l.rest) == 0 {
		return 0, l.err
	}

	n := copy(p, l.rest)
	l.rest = l.rest[n:]
	return n, nil
}

// Write implements transport.Link.
func (l *clientLink) Write(ctx context.Context, p []byte) error {
	for len(p) > 0 {
		if l.isClosed() {
			return transport.ErrClosed
		}

		n := min(len(p), LinkChunk)
		if err := l.c.write(ctx, LinkPacket(CodeLinkBytes, p[:n])); err != nil {
			return err
		}
		p = p[n:]
	}
	return nil
}

// Close implements transport.Link. The server closes the board's link at the next call.
func (l *clientLink) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	if l.cancel != nil {
		l.cancel()
	}
	return nil
}

func (l *clientLink) isClosed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closed
}

// setCancel sets what ends a Read; false if the link is closed.
func (l *clientLink) setCancel(cancel context.CancelFunc) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cancel = cancel
	return !l.closed
}
