package measure_test

import (
	"errors"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/drawn"
	"github.com/boardsmith/boardsmith/measure"
	"github.com/boardsmith/boardsmith/project"
)

// generatorsVariable names the environment variable with the path of a Python that has the generators of
// testdata/generators.py; without it, that of setup is used.
const generatorsVariable = "BOARDSMITH_GENERATORS_PYTHON"

// TestGenerators runs C of generators from PyPI: a forest and a network of emlearn, a convolutional network of
// emx-onnx-cgen, and an int8 network of BakeNN. The outputs of 100 samples are those of the packages' own references. A
// plain run draws one of them on one board, a full run six.
func TestGenerators(t *testing.T) {
	t.Parallel()
	python := pythonWith(t, generatorsVariable, "check-model", "emx-onnx-cgen")
	type pair struct{ model, board string }
	var all []pair
	for _, model := range []string{"forest", "network", "convolution", "dense"} {
		for _, board := range []string{"host", "mps2_an386", "qemu_riscv32", "microbit"} {
			all = append(all, pair{model, board})
		}
	}
	all = drawn.Of(t, "generators", all, 1)

	folder := t.TempDir()
	script, err := filepath.Abs("testdata/generators.py")
	must(t, err)
	args := []string{script, folder}
	for _, p := range all {
		if !slices.Contains(args, p.model) {
			args = append(args, p.model)
		}
	}
	cmd := exec.CommandContext(testkit.Context(t), python, args...)
	cmd.Dir, cmd.WaitDelay = t.TempDir(), time.Second // emlearn writes its reference there
	if output, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	for _, p := range all {
		t.Run(p.model+"/"+p.board, func(t *testing.T) {
			t.Parallel()
			model, rule := filepath.Join(folder, p.model), "exact"
			if p.model == "convolution" {
				rule = "abs=1e-5"
			}
			files := measure.Files{Inputs: filepath.Join(model, "samples.npz")}
			if p.model == "convolution" && p.board == "microbit" { // its tensors lie on the stack
				_, err := validate(t, p.board, model, files, rule)
				if !errors.As(err, new(*project.FitError)) && !errors.As(err, new(*failure.MissingToolError)) {
					t.Errorf("%v, want an error about the stack", err)
				}
				return
			}
			r := validated(t, p.board, model, files, rule)
			if err := r.Err(); err != nil || r.Outputs.Samples != 100 || r.Outputs.Equal != 100 {
				t.Errorf("%v: %+v", err, r)
			}
		})
	}
}
