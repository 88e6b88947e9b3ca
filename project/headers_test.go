//go:build linux

package project_test

import (
	"context"
	"encoding/binary"
	"path/filepath"
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
	"github.com/boardsmith/boardsmith/internal/testkit/testcache"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/ndarray"
	"github.com/boardsmith/boardsmith/project"
)

// The ways in which a model's code is compiled.
var compiledWays = []string{"firmware", "standalone", "ram", "library"}

// A wayResult is what one way of a model returns: the bytes of its first output, none of a library.
type wayResult struct {
	output []byte
	err    error
}

// goWay compiles and runs a model of one operator in a way, with the bytes of its first input.
func goWay(t *testing.T, way string, s project.Spec, input []byte) wayResult {
	t.Helper()
	ctx := testkit.Context(t)
	builder := newBuilder(testcache.Dir())
	if way == "library" {
		return wayResult{err: compileLibrary(t, ctx, builder, s)}
	}
	if way == "standalone" {
		p, err := generateAlone(t, builder, s)
		if err != nil {
			return wayResult{err: err}
		}
		f, err := openAlone(t, p)
		if err != nil {
			return wayResult{err: err}
		}
		return firstOutput(t, ctx, f.model, input)
	}
	dir := t.TempDir()
	p, err := builder.Generate(ctx, filepath.Join(dir, "p"), s)
	if err != nil {
		return wayResult{err: err}
	}
	defer p.Close()
	_, m, err := p.Model()
	must(t, err)
	if way == "firmware" {
		session, err := p.Run(ctx, nil, "")
		if err != nil {
			return wayResult{err: err}
		}
		defer session.Close(ctx)
		e, err := executor.Open(ctx, session, m)
		must(t, err)
		return firstOutput(t, ctx, e, input)
	}
	r, err := p.Resident(ctx, filepath.Join(dir, "r"), project.Spec{})
	if err != nil {
		return wayResult{err: err}
	}
	defer r.Close()
	session, err := r.Run(ctx, nil, "")
	must(t, err)
	defer session.Close(ctx)
	o, err := p.ModelOperators()
	must(t, err)
	lib, err := r.LoadRAM(ctx, session, o)
	must(t, err)
	e, err := executor.OpenLoaded(ctx, session, lib, m)
	must(t, err)
	return firstOutput(t, ctx, e, input)
}

func firstOutput(t *testing.T, ctx context.Context, e executor.Executor, input []byte) wayResult {
	t.Helper()
	in := e.Inputs()[0]
	must(t, e.SetInput(ctx, in.Name, &ndarray.Array{DType: in.DType, Shape: in.Shape, Data: input}))
	if err := e.Run(ctx); err != nil {
		return wayResult{err: err}
	}
	out, err := e.Output(ctx, 0)
	must(t, err)
	return wayResult{output: out.Data}
}

// compileLibrary compiles the model as a library for a firmware of the user's.
func compileLibrary(t *testing.T, ctx context.Context, builder *project.Builder, s project.Spec) error {
	t.Helper()
	b, err := boards.Find(s.Board, builder.Path)
	must(t, err)
	a, err := mlf.Open(s.Model)
	if err != nil {
		return err
	}
	code, err := cmodel.Generate(a, a.Models[0], cmodel.Options{})
	if err != nil {
		return err
	}
	c, err := cmodel.NewCompiler(ctx, b, boards.Options{})
	must(t, err)
	if c.Headers, c.Unsure, err = builder.HeaderFolders(ctx, b, s.Libraries); err != nil {
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
	drawn.OnlyInFull(t, "TestEveryArchive and TestStandalone")
	t.Parallel()
	in, want := words(1, 2, 3, -4), words(1122, 1129, 1136, 1087)
	for _, way := range compiledWays {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			got := goWay(t, way, project.Spec{Board: "host", Model: mlftest.Tiny(t, includesAll)}, in)
			if got.err != nil || way != "library" && !slices.Equal(got.output, want) {
				t.Errorf("%v, %v, %s", got.output, got.err, failure.Next(got.err))
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
			err := goWay(t, way, project.Spec{Board: "host", Model: mlftest.Tiny(t, changes)}, nil).err
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
	err := goWay(t, "firmware", project.Spec{Board: "host", Model: mlftest.Tiny(t, changes)}, nil).err
	wantError(t, err, failure.Link, "not compiled: codegen/host/src/extra.cc")
}

func words(values ...int32) (data []byte) {
	for _, v := range values {
		data = binary.LittleEndian.AppendUint32(data, uint32(v))
	}
	return data
}
