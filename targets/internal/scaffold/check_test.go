package scaffold_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/cache"
	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/examples/samples"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/drawn"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/project"
	"github.com/boardsmith/boardsmith/project/templatecheck"
	"github.com/boardsmith/boardsmith/rpc"
	"github.com/boardsmith/boardsmith/targets/internal/scaffold"
)

// TestNewTemplatesAreSound: a new copy of each template passes all checks on its emulated board.
func TestNewTemplatesAreSound(t *testing.T) {
	t.Parallel()
	if !drawn.InFull() {
		t.Skip("only in the full tests")
	}
	for _, from := range []string{"baremetal", "minimal", "minimal-cmake"} {
		t.Run(from, func(t *testing.T) {
			t.Parallel()
			folder := filepath.Join(t.TempDir(), "of-"+from)
			template, board, err := scaffold.Template(folder, from)
			testkit.Must(t, err)

			b, err := boards.Find(board, []string{folder})
			testkit.Must(t, err)
			compiler, emulator, err := device.MissingTools(t.Context(), b)
			testkit.Must(t, err)
			for _, missing := range append(compiler, emulator...) {
				t.Skip(missing)
			}

			archive, err := mlf.Parse(samples.Name, samples.Archive())
			testkit.Must(t, err)
			ran := 0
			trial := templatecheck.Trial{
				Spec: project.Spec{Template: template, Archive: archive}, // a board is chosen
				Desk: &device.Desk{StateDir: t.TempDir(), LeaseDir: t.TempDir()},
				Run:  func(context.Context, *rpc.Session, *mlf.Model) error { ran++; return nil },
			}
			host := device.Host{Path: []string{folder}, Cache: cache.New(t.TempDir(), cache.Options{})}
			builder := &project.Builder{Host: host, Forms: true}
			err = templatecheck.Run(t.Context(), builder, trial, func(templatecheck.Check) {})
			if err != nil || ran != 1 {
				t.Errorf("%v; ran %d times", err, ran)
			}
		})
	}
}
