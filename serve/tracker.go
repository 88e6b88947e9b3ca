// This file joins TVM's tracker (rpc_tcp.md §4), which hands out the board with a key that is valid once.

package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/boardsmith/boardsmith/failure"
)

const (
	trackerMagic  = 0x2F271
	trackerWait   = 10 * time.Second // for a reply
	trackerRetry  = time.Second      // between connections
	idlePoll      = 2 * time.Second
	absences      = 4       // polls without our key until it is replaced
	maxTrackerMsg = 1 << 20 // of a reply

	codePut     = 3
	codeRequest = 4
	codeUpdate  = 5
	codeSummary = 6
	codePending = 7
)

// keys holds the key that the next client must have. Many goroutines may use it.
type keys struct {
	once  bool          // a key is valid for one client: the tracker hands it out
	ended chan struct{} // receives after a client that used a key has ended

	mu      sync.Mutex
	current string // what follows "client:"
	valid   bool
	used    bool // by a client of a tracker, which has not ended
}

func (k *keys) init(o Options) {
	k.once = o.Tracker != ""
	k.current, k.valid = o.Key, !k.once
	k.ended = make(chan struct{}, 1)
}

// accept reports whether a client's key is the current one. A key for one client becomes invalid, and release must
// follow.
func (k *keys) accept(key string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.valid || key != "client:"+k.current {
		return false
	}
	k.valid, k.used = !k.once, k.once
	return true
}

// release ends the use of a key that was accepted.
func (k *keys) release() {
	k.mu.Lock()
	k.used = false
	k.mu.Unlock()

	select {
	case k.ended <- struct{}{}:
	default:
	}
}

// replace makes a new key the current one. It returns false while a client uses an earlier one.
func (k *keys) replace(key string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.used {
		return false
	}
	k.current, k.valid = key, true
	return true
}

// holds reports whether a key is the current one and unused.
func (k *keys) holds(key string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.valid && k.current == key
}

// joinTracker offers the board at the tracker until ctx ends. It connects again whenever the tracker fails; a client's
// session is not affected.
func (s *server) joinTracker(ctx context.Context, at net.Addr) {
	reported, event := "", "joined tracker "+s.o.Tracker
	joined := func() {
		s.o.emit(Event{Text: event})
		reported, event = "", "joined tracker "+s.o.Tracker+" again"
	}

	for {
		err := s.offer(ctx, at, joined)
		if ctx.Err() != nil {
			return
		}

		if err.Error() != reported {
			reported = err.Error()
			s.o.emit(Event{Text: "tracker " + s.o.Tracker, Err: err})
		}

		select {
		case <-time.After(trackerRetry):
		case <-ctx.Done():
			return
		}
	}
}

// offer connects to the tracker, calls joined, and offers the board each time that it is free. It returns an error if
// the tracker fails or ctx ends.
func (s *server) offer(ctx context.Context, at net.Addr, joined func()) error {
	t, err := s.dialTracker(ctx, at)
	if err != nil {
		return err
	}
	defer t.close()

	joined()
	for {
		key := fmt.Sprintf("%s:%.16f", s.o.Key, rand.Float64())
		if !s.keys.replace(key) {
			if err := s.waitEnded(ctx, nil); err != nil {
				return err
			}
			continue
		}

		if err := t.request(nil, codePut, s.o.Key, []any{port(at), key}, orNull(s.o.Address)); err != nil {
			return err
		}
		if err := s.watch(ctx, t, key); err != nil {
			return err
		}
	}
}

// watch returns when the key is in use, or was handed out and not used.
func (s *server) watch(ctx context.Context, t *tracker, key string) error {
	for missing := 0; missing < absences; {
		if err := s.waitEnded(ctx, time.After(idlePoll)); err != nil || !s.keys.holds(key) {
			return err
		}

		pending, err := t.pending()
		if err != nil {
			return err
		}

		// A key that was handed out is missing until its client has connected.
		if missing++; slices.Contains(pending, key) {
			missing = 0
		}
	}
	return nil
}

// waitEnded waits until a client has ended, or for a timer.
func (s *server) waitEnded(ctx context.Context, timer <-chan time.Time) error {
	select {
	case <-s.keys.ended:
	case <-timer:
	case <-ctx.Done():
	}
	return ctx.Err()
}

// A tracker is a connection to TVM's tracker. One goroutine uses it.
type tracker struct {
	conn net.Conn
	stop func() bool
}

// dialTracker connects to a tracker. The connection ends with ctx.
func dialTracker(ctx context.Context, address string) (*tracker, error) {
	d := net.Dialer{Timeout: trackerWait}
	conn, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, failure.Errorf(failure.Transport, "%w", err)
	}

	t := &tracker{conn, context.AfterFunc(ctx, func() { _ = conn.Close() })}
	if err := t.greet(); err != nil {
		t.close()
		return nil, err
	}
	return t, nil
}

// dialTracker connects to the tracker as the server of a board.
func (s *server) dialTracker(ctx context.Context, at net.Addr) (*tracker, error) {
	t, err := dialTracker(ctx, s.o.Tracker)
	if err != nil {
		return nil, err
	}

	info := map[string]any{"key": "server:" + s.o.Key, "addr": []any{orNull(s.o.Address), port(at)}}
	if err := t.request(nil, codeUpdate, info); err != nil {
		t.close()
		return nil, err
	}
	return t, nil
}

func (t *tracker) close() {
	t.stop()
	_ = t.conn.Close()
}

// greet makes the handshake.
func (t *tracker) greet() error {
	if err := t.conn.SetDeadline(time.Now().Add(trackerWait)); err != nil {
		return err
	}
	if _, err := t.conn.Write(le.AppendUint32(nil, trackerMagic)); err != nil {
		return err
	}

	var reply [4]byte
	if _, err := io.ReadFull(t.conn, reply[:]); err != nil {
		return err
	}
	if le.Uint32(reply[:]) != trackerMagic {
		return failure.Errorf(failure.Config, "%v is no tracker of TVM", t.conn.RemoteAddr())
	}
	return nil
}

// pending lists the keys of this connection that were not handed out.
func (t *tracker) pending() (all []string, err error) {
	err = t.request(&all, codePending)
	return all, err
}

// request sends a message and decodes the reply into result; nil: the reply must be 0.
func (t *tracker) request(result any, message ...any) error {
	text, err := json.Marshal(message)
	if err != nil {
		return err
	}

	reply, err := t.exchange(text, time.Now().Add(trackerWait))
	if err != nil {
		return err
	}

	if result == nil {
		if string(bytes.TrimSpace(reply)) != "0" {
			return failure.Errorf(failure.Transport, "the tracker answered %.100q to %s", reply, text)
		}
		return nil
	}

	if err := json.Unmarshal(reply, result); err != nil {
		return failure.Errorf(failure.Transport, "the tracker answered %.100q to %s", reply, text)
	}
	return nil
}

// exchange sends a message and returns the reply, which must arrive before a time; the zero time: no limit.
func (t *tracker) exchange(text []byte, before time.Time) ([]byte, error) {
	if err := t.conn.SetWriteDeadline(time.Now().Add(trackerWait)); err != nil {
		return nil, err
	}
	if _, err := t.conn.Write(append(le.AppendUint32(nil, uint32(len(text))), text...)); err != nil {
		return nil, err
	}

	if err := t.conn.SetReadDeadline(before); err != nil {
		return nil, err
	}
	return t.receive()
}

func (t *tracker) receive() ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(t.conn, head[:]); err != nil {
		return nil, err
	}

	n := le.Uint32(head[:])
	if n > maxTrackerMsg {
		return nil, failure.Errorf(failure.Transport, "the tracker sent a message of %d bytes", n)
	}

	// Memory is allocated for bytes that arrive, not for the announced length.
	var msg bytes.Buffer
	_, err := io.CopyN(&msg, t.conn, int64(n))
	return msg.Bytes(), err
}

func orNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}

func port(at net.Addr) int {
	if tcp, ok := at.(*net.TCPAddr); ok {
		return tcp.Port
	}
	return 0
}
