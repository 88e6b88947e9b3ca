// This file joins TVM's tracker (rpc_tcp.md §4), which hands out the board with a key that is valid once.

package serve

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/boardsmith/boardsmith/internal/boardclient"
)

const (
	trackerRetry = time.Second // between connections
	idlePoll     = 2 * time.Second
	absences     = 4 // polls without our key until it is replaced
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
	defer t.Close()

	joined()
	for {
		key := fmt.Sprintf("%s:%.16f", s.o.Key, rand.Float64())
		if !s.keys.replace(key) {
			if err := s.waitEnded(ctx, nil); err != nil {
				return err
			}
			continue
		}

		if err := t.Request(nil, boardclient.CodePut, s.o.Key, []any{port(at), key}, orNull(s.o.Address)); err != nil {
			return err
		}
		if err := s.watch(ctx, t, key); err != nil {
			return err
		}
	}
}

// watch returns when the key is in use, or was handed out and not used.
func (s *server) watch(ctx context.Context, t *boardclient.Tracker, key string) error {
	for missing := 0; missing < absences; {
		if err := s.waitEnded(ctx, time.After(idlePoll)); err != nil || !s.keys.holds(key) {
			return err
		}

		pending, err := t.Pending()
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

// dialTracker connects to the tracker as the server of a board.
func (s *server) dialTracker(ctx context.Context, at net.Addr) (*boardclient.Tracker, error) {
	t, err := boardclient.DialTracker(ctx, s.o.Tracker)
	if err != nil {
		return nil, err
	}

	info := map[string]any{"key": "server:" + s.o.Key, "addr": []any{orNull(s.o.Address), port(at)}}
	if err := t.Request(nil, boardclient.CodeUpdate, info); err != nil {
		t.Close()
		return nil, err
	}
	return t, nil
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
