//go:build linux

package project_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/executor"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/drawn"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
	"github.com/boardsmith/boardsmith/internal/testkit/testcache"
	"github.com/boardsmith/boardsmith/project"
)

// TestModelsInRAM loads whole models into RAM beside firmware without one: their answers are right, or the model is
// refused with the bytes that are missing.
func TestModelsInRAM(t *testing.T) {
	t.Parallel()
	type pair struct{ board, archive string }
	var pairs []pair
	for _, path := range mlftest.Archives(t) {
		if name := mlftest.Name(path); !strings.HasPrefix(name, "matmul_") && !strings.Contains(name, "llvm") &&
			!strings.HasSuffix(name, "_dsp") {
			for _, board := range []string{"host", "mps2_an385", "mps2_an500", "qemu_riscv32"} {
				pairs = append(pairs, pair{board, path})
			}
		}
	}
	builder := newBuilder(testcache.Dir())
	for _, x := range drawn.Of(t, "models in RAM", pairs, 1) {
		t.Run(x.board+"/"+mlftest.Name(x.archive), func(t *testing.T) {
			b, err := boards.Find(x.board, nil)
			must(t, err)
			if why := hasCompiler(t, b) + hasEmulator(t, b); why != "" {
				t.Skip(why)
			}
			ctx := testkit.Context(t)
			dir := t.TempDir()
			p, err := builder.Generate(ctx, filepath.Join(dir, "p"), project.Spec{Board: x.board, Model: x.archive})
			must(t, err)
			defer p.Close()
			r, err := p.Resident(ctx, filepath.Join(dir, "r"), project.Spec{})
			var fit *project.FitError
			if errors.As(err, &fit) {
				if fit.Over <= 0 || fit.Over != fit.Need-fit.Have || failure.Of(err) != failure.DoesNotFit {
					t.Errorf("%v: %d bytes too many", err, fit.Over)
				}
				t.Log(err)
				return
			}
			must(t, err)
			defer r.Close()
			inRAM(t, ctx, p, r, x.archive)
		})
	}
}

// inRAM loads the model of p beside the firmware of r, and runs it.
func inRAM(t *testing.T, ctx context.Context, p, r *project.Project, archive string) {
	t.Helper()
	s, err := r.Run(ctx, nil, "")
	must(t, err)
	defer func() { must(t, s.Close(ctx)) }()
	o, err := p.ModelOperators()
	must(t, err)
	lib, err := r.LoadRAM(ctx, s, o)
	must(t, err)
	_, m, err := p.Model()
	must(t, err)
	e, err := executor.OpenLoaded(ctx, s, lib, m)
	must(t, err)
	in, out := mlftest.Arrays(archive)
	want, err := expected(archive, in, out)
	must(t, err)
	compare(t, answer(t, ctx, e, in), want)
	must(t, e.Close(ctx))
	must(t, lib.Unlink(ctx))
}
