//go:build linux

package serve_test

import (
	"context"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/drawn"
	"github.com/boardsmith/boardsmith/serve"
	"github.com/boardsmith/boardsmith/tune"
)

// TestMetaSchedule tunes a matrix multiplication with unmodified TVM, through its tracker: on a process and on an
// emulated Cortex-M4.
func TestMetaSchedule(t *testing.T) {
	const host, trials = "127.0.0.1", 8
	targets := map[string]string{
		"host": `{"kind": "llvm", "num-cores": 1}`,
		"mps2_an386": `{"kind": "llvm", "mtriple": "thumbv7em-none-eabihf", "mcpu": "cortex-m4",
			"mfloat-abi": "hard", "num-cores": 1}`,
	}
	if !drawn.InFull() {
		t.Skip("test:full runs it: TVM's builder takes minutes")
	}
	for _, name := range []string{"host", "mps2_an386"} {
		t.Run(name, func(t *testing.T) {
			tvmCommand(t, todays) // skips without it
			dir := t.TempDir()
			b, err := tune.OpenBoard(t.Context(), filepath.Join(dir, "firmware"), &device.Desk{}, name, tune.Options{})
			testkit.Must(t, err)
			defer func() { testkit.Must(t, b.Close()) }()
			port := freePort(t, host)
			defer startTracker(t, todays, host, port)()
			l, err := net.Listen("tcp", host+":0")
			testkit.Must(t, err)
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error)
			var mu sync.Mutex
			var failures strings.Builder
			measured := 0
			o := serve.Options{Key: name, Tracker: net.JoinHostPort(host, port), OnEvent: func(e serve.Event) {
				mu.Lock()
				defer mu.Unlock()
				if e.Err != nil {
					failures.WriteString(e.Text + ": " + e.Err.Error() + "\n")
				}
				if e.Text == "measuring" {
					measured++
				}
			}}
			go func() { done <- serve.Serve(ctx, l, b, o) }()
			runTVM(t, todays, "testdata/metaschedule.py", host, port, name, targets[name], strconv.Itoa(trials))
			cancel()
			testkit.Must(t, <-done)
			if measured < trials || failures.Len() > 0 {
				t.Errorf("%d candidates were measured\n%s", measured, &failures)
			}
		})
	}
}
