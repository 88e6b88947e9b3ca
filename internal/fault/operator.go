// This file finds the operator in a call chain.

package fault

import (
	"debug/elf"
	"path"
	"slices"
	"strings"

	"github.com/boardsmith/boardsmith/rpc"
)

// Explain returns where the device stopped, by its record, and in which operator. called is the function that the
// host had called, or "" if unknown.
func (p *Program) Explain(rec *rpc.FaultRecord, called string) rpc.Explanation {
	is := rpc.Explanation{Frames: p.frames(rec)}
	is.Operator = p.operatorOf(is.Frames)
	if p.isOperator(called) {
		is.Operator = called
	}
	return is
}

// operatorOf returns the model's operator in a call chain: the outermost function of the model's sources, except
// the functions that run the whole model. It returns "" if the chain ends before a caller of operators (the runtime
// or such a function): the outermost function found may then be a callee of the operator.
func (p *Program) operatorOf(frames []rpc.Frame) string {
	for i, f := range slices.Backward(frames) {
		if !p.ofOperator(f) || f.Guessed {
			continue
		}
		if i+1 == len(frames) || !p.callsOperators(frames[i+1]) {
			return ""
		}
		return f.Function
	}
	return ""
}

// ofOperator reports whether a frame belongs to an operator or to code that operators call.
func (p *Program) ofOperator(f rpc.Frame) bool {
	return p.folders.InModel(f.File) && f.Function != "" && !runsModel(f)
}

// runsModel reports, by its name, whether a function runs all operators of a model. In the embedded C interface, it is
// run in tvm_<model>.c.
func runsModel(f rpc.Frame) bool {
	return strings.HasSuffix(f.Function, "__tvm_main__") || strings.HasSuffix(f.Function, "_run") ||
		f.Function == "run" && strings.HasPrefix(path.Base(f.File), "tvm_")
}

// callsOperators reports whether a frame's function calls operators.
func (p *Program) callsOperators(f rpc.Frame) bool {
	return !f.Guessed && (p.folders.InRuntime(f.File) || p.folders.InModel(f.File) && runsModel(f))
}

// isOperator reports whether the model has an operator of that name.
func (p *Program) isOperator(name string) bool {
	return slices.ContainsFunc(p.symbol, func(s elf.Symbol) bool {
		frames := []rpc.Frame(nil)
		if name != "" && s.Name == name {
			frames = p.At(s.Value)
		}
		return len(frames) > 0 && p.ofOperator(frames[len(frames)-1])
	})
}
