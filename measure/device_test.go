package measure_test

import (
	"errors"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/cache"
	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/testcache"
	"github.com/boardsmith/boardsmith/measure"
	"github.com/boardsmith/boardsmith/ndarray"
	"github.com/boardsmith/boardsmith/project"
)

// validated measures standalone firmware.
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
	t.Helper()
	how, err := measure.ParseRule(rule)
	must(t, err)
	spec := project.Spec{Board: board, Model: path, Options: boards.Options{App: boards.Standalone}}
	return measure.Model(testkit.Context(t), spec, measure.Options{
		Files: files, Rule: how, Desk: &device.Desk{Programmer: "none"}, Samples: 1,
		Builder: &project.Builder{Host: device.Host{Cache: cache.New(testcache.Dir(), cache.Options{})}, Jobs: 1},
	})
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
	testkit.Equal(t, "equal", validated(t, "host", dir, measure.Files{Inputs: set}, "exact").Outputs.Equal, samples)
}
