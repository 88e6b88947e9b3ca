// This file lists how many tensors the functions of a model take.

package mlf

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/boardsmith/boardsmith/internal/modelgraph"
)

// A Signature is what an archive lists of a packed function's arguments: tensors. It may take scalars as well, which
// metadata does not list.
type Signature struct {
	Function   string // a C identifier
	Leading    int    // the number of arguments at the start that are all tensors; 0: unknown
	MinTensors int    // the number of tensors among its arguments, from 1 to 255
	MaxTensors int    // the same with pools, which the device's executor passes as tensors; at most 255

	Tensors []Tensor // the first MinTensors of its arguments, which are all tensors; nil: unknown
}

// maxTensors limits the numbers in a Signature.
const maxTensors = 255

// wrapper is the function that TVM registers as well in a library with one function, which it calls.
const wrapper = "__tvm_main__"

// Signatures lists functions of the system library, sorted. An operator's tensors are those of metadata.json, an
// ahead-of-time model's those of metadata.json or of its description, a graph's those of the nodes that call the
// function. Not listed, because in doubt, are: functions that the registry does not name, functions that nodes call
// with different numbers of tensors or with more than maxTensors, models whose tensors only their Relay text lists,
// and what an ahead-of-time model's main function calls. Models with the C interface have none: their entry is
// generated, and compares types and sizes itself.
func (m *Model) Signatures() []Signature {
	if m.ABI != ABIPacked {
		return nil
	}
	var all []Signature
	switch {
	case m.Style == operator:
		s := Signature{Function: m.Entry, MinTensors: len(m.Arguments), MaxTensors: len(m.Arguments)}
		if m.onlyTensors {
			s.Leading = len(m.Arguments)
			for _, a := range m.Arguments {
				s.Tensors = append(s.Tensors, a.Tensor)
			}
		}
		all = []Signature{s}
	case m.Executor == AOT:
		all = m.entrySignatures()
	default:
		all = graphSignatures(m.Graph)
	}

	all = slices.DeleteFunc(all, func(s Signature) bool {
		return !m.Has(s.Function) || !isIdentifier(s.Function) || s.MinTensors < 1 || s.MinTensors > maxTensors
	})

	// The wrapper takes what the function takes that it calls.
	if len(all) == 1 && len(m.Functions) == 2 && m.Has(wrapper) && all[0].Function != wrapper {
		s := all[0]
		s.Function = wrapper
		all = append(all, s)
	}

	slices.SortFunc(all, func(a, b Signature) int { return strings.Compare(a.Function, b.Function) })
	return all
}

// entrySignatures returns those of an ahead-of-time model's entry and of its main function.
func (m *Model) entrySignatures() []Signature {
	if !m.listed && !m.described {
		return nil
	}

	// Without a description, the number of pools is unknown.
	n, most := len(m.Inputs)+len(m.Outputs), maxTensors
	if m.described {
		most = min(n+len(m.Pools), most)
	}
	s := Signature{m.Entry, n, n, most, slices.Concat(m.Inputs, m.Outputs)}
	all := []Signature{s}
	if main := m.Prefix() + mainSuffix; main != m.Entry {
		s.Function = main
		all = append(all, s)
	}
	return all
}

func graphSignatures(graph []byte) []Signature {
	g, err := modelgraph.Parse(graph)
	if err != nil {
		return nil // Open has refused it
	}

	found := map[string]Signature{}
	for i, n := range g.Nodes {
		if n.Func == "" || n.IsNop() {
			continue // an argument, or no call
		}
		tensors := nodeTensors(g, i)
		s := Signature{n.Func, len(tensors), len(tensors), len(tensors), tensors}
		if before, ok := found[n.Func]; ok && !reflect.DeepEqual(before, s) { // in doubt
			s.Tensors = nil
			if before.MinTensors != s.MinTensors {
				s.Leading, s.MinTensors, s.MaxTensors = 0, 0, 0
			}
		}
		found[n.Func] = s
	}

	return slices.Collect(maps.Values(found))
}

// nodeTensors returns those that node n passes to its function.
func nodeTensors(g *modelgraph.Graph, n int) (all []Tensor) {
	from, to := g.Entries(n)
	add := func(entry int) {
		t := entryTensor(g, entry, "")
		if g.Nodes[n].Flatten {
			t.Shape = nil
			t.Shape = t.Dims()
		}
		all = append(all, t)
	}

	for _, entry := range g.Nodes[n].Inputs {
		add(entry)
	}
	for entry := from; entry < to; entry++ {
		add(entry)
	}
	return all
}
