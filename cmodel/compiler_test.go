package cmodel_test

import (
	"bytes"
	"context"
	"os"
	"path"
	"slices"
	"testing"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/cmodel"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/failuretest"
	"github.com/boardsmith/boardsmith/mlf"
)

var must, write = testkit.Must, testkit.WriteFile

func compiler(t *testing.T, board string) *cmodel.Compiler {
	t.Helper()
	b, err := boards.Find(board, nil)
	must(t, err)
	testkit.Need(t, b.Toolchain.CC)
	c, err := cmodel.NewCompiler(t.Context(), b, boards.Options{})
	must(t, err)
	return c
}

// sizeOf compiles a model with options, and returns its size.
func sizeOf(t *testing.T, b *boards.Board, o boards.Options, model *cmodel.Code) image.Size {
	t.Helper()
	c, err := cmodel.NewCompiler(t.Context(), b, o)
	must(t, err)
	files, err := c.Bundle(t.Context(), []*cmodel.Code{model})
	must(t, err)
	sizes, err := c.Sizes(t.Context(), files)
	must(t, err)
	return sizes[model.Name]
}

// TestCompilerBundle compiles a model twice, with two folders for temporary files, of which one's name is a pattern:
// the bytes are equal, also if the board's flags ask for debug information.
func TestCompilerBundle(t *testing.T) {
	c := compiler(t, "mps2_an385")
	b := *c.Board
	b.CFlags = append(slices.Clone(b.CFlags), "-g")
	debug, err := cmodel.NewCompiler(t.Context(), &b, boards.Options{})
	must(t, err)
	bundles(t, c)
	bundles(t, debug)
}

// bundles compiles with two folders for temporary files, and compares the bytes.
func bundles(t *testing.T, c *cmodel.Compiler) {
	t.Helper()
	var first []mlf.File
	for _, name := range []string{"a", "b[c]*"} {
		temporary := t.TempDir() + "/" + name
		must(t, os.Mkdir(temporary, 0o755))
		t.Setenv("TMPDIR", temporary)
		files, err := c.Bundle(t.Context(), []*cmodel.Code{code(t, "sine.aot_c")})
		must(t, err)
		if first == nil {
			first = files
		}
		same := func(f, g mlf.File) bool { return f.Name == g.Name && bytes.Equal(f.Data, g.Data) }
		if !slices.EqualFunc(files, first, same) {
			t.Error("equal models gave other bytes")
		}
		sizes, err := c.Sizes(t.Context(), files)
		if err != nil || sizes["sine"].Text == 0 {
			t.Errorf("%s: %v, %v", name, sizes, err)
		}
		if left, err := os.ReadDir(temporary); err != nil || len(left) > 0 {
			t.Errorf("left %v, %v", left, err)
		}
	}
	_, err := c.Sizes(t.Context(), nil)
	testkit.WantError(t, err, failure.Config)
}

// TestCompilerWorkspace: an option leaves the built-in workspace of a model out of its compiled library.
func TestCompilerWorkspace(t *testing.T) {
	b, model := compiler(t, "host").Board, code(t, "conv_f32.aot_c")
	for flags, want := range map[string]bool{"": true, "-DTVM_conv_f32_BUILTIN_WORKSPACE=0": false} {
		size, bytes := sizeOf(t, b, boards.Options{OperatorFlags: flags}, model), model.WorkspaceBytes()
		if has := int64(size.BSS) >= bytes; has != want {
			t.Errorf("flags %q: %v of %d bytes", flags, size, bytes)
		}
	}
}

// TestCompilerSharedSymbol: two models that define one symbol are an error that names it, both models and both sources,
// also with link-time optimisation. So is a model that defines a function of the runtime.
func TestCompilerSharedSymbol(t *testing.T) {
	const helper = "int helper(void);\nint helper(void) { return 3; }\n"
	for name, x := range map[string]struct {
		sine, twoin string
		flags       string
		want        []string
	}{
		"function":   {helper, helper, "", []string{"helper", "sine_util.c of model sine", "twoin_util.c of model twoin"}},
		"common":     {"int counter;\n", "int counter;\n", "-fcommon", []string{"both define counter"}},
		"with -flto": {helper, helper, "-flto", []string{"helper", "sine_util.c", "twoin_util.c"}},
		"of the runtime": {
			"", "int TVMSetParameters(void) { return 0; }\n", "", []string{"of the runtime", "TVMSetParameters"},
		},
		"static": {"static int helper;\n", helper, "", nil},
		"a weak one": {
			"__attribute__((weak)) int v;\n", "__attribute__((weak)) int v;\n", "", nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, err := cmodel.NewCompiler(t.Context(), compiler(t, "host").Board, boards.Options{OperatorFlags: x.flags})
			must(t, err)
			_, err = c.Bundle(t.Context(), []*cmodel.Code{
				withUtil(t, "sine.aot_c", x.sine), withUtil(t, "twoin.aot_c", x.twoin),
			})
			testkit.WantErrorIf(t, x.want != nil, err, failure.Link, x.want...)
		})
	}
}

// TestCompilerTwoLibraries: compiled libraries whose models define one symbol do not link, nor does one with a
// firmware that defines a symbol of its model.
func TestCompilerTwoLibraries(t *testing.T) {
	c, dir := compiler(t, "host"), t.TempDir()
	for _, archive := range []string{"sine.aot_c", "twoin.aot_c"} {
		model := withUtil(t, archive, "int helper(void) { return 3; }\n")
		files, err := c.Bundle(t.Context(), []*cmodel.Code{model})
		must(t, err)
		for _, f := range files {
			write(t, dir+"/"+model.Name+"/"+f.Name, string(f.Data))
		}
	}
	sine, twoin := "#include <tvm_sine.h>\n", "#include <tvm_twoin.h>\n"
	const program = "int main(void) { return helper() != 3"
	for name, x := range map[string]struct{ source, want string }{
		"one": {sine + "int helper(void);" + program + " || TVMGetInterfaceVersion(&tvm_sine) == 0; }\n", ""},
		"two": {sine + twoin + "const void* v[] = {&tvm_sine, &tvm_twoin}; int main(void) { return 0; }\n", "helper"},
		"user": {
			sine + "int helper(void) { return 3; }" + program + " || TVMGetInterfaceVersion(&tvm_sine) == 0; }\n", "helper",
		},
	} {
		source := dir + "/main.c"
		write(t, source, x.source)
		_, err := run(dir, "gcc", "-w", "-o", "program", "-Isine/include", "-Itwoin/include", source,
			"sine/"+cmodel.CompiledLibrary, "twoin/"+cmodel.CompiledLibrary, "-lm")
		t.Log(name)
		testkit.WantErrorIf(t, x.want != "", err, "", x.want)
	}
}

// TestCompilerObject links a model's object for its processor, and refuses it for another.
func TestCompilerObject(t *testing.T) {
	c := compiler(t, "mps2_an385")
	arm := []*cmodel.Code{code(t, "digits_i8.graph_llvm_thumbv7m")}
	files, err := c.Bundle(t.Context(), arm)
	must(t, err)
	object := path.Base(arm[0].Objects[0].Name)
	if sizes, err := c.Sizes(t.Context(), files); err != nil || sizes[arm[0].Name].Text == 0 {
		t.Errorf("%v, %v", sizes, err)
	}
	_, err = c.Bundle(t.Context(), []*cmodel.Code{code(t, "digits_i8.graph_llvm_x86_64")})
	testkit.WantError(t, err, failure.Config, "is for x86-64", object)
}

// TestCompilerOptions compiles with the options of operators, for all files and for one. Another file is refused.
func TestCompilerOptions(t *testing.T) {
	b, model := compiler(t, "mps2_an385").Board, code(t, "sine.aot_c")
	source := path.Base(model.Sources[0].Name)
	usual := sizeOf(t, b, boards.Options{}, model).Text
	all := sizeOf(t, b, boards.Options{OperatorOpt: "O0"}, model).Text
	one := sizeOf(t, b, boards.Options{OperatorFlags: source + ":-O0"}, model).Text
	if one <= usual || all <= one {
		t.Errorf("the model has %d bytes, %d with O0 for %s, %d with O0", usual, one, source, all)
	}
	c, err := cmodel.NewCompiler(t.Context(), b, boards.Options{OperatorFlags: "none.c:-O1"})
	must(t, err)
	_, err = c.Bundle(t.Context(), []*cmodel.Code{model})
	testkit.WantError(t, err, failure.Config)
}

func TestCompilerContexts(t *testing.T) {
	c, models := compiler(t, "host"), []*cmodel.Code{code(t, "sine.aot_c")}
	files, err := c.Bundle(t.Context(), models)
	must(t, err)
	failuretest.Ended(t, failuretest.Calls{
		"NewCompiler": func(ctx context.Context) error {
			_, err := cmodel.NewCompiler(ctx, c.Board, boards.Options{})
			return err
		},
		"Compiler.Bundle": func(ctx context.Context) error { _, err := c.Bundle(ctx, models); return err },
		"Compiler.Sizes":  func(ctx context.Context) error { _, err := c.Sizes(ctx, files); return err },
	})
}
