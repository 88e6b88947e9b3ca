package fault

import (
	"testing"

	"github.com/boardsmith/boardsmith/rpc"
)

// TestOperatorOf: the outermost of the model's functions is the operator only if its caller is known.
func TestOperatorOf(t *testing.T) {
	frame := func(name, file string) rpc.Frame { return rpc.Frame{Function: name, File: file} }
	deep, op := frame("deep", "model/src/lib1.c"), frame("fused_add", "model/src/lib1.c")
	runs, runtime, library := frame("add___tvm_main__", "model/src/lib2.c"),
		frame("TVMFuncCall", "crt/src/runtime/packed_func.c"), frame("qsort", "")
	guessed := runtime
	guessed.Guessed = true
	for _, c := range []struct {
		name   string
		frames []rpc.Frame
		want   string
	}{
		{"whole", []rpc.Frame{deep, deep, op, runtime}, "fused_add"},
		{"by the model's run", []rpc.Frame{deep, op, runs, library}, "fused_add"},
		{"called back by a library", []rpc.Frame{deep, library, op, runtime}, "fused_add"},
		{"broken off", []rpc.Frame{deep, deep, deep}, ""},
		{"broken off in a library", []rpc.Frame{deep, library}, ""},
		{"guessed on", []rpc.Frame{deep, guessed}, ""},
		{"none", []rpc.Frame{library, runtime}, ""},
		{"the model's run itself", []rpc.Frame{runs, runtime}, ""},
	} {
		if got := new(Program).operatorOf(c.frames); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
