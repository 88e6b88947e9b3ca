package projectapi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/device/emulated"
	"github.com/boardsmith/boardsmith/internal/chipkeeper/keepertest"
	"github.com/boardsmith/boardsmith/internal/testkit/drawn"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
)

// TestFlashesOfATuner flashes trials as AutoTVM does, each in a project of its own, onto a board behind a probe: each
// erases one sector, and after ten of them the wear is logged.
func TestFlashesOfATuner(t *testing.T) {
	if !drawn.InFull() {
		t.Skip("flashes ten times; run by full tests")
	}
	needTools(t, "microbit")
	keepertest.Use(t)
	state, dir := t.TempDir(), folderOf(t, "none")
	var log bytes.Buffer
	folder := func(path string) *folder {
		f := methodsOf("folder", path).(*folder)
		f.Log = hclog.New(&hclog.LoggerOptions{Output: &log, Level: hclog.Warn})
		f.Desk.Probes, f.Desk.StateDir, f.Desk.LeaseDir = emulated.Probes(), state, filepath.Join(state, "leases")
		return f
	}
	t.Cleanup(func() {
		f := folder(dir)
		b, err := boards.Find("microbit", nil)
		if err == nil {
			_, err = f.Desk.StopEmulated(context.Background(), b)
		}
		if err := errors.Join(err, f.Close()); err != nil {
			t.Error(err)
		}
	})
	for trial := range 10 {
		text := strings.Replace(mlftest.TinyOperator, "* 2", fmt.Sprintf("* 2 + %d", trial), 1)
		if text == mlftest.TinyOperator {
			t.Fatal("the operator has no factor 2")
		}
		archive := mlftest.Tiny(t, map[string]string{"codegen/host/src/lib1.c": text})
		made := filepath.Join(t.TempDir(), "p")
		template, p := folder(dir), folder(made)
		options := values{"board": []byte(`"microbit"`)}
		err := template.Generate(t.Context(), generation{Archive: archive, Dir: made}, options)
		if err == nil {
			err = errors.Join(p.Build(t.Context(), nil), p.Flash(t.Context(), nil))
		}
		must(t, errors.Join(err, template.Close(), p.Close()))
		if logged := strings.Contains(log.String(), "wear"); logged != (trial == 9) {
			t.Errorf("after trial %d: %q", trial+1, log.String())
		}
	}
	f := folder(dir)
	defer f.Close()
	list, err := f.Desk.Wear()
	if err != nil || len(list) != 1 || list[0].Flashes != 10 {
		t.Fatalf("%+v, %v", list, err)
	}
	first := len(list[0].Sectors)
	total := 0
	for _, s := range list[0].Sectors {
		total += s.Erases
	}
	t.Logf("%d sectors, %d erases\n%s", first, total, log.String())
	if total != first+9 {
		t.Errorf("%d erases of %d sectors in ten flashes, want one for each but the first", total, first)
	}
}
