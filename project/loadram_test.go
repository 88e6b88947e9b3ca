//go:build linux

package project

import (
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/executor"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit/drawn"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
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
	for _, x := range drawn.Of(t, "models in RAM", pairs, 1) {
		t.Run(x.board+"/"+mlftest.Name(x.archive), func(t *testing.T) {
			p := generated(t, Spec{Board: x.board, Model: x.archive})
			_, s, lib, err := startedInRAM(t, p)
			if failure.Of(err) == failure.DoesNotFit {
				if fit := misfitOf(t, err); fit.Over <= 0 || fit.Over != fit.Need-fit.Have {
					t.Errorf("%v: %d bytes too many", err, fit.Over)
				}
				return
			}
			must(t, err)
			e, err := executor.OpenLoaded(t.Context(), s, lib, modelOf(t, p))
			must(t, err)
			checkAnswer(t, e, x.archive)
			must(t, e.Close(t.Context()))
			must(t, lib.Unlink(t.Context()))
		})
	}
}
