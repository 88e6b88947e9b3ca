//go:build linux

package serve_test

import (
	"encoding/json"
	"syscall"
	"testing"
	"time"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/boardclient"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/serve"
)

// TestPlaceAtTVMsTracker finds a place by unmodified TVM's tracker, and refuses TVM's own server there, which goes on.
func TestPlaceAtTVMsTracker(t *testing.T) {
	for _, variable := range pythons {
		t.Run(variable, func(t *testing.T) {
			t.Parallel()
			const host = "127.0.0.1"
			tracker, own := ownTracker(t, variable), freePort(t, host)
			ctx := t.Context()
			cmd, _ := tvmCommand(ctx, t, variable, "-m", "tvm.exec.rpc_server", "--host="+host, "--port="+own,
				"--port-end="+next(own), "--tracker="+tracker, "--key=stock")
			must(t, cmd.Start())
			defer func() {
				_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
				_ = cmd.Wait()
			}()
			b := newPlace(t)
			serveAt(t, b, host, serve.Options{Key: "kiln", Tracker: tracker})
			awaitKeys(t, tracker, "stock", "kiln")
			for range 2 {
				wantError(t, last(boardclient.Dial(ctx, tracker, "stock", 1)), failure.Config, "boardsmith.place.describe")
			}
			c, err := boardclient.Dial(ctx, tracker, "kiln", 1)
			must(t, err)
			defer c.Close()
			must(t, last(c.Prepare(ctx, nil, []byte("image"))))
			l, err := c.Link(ctx)
			must(t, err)
			exchange(t, l, "hello")
			// A client that waits until its context ends leaves nothing that the next one would wait for.
			short := testkit.Within(t, 200*time.Millisecond)
			wantError(t, last(boardclient.Dial(short, tracker, "kiln", 1)), failure.Timeout)
			must(t, c.Close())
			c, err = boardclient.Dial(ctx, tracker, "kiln", 1)
			must(t, err)
			must(t, c.Close())
		})
	}
}

// TestPriority: of the runs that wait for a board, TVM's tracker serves the one of the highest priority first, and of
// equal ones the one that came first.
func TestPriority(t *testing.T) {
	for _, variable := range pythons {
		t.Run(variable, func(t *testing.T) {
			t.Parallel()
			const host, key = "127.0.0.1", "kiln"
			tracker := ownTracker(t, variable)
			b := newPlace(t)
			serveAt(t, b, host, serve.Options{Key: key, Tracker: tracker})
			holder, err := boardclient.Dial(t.Context(), tracker, key, 1)
			must(t, err)
			priorities := []int{1, 2, 1, 3, 2}
			served := make(chan int, len(priorities))
			for n, priority := range priorities {
				go func() {
					c, err := boardclient.Dial(t.Context(), tracker, key, priority)
					if err == nil {
						served <- n
						err = c.Close()
					}
					if err != nil {
						t.Errorf("run %d: %v", n, err)
						served <- -1
					}
				}()
				awaitPending(t, tracker, key, n+1)
			}
			must(t, holder.Close())
			var order []int
			for range priorities {
				order = append(order, <-served)
			}
			wantEqual(t, order, []int{3, 1, 4, 0, 2}, priorities)
		})
	}
}

// awaitPending waits until n clients wait for a board at TVM's tracker.
func awaitPending(t *testing.T, tracker, key string, n int) {
	t.Helper()
	var summary struct {
		Queues map[string]struct{ Pending int } `json:"queue_info"`
	}
	testkit.Await(t, "waiting clients", func() bool {
		reply, err := ask(t.Context(), tracker, "[6]")
		must(t, err)
		must(t, json.Unmarshal(reply, &[]any{new(int), &summary}))
		return summary.Queues[key].Pending == n
	})
}

// awaitKeys waits until a tracker has servers of all keys.
func awaitKeys(t *testing.T, tracker string, keys ...string) {
	t.Helper()
	for range 600 {
		all, err := boardclient.Keys(t.Context(), tracker)
		must(t, err)
		missing := 0
		for _, key := range keys {
			if all[key] == 0 {
				missing++
			}
		}
		if missing == 0 {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatalf("no servers of keys %v", keys)
}
