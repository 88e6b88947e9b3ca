package space

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/ndarray"
)

// TestPlain compiles the plain function with the compiler's warnings, and opens the model that describes it.
func TestPlain(t *testing.T) {
	s := &Space{
		Entry: "Scale_2", file: "k.json", Kernel: []mlf.File{{Name: "k.c", Data: []byte("int k;\n")}, {Name: "k.h"}},
		Args: []arg{
			{DType: dtype(t, "int8"), Shape: []int64{2, 3}, Data: make([]byte, 6)},
			{DType: dtype(t, "float32"), Data: make([]byte, 4)},
			{DType: dtype(t, "uint16"), Shape: []int64{6}, Want: make([]byte, 12)},
			{DType: dtype(t, "float64"), Shape: []int64{1}, Want: make([]byte, 8)},
		},
	}
	dir := t.TempDir()
	files := writePlain(t, s, dir)
	want := "int Scale_2_plain(const int8_t* argument0, const float* argument1, uint16_t* argument2, double* argument3);"
	testkit.WantText(t, string(files[0].Data), want)
	_, m := mlftest.Open(t, dir+"/model.json")
	if m.Name != "scale" || len(m.Inputs) != 2 || len(m.Outputs) != 2 || len(m.Inputs[1].Shape) != 0 {
		t.Errorf("%+v", m)
	}
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skip(err)
	}
	compiles(t, cc, filepath.Join(dir, files[1].Name))
	testPlainFunction(t, s, cc, dir)
	for want, a := range map[string]arg{
		"plain C has no type float16": {DType: dtype(t, "float16")}, "no type bool": {DType: dtype(t, "bool")},
		"an input or an output, not both": {DType: dtype(t, "int8"), Data: []byte{1}, Want: []byte{1}},
	} {
		_, err := (&Space{Entry: "k", file: "k.json", Args: []arg{a}}).Plain()
		wantError(t, err, failure.Config, want)
	}
	s.Kernel = append(s.Kernel, mlf.File{Name: "Scale_2_plain.c"})
	_, err = s.Plain()
	wantError(t, err, failure.Config)
}

// compiles checks that a file has no warnings.
func compiles(t *testing.T, cc, file string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), cc, "-std=c11", "-Wall", "-Wextra", "-Werror", "-fsyntax-only",
		"-I../../crt/include", file).CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// writePlain writes the files of a plain function, which it returns, and those of the kernel.
func writePlain(t *testing.T, s *Space, dir string) []mlf.File {
	t.Helper()
	files, err := s.Plain()
	must(t, err)
	for _, f := range append(files, s.Kernel...) {
		writeFile(t, dir+"/"+f.Name, string(f.Data))
	}
	return files
}

// testPlainFunction compiles the function that calls a static one, whose integers may be of another type of their size.
func testPlainFunction(t *testing.T, packed *Space, cc, dir string) {
	t.Helper()
	s := *packed
	s.Entry, s.Function = "", "scale"
	s.Args = append(slices.Clone(s.Args), arg{DType: s.Args[0].DType, Data: []byte{3}})
	s.Kernel = []mlf.File{
		{Name: "other.c", Data: []byte("int scaled;\n")},
		{Name: "k.c", Data: []byte("static int scale(const signed char* a, float by, void* b, double* c, signed char d) {\n" +
			"  return (a != b) + (by == *c) + d;\n}\n")},
	}
	files := writePlain(t, &s, dir)
	want := "int scale_plain(const int8_t* argument0, float argument1, uint16_t* argument2, double* argument3, " +
		"int8_t argument4);"
	testkit.WantText(t, string(files[0].Data), want)
	if _, m := mlftest.Open(t, dir+"/model.json"); m.Name != "scale" || len(m.Inputs) != 3 {
		t.Errorf("%+v", m)
	}
	compiles(t, cc, filepath.Join(dir, files[1].Name))
	s.Kernel[0].Data = []byte("int scaled; // as scale has it\n")
	files = writePlain(t, &s, dir)
	out, err := exec.CommandContext(t.Context(), cc, "-std=c11", "-Wno-error=implicit-function-declaration",
		"-fsyntax-only", filepath.Join(dir, files[1].Name)).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "implicit") {
		t.Errorf("a function that its file only mentions: %v\n%s", err, out)
	}
	s.Function = "elsewhere"
	_, err = s.Plain()
	wantError(t, err, failure.Config, "no C file of the kernel")
}

// TestPlainHasExamples: model.json names the arguments' content and how outputs are compared, unless they differ in it.
func TestPlainHasExamples(t *testing.T) {
	float32s, one := dtype(t, "float32"), make([]byte, 4)
	for _, test := range []struct {
		outputs []arg
		rule    string // in model.json
		doubt   string
	}{
		{outputs: []arg{{}}},
		{outputs: []arg{{Want: one}}, rule: "exact"},
		{outputs: []arg{{Want: one, AbsTol: 0.5}}, rule: "abs=0.5"},
		{outputs: []arg{{Want: one}, {Want: one, AbsTol: 0.5, RelTol: 0.12345678}}, doubt: "abs=0.5,rel=0.12345678"},
		{outputs: []arg{{Want: one, RelTol: 0.1}, {Want: one, RelTol: 0.1}}, rule: "rel=0.1"},
		{outputs: []arg{{Want: one, AbsTol: 0.5}, {Want: one}}, doubt: `["abs=0.5" "exact"]`},
		{outputs: []arg{{Want: one}, {}}, doubt: `["exact" ""]`},
	} {
		s := &Space{Entry: "k", file: "k.json", Kernel: []mlf.File{{Name: "k.c", Data: []byte("int k;\n")}}}
		for _, a := range append([]arg{{Data: one}}, test.outputs...) {
			a.DType = float32s
			s.Args = append(s.Args, a)
		}
		files, err := s.Plain()
		if test.doubt != "" {
			wantError(t, err, failure.Config, "no examples: ", test.doubt)
		} else {
			must(t, err)
		}

		var model struct{ Examples, Compare string }
		must(t, json.Unmarshal(files[2].Data, &model))
		last := files[len(files)-1]
		if hasExamples := last.Name == "examples.npz"; hasExamples != (test.doubt == "") ||
			hasExamples != (model.Examples == last.Name) || model.Compare != test.rule {
			t.Errorf("%+v: %+v, %s", test, model, last.Name)
		}
	}
}

func dtype(t *testing.T, text string) ndarray.DType {
	t.Helper()
	d, err := ndarray.ParseDType(text)
	must(t, err)
	return d
}
