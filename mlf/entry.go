// This file derives a model's inputs and outputs, in order, from the graph, the C interface's header, the Relay
// text and the metadata.

package mlf

import (
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/boardsmith/boardsmith/internal/modelgraph"
	"github.com/boardsmith/boardsmith/internal/spelling"
	"github.com/boardsmith/boardsmith/ndarray"
)

// relayOf finds the model's Relay text, under one of its three names.
func (a *Archive) relayOf(model string) *relayText {
	for _, name := range []string{"src/" + model + ".relay", "src/relay.txt", "relay.txt"} {
		if f := a.Find(name); f != nil {
			return parseRelay(string(f.Data))
		}
	}
	return &relayText{}
}

// readGraph takes a graph model's tensors from its graph. Inputs are the arguments that are not parameters and, if
// the metadata lists inputs, are listed there.
func (a *Archive) readGraph(m *Model, memory figures, params map[string]bool) error {
	f := a.oneOf("executor-config/graph/"+m.Name+".graph", "*/graph/graph.json")
	if f == nil {
		return a.fault("", "", "model %s: its graph is missing", m.Name)
	}

	g, err := modelgraph.Parse(f.Data)
	if err != nil {
		return a.fault(f.Name, "", "%w", err)
	}

	m.Graph = f.Data
	for _, n := range g.Args {
		name := g.Nodes[n].Name
		_, listed := memory.inputs[name]
		if params[name] || len(memory.inputs) > 0 && !listed {
			continue
		}
		m.Inputs = append(m.Inputs, entryTensor(g, g.Rows[n], name))
	}

	names := outputNames(a.relayOf(m.Name), memory, len(g.Heads))
	for i, e := range g.Heads {
		m.Outputs = append(m.Outputs, entryTensor(g, e, names[i]))
	}

	if err := agree(memory.inputs, m.Inputs); err != nil {
		return a.fault(f.Name, "", "%w", err)
	}
	return nil
}

// entryTensor describes an entry of a graph.
func entryTensor(g *modelgraph.Graph, entry int, name string) Tensor {
	t, _ := shaped(name, g.DTypes[entry], g.Shapes[entry]) // modelgraph has checked it
	return t
}

// readEntry derives an AOT model's tensors: order and number from the header, else from the Relay text, else
// alphabetically; names and types from the metadata; shapes from the metadata if it has them, else from the Relay text
// if they match the metadata's sizes.
func (a *Archive) readEntry(m *Model, memory figures) error {
	relay := a.relayOf(m.Name)
	inputs := relay.Params
	m.listed = len(memory.inputs)+len(memory.outputs) > 0
	// The Relay text does not distinguish inputs from parameters.
	if len(memory.inputs) > 0 {
		inputs = keep(relay.Params, memory.inputs)
	}

	outputs := relay.Results
	names := outputNames(relay, memory, max(len(outputs), len(memory.outputs)))
	for i := range outputs {
		outputs[i].Name = names[i]
	}

	if m.Header == nil {
		m.Inputs = complete(inputs, memory.inputs)
		m.Outputs = completeOutputs(outputs, memory.outputs, names)
		return agreeAll(a, m, memory)
	}

	in, err := byField(m.Header.Inputs, inputs, memory.inputs)
	if err != nil {
		return a.fault(m.Headers[0].Name, "", "input %w", err)
	}
	out, err := byField(m.Header.Outputs, outputs, memory.outputs)
	if err != nil {
		return a.fault(m.Headers[0].Name, "", "output %w", err)
	}

	m.Inputs, m.Outputs = in, out
	return agreeAll(a, m, memory)
}

func agreeAll(a *Archive, m *Model, memory figures) error {
	if err := agree(memory.inputs, m.Inputs); err != nil {
		return a.fault(metadataFile, "", "model %s: inputs: %w", m.Name, err)
	}
	if err := agree(memory.outputs, m.Outputs); err != nil {
		return a.fault(metadataFile, "", "model %s: outputs: %w", m.Name, err)
	}
	return nil
}

func keep(ts []Tensor, listed map[string]Tensor) (kept []Tensor) {
	for _, t := range ts {
		if _, ok := listed[t.Name]; ok {
			kept = append(kept, t)
		}
	}
	return kept
}

// complete returns the ordered tensors, corrected by the metadata, followed by those that only the metadata has.
func complete(ordered []Tensor, listed map[string]Tensor) []Tensor {
	var out []Tensor
	seen := map[string]bool{}
	for _, t := range ordered {
		out = append(out, merge(t, listed[t.Name]))
		seen[t.Name] = true
	}

	for _, name := range sorted(listed) {
		if !seen[name] {
			out = append(out, listed[name])
		}
	}
	return out
}

// completeOutputs is complete for outputs. A type that the metadata does not list stays.
func completeOutputs(ordered []Tensor, listed map[string]Tensor, names []string) []Tensor {
	if len(ordered) > 0 {
		for i, t := range ordered {
			ordered[i] = merge(t, listed[t.Name])
		}
		return ordered
	}

	for _, name := range names {
		if t, ok := listed[name]; ok {
			ordered = append(ordered, t)
		}
	}
	return ordered
}

// merge adds the metadata to a tensor of the Relay text. If the sizes differ, the metadata, which describes the
// generated code, takes precedence, and the shape is unknown.
func merge(t, listed Tensor) Tensor {
	if listed.Name == "" {
		return t
	}
	if t.DType != listed.DType || t.Bytes != listed.Bytes || listed.Shape != nil {
		return listed
	}
	return t
}

// byField orders tensors as in the header's struct; fields have sanitised names.
func byField(fields []Buffer, relay []Tensor, listed map[string]Tensor) ([]Tensor, error) {
	var out []Tensor
	for i, f := range fields {
		t := Tensor{Name: f.Name, Bytes: f.Bytes}
		// By name, else by position if both lists are of the same length.
		if j := slices.IndexFunc(relay, func(r Tensor) bool { return spelling.Sanitize(r.Name) == f.Name }); j >= 0 {
			t = relay[j]
		} else if len(relay) == len(fields) {
			t = relay[i]
			t.Name = f.Name
		}

		for _, name := range sorted(listed) {
			// The metadata has the model's own name of the tensor.
			if spelling.Sanitize(name) == f.Name {
				t.Name = name
				t = merge(t, listed[name])
			}
		}

		if f.Bytes != 0 && t.Bytes != 0 && f.Bytes != t.Bytes {
			return nil, fmt.Errorf("%s has %d bytes, by metadata and Relay text %d", f.Name, f.Bytes, t.Bytes)
		}
		if t.DType.Bits == 0 {
			return nil, fmt.Errorf("%s: data type not found in metadata or Relay text", f.Name)
		}
		out = append(out, t)
	}
	return out, nil
}

// outputNames returns the names of n outputs in order. The metadata lists them alphabetically, so that the order
// comes from the Relay text or from numbers that TVM added to the names.
func outputNames(relay *relayText, memory figures, n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = outputName(i, n)
	}

	if len(relay.OutputNames) == n {
		return relay.OutputNames
	}

	listed := sorted(memory.outputs)
	// Names cannot be assigned unless all outputs are listed.
	if len(listed) != n {
		return names
	}

	// By length first, so that output10 follows output9.
	counted := slices.Clone(listed)
	sort.SliceStable(counted, func(i, j int) bool {
		return len(counted[i]) < len(counted[j]) || len(counted[i]) == len(counted[j]) && counted[i] < counted[j]
	})

	if n == 1 || slices.Equal(counted, names) {
		return counted
	}
	return byType(names, relay.Results, memory.outputs)
}

// byType assigns the metadata's names to outputs with a unique type and size. The others keep TVM's default names.
func byType(names []string, results []Tensor, listed map[string]Tensor) []string {
	if len(results) != len(names) {
		return names
	}
	for i, r := range results {
		var match []string
		for _, name := range sorted(listed) {
			if k := listed[name]; k.DType == r.DType && k.Bytes == r.Bytes {
				match = append(match, name)
			}
		}

		if len(match) == 1 {
			names[i] = match[0]
		}
	}
	return names
}

func sorted(m map[string]Tensor) []string {
	var names []string
	for name := range m {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}

// agree returns an error if the tensors differ from the metadata.
func agree(listed map[string]Tensor, ts []Tensor) error {
	for _, t := range ts {
		k, ok := listed[t.Name]
		if ok && (k.DType != t.DType || k.Bytes != t.Bytes) {
			return fmt.Errorf("%s, but by %s %v of %d bytes", t, metadataFile, k.DType, k.Bytes)
		}
	}

	if len(listed) > 0 && len(ts) != len(listed) {
		return fmt.Errorf("there are %d tensors, but by %s %d: %s", len(ts), metadataFile, len(listed),
			strings.Join(sorted(listed), ", "))
	}
	return nil
}

// shaped returns a tensor of known type and shape, and whether the shape is valid.
func shaped(name string, d ndarray.DType, shape []int64) (Tensor, bool) {
	n, err := ndarray.Bytes(d, shape)
	return Tensor{Name: name, DType: d, Shape: append([]int64{}, shape...), Bytes: int64(n)}, err == nil
}
