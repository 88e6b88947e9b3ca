//go:build linux

package serve_test

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/drawn"
	"github.com/boardsmith/boardsmith/serve"
)

// TestManyPlaces measures candidates of many clients on many boards that share one key of one tracker of TVM, each at
// an address of its own. None is lost or measured twice. The log has the cost of a candidate beside that on one board.
func TestManyPlaces(t *testing.T) {
	sizes := [][3]int{{4, 4, 100}}
	if drawn.InFull() {
		sizes = [][3]int{{1, 1, 500}, {4, 20, 2000}, {16, 20, 5000}, {64, 20, 10_000}}
	}
	for _, size := range sizes {
		places, clients, candidates := size[0], size[1], size[2]
		t.Run(fmt.Sprintf("%d places, %d clients", places, clients), func(t *testing.T) {
			const host, key = "127.0.0.1", "bd"
			port := freePort(t, host)
			defer startTracker(t, todays, host, port)()
			tracker := net.JoinHostPort(host, port)
			var boards []*board
			for i := range places {
				address := fmt.Sprintf("127.0.%d.1", i+1)
				b, _ := startAt(t, address, serve.Options{Key: key, Tracker: tracker, Address: address})
				boards = append(boards, b)
			}
			begun, used := time.Now(), processorTime(t)
			shareOut(t, tracker, key, clients, candidates)
			cost := (processorTime(t) - used) / time.Duration(candidates)
			t.Logf("%d candidates in %v; %v of processor time each, without the tracker's", candidates,
				time.Since(begun).Round(time.Millisecond), cost)
			measured := map[string]int{}
			for _, b := range boards {
				for _, a := range b.loaded {
					measured[a]++
				}
			}
			for a, n := range measured {
				if n != 1 {
					t.Errorf("%s was measured %d times", a, n)
				}
			}
			if len(measured) != candidates {
				t.Errorf("%d candidates of %d were measured", len(measured), candidates)
			}
		})
	}
}

// shareOut measures candidates with several clients.
func shareOut(t *testing.T, tracker, key string, clients, candidates int) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	defer cancel()
	var next atomic.Int32
	var group sync.WaitGroup
	for range clients {
		group.Go(func() {
			for n := next.Add(1); n <= int32(candidates); n = next.Add(1) {
				if err := measureAt(ctx, t, tracker, key, fmt.Appendf(nil, "candidate %d", n)); err != nil {
					t.Errorf("candidate %d: %v", n, err)
				}
			}
		})
	}
	group.Wait()
}

func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	testkit.Must(t, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
