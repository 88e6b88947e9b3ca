// This file detects archives that cannot be compiled or called, so that the error comes before the build (mlf.md
// §5, §6).

package mlf

import (
	"fmt"
	"slices"
	"strings"

	"github.com/boardsmith/boardsmith/internal/modelgraph"
)

const (
	nextSystemLib = `export it with Runtime("crt", {"system-lib": True})`
	nextRename    = "rename it and export again"
)

// CheckModel is Check for one model of the archive.
func (a *Archive) CheckModel(m *Model) error {
	switch {
	case m.ABI == ABITVMFFI:
		return a.fault("", "export the network with boardsmith's Python package, or with TVM 0.9 to 0.18",
			"model %s: the runtime does not support its operators' calling convention (TVM 0.21 and later)", m.Name)
	case m.cxx() != "":
		return a.fault(m.cxx(), `export it for a target that generates C, such as "c"`,
			"model %s: C++ sources are not supported", m.Name)
	case m.Interface == cInterface:
		return a.checkC(m)
	}
	return a.checkPacked(m)
}

// cxx returns the name of a C++ source, or "".
func (m *Model) cxx() string {
	for _, f := range m.Sources {
		if !strings.HasSuffix(f.Name, ".c") {
			return f.Name
		}
	}
	return ""
}

func (a *Archive) checkC(m *Model) error {
	h, file := m.Header, m.Headers[0].Name
	if m.Name != strings.ToLower(m.Name) {
		return a.fault(file, nextRename,
			"model %s: with the C interface, TVM writes a model name with capitals differently into sources and header", m.Name)
	}

	for _, group := range []struct {
		kind   string
		fields []string
	}{
		{"inputs", bufferNames(h.Inputs)},
		{"outputs", bufferNames(h.Outputs)},
		{"pools", bufferNames(h.Pools)},
		{"devices", h.Devices},
	} {
		// TVM converts names to C, where two may become equal.
		for i, name := range group.fields {
			if slices.Contains(group.fields[:i], name) {
				return a.fault(file, nextRename, "model %s: two %s are both called %q in C", m.Name, group.kind, name)
			}
			if !isIdentifier(name) {
				return a.fault(file, nextRename, "model %s: %q (%s) is no C identifier", m.Name, name, group.kind)
			}
		}
	}

	if (len(h.Devices) > 0) != slices.Contains(h.Run, "devices") {
		return a.fault(file, "export it again with TVM",
			"model %s: the arguments %q of its entry do not match its devices %q", m.Name, h.Run, h.Devices)
	}
	return nil
}

func bufferNames(list []Buffer) (all []string) {
	for _, b := range list {
		all = append(all, b.Name)
	}
	return all
}

func (a *Archive) checkPacked(m *Model) error {
	if !m.SystemLib {
		return a.fault("", nextSystemLib, "model %s: its functions cannot be looked up without a system library", m.Name)
	}
	if m.Executor == AOT {
		return a.checkEntry(m)
	}
	return a.checkFunctions(m)
}

// checkEntry returns an error if the archive lacks what the device's AOT executor looks up.
func (a *Archive) checkEntry(m *Model) error {
	missing := ""
	switch {
	case !m.Has(m.Prefix() + "_get_c_metadata"):
		missing = m.Prefix() + "_get_c_metadata"
	case m.Entry == "":
		missing = m.Prefix() + "_run"
	case strings.HasSuffix(m.Entry, mainSuffix) && m.scan.constantPools > 0:
		return a.fault("", "export it with TVM 0.12 to 0.18, or without a pool for constants",
			"model %s: TVM 0.9 to 0.11 do not pass its pool for constants to its entry function", m.Name)
	}

	switch {
	case missing == "":
		return nil
	case len(m.Objects) > 0:
		return a.fault(m.Objects[0].Name, `export it with target "c", or with Executor("graph")`,
			"model %s: TVM's LLVM backend omits an ahead-of-time model's entry, description and %d bytes of constants", m.Name,
			m.Constants)
	}
	return a.fault("", "export the model with TVM 0.9 to 0.18",
		"model %s: its system library lacks %s, the AOT executor's entry function", m.Name, missing)
}

// checkFunctions returns an error if an operator that will be called is not registered.
func (a *Archive) checkFunctions(m *Model) error {
	if len(m.Functions) == 0 {
		return nil // an object's registry has an unknown form; the device reports missing functions
	}
	if m.Style == operator {
		if !m.Has(m.Entry) {
			return a.fault("", "", "operator function %q is not in the system library, which has %q", m.Entry, m.Functions)
		}
		return nil
	}

	g, err := modelgraph.Parse(m.Graph)
	if err != nil {
		return fmt.Errorf("model %s: %w", m.Name, err)
	}

	for _, n := range g.Nodes {
		if n.Func != "" && !n.IsNop() && !m.Has(n.Func) {
			return a.fault("", "", "model %s: its graph calls %q, which is not in the system library", m.Name, n.Func)
		}
	}
	return nil
}
