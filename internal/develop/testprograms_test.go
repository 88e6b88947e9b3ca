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
)

func TestGoTestEvents(t *testing.T) {
	r, printed := quietRepository()
	var tl tally
	g := newGoTests(r, &tl)
	for _, e := range []testEvent{
		{Action: "run", Package: "p", Test: "A"},
		{Action: "pass", Package: "p", Test: "A"},
		{Action: "output", Package: "p", Test: "B", Output: "    b_test.go:12: no board on the desk\n"},
		{Action: "output", Package: "p", Test: "B", Output: "--- SKIP: B (0.00s)\n"},
		{Action: "skip", Package: "p", Test: "B", Elapsed: 2},
		{Action: "output", Package: "p", Test: "C/part/deep", Output: "    c_test.go:3: got 1, want 2\n"},
		{Action: "fail", Package: "p", Test: "C/part/deep", Elapsed: 9},
		{Action: "fail", Package: "p", Test: "C/part"},
		{Action: "fail", Package: "p", Test: "C", Elapsed: 9.1},
		{Action: "fail", Package: "p"},
		{Action: "build-output", ImportPath: "q.test", Output: "q/q.go:1: syntax error\n"},
		{Action: "build-fail", ImportPath: "q.test"},
		{Action: "output", Package: "q", Output: "FAIL\tq [build failed]\n"},
		{Action: "fail", Package: "q"},
		{Action: "output", Package: "r", Test: "D", Output: "panic: boom\n"},
		{Action: "fail", Package: "r"},
	} {
		g.event(e)
	}
	if got, want := tl.slowest(2), []string{"p.C", "p.B"}; len(got) != 2 || strings.Fields(got[0])[0] != want[0] ||
		strings.Fields(got[1])[0] != want[1] {
		t.Errorf("slowest: %q, want %q", got, want)
	}
	if tl.passed != 1 || tl.failed != 3 || tl.skipped != 1 {
		t.Errorf("%d passed, %d failed, %d skipped; want 1, 3, 1", tl.passed, tl.failed, tl.skipped)
	}
	for _, want := range []string{
		"skipped p.B: no board on the desk", "got 1, want 2", "FAILED  q\n", "syntax error", "FAILED  r\n", "panic: boom",
	} {
		if !strings.Contains(printed.String(), want) {
			t.Errorf("%q is missing in:\n%s", want, printed)
		}
	}
}

// TestSkipReason reads from the output of go test why tests were skipped: a plain test, one that logged more, and a
// script, whose transcript follows the reason.
func TestSkipReason(t *testing.T) {
	for _, c := range []struct{ output, want string }{
		{"=== RUN   A\n    a_test.go:3: no probe\n--- SKIP: A (0.00s)\n", "no probe"},
		{
			"    a_test.go:3: looked here\n" +
				"    a_test.go:4: no probe:\n        none at all\n        b.go:7: quoted\n--- SKIP: A (0.00s)\n",
			"no probe:",
		},
		{
			"=== CONT  TestScript/full\n    cmd.go:380: no file system can be mounted here\n" +
				"    testscript.go:609: WORK=$WORK\n        PATH=/bin\n        # Full. (0.003s)\n" +
				"        > [!mount] skip 'no file system can be mounted here'\n--- SKIP: TestScript/full (0.01s)\n",
			"no file system can be mounted here",
		},
		{"    cmd.go:382: \n    testscript.go:609: WORK=$WORK\n--- SKIP: A (0.00s)\n", "no reason given"},
		{"--- SKIP: A (0.00s)\n", "no reason given"},
	} {
		if got := skipReason(slices.Collect(strings.Lines(c.output))); got != c.want {
			t.Errorf("reason %q, want %q, in\n%s", got, c.want, c.output)
		}
	}
}

func TestCmockaLines(t *testing.T) {
	r, printed := quietRepository()
	var tl tally
	c := cmockaTests{r: r, t: &tl}
	for line := range strings.Lines(`[==========] tests: Running 3 test(s).
[ RUN      ] one
[       OK ] one
[ RUN      ] two
[  ERROR   ] --- 0x1 != 0x2
[   LINE   ] --- test_x.c:5: error: Failure!
[  FAILED  ] two
[ RUN      ] three
needs a big-endian machine
[  SKIPPED ] three
[==========] tests: 3 test(s) run.
[  PASSED  ] 1 test(s).
[  FAILED  ] tests: 1 test(s), listed below:
[  FAILED  ] two
`) {
		c.line(strings.TrimSuffix(line, "\n"))
	}
	if tl.passed != 1 || tl.failed != 1 || tl.skipped != 1 || c.running != "" {
		t.Errorf("%d passed, %d failed, %d skipped, %q still running", tl.passed, tl.failed, tl.skipped, c.running)
	}
	for _, want := range []string{"FAILED  crt.two", "0x1 != 0x2", "skipped crt.three: needs a big-endian machine"} {
		if !strings.Contains(printed.String(), want) {
			t.Errorf("%q is missing in:\n%s", want, printed)
		}
	}
}

// TestInterruptedTests stops a test program that ignores the signal, with a child that does so too: both end.
func TestInterruptedTests(t *testing.T) {
	r := inFolder(t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	const deaf = `trap "" INT; (cd . && exec sleep 100) & echo $! $$; wait`
	var ran tally
	var processes []string
	err := r.tests(ctx, &ran, "deaf", []string{"sh", "-c", deaf}, nil, func(line string) {
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
