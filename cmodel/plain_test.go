package cmodel_test

import (
	"path/filepath"
	"testing"

	"github.com/boardsmith/boardsmith/cmodel"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit"
)

// TestSharedSource compiles two models in plain C that are functions of one source, which the library has once.
// Different files of one name are refused.
func TestSharedSource(t *testing.T) {
	const header = "void enc(const float* x, float* y);\nvoid dec(const float* x, float* y);\n"
	const source = "#include \"n.h\"\nfloat shared = 1;\nvoid enc(const float* x, float* y) { *y = *x + shared; }\n" +
		"void dec(const float* x, float* y) { *y = *x - shared; }\n"
	describe := func(folder, function, source string) *cmodel.Code {
		write(t, folder+"/n.h", header)
		write(t, folder+"/n.c", source)
		file := filepath.Join(folder, function+".json")
		write(t, file, `{"name": "`+function+`", "sources": ["n.c"], "headers": ["n.h"], "function": "`+function+`",
"arguments": [{"input": "x", "dtype": "float32", "shape": []}, {"output": "y", "dtype": "float32", "shape": []}]}`)
		return generate(t, file, cmodel.Options{})
	}
	folder := t.TempDir()
	testkit.Equal(t, "bytes of workspace", describe(t.TempDir(), "enc", source).WorkspaceBytes(), 0)
	enc, dec := describe(folder, "enc", source), describe(folder, "dec", source)
	if _, err := compiler(t, "host").Bundle(t.Context(), []*cmodel.Code{enc, dec}); err != nil {
		t.Error(err)
	}
	other := describe(t.TempDir(), "dec", source+"\n")
	_, err := cmodel.Bundle(enc, other)
	testkit.WantError(t, err, failure.Config, "models enc and dec both have a file src/n.c")
}
