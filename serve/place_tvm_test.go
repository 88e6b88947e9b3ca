//go:build linux

package serve_test

import (
	"context"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/serve"
)

// TestPlaceAtTVMsTracker finds a place by unmodified TVM's tracker, and refuses TVM's own server there, which goes on.
func TestPlaceAtTVMsTracker(t *testing.T) {
	for _, variable := range pythons {
		t.Run(variable, func(t *testing.T) {
			t.Parallel()
			const host = "127.0.0.1"
			port, own := freePort(t, host), freePort(t, host)
			defer startTracker(t, variable, host, port)()
			tracker := net.JoinHostPort(host, port)
			cmd, out := tvmCommand(t, variable, "-m", "tvm.exec.rpc_server", "--host="+host, "--port="+own,
				"--port-end="+next(own), "--tracker="+tracker, "--key=stock")
			testkit.Must(t, cmd.Start())
			defer func() {
				_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
				_ = cmd.Wait()
			}()
			b := &placeBoard{board: &board{t: t}, end: make(chan error)}
			serveAt(t, b, "kiln", tracker)
			awaitKeys(t, tracker, "stock", "kiln")
			for range 2 {
				_, err := serve.Dial(t.Context(), tracker, "stock", 1)
				if failure.Of(err) != failure.Config || !strings.Contains(err.Error(), "boardsmith.place.describe") {
					t.Errorf("TVM's server: %v\n%s", err, out)
				}
			}
			c, err := serve.Dial(t.Context(), tracker, "kiln", 1)
			testkit.Must(t, err)
			defer c.Close()
			_, err = c.Prepare(t.Context(), nil, []byte("image"))
			testkit.Must(t, err)
			l, err := c.Link(t.Context())
			testkit.Must(t, err)
			exchange(t, l, "hello")
			// A client that waits until its context ends leaves nothing that the next one would wait for.
			short, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			if _, err := serve.Dial(short, tracker, "kiln", 1); failure.Of(err) != failure.Timeout {
				t.Errorf("a board that is in use: %v", err)
			}
			testkit.Must(t, c.Close())
			c, err = serve.Dial(t.Context(), tracker, "kiln", 1)
			testkit.Must(t, err)
			testkit.Must(t, c.Close())
		})
	}
}

// awaitKeys waits until a tracker has servers of all keys.
func awaitKeys(t *testing.T, tracker string, keys ...string) {
	t.Helper()
	for range 600 {
		all, err := serve.Keys(t.Context(), tracker)
		testkit.Must(t, err)
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
