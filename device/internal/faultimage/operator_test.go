package faultimage

import (
	"testing"

	"github.com/boardsmith/boardsmith/rpc/fault"
)

// TestOperatorNeedsCaller: the outermost of the model's functions is the operator only if its caller is known.
func TestOperatorNeedsCaller(t *testing.T) {
	frame := func(name, file string) fault.Frame { return fault.Frame{Function: name, File: file} }
	deep, op := frame("deep", "model/src/lib1.c"), frame("fused_add", "model/src/lib1.c")
	runs, runtime, library := frame("add___tvm_main__", "model/src/lib2.c"),
		frame("TVMFuncCall", "crt/src/runtime/packed_func.c"), frame("qsort", "")
	guessed := runtime
	guessed.Guessed = true
	for _, c := range []struct {
		name   string
		frames []fault.Frame
		want   string
	}{
		{"whole", []fault.Frame{deep, deep, op, runtime}, "fused_add"},
		{"by the model's run", []fault.Frame{deep, op, runs, library}, "fused_add"},
		{"called back by a library", []fault.Frame{deep, library, op, runtime}, "fused_add"},
		{"broken off", []fault.Frame{deep, deep, deep}, ""},
		{"broken off in a library", []fault.Frame{deep, library}, ""},
		{"guessed on", []fault.Frame{deep, guessed}, ""},
		{"none", []fault.Frame{library, runtime}, ""},
		{"an operator named run", []fault.Frame{frame("run", "model/src/lib1.c"), runtime}, "run"},
		{"in the file of the embedded interface", []fault.Frame{frame("sum", "model/src/tvm_add.c"), runtime}, "sum"},
		{"the run of the embedded interface", []fault.Frame{op, frame("run", "model/src/tvm_add.c"), library}, "fused_add"},
		{"the model's run itself", []fault.Frame{runs, runtime}, ""},
	} {
		wantEqual(t, new(DebugInfo).operatorIn(c.frames), c.want, c.name)
	}
}
