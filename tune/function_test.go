package tune_test

import (
	"bytes"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/mlf"
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
	testkit.Need(t, "cc")
	for text, ok := range map[string]bool{"static void scale(float f) { (void)f; }": true, "// scale has one": false} {
		c := tune.Func("one", "scale", []mlf.File{{Name: "a.c", Data: []byte(text)}}, tune.ArgOf(float32(2)))
		file := t.TempDir() + "/a.c"
		writeFile(t, file, string(c.Operators.Files[0].Data))
		out, err := exec.CommandContext(t.Context(), "cc", "-std=gnu11", "-Wno-error=implicit-function-declaration",
			"-fsyntax-only", "-I../crt/include", file).CombinedOutput()
		if (err == nil) != ok {
			t.Errorf("%s: %v\n%s", text, err, out)
		}
	}
}

func TestArgOf(t *testing.T) {
	for want, arg := range map[string]tune.Arg{
		"int16 [2] [1 0 254 255]": tune.ArgOf([]int16{1, -2}),
		"uint8 [2 1] [1 2]":       tune.ArgOf([]uint8{1, 2}, 2, 1),
		"float64 [0] []":          tune.ArgOf([]float64{}),
		"float32 [] [0 0 128 63]": tune.ArgOf(float32(1)),
	} {
		testkit.Equal(t, "argument", fmt.Sprint(arg.DType, arg.Shape, arg.Data), want)
		if e := arg.Expected(); e.Data != nil || !bytes.Equal(e.Want, arg.Data) {
			t.Errorf("%+v", e)
		}
	}
}
