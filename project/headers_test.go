//go:build linux

package project

import (
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/cmodel"
	"github.com/boardsmith/boardsmith/executor"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/drawn"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/ndarray"
)

// The ways in which a model's code is compiled.
var compiledWays = []string{"firmware", "standalone", "ram", "library"}

// goWay compiles and runs a model of one operator in a way, with the bytes of its first input. It returns those of the
// first output, none of a library.
func goWay(t *testing.T, way string, s Spec, input []byte) ([]byte, error) {
	t.Helper()
	if way == "library" {
		return nil, compileLibrary(t, s)
	}
	if way == "standalone" {
		f, err := runAlone(t, s)
		if err != nil {
			return nil, err
		}
		return firstOutput(t, f.model, input), nil
	}

	p, err := generate(t, s)
	if err == nil && way == "firmware" {
		err = buildError(t, p)
	}
	if err != nil {
		return nil, err
	}
	if way == "firmware" {
		return firstOutput(t, opened(t, p, running(t, p)), input), nil
	}
	_, session, lib, err := startedInRAM(t, p)
	if err != nil {
		return nil, err
	}
	e, err := executor.OpenLoaded(t.Context(), session, lib, modelOf(t, p))
	must(t, err)
	return firstOutput(t, e, input), nil
}

func firstOutput(t *testing.T, e executor.Executor, input []byte) []byte {
	t.Helper()
	in := e.Inputs()[0]
	a := &ndarray.Array{DType: in.DType, Shape: in.Shape, Data: input}
	return answer(t, e, ndarray.Named{Name: in.Name, Array: a})[0].Array.Data
}

// compileLibrary compiles the model as a library for a firmware of the user's.
func compileLibrary(t *testing.T, s Spec) error {
	t.Helper()
	b, ctx := findBoard(t, s.Board), testkit.Context(t)
	needCompiler(t, b)
	a, err := mlf.Open(s.Model)
	must(t, err)
	code, err := cmodel.Generate(a, a.Models[0], cmodel.Options{})
	must(t, err)
	c, err := cmodel.NewCompiler(ctx, b, boards.Options{})
	must(t, err)
	if c.Headers, c.Unsure, err = newBuilder().HeaderFolders(ctx, b, s.Libraries); err != nil {
		return err
	}
	_, err = c.Bundle(ctx, []*cmodel.Code{code})
	return err
}

// includesAll has headers of one name beside the source and in the folder include, and includes what is no header.
var includesAll = map[string]string{
	"codegen/host/src/lib1.c": strings.NewReplacer("in[i] * 2", "apply(in[i]) + offset + BESIDE * INCLUDED + DEEP",
		"#include <math.h>", `#include "factor.h"
enum { BESIDE = FACTOR };
#undef FACTOR
#include <factor.h>
enum { INCLUDED = FACTOR };
#include "kernels/offset.h"
#include <deep/er/table.inc>
#include "../include/deep/er/above.def"
#include "apply.cc"
`).Replace(mlftest.TinyOperator),
	"codegen/host/src/factor.h":               "#define FACTOR 3\n",
	"codegen/host/include/factor.h":           "#define FACTOR 5\n",
	"codegen/host/src/kernels/offset.h":       "#include \"body.c\"\n",
	"codegen/host/src/kernels/body.c":         "static const int offset = 1000;\n",
	"codegen/host/include/deep/er/table.inc":  "#define DEEP_TABLE 100\n",
	"codegen/host/include/deep/er/above.def":  "#define DEEP DEEP_TABLE\n",
	"codegen/host/src/apply.cc":               "static int apply(int x) { return 7 * x; }\n",
	"codegen/host/include/tvm/runtime/logs.h": "#error \"nobody includes it\"\n",
}

// TestHeadersOfArchive: in every way of compiling a model, its sources find what the archive has where C looks for it.
func TestHeadersOfArchive(t *testing.T) {
	drawn.OnlyInFull(t, "of the headers that TVM's archives have, TestEveryArchive and TestStandalone")
	t.Parallel()
	in, want := words(1, 2, 3, -4), words(1122, 1129, 1136, 1087)
	for _, way := range compiledWays {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			got, err := goWay(t, way, Spec{Board: "host", Model: mlftest.Tiny(t, includesAll)}, in)
			if err != nil || way != "library" && !slices.Equal(got, want) {
				t.Errorf("%v, %v, %s", got, err, failure.Next(err))
			}
		})
	}
}

// TestHeaderMissing: in every way, the compiler's error names the header and the file that includes it, and the next
// step is another one for a header that the archive has elsewhere.
func TestHeaderMissing(t *testing.T) {
	t.Parallel()
	for _, way := range compiledWays {
		for _, c := range []struct{ file, cause, next string }{
			{"", "includes nn/kernels.h, which is ", "name its library with Spec.Libraries=FOLDER, or add the header"},
			{"codegen/host/include/Kernels.h", "has ", "move it in the archive: into "},
		} {
			if way == "ram" && c.file != "" {
				continue // the archive's other headers are not looked at
			}
			changes := map[string]string{"codegen/host/src/lib1.c": "#include <nn/kernels.h>\n" + mlftest.TinyOperator}
			if c.file != "" {
				changes[c.file] = "\n"
			}
			_, err := goWay(t, way, Spec{Board: "host", Model: mlftest.Tiny(t, changes)}, nil)
			wantError(t, err, failure.Compile, "src/lib1.c includes nn/kernels.h", c.cause, c.next)
		}
	}
}

// TestCXXOfArchive: C++ that no source includes is named where the link lacks its function.
func TestCXXOfArchive(t *testing.T) {
	t.Parallel()
	changes := map[string]string{
		"codegen/host/src/lib1.c":   strings.Replace(mlftest.TinyOperator, "in[i] * 2", "outside(in[i])", 1),
		"codegen/host/src/extra.cc": "extern \"C\" int outside(int x) { return x; }\n",
	}
	err := buildError(t, generated(t, Spec{Model: mlftest.Tiny(t, changes)}))
	wantError(t, err, failure.Link, "not compiled: codegen/host/src/extra.cc")
}

func words(values ...int32) (data []byte) {
	for _, v := range values {
		data = binary.LittleEndian.AppendUint32(data, uint32(v))
	}
	return data
}
