// This file finds the operator in a call chain.

package faultimage

import (
	"debug/elf"
	"path"
	"slices"
	"strings"

	"github.com/boardsmith/boardsmith/rpc/fault"
)

// Explain returns the call chain at the fault, and the operator in it. called is the name of the function that the host
// called, or "" if unknown. Frames whose stack is not in the record are omitted.
func (m *DebugInfo) Explain(rec *fault.Record, called string) fault.Explanation {
	e := fault.Explanation{Frames: m.frames(rec)}
	e.Operator = m.operatorIn(e.Frames)

	// The host's call is certain, the chain may be cut off or guessed.
	if m.isOperator(called) {
		e.Operator = called
	}
	return e
}

// operatorIn returns the model's operator in a call chain: the outermost function of the model's sources, except
// the functions that run the whole model. It returns "" if the chain ends before a caller of operators (the runtime
// or such a function): the outermost function found may then be a callee of the operator.
func (m *DebugInfo) operatorIn(frames []fault.Frame) string {
	for i, f := range slices.Backward(frames) {
		if !m.inOperator(f) || f.Guessed {
			continue
		}

		// A frame without a caller may be a callee of the operator.
		if i+1 == len(frames) {
			return ""
		}

		caller := frames[i+1]
		if caller.Guessed || !m.folders.InRuntime(caller.File) && (!m.folders.InModel(caller.File) || !runsModel(caller)) {
			return ""
		}
		return f.Function
	}
	return ""
}

// inOperator reports whether a frame belongs to an operator or to code that operators call.
func (m *DebugInfo) inOperator(f fault.Frame) bool {
	return m.folders.InModel(f.File) && f.Function != "" && !runsModel(f)
}

// runsModel reports, by its name, whether a function runs all operators of a model. In the embedded C interface, it is
// run in tvm_<model>.c.
func runsModel(f fault.Frame) bool {
	return strings.HasSuffix(f.Function, "__tvm_main__") || strings.HasSuffix(f.Function, "_run") ||
		f.Function == "run" && strings.HasPrefix(path.Base(f.File), "tvm_")
}

// isOperator reports whether the model has an operator of that name.
func (m *DebugInfo) isOperator(name string) bool {
	return slices.ContainsFunc(m.functions, func(s elf.Symbol) bool {
		frames := []fault.Frame(nil)
		if name != "" && s.Name == name {
			frames = m.FramesAt(s.Value)
		}
		return len(frames) > 0 && m.inOperator(frames[len(frames)-1])
	})
}
