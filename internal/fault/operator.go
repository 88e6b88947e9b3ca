// This file finds the operator in a call chain.

package fault

import (
	"debug/elf"
	"slices"
	"strings"

	"github.com/boardsmith/boardsmith/internal/firmware"
	"github.com/boardsmith/boardsmith/rpc"
)

// Explain says where the device stood that kept the record, and in which operator. called is what the host had called; "" if it
// does not know.
func (p *Program) Explain(rec *rpc.FaultRecord, called string) rpc.Explanation {
	is := rpc.Explanation{Frames: p.frames(rec)}
	is.Operator = operatorOf(is.Frames)
	if p.isOperator(called) {
		is.Operator = called
	}
	return is
}

// operatorOf is the model's operator in a call chain: the outermost function of the model's sources, but for the
// functions that run the whole model. It is "" where the chain breaks off before what calls operators, the runtime or such
// a function: then the outermost that was found may be one that the operator called.
func operatorOf(frames []rpc.Frame) string {
	for i, f := range slices.Backward(frames) {
		if !ofOperator(f) || f.Guessed {
			continue
		}
		if i+1 == len(frames) || !callsOperators(frames[i+1]) {
			return ""
		}
		return f.Function
	}
	return ""
}

// ofOperator says whether a frame is one of an operator, or of what operators call.
func ofOperator(f rpc.Frame) bool {
	return strings.HasPrefix(f.File, firmware.ModelFolder) && f.Function != "" && !runsModel(f.Function)
}

// runsModel says whether a function is one that runs all operators of a model, by its name.
func runsModel(name string) bool {
	return strings.HasSuffix(name, "__tvm_main__") || strings.HasSuffix(name, "_run")
}

// callsOperators says whether a frame is one from which operators are called.
func callsOperators(f rpc.Frame) bool {
	return !f.Guessed && (strings.HasPrefix(f.File, firmware.RuntimeFolder) || strings.HasPrefix(f.File, firmware.ModelFolder) && runsModel(f.Function))
}

// isOperator says whether there is an operator of that name.
func (p *Program) isOperator(name string) bool {
	return slices.ContainsFunc(p.symbol, func(s elf.Symbol) bool {
		frames := []rpc.Frame(nil)
		if name != "" && s.Name == name {
			frames = p.At(s.Value)
		}
		return len(frames) > 0 && ofOperator(frames[len(frames)-1])
	})
}
