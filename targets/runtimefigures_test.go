package targets

import (
	"strings"
	"testing"
)

// TestRuntimeFigures has the check print its table, or say why it cannot.
func TestRuntimeFigures(t *testing.T) {
	s, said := quietSession()
	s.dir = ".."
	var all tally
	if err := s.testRuntimeFigures(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	if all.skipped == 1 {
		t.Skip(all.skips[runtimeFigures.name])
	}
	for _, want := range []string{"image, bytes", "empty call, by 1", "budget"} {
		if !strings.Contains(said.String(), want) {
			t.Errorf("%q is missing in:\n%s", want, said.String())
		}
	}
	if all.passed != 1 || all.failed != 0 || !strings.Contains(strings.Join(all.sections, "\n"), "CopyToRemote") {
		t.Errorf("%+v", all)
	}
}
