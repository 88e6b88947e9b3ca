// This file finds the function of an ahead-of-time model and the memory that it gets, in C that TVM generated.

package cmodel

import (
	"bytes"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/boardsmith/boardsmith/mlf"
)

var (
	poolName      = regexp.MustCompile(`^(?:uint8_t|void)\s*\*\s*(\w+)_\d+_var$`)
	packedPool    = regexp.MustCompile(`int32_t (\w+)_\d+_var_code = arg_type_ids\[(\d+)\];`)
	ownWorkspace  = regexp.MustCompile(`static uint8_t (\w+)\[(\d+)\];`)
	systemLibrary = []byte("TVMSystemLibEntryPoint(void) {")
	describes     = []byte("kTvmgenMetadata[1]")
	sixArguments  = regexp.MustCompile(`^(?:TVMValue|void)\s*\*\s*args\s*,`)
)

// replaces reports whether the generated C takes the place of a source: of the registry, of the wrapper that brings the
// pools, of the description.
func (g *model) replaces(f mlf.File) bool {
	return bytes.Contains(f.Data, systemLibrary) || bytes.Contains(f.Data, describes) ||
		g.M.Executor == mlf.AOT && g.wrapper().Match(f.Data)
}

// wrapper matches the definition of the function that calls main.
func (g *model) wrapper() *regexp.Regexp {
	name := g.M.Prefix()
	if g.M.Header != nil {
		name = "tvmgen_" + g.M.Header.Name
	}
	return regexp.MustCompile(`int32_t ` + regexp.QuoteMeta(name) + `_run\([^()]*\) \{`)
}

// replacesObject is replaces for an object, of a graph model: its registry.
func (g *model) replacesObject(f mlf.File) bool {
	o, err := f.Info()
	return err == nil && slices.Contains(o.Defined, "TVMSystemLibEntryPoint") &&
		!slices.ContainsFunc(g.Graph.Functions, func(name string) bool { return slices.Contains(o.Defined, name) })
}

// readAOT decides how the model is called.
func (g *model) readAOT() error {
	h := g.M.Header
	if h != nil && (len(h.Devices) > 0 || h.Mapped) {
		return g.readHeader()
	}

	g.Call = g.M.Prefix() + "___tvm_main__"
	params, ok := g.parameters(g.Call)
	if !ok {
		return g.fault("export the model for target c, or for the graph executor",
			"function %s not found in C sources", g.Call)
	}

	if sixArguments.MatchString(params) {
		g.Entry = entryPacked
	} else {
		g.Entry = entryUnpacked
	}

	var pools []string
	if g.Entry == entryPacked {
		pools = g.packedPools()
	} else {
		list := strings.Split(params, ",")
		if len(list) < len(g.Inputs)+len(g.Outputs) {
			return g.fault("", "function %s has %d parameters for %d tensors", g.Call, len(list),
				len(g.Inputs)+len(g.Outputs))
		}
		// The pools follow the tensors.
		for _, p := range list[len(g.Inputs)+len(g.Outputs):] {
			m := poolName.FindStringSubmatch(strings.TrimSpace(p))
			if m == nil {
				return g.fault("", "function %s has an unknown parameter %q", g.Call, strings.TrimSpace(p))
			}
			pools = append(pools, m[1])
		}
	}

	g.tensorArgs()
	for _, name := range pools {
		arg, err := g.pool(name)
		if err != nil {
			return err
		}
		g.Args = append(g.Args, arg)
	}

	return g.operatorMemory(g.Call)
}

func (g *model) tensorArgs() {
	for i := range g.Inputs {
		g.Args = append(g.Args, inputArg(i))
	}
	for i := range g.Outputs {
		g.Args = append(g.Args, outputArg(i))
	}
}

// operatorMemory adds the workspace of TVMBackendAllocWorkspace if the function's code calls it.
func (g *model) operatorMemory(function string) error {
	operators, err := g.operatorPeaks()
	if err != nil {
		return err
	}

	if bytes := operators[function]; bytes > 0 {
		g.Memory = &workspace{Name: "operators", Bytes: bytes}
	}
	return nil
}

// parameters returns the parameters of a function, by the first source that declares it.
func (g *model) parameters(function string) (string, bool) {
	declaration := regexp.MustCompile(`int32_t ` + regexp.QuoteMeta(function) + `\(([^()]*)\)`)
	for _, f := range g.M.Sources {
		if m := declaration.FindSubmatch(f.Data); m != nil {
			return string(m[1]), true
		}
	}
	return "", false
}

// packedPools returns the names of the pools that main reads from its arguments, in their order.
func (g *model) packedPools() (names []string) {
	definition := regexp.MustCompile(`int32_t ` + regexp.QuoteMeta(g.Call) + `\([^()]*\) \{\n`)
	first := len(g.Inputs) + len(g.Outputs)

	for _, f := range g.M.Sources {
		at := definition.FindIndex(f.Data)
		if at == nil {
			continue
		}

		// An operator behind main may read the same pools. A tensor's name may end as a pool's: the pools follow the tensors.
		body, _, _ := bytes.Cut(f.Data[at[1]:], []byte("\n}"))
		for _, m := range packedPool.FindAllSubmatch(body, -1) {
			if n, err := strconv.Atoi(string(m[2])); err == nil && n == first+len(names) {
				names = append(names, string(m[1]))
			}
		}
	}
	return names
}

// pool returns the argument for a pool: constants that lie in the generated C, or workspace.
func (g *model) pool(name string) (argument, error) {
	if h := g.M.Header; h != nil {
		for _, p := range h.Pools {
			if p.Name == name {
				return g.headerPool(p), nil
			}
		}
	}

	for _, f := range g.M.Sources {
		if definition, ok := constantsIn(f.Data, name); ok {
			g.Constants = append(g.Constants, constant{C: name, Definition: definition})
			return constantArg(len(g.Constants) - 1), nil
		}
		for _, m := range ownWorkspace.FindAllSubmatch(f.Data, -1) {
			if n, err := strconv.ParseInt(string(m[2]), 10, 64); err == nil && string(m[1]) == name {
				return g.addWorkspace(workspace{Name: name, Bytes: n}), nil
			}
		}
	}

	for _, p := range g.M.Pools {
		if m := poolName.FindStringSubmatch("void* " + p.Name); m != nil && m[1] == name {
			return g.addWorkspace(workspace{Name: name, Bytes: p.Bytes}), nil
		}
	}
	return argument{}, g.fault("", "the size of its pool %s not found in its C", name)
}

func (g *model) addWorkspace(w workspace) argument {
	g.Workspaces = append(g.Workspaces, w)
	return workspaceArg(len(g.Workspaces) - 1)
}

// headerPool returns the argument for a pool of the C interface.
func (g *model) headerPool(p mlf.Buffer) argument {
	switch {
	case p.Data != "":
		g.Header = path.Base(g.M.Headers[0].Name)
		g.Constants = append(g.Constants, constant{
			C: p.Name, Field: p.Name,
			Definition: fmt.Sprintf("static const uint8_t %s[%d] __attribute__((aligned(16))) = {%s};", p.Name, p.Bytes, p.Data),
		})
		return constantArg(len(g.Constants) - 1)
	case p.Bytes == 0: // declared, but not used
		return noArg()
	}
	return g.addWorkspace(workspace{Name: p.Name, Bytes: p.Bytes, Field: p.Name})
}

// constantsIn returns the definition of a pool of constants, as a constant of C: TVM's is a variable in a section of
// its own, which firmware would have to know.
func constantsIn(src []byte, name string) (string, bool) {
	begin := regexp.MustCompile(`static (?:const )?(struct ` + regexp.QuoteMeta(name) + ` \{)`).FindSubmatchIndex(src)
	if begin == nil {
		return "", false
	}

	definition, _, ended := bytes.Cut(src[begin[2]:], []byte("\n};//"))
	return "static const " + string(definition) + "\n};", ended
}

// readHeader takes everything from the header of the C interface, whose function is called.
func (g *model) readHeader() error {
	h := g.M.Header
	g.Entry, g.Call, g.Header = entryHeader, "tvmgen_"+h.Name+"_run", path.Base(g.M.Headers[0].Name)
	for _, p := range h.Pools {
		// The function takes structs, so that it needs no list of arguments.
		g.headerPool(p)
	}

	n := &namer{}
	names := n.group("device")
	for i, d := range h.Devices {
		c, macro := names.add(d)
		g.Devices = append(g.Devices, device{d, c, macro, i})
	}

	if h.Mapped == strings.Contains(strings.Join(h.Run, " "), "puts") {
		return g.fault("", "its header must either return the inputs' addresses or take them as arguments")
	}
	return g.operatorMemory(g.M.Prefix() + "___tvm_main__")
}

// readOperator reads an archive of a single operator, a packed function.
func (g *model) readOperator() error {
	g.Entry, g.Call = entryPacked, g.M.Entry
	in, out := 0, 0
	for _, a := range g.M.Arguments {
		if a.Output {
			g.Args = append(g.Args, outputArg(out))
			out++
		} else {
			g.Args = append(g.Args, inputArg(in))
			in++
		}
	}

	if in != len(g.Inputs) || out != len(g.Outputs) {
		return g.fault("", "its operator has %d inputs and %d outputs, its metadata %d and %d", in, out,
			len(g.Inputs), len(g.Outputs))
	}
	return g.operatorMemory(g.Call)
}
