package tune_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/ndarray"
	"github.com/boardsmith/boardsmith/tune"
)

// TestFunc checks the call of a plain C function: it is in the file that has the function, whose content the caller
// keeps, and passes inputs without a shape by value. Example and package search run such calls.
func TestFunc(t *testing.T) {
	source := []byte("float scale2(void);\nfloat scale(const short* x, float f, float* y) { return *y = f * *x; }\n")
	files := []mlf.File{
		{Name: "scale.h", Data: []byte("float scale();")},
		{Name: "other.c", Data: []byte("int rescale;")},
		{Name: "scale.c", Data: source},
	}
	c := tune.Func("one", "scale", files,
		tune.ArgOf([]int16{1}), tune.ArgOf(float32(2)), tune.ArgOf([]float32{2}).Expected())
	added, ok := bytes.CutPrefix(c.Operators.Files[2].Data, source)
	if !ok || c.ID != "one" || len(c.Args) != 3 || !strings.Contains(string(added), "int "+c.Entry+"(") ||
		!strings.Contains(string(added), "*(const float*)((DLTensor*)boardsmith_args[1].v_handle)->data,") {
		t.Errorf("%s", c.Operators.Files[2].Data)
	}
	if !bytes.Equal(files[2].Data, source) || !bytes.Equal(c.Operators.Files[0].Data, files[0].Data) ||
		!bytes.Equal(c.Operators.Files[1].Data, files[1].Data) {
		t.Error("another file has changed")
	}
	c = tune.Func("two", "scale", files[:1], c.Args...)
	if f := c.Operators.Files; len(f) != 2 || f[1].Name != "scale_packed.c" ||
		!strings.Contains(string(f[1].Data), "\nvoid scale(void*, float, void*);\n") {
		t.Errorf("a function of an object: %s", f[len(f)-1].Data)
	}
}

// TestFuncUndeclared checks that a file which only mentions the function does not compile: a float would be passed as a
// double.
func TestFuncUndeclared(t *testing.T) {
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skip(err)
	}
	for text, ok := range map[string]bool{"static void scale(float f) { (void)f; }": true, "// scale has one": false} {
		c := tune.Func("one", "scale", []mlf.File{{Name: "a.c", Data: []byte(text)}}, tune.ArgOf(float32(2)))
		file := filepath.Join(t.TempDir(), "a.c")
		testkit.Must(t, os.WriteFile(file, c.Operators.Files[0].Data, 0o644))
		out, err := exec.CommandContext(t.Context(), cc, "-std=gnu11", "-Wno-error=implicit-function-declaration",
			"-fsyntax-only", "-I../crt/include", file).CombinedOutput()
		if (err == nil) != ok {
			t.Errorf("%s: %v\n%s", text, err, out)
		}
	}
}

func TestArgOf(t *testing.T) {
	for _, c := range []struct {
		arg   tune.Arg
		dtype string
		shape []int64
		data  []byte
	}{
		{tune.ArgOf([]int16{1, -2}), "int16", []int64{2}, []byte{1, 0, 0xfe, 0xff}},
		{tune.ArgOf([]uint8{1, 2}, 2, 1), "uint8", []int64{2, 1}, []byte{1, 2}},
		{tune.ArgOf([]float64{}), "float64", []int64{0}, []byte{}},
		{tune.ArgOf(float32(1)), "float32", nil, []byte{0, 0, 0x80, 0x3f}},
	} {
		d, err := ndarray.ParseDType(c.dtype)
		testkit.Must(t, err)
		if c.arg.DType != d || !slices.Equal(c.arg.Shape, c.shape) || !bytes.Equal(c.arg.Data, c.data) {
			t.Errorf("%+v, want %s %v %v", c.arg, c.dtype, c.shape, c.data)
		}
		if e := c.arg.Expected(); e.Data != nil || !bytes.Equal(e.Want, c.data) {
			t.Errorf("%+v", e)
		}
	}
}
