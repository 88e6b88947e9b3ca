package project

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
	"github.com/boardsmith/boardsmith/internal/workdir"
)

// TestClosedProject calls all methods of a project whose folder others may have changed since, or removed.
func TestClosedProject(t *testing.T) {
	t.Parallel()
	spec := Spec{Board: "host", Model: mlftest.Tiny(t, nil)}
	p := generated(t, filepath.Join(t.TempDir(), "p"), spec)
	i := built(t, p)
	if _, _, err := p.Model(); err != nil {
		t.Fatal(err)
	}
	must(t, p.Close())
	must(t, p.Close())
	must(t, os.Remove(filepath.Join(p.Dir(), workdir.LockFile)))
	before := contents(t, p.Dir())
	other := spec
	other.Options.LogLevel = "error"
	for name, err := range map[string]error{
		"Generate":       p.Generate(t.Context(), other),
		"Build":          last(p.Build(t.Context())),
		"Run":            last(p.Run(t.Context(), testEnv().desk(), "")),
		"OperatorLinker": last(p.OperatorLinker(t.Context())),
		"RecordFlash":    p.RecordFlash(i, device.FlashReport{Device: "chip:1", Wrote: 1}, nil),
		"Built":          last(p.Built()),
		"Edited":         last(p.Edited()),
		"Usage":          last(p.Usage(i)),
		"Model":          lastOf3(p.Model()),
	} {
		if err == nil || !strings.Contains(err.Error(), "was closed") || failure.Of(err) != failure.Internal {
			t.Errorf("%s: %v", name, err)
		}
	}
	if !same(before, contents(t, p.Dir())) {
		t.Error("files of the closed project were changed")
	}
	if _, err := os.Stat(filepath.Join(p.Dir(), workdir.LockFile)); err == nil {
		t.Error("the closed project was locked again")
	}
}

func last[T any](_ T, err error) error { return err }

func lastOf3[T, U any](_ T, _ U, err error) error { return err }
