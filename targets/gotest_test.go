package targets

import (
	"bytes"
	"strings"
	"testing"
)

func quietSession() (*session, *bytes.Buffer) {
	var b bytes.Buffer
	return &session{env: func(string) string { return "" }, out: newOutput(&b, &b, false)}, &b
}

func TestGoTestEvents(t *testing.T) {
	s, said := quietSession()
	var tl tally
	g := newGoTests(s, &tl)
	for _, e := range []testEvent{
		{Action: "run", Package: "p", Test: "A"},
		{Action: "pass", Package: "p", Test: "A"},
		{Action: "output", Package: "p", Test: "B", Output: "    b_test.go:12: no board on the desk\n"},
		{Action: "output", Package: "p", Test: "B", Output: "--- SKIP: B (0.00s)\n"},
		{Action: "skip", Package: "p", Test: "B"},
		{Action: "output", Package: "p", Test: "C/part/deep", Output: "    c_test.go:3: got 1, want 2\n"},
		{Action: "fail", Package: "p", Test: "C/part/deep"},
		{Action: "fail", Package: "p", Test: "C/part"},
		{Action: "fail", Package: "p", Test: "C"},
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
	if tl.passed != 1 || tl.failed != 3 || tl.skipped != 1 {
		t.Errorf("%d passed, %d failed, %d skipped; want 1, 3, 1", tl.passed, tl.failed, tl.skipped)
	}
	for _, want := range []string{"skipped p.B: no board on the desk", "got 1, want 2", "FAILED  q\n", "syntax error", "FAILED  r\n", "panic: boom"} {
		if !strings.Contains(said.String(), want) {
			t.Errorf("%q is missing in:\n%s", want, said)
		}
	}
}

func TestCmockaLines(t *testing.T) {
	s, said := quietSession()
	var tl tally
	c := cmockaTests{s: s, t: &tl}
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
		if !strings.Contains(said.String(), want) {
			t.Errorf("%q is missing in:\n%s", want, said)
		}
	}
}

func TestParseBench(t *testing.T) {
	name, v, ok := parseBench("BenchmarkFrame-2   \t 1000\t  1201 ns/op\t 1364.2 MB/s\t 0 B/op\t 0 allocs/op")
	if !ok || name != "BenchmarkFrame" || v["MB/s"] != 1364.2 || v["allocs/op"] != 0 {
		t.Errorf("got %q %v %v", name, v, ok)
	}
	if _, _, ok := parseBench("PASS"); ok {
		t.Error("PASS was taken for a benchmark")
	}
}
