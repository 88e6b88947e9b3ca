package project

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
)

// TestInterruptedFolder stops Generate while it writes. The folder's error contains what was being generated, and the
// next Generate keeps the history of flashes.
func TestInterruptedFolder(t *testing.T) {
	t.Parallel()
	dir, model := filepath.Join(t.TempDir(), "p"), mlftest.Tiny(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	b := &Builder{Host: device.Host{Cache: testEnv().Cache}}
	p, err := b.Generate(ctx, dir, Spec{Board: "host", Model: model})
	must(t, err)
	must(t, p.RecordFlash(built(t, p), device.FlashReport{Device: "chip:1", Wrote: 1, Erased: 1}, nil))
	b.Progress = func(e device.ProgressEvent) {
		if e.Step == "generate" {
			cancel()
		}
	}
	spec := Spec{Board: "host", Model: model, Options: boards.Options{LogLevel: "error", OperatorOpt: "O3"}}
	if err := p.Generate(ctx, spec); failure.Of(err) != failure.Interrupted {
		t.Fatalf("got %v", err)
	}
	must(t, p.Close())
	var stale *UnfinishedError
	_, err = b.Open(dir)
	if !errors.As(err, &stale) || stale.Board != "host" || stale.Template != "baremetal" ||
		stale.Options != spec.Options || stale.Archive != "tiny.tar" || stale.ModelName != "twice" {
		t.Fatalf("%v: %+v", err, stale)
	}
	if !strings.Contains(err.Error(), "generating it was interrupted") {
		t.Error(err)
	}
	p = generated(t, dir, spec)
	if got := p.Flashes(); len(got) != 1 || got[0].Device != "chip:1" {
		t.Errorf("the flashes became %v", got)
	}
}
