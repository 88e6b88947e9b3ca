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
	"github.com/boardsmith/boardsmith/rpc"
	"github.com/boardsmith/boardsmith/serve"
)

// A countedBoard records what is loaded.
type countedBoard struct {
	serve.Board
	mu     sync.Mutex
	loaded []string
}

func (b *countedBoard) Load(ctx context.Context, archive []byte) (rpc.Module, error) {
	b.mu.Lock()
	b.loaded = append(b.loaded, string(archive))
	b.mu.Unlock()
	return b.Board.Load(ctx, archive)
}

// TestManyPlaces measures candidates of many clients on many boards that share one key of one tracker of TVM, each at
// an address of its own. None is lost or measured twice. The log has the cost of a candidate beside that on one board.
func TestManyPlaces(t *testing.T) {
	sizes := [][3]int{{4, 4, 100}}
	if drawn.InFull() {
		sizes = [][3]int{{1, 1, 500}, {4, 20, 2000}, {16, 20, 5000}, {64, 20, 10_000}}
	}
	for _, size := range sizes {
		t.Run(fmt.Sprintf("%d places, %d clients", size[0], size[1]), func(t *testing.T) {
			shareOut(t, size, func() serve.Board { return &board{t: t, entered: make(chan struct{}, 1)} },
				func(n int) []byte { return fmt.Appendf(nil, "candidate %d", n) })
		})
	}
}

// TestManyHosts is TestManyPlaces with boards that are processes of this computer, and operators of C.
func TestManyHosts(t *testing.T) {
	if !drawn.InFull() {
		t.Skip("test:full runs it: it compiles thousands of operators")
	}
	for _, size := range [][3]int{{1, 1, 200}, {16, 20, 1000}, {64, 20, drawn.Count(400, 10_000)}} {
		t.Run(fmt.Sprintf("%d places, %d clients", size[0], size[1]), func(t *testing.T) {
			shareOut(t, size, func() serve.Board { return openBoard(t, "host") },
				func(n int) []byte { return operator(t, fmt.Sprintf("for (volatile int i = 0; i < %d; i++) {}", n)) })
		})
	}
}

// shareOut measures candidates with several clients on several boards. size is the number of each: boards, clients,
// candidates.
func shareOut(t *testing.T, size [3]int, open func() serve.Board, candidate func(n int) []byte) {
	const host, key = "127.0.0.1", "bd"
	places, clients, candidates := size[0], size[1], size[2]
	port := freePort(t, host)
	defer startTracker(t, todays, host, port)()
	tracker := net.JoinHostPort(host, port)
	var boards []*countedBoard
	for i := range places {
		address := fmt.Sprintf("127.0.%d.1", i+1)
		b := &countedBoard{Board: open()}
		serveAt(t, b, address, serve.Options{Key: key, Tracker: tracker, Address: address})
		boards = append(boards, b)
	}
	begun, used := time.Now(), processorTime(t)
	measureAll(t, tracker, key, clients, candidates, candidate)
	took, cost := time.Since(begun), (processorTime(t)-used)/time.Duration(candidates)
	t.Logf("%d candidates in %v, %.0f a minute; %v of processor time each, without the tracker's and processes'",
		candidates, took.Round(time.Millisecond), float64(candidates)/took.Minutes(), cost)
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
}

// measureAll measures candidates with several clients.
func measureAll(t *testing.T, tracker, key string, clients, candidates int, candidate func(n int) []byte) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Duration(drawn.Count(20, 120))*time.Minute)
	defer cancel()
	var next atomic.Int32
	var group sync.WaitGroup
	for range clients {
		group.Go(func() {
			for n := int(next.Add(1)); n <= candidates; n = int(next.Add(1)) {
				if err := measureAt(ctx, t, tracker, key, candidate(n)); err != nil {
					t.Errorf("candidate %d: %v", n, err)
				}
			}
		})
	}
	group.Wait()
}

// processorTime is that of this process and of the compilers that it has run.
func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var own, compilers syscall.Rusage
	testkit.Must(t, syscall.Getrusage(syscall.RUSAGE_SELF, &own))
	testkit.Must(t, syscall.Getrusage(syscall.RUSAGE_CHILDREN, &compilers))
	return time.Duration(own.Utime.Nano() + own.Stime.Nano() + compilers.Utime.Nano() + compilers.Stime.Nano())
}
