package develop

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit"
)

// TestGoTests runs gotestsum on a module with tests that pass, fail, are skipped, crash and do not build.
func TestGoTests(t *testing.T) {
	r, printed := quietRepository()
	r.Dir = t.TempDir()
	testkit.WriteFiles(t, r.Dir, map[string]string{
		"go.mod":           "module github.com/boardsmith/boardsmith\ngo 1.26\n",
		"a/a_test.go":      goodAndBad,
		"broken/a_test.go": "package broken\nfunc x(\n",
		"crash/a_test.go":  crashing,
	})
	copyOf(t, r.Dir, "tools/go.mod", "tools/go.sum")
	testkit.Must(t, r.goTest(t.Context(), nil, "-count=1", "./..."))
	slices.Sort(r.failures)
	testkit.Equal(t, "failed", r.failures, []string{"a.TestBad/part/deep", "broken", "crash"})
	if r.passed != 2 || r.skipped != 1 {
		t.Errorf("%d passed, %d skipped; want 2, 1", r.passed, r.skipped)
	}
	if len(r.slowest) != 1 || r.slowest[0].name != "a.TestGood/slow" {
		t.Errorf("slowest: %v", r.slowest)
	}
	testkit.WantError(t, r.conclude(), failure.Internal)
	testkit.WantText(t, printed.String(),
		"SKIP: a TestSkip (0.00s)\n    a_test.go:7: looked here\n    a_test.go:8: no board on the desk\n",
		"a_test.go:11: got 1, want 2\n--- FAIL: TestBad/part/deep", "FAILED  broken\n", "a_test.go:2:9: ", "crash", "boom\n",
		"\n2 passed, 3 failed, 1 skipped\n")
}

const crashing = `package crash
import ("os"; "testing")
func TestMain(*testing.M) { println("boom"); os.Exit(3) }
`

const goodAndBad = `package a
import ("testing"; "time")
func TestGood(t *testing.T) {
	t.Run("slow", func(t *testing.T) { time.Sleep(time.Second) })
}
func TestSkip(t *testing.T) {
	t.Log("looked here")
	t.Skip("no board on the desk")
}
func TestBad(t *testing.T) {
	t.Run("part", func(t *testing.T) { t.Run("deep", func(t *testing.T) { t.Error("got 1, want 2") }) })
}
`

// TestInterruptedTests stops a test program that ignores the signal, with a child that does so too: both end.
func TestInterruptedTests(t *testing.T) {
	r := inFolder(t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	const deaf = `trap "" INT; (cd . && exec sleep 100) & echo $! $$; wait`
	var processes []string
	_, err := r.runCheck(ctx, check{argv: []string{"sh", "-c", deaf}}, func(line string) {
		processes = strings.Fields(line)
		cancel()
	})
	if !errors.Is(err, context.Canceled) || len(processes) != 2 {
		t.Fatalf("processes %q: %v", processes, err)
	}
	for _, p := range processes {
		for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
			if _, err := os.Readlink(filepath.Join("/proc", p, "exe")); err != nil { // it has ended, reaped or not
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("process %s still runs", p)
			}
		}
	}
}
