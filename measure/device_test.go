package measure_test

import (
	"errors"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/cache"
	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/executor"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/drawn"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
	"github.com/boardsmith/boardsmith/internal/testkit/testcache"
	"github.com/boardsmith/boardsmith/measure"
	"github.com/boardsmith/boardsmith/ndarray"
	"github.com/boardsmith/boardsmith/project"
)

// TestDevice validates networks with TVM's own outputs: on this computer, and on an emulated board.
func TestDevice(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("the host board and links to an emulator need POSIX")
	}
	type trial struct{ board, archive, rule string }
	trials := []trial{{"host", "sine.graph", "rel=1e-4"}, {"mps2_an385", "conv_f32.aot_c", "abs=1e-5,rel=1e-5"}}
	if drawn.InFull() {
		trials = append(trials, trial{"mps2_an385", "dscnn_i8.graph", "rel=1e-5"},
			trial{"qemu_riscv32", "autoenc.aot_c", "abs=2"})
	}
	for _, x := range trials {
		t.Run(x.archive+"/"+x.board, func(t *testing.T) {
			path := mlftest.Path(t, x.archive)
			in, out := mlftest.Arrays(path)
			r := validated(t, x.board, path, measure.Files{Inputs: in, Expected: out}, x.rule)
			if o := r.Outputs; r.Err() != nil || o.Samples != 1 || o.Equal != 1 || r.Cost.Resolution <= 0 || r.Cost.Min <= 0 {
				t.Errorf("%v: %+v", r.Err(), r)
			}
			if x.board != "host" && (r.StackUsed < 200 || r.StackUsed > r.StackSize || r.Stack < 200) {
				t.Errorf("stack: %d of %d used, %d computed", r.StackUsed, r.StackSize, r.Stack)
			}
		})
	}
}

// validated is the whole way from an archive to a report.
func validated(t *testing.T, board, path string, files measure.Files, rule string) *measure.Result {
	t.Helper()
	r, err := validate(t, board, path, files, rule)
	if errors.As(err, new(*failure.MissingToolError)) {
		t.Skip(err)
	}
	must(t, err)
	return r
}

// validate is validated with its error.
func validate(t *testing.T, board, path string, files measure.Files, rule string) (*measure.Result, error) {
	ctx := testkit.Context(t)
	builder := &project.Builder{Host: device.Host{Cache: cache.New(testcache.Dir(), cache.Options{})}, Jobs: 1}
	p, err := builder.Generate(ctx, filepath.Join(t.TempDir(), "p"), project.Spec{
		Board: board, Model: path, Options: boards.Options{App: boards.Standalone},
	})
	if err != nil {
		return nil, err
	}
	defer p.Close()
	session, err := p.RunStandalone(ctx, &device.Desk{Programmer: "none"}, "")
	if err != nil {
		return nil, err
	}
	defer session.Close()
	image, err := p.Built()
	if err != nil {
		return nil, err
	}
	_, m, err := p.Model()
	if err != nil {
		return nil, err
	}
	set, err := measure.ReadSet(ctx, files, m)
	if err != nil {
		return nil, err
	}
	how, err := measure.ParseRule(rule)
	if err != nil {
		return nil, err
	}
	e, err := executor.OpenStandalone(ctx, session, m)
	if err != nil {
		return nil, err
	}
	r, err := measure.Build(ctx, p, image)
	if err != nil {
		return nil, err
	}
	return r, r.Run(ctx, e, set, measure.Options{Rule: how, Timeout: time.Minute})
}

// TestPrinted runs a model that prints: its lines are not mixed with the link's.
func TestPrinted(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("the host board needs POSIX")
	}
	dir := t.TempDir()
	const samples = 300
	x := &ndarray.Array{DType: ndarray.DType{Code: ndarray.Int, Bits: 32, Lanes: 1}, Shape: []int64{samples}}
	x.Data = make([]byte, 4*samples)
	for name, text := range map[string]string{
		"p.h": "#include <stdint.h>\nint32_t p_run(int32_t x);\n",
		"p.c": "#include <stdio.h>\n#include \"p.h\"\n" +
			"int32_t p_run(int32_t x) {\n  printf(\"=0001 ran with %ld\\n\", (long)x);\n  return x;\n}\n",
		"model.json": `{"name": "p", "sources": ["p.c"], "headers": ["p.h"], "function": "p_run", "arguments":
			[{"input": "x", "dtype": "int32", "shape": [], "pass": "value"}], "returns": {"output": "y", "dtype": "int32"}}`,
	} {
		testkit.WriteFile(t, filepath.Join(dir, name), text)
	}
	set := filepath.Join(dir, "set.npz")
	must(t, ndarray.WriteNPZ(set, []ndarray.Named{{Name: "x", Array: x}, {Name: "y", Array: x}}))
	if r := validated(t, "host", dir, measure.Files{Inputs: set}, "exact"); r.Outputs.Equal != samples {
		t.Errorf("%+v", r)
	}
}
