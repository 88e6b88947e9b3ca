package projectapi

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/drawn"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
)

// TestFlashesOfATuner flashes trials as AutoTVM does, each in a project of its own, onto a board behind a probe: each
// erases one sector, and after ten of them the wear is logged.
func TestFlashesOfATuner(t *testing.T) {
	if !drawn.InFull() {
		t.Skip("flashes ten times; run by full tests")
	}
	var log bytes.Buffer
	open := probed(t, "microbit", &log)
	var last *folder
	for trial := range 10 {
		text := strings.Replace(mlftest.TinyOperator, "* 2", fmt.Sprintf("* 2 + %d", trial), 1)
		if text == mlftest.TinyOperator {
			t.Fatal("the operator has no factor 2")
		}
		archive := mlftest.Operator(t, text)
		last = flashed(t, open, "microbit", archive)
		must(t, last.Close())
		testkit.Equal(t, fmt.Sprint(trial+1, " trials, logged"), strings.Contains(log.String(), "wear"), trial == 9)
	}
	list, err := last.Desk.Wear()
	if err != nil || len(list) != 1 || list[0].Flashes != 10 {
		t.Fatalf("%+v, %v", list, err)
	}
	first := len(list[0].Sectors)
	total := 0
	for _, s := range list[0].Sectors {
		total += s.Erases
	}
	t.Logf("%d sectors, %d erases\n%s", first, total, log.String())
	testkit.Equal(t, "erases in ten flashes, one for each but the first", total, first+9)
}
