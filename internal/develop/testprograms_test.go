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

// TestGoTests runs gotestsum on a module with tests that pass, fail, are skipped, crash and do not build.
func TestGoTests(t *testing.T) {
	r, printed := quietRepository()
	r.Dir = t.TempDir()
	for name, text := range map[string]string{
		"go.mod":           "module github.com/boardsmith/boardsmith\ngo 1.26\n",
		"a/a_test.go":      goodAndBad,
		"broken/a_test.go": "package broken\nfunc x(\n",
		"crash/a_test.go":  crashing,
	} {
		writeFile(t, filepath.Join(r.Dir, name), text)
	}
	for _, name := range []string{"go.mod", "go.sum"} {
		data, err := os.ReadFile(filepath.Join("..", "..", "tools", name))
		if err != nil {
			t.Fatal(err)
		}
		writeFile(t, filepath.Join(r.Dir, "tools", name), string(data))
	}
	var tl tally
	if err := r.goTest(t.Context(), &tl, nil, "-count=1", "./..."); err != nil {
		t.Fatal(err)
	}
	slices.Sort(tl.failures)
	if want := []string{"a.TestBad/part/deep", "broken", "crash"}; !slices.Equal(tl.failures, want) {
		t.Errorf("failed: %q, want %q", tl.failures, want)
	}
	if tl.passed != 2 || tl.failed != 3 || tl.skipped != 1 {
		t.Errorf("%d passed, %d failed, %d skipped; want 2, 3, 1", tl.passed, tl.failed, tl.skipped)
	}
	if len(tl.slowest) == 0 || tl.slowest[0].name != "a.TestGood/slow" {
		t.Errorf("slowest: %v", tl.slowest)
	}
	for _, want := range []string{
		"skipped a.TestSkip: no board on the desk\n", "a_test.go:11: got 1, want 2\n--- FAIL: TestBad/part/deep",
		"FAILED  broken\n", "a_test.go:2:9: ", "FAILED  crash\nboom\n",
	} {
		if !strings.Contains(printed.String(), want) {
			t.Errorf("%q is missing in:\n%s", want, printed.String())
		}
	}
}

const crashing = `package crash
import ("os"; "testing")
func TestMain(*testing.M) { println("boom"); os.Exit(3) }
`

const goodAndBad = `package a
import ("testing"; "time")
func TestGood(t *testing.T) {
	t.Run("slow", func(t *testing.T) { time.Sleep(20 * time.Millisecond) })
}
func TestSkip(t *testing.T) {
	t.Log("looked here")
	t.Skip("no board on the desk")
}
func TestBad(t *testing.T) {
	t.Run("part", func(t *testing.T) { t.Run("deep", func(t *testing.T) { t.Error("got 1, want 2") }) })
}
`

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
