package cmodel_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/boardsmith/boardsmith/cmodel"
	"github.com/boardsmith/boardsmith/internal/spelling"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/drawn"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
	"github.com/boardsmith/boardsmith/internal/tolerance"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/ndarray"
)

// scratch is a folder for all tests of the package.
var scratch string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "boardsmith-cmodel-")
	if err != nil {
		panic(err)
	}
	scratch = dir
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// crt is the folder of the runtime's sources.
var crt = sync.OnceValue(func() string {
	dir, err := filepath.Abs("../crt")
	if err != nil {
		panic(err)
	}
	return dir
})

func generate(t testing.TB, path string, o cmodel.Options) *cmodel.Code {
	t.Helper()
	a, m := mlftest.Open(t, path)
	c, err := cmodel.Generate(a, m, o)
	must(t, err)
	return c
}

// code generates the C of an archive of TVM.
func code(t testing.TB, archive string) *cmodel.Code {
	t.Helper()
	return generate(t, mlftest.Path(t, archive), cmodel.Options{})
}

// withUtil is code with another source of the model's.
func withUtil(t testing.TB, archive, text string) *cmodel.Code {
	t.Helper()
	c := code(t, archive)
	c.Sources = append(c.Sources, mlf.File{Name: "codegen/host/src/" + c.Name + "_util.c", Data: []byte(text)})
	return c
}

// handmade generates the C of a model of the archive archiv.
func handmade(t testing.TB, m *mlf.Model) *cmodel.Code {
	t.Helper()
	c, err := cmodel.Generate(archiv, m, cmodel.Options{})
	must(t, err)
	return c
}

// unpack writes the models as one folder.
func unpack(t testing.TB, codes ...*cmodel.Code) string {
	t.Helper()
	files, err := cmodel.Bundle(codes...)
	must(t, err)
	dir := t.TempDir()
	for _, f := range files {
		write(t, dir+"/"+f.Name, string(f.Data))
	}
	return dir
}

// run runs a command and returns its output, which an error has, too.
func run(dir, name string, args ...string) (string, error) {
	ctx, stop := context.WithTimeout(context.Background(), 2*time.Minute)
	defer stop()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%w\n%s", err, out)
	}
	return string(out), err
}

// output returns what a command prints in a folder.
func output(t testing.TB, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	return testkit.Output(t, cmd)
}

// Flags of the compilers: of our own C and C++, of TVM's code, and of programs that report undefined behaviour.
var (
	ours = []string{
		"-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Wundef", "-Wmissing-prototypes",
		"-Wvla", "-Werror",
	}
	oursCpp = []string{"-std=c++11", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Wundef", "-Werror"}
	// TVM rounds with shifts and sums that C does not define: of negative numbers, by more than a word.
	tvms      = []string{"-std=gnu11", "-w", "-fno-sanitize=shift,signed-integer-overflow"}
	sanitized = []string{"-g1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"}
)

// compile compiles a file of the folder of models dir, or one that uses them.
func compile(dir, file, object string, flags ...string) error {
	compiler, language := "gcc", ours
	switch {
	case filepath.Ext(file) == ".cpp":
		compiler, language = "g++", oursCpp
	case filepath.Dir(file) == dir+"/src" && !strings.HasPrefix(filepath.Base(file), "tvm_"):
		language = tvms
	}
	args := slices.Concat(sanitized, language, flags, []string{
		"-I" + crt() + "/include", "-I" + dir + "/include", "-I" + filepath.Dir(file),
		"-ffunction-sections", "-fdata-sections", "-c", file, "-o", object,
	})
	_, err := run(dir, compiler, args...)
	return err
}

// parts returns the objects of crt/embedded, which are compiled once.
var parts = sync.OnceValues(func() (objects []string, err error) {
	sources, err := filepath.Glob(crt() + "/embedded/*.c")
	for _, f := range sources {
		object := filepath.Join(scratch, filepath.Base(f)+".o")
		if err := compile(scratch, f, object); err != nil {
			return nil, err
		}
		objects = append(objects, object)
	}
	return objects, err
})

// runMain compiles a folder of models and a main.c or main.cpp, and returns what the program prints.
func runMain(t testing.TB, dir, mainFile string, flags ...string) string {
	t.Helper()
	objects, err := parts()
	must(t, err)
	sources, _ := filepath.Glob(dir + "/src/*.c")
	for _, f := range append(sources, mainFile) {
		if strings.HasPrefix(filepath.Base(f), "boardsmith_") {
			continue // a part
		}
		object := filepath.Join(dir, filepath.Base(f)+".o")
		must(t, compile(dir, f, object, flags...))
		objects = append(objects, object)
	}
	libs, _ := filepath.Glob(dir + "/lib/*.o")
	program := dir + "/program"
	output(t, dir, "g++", slices.Concat(sanitized, []string{"-Wl,--gc-sections", "-o", program}, objects, libs,
		[]string{"-lm"})...)
	return output(t, dir, program)
}

// initializer returns an array's bytes as C.
func initializer(a *ndarray.Array) string {
	var b strings.Builder
	for _, v := range a.Data {
		fmt.Fprintf(&b, "%d,", v)
	}
	return b.String()
}

func ctype(d ndarray.DType) string {
	if d.Code == ndarray.Float {
		return map[uint8]string{32: "float", 64: "double"}[d.Bits]
	}
	return fmt.Sprintf("%s%d_t", map[uint8]string{ndarray.Int: "int", ndarray.UInt: "uint"}[d.Code], d.Bits)
}

// userMain makes a program that runs the model twice, with the built-in workspaces and with its own, and writes the
// outputs' bytes. It is the same for every variant of a model.
func userMain(m *mlf.Model, inputs []ndarray.Named) string {
	var b strings.Builder
	c := spelling.Sanitize(m.Name)
	fmt.Fprintf(&b, "#include <stdio.h>\n#include <string.h>\n#include <tvm_%s.h>\n", c)
	var in, out []string
	for _, a := range inputs {
		name := spelling.Sanitize(a.Name)
		fmt.Fprintf(&b, "static const union { uint8_t bytes[%d]; %s t; } in_%s = {{%s}};\n", len(a.Data),
			ctype(a.DType), name, initializer(a.Array))
		fmt.Fprintf(&b, "typedef char size_of_%s[(TVM_%s_INPUT_%s_SIZE == %d) ? 1 : -1];\n", name, c,
			strings.ToUpper(name), len(a.Data))
	}
	for _, x := range m.Inputs {
		in = append(in, "&in_"+spelling.Sanitize(x.Name)+".t")
	}
	for _, o := range m.Outputs {
		name := spelling.Sanitize(o.Name)
		if len(m.Outputs) == 1 && name == "output0" { // TVM's other default name
			name = "output"
		}
		fmt.Fprintf(&b, "static %s out_%s[TVM_%s_OUTPUT_%s_SIZE / sizeof(%[1]s)];\n", ctype(o.DType), name, c,
			strings.ToUpper(name))
		out = append(out, "out_"+name)
	}
	fmt.Fprintf(&b, `
static TVM_WORKSPACE_ALIGNED uint8_t memory[TVM_%[1]s_WORKSPACE_SIZE];
static void* const workspaces[] = TVM_%[1]s_WORKSPACES(memory);
static const TVMContext own = TVM_CONTEXT_INIT(workspaces, NULL);

static int once(const TVMContext* context) {
  const TVM_%[1]s_input input = {%[2]s};
  const TVM_%[1]s_output output = {%[3]s};
`, c, strings.Join(in, ", "), strings.Join(out, ", "))
	for _, o := range out {
		fmt.Fprintf(&b, "  (void)memset(%s, 0x55, sizeof %[1]s);\n", o)
	}
	fmt.Fprintf(&b, "  if (TVMCheckBuffers(&tvm_%s, &input, &output) != 0) {\n    return 1;\n  }\n", c)
	fmt.Fprintf(&b, "  if (TVMExecute(&tvm_%s, &input, &output, context) != 0) {\n    return 1;\n  }\n", c)
	for _, o := range out {
		fmt.Fprintf(&b, "  (void)fwrite(%s, 1, sizeof %[1]s, stdout);\n", o)
	}
	b.WriteString("  return 0;\n}\n\n" +
		"int main(void) { return (once(NULL) != 0) || (once(&own) != 0) || (once(NULL) != 0); }\n")
	return b.String()
}

// compare compares the bytes that a program wrote with the expected outputs, times times. Floats may differ by 1e-5.
func compare(m *mlf.Model, got string, want []ndarray.Named, times int) error {
	for n := range times {
		for _, o := range m.Outputs {
			i := slices.IndexFunc(want, func(w ndarray.Named) bool {
				return w.Name == o.Name || len(want) == 1 && len(m.Outputs) == 1 // a file may have TVM's default name
			})
			if i < 0 {
				return fmt.Errorf("no expected output %s", o.Name)
			}
			w := want[i].Array
			if len(got) < len(w.Data) {
				return fmt.Errorf("run %d: output %s is truncated", n, o.Name)
			}
			a := &ndarray.Array{DType: w.DType, Shape: w.Shape, Data: []byte(got[:len(w.Data)])}
			got = got[len(w.Data):]
			for i := range a.Len() {
				most := map[bool]float64{false: 1e-5}[tolerance.IsInteger(w.DType)]
				if _, ok := tolerance.Compare(a, w, i, most, most); !ok {
					return fmt.Errorf("run %d: %s[%d] is %v, want %v", n, o.Name, i, a.Float(i), w.Float(i))
				}
			}
		}
	}
	if len(got) > 0 {
		return fmt.Errorf("%d bytes too many", len(got))
	}
	return nil
}

// quick lists the archives of a plain run, which has the other kinds of entries in TestExamples.
var quick = []string{"archives/twoin.graph", "archives/conv_pools.aot_c_pools"}

// TestArchives runs every archive through one main.c per model, under AddressSanitizer and UBSan.
func TestArchives(t *testing.T) {
	mains := map[string]string{}
	for _, path := range append(mlftest.Archives(t), mlftest.OtherVersions(t)...) {
		folder, name := filepath.Base(filepath.Dir(path)), mlftest.Name(path)
		if _, objects, ok := strings.Cut(name, "_llvm_"); ok && objects != "x86_64" ||
			strings.Contains(name, "aot_packed_llvm") {
			continue // another CPU's code; TVM's LLVM leaves out the entry
		}
		if strings.HasSuffix(name, "_dsp") { // code for Arm's DSP
			continue
		}
		a, m := mlftest.Open(t, path)
		in, out := mlftest.Arrays(path)
		c, err := cmodel.Generate(a, m, cmodel.Options{})
		if err != nil {
			t.Error(err)
			continue
		}
		program := userMain(m, mlftest.Read(t, in))
		if other, ok := mains[folder+m.Name]; ok && program != other {
			t.Errorf("%s needs another main.c than the other variants", name)
		}
		mains[folder+m.Name] = program
		if !drawn.InFull() && !slices.Contains(quick, folder+"/"+name) {
			continue
		}
		t.Run(folder+"/"+name, func(t *testing.T) {
			dir := unpack(t, c)
			write(t, dir+"/main.c", program)
			if said := runMain(t, dir, dir+"/main.c"); out != "" {
				must(t, compare(m, said, mlftest.Read(t, out), 3))
			}
		})
	}
}
