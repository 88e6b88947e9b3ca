// This file recognises archives that no compiler accepts or no firmware can enter, so that they are explained before
// anything is built (mlf.md §5, §6).

package mlf

import (
	"fmt"
	"slices"
	"strings"
)

// Check says whether the archive's models can be built and called over RPC. The error names what stands in the way
// and how to export the model instead.
func (a *Archive) Check() error {
	var entries []string
	for _, m := range a.Models {
		if err := a.CheckModel(m); err != nil {
			return err
		}
		if m.SystemLib {
			entries = append(entries, m.Name)
		}
	}
	if len(entries) > 1 || len(entries) == 1 && len(a.Models) > 1 {
		return a.fault("", "export each model into an archive of its own",
			"models %q each have a system library, and a firmware has room for one", names(a.Models))
	}
	return nil
}

func names(ms []*Model) (all []string) {
	for _, m := range ms {
		all = append(all, m.Name)
	}
	return all
}

const (
	nextNoSystemLib = `export it with Runtime("crt") without "system-lib", or with interface-api "packed" and unpacked-api 0`
	nextSystemLib   = `export it with Runtime("crt", {"system-lib": True})`
	nextRename      = "rename it and export again"
)

// CheckModel is Check for one model of the archive.
func (a *Archive) CheckModel(m *Model) error {
	where := ""
	if len(m.Sources) > 0 {
		where = m.Sources[0].Name
	}
	switch s := m.scan; {
	case m.ABI == ABITVMFFI:
		return a.fault(where, "export the model with TVM 0.9 to 0.18", "model %s: its operators have the calling convention of TVM 0.21 and later, which the runtime does not know", m.Name)
	case m.cxx() != "":
		return a.fault(m.cxx(), `export it for a target that gives C, such as "c"`, "model %s: it is C++, and the firmware is C throughout", m.Name)
	case m.Interface == C && m.SystemLib:
		return a.fault(where, nextNoSystemLib, "model %s: C interface together with a system library: TVM declares tvmgen_%s_run twice, with different arguments, and no C compiler accepts that", m.Name, m.Name)
	case s.unpacked != "" && m.SystemLib:
		return a.fault(where, nextNoSystemLib, "model %s: unpacked-api together with a system library: TVM registers %s as a packed function and defines it with other arguments, and no C compiler accepts that", m.Name, s.unpacked)
	case s.badPool != "":
		return a.fault(where, nextRename, "model %s: memory pool %q is no C identifier, and TVM writes it into C as it is", m.Name, strings.TrimSuffix(s.badPool, "_var"))
	case m.Interface == C:
		return a.checkC(m)
	}
	return a.checkPacked(m)
}

// cxx names a source that is not C, or is "".
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
		return a.fault(file, nextRename, "model %s: with the C interface TVM writes capitals of a model's name into the sources and not into the header, so that they do not fit together", m.Name)
	}
	for _, group := range []struct {
		kind   string
		fields []string
	}{{"inputs", fieldNames(h.Inputs)}, {"outputs", fieldNames(h.Outputs)}, {"pools", poolNames(h.Pools)}, {"devices", h.Devices}} {
		for i, name := range group.fields {
			if slices.Contains(group.fields[:i], name) {
				return a.fault(file, nextRename, "model %s: two %s are both called %q in C", m.Name, group.kind, name)
			}
			if !isIdentifier(name) {
				return a.fault(file, nextRename, "model %s: %q (%s) is no C identifier", m.Name, name, group.kind)
			}
		}
	}
	if len(h.Devices) > 0 || slices.Contains(h.Run, "devices") {
		return a.fault(file, "export it for a target without device contexts, such as plain \"c\"", "model %s: it wants the devices %q from its caller, which no board here has", m.Name, h.Devices)
	}
	return nil
}

func fieldNames(fs []Field) (all []string) {
	for _, f := range fs {
		all = append(all, f.Name)
	}
	return all
}

func poolNames(ps []Pool) (all []string) {
	for _, p := range ps {
		all = append(all, p.Name)
	}
	return all
}

func (a *Archive) checkPacked(m *Model) error {
	if !m.SystemLib {
		return a.fault("", nextSystemLib, "model %s: it has no system library, so that none of its functions can be found by name", m.Name)
	}
	if m.Executor == AOT {
		return a.checkEntry(m)
	}
	return a.checkFunctions(m)
}

// checkEntry wants what the device's AOT executor looks up.
func (a *Archive) checkEntry(m *Model) error {
	missing := ""
	switch {
	case !m.Has(m.Prefix() + "_get_c_metadata"):
		missing = m.Prefix() + "_get_c_metadata"
	case m.Entry == "":
		missing = m.Prefix() + "_run"
	case strings.HasSuffix(m.Entry, mainSuffix) && m.scan.constantPools > 0:
		return a.fault("", "export it with TVM 0.12 to 0.18, or without a pool for constants",
			"model %s: it has a pool for constants, which TVM 0.9 to 0.11 give its entry no way to get", m.Name)
	}
	switch {
	case missing == "":
		return nil
	case len(m.Objects) > 0:
		return a.fault(m.Objects[0].Name, `export it with target "c", or with Executor("graph")`,
			"model %s: TVM's LLVM leaves an ahead-of-time model's entry, description and %d bytes of constants out of the objects, so that it cannot run", m.Name, m.Constants)
	}
	return a.fault("", "export the model with TVM 0.9 to 0.18",
		"model %s: its system library has no %s, which the AOT executor starts from", m.Name, missing)
}

// checkFunctions wants every operator that will be called to be registered.
func (a *Archive) checkFunctions(m *Model) error {
	if len(m.Functions) == 0 {
		return nil // an object's registry in a form that is not known; the device will say
	}
	if m.Style == Operator {
		if !m.Has(m.Entry) {
			return a.fault("", "", "operator function %q is not in the system library, which has %q", m.Entry, m.Functions)
		}
		return nil
	}
	g, err := ParseGraph(m.Graph)
	if err != nil {
		return fmt.Errorf("model %s: %w", m.Name, err)
	}
	for _, n := range g.Nodes {
		if n.Func != "" && n.Func != Nop && !m.Has(n.Func) {
			return a.fault("", "", "model %s: its graph calls %q, which is not in the system library", m.Name, n.Func)
		}
	}
	return nil
}
