package develop

import (
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/failure"
)

// TestInteropPage: lines of the log become rows of the page; a use that failed has no time.
func TestInteropPage(t *testing.T) {
	t.Parallel()
	var all []interopUse
	for _, line := range []string{
		"=== RUN   TestInterop/host/reset",
		"    interop_test.go:57: interop: reset, ours, host, 2.0, 1.9",
		"    interop_test.go:59: interop: reset, TVM's, host, 13.4, 8.3",
		"    interop_test.go:57: interop: tensors, ours, zephyr/mps2_an521, 20.1, 9.3; largest: 8",
		"    interop_test.go:57: interop: archive, TVM's, host, fails",
		"    interop_test.go:57: interop: half a line, ours, host, 2.0",
	} {
		if u, ok := parseInterop(line); ok {
			all = append(all, u)
		}
	}
	page := interopPage(all, "abc", "0.5")
	_, table, _ := strings.Cut(page, "| use |")
	want := ` board | TVM's template | boardsmith's |
|---|---|---|---|
| reset | host | 13.4 s (8.3 s) | 2.0 s (1.9 s) |
| tensors | zephyr/mps2_an521 |  | 20.1 s (9.3 s); largest: 8 |
| archive | host | fails |  |
`
	if table != want || !strings.Contains(page, "| commit | abc |") ||
		!strings.Contains(page, "load before the run: 0.5") {
		t.Errorf("%s", page)
	}
}

// TestInteropWithoutTVM: without a Python to run, an error names the variable.
func TestInteropWithoutTVM(t *testing.T) {
	t.Parallel()
	r, _ := quietRepository()
	for name, err := range map[string]error{
		"interop": r.interop(t.Context()), "interop:record": r.interopRecord(t.Context(), "there"),
	} {
		if failure.Of(err) != failure.Config || !strings.Contains(err.Error(), tvmVariable) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
