// Package modelgraph reads the graph of a model in an archive, which the graph executor walks (crt_abi.md §11).
//
// It knows nodes and tensors' types, not the archive, and runs nothing.
package modelgraph

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/boardsmith/boardsmith/internal/files/jsonfile"
	"github.com/boardsmith/boardsmith/ndarray"
)

// A Graph is a graph with checked indices: nodes use earlier nodes only. An entry is one output of one node;
// DTypes, Shapes and Storage are indexed by entry.
type Graph struct {
	Nodes   []Node
	Args    []int // the nodes that are inputs or parameters
	Heads   []int // the entries that are the model's outputs
	Rows    []int // Rows[n] is node n's first entry; it has one more element than there are nodes
	DTypes  []ndarray.DType
	Shapes  [][]int64
	Storage []int // storage ids; entries with equal ids share memory
}

// A Node is an argument (Func is "") or a call of an operator.
type Node struct {
	Name    string
	Func    string
	Inputs  []int // entries
	Flatten bool  // the operator takes every tensor as one-dimensional
}

// IsNop reports whether the node only reshapes.
func (n Node) IsNop() bool { return n.Func == "__nop" }

// Entries returns the entries of node n's outputs.
func (g *Graph) Entries(n int) (from, to int) { return g.Rows[n], g.Rows[n+1] }

// Bytes returns the size of an entry.
func (g *Graph) Bytes(entry int) int64 {
	n, _ := ndarray.Bytes(g.DTypes[entry], g.Shapes[entry]) // Parse has checked it
	return int64(n)
}

type rawGraph struct {
	Nodes   []rawNode                     `json:"nodes"`
	Args    []int                         `json:"arg_nodes"`
	Heads   []rawEntry                    `json:"heads"`
	Rows    []int                         `json:"node_row_ptr"`
	Attrs   map[string][2]json.RawMessage `json:"attrs"`
	Ignored json.RawMessage               `json:"metadata"`
}

type rawNode struct {
	Op      string         `json:"op"`
	Name    string         `json:"name"`
	Inputs  []rawEntry     `json:"inputs"`
	Attrs   map[string]any `json:"attrs"`
	Attr    map[string]any `json:"attr"`
	Control []int          `json:"control_deps"`
}

// rawEntry is [node, output] or [node, output, version].
type rawEntry []int

// Parse reads and checks a graph.
func Parse(data []byte) (*Graph, error) {
	var raw rawGraph
	if err := json.Unmarshal(data, &raw); err != nil {
		return nil, fmt.Errorf("graph: %w", jsonfile.Plain(err))
	}

	g := &Graph{Rows: raw.Rows, Args: raw.Args}
	// First, since all else is checked by the entries of nodes.
	if err := g.readRows(raw); err != nil {
		return nil, fmt.Errorf("graph: %w", err)
	}
	if err := g.readAttrs(raw.Attrs); err != nil {
		return nil, fmt.Errorf("graph: attrs: %w", err)
	}

	for i, n := range raw.Nodes {
		if err := g.addNode(i, n); err != nil {
			return nil, fmt.Errorf("graph: node %d %q: %w", i, n.Name, err)
		}
	}

	if err := g.checkArgs(); err != nil {
		return nil, fmt.Errorf("graph: %w", err)
	}

	if len(raw.Heads) == 0 {
		return nil, errors.New("graph: it has no outputs")
	}

	for _, e := range raw.Heads {
		entry, err := g.entry(e, len(g.Nodes))
		if err != nil {
			return nil, fmt.Errorf("graph: heads: %w", err)
		}
		g.Heads = append(g.Heads, entry)
	}
	return g, nil
}

// readRows checks the prefix sums: each node has at least one entry.
func (g *Graph) readRows(raw rawGraph) error {
	if len(raw.Nodes) == 0 || len(raw.Rows) != len(raw.Nodes)+1 || raw.Rows[0] != 0 {
		return fmt.Errorf("%d nodes, but node_row_ptr is %.40v", len(raw.Nodes), raw.Rows)
	}
	for i := range raw.Nodes {
		if n := raw.Rows[i+1] - raw.Rows[i]; n < 1 || n > maxOutputs {
			return fmt.Errorf("node_row_ptr gives node %d %d outputs", i, n)
		}
	}
	return nil
}

const maxOutputs = 1 << 16

func (g *Graph) readAttrs(attrs map[string][2]json.RawMessage) error {
	var names []string
	for _, a := range []struct {
		name, kind string
		into       any
		length     func() int
	}{
		{"dltype", "list_str", &names, func() int { return len(names) }},
		{"shape", "list_shape", &g.Shapes, func() int { return len(g.Shapes) }},
		{"storage_id", "list_int", &g.Storage, func() int { return len(g.Storage) }},
	} {
		var kind string
		if err := json.Unmarshal(orNull(attrs[a.name][0]), &kind); err != nil || kind != a.kind {
			return fmt.Errorf("%s is not a %s", a.name, a.kind)
		}
		if err := json.Unmarshal(orNull(attrs[a.name][1]), a.into); err != nil {
			return fmt.Errorf("%s: %w", a.name, jsonfile.Plain(err))
		}
		if want := g.Rows[len(g.Rows)-1]; a.length() != want {
			return fmt.Errorf("%s has %d elements for %d entries", a.name, a.length(), want)
		}
	}

	if _, ok := attrs["storage_scope"]; ok {
		return errors.New("unsupported storage_scope")
	}

	for i, name := range names {
		d, err := ndarray.ParseDType(name)
		if err != nil {
			return fmt.Errorf("entry %d: %w", i, err)
		}
		if _, err := ndarray.Bytes(d, g.Shapes[i]); err != nil {
			return fmt.Errorf("entry %d: invalid tensor %s %s", i, name, ndarray.ShapeString(g.Shapes[i]))
		}
		if g.Storage[i] < 0 {
			return fmt.Errorf("entry %d: invalid storage id %d", i, g.Storage[i])
		}
		g.DTypes = append(g.DTypes, d)
		g.Shapes[i] = append([]int64{}, g.Shapes[i]...) // not nil: a known one
	}
	return nil
}

func orNull(r json.RawMessage) json.RawMessage {
	if len(r) == 0 {
		return json.RawMessage("null")
	}
	return r
}

func (g *Graph) addNode(i int, raw rawNode) error {
	n := Node{Name: raw.Name}
	for _, e := range raw.Inputs {
		entry, err := g.entry(e, i)
		if err != nil {
			return err
		}
		n.Inputs = append(n.Inputs, entry)
	}

	from, to := g.Entries(i)
	switch {
	case len(raw.Control) > 0:
		return errors.New("control_deps are not supported")
	case raw.Op == "null" && len(n.Inputs) == 0 && to-from == 1:
	case raw.Op == "tvm_op":
		// Graphs have the field under one of two names.
		attrs := raw.Attrs
		if attrs == nil {
			attrs = raw.Attr
		}
		if err := n.readAttrs(attrs, to-from); err != nil {
			return err
		}
	default:
		return fmt.Errorf("unsupported op %q with %d inputs and %d outputs", raw.Op, len(n.Inputs), to-from)
	}
	g.Nodes = append(g.Nodes, n)
	return nil
}

func (n *Node) readAttrs(attrs map[string]any, outputs int) error {
	n.Func, _ = attrs["func_name"].(string)
	if n.Func == "" {
		return errors.New("it has no func_name")
	}
	if n.Func == "__copy" {
		return errors.New("__copy, a copy between devices, is not supported")
	}

	for _, a := range []struct {
		name string
		want int
	}{{"num_inputs", len(n.Inputs)}, {"num_outputs", outputs}} {
		text, _ := attrs[a.name].(string)
		if got, err := strconv.Atoi(text); err != nil || got != a.want {
			return fmt.Errorf("%s is %q, but it has %d", a.name, text, a.want)
		}
	}

	flat, _ := attrs["flatten_data"].(string)
	n.Flatten = flat != "" && flat != "0"

	if n.IsNop() && len(n.Inputs) == 0 {
		return errors.New("a __nop node has no input")
	}
	return nil
}

// entry converts [node, output] to an entry's number; the node must be one of the first limit nodes.
func (g *Graph) entry(e rawEntry, limit int) (int, error) {
	if len(e) != 2 && len(e) != 3 {
		return 0, fmt.Errorf("%.40v is not an entry", []int(e))
	}

	// Earlier nodes only, so that there is no cycle.
	if e[0] < 0 || e[0] >= limit {
		return 0, fmt.Errorf("it uses node %d, which does not come before it", e[0])
	}

	from, to := g.Entries(e[0])
	if e[1] < 0 || e[1] >= to-from {
		return 0, fmt.Errorf("it uses output %d of node %d, which has %d", e[1], e[0], to-from)
	}
	return from + e[1], nil
}

// checkArgs returns an error unless the arguments are exactly the nodes without a function, each once.
func (g *Graph) checkArgs() error {
	seen, names := map[int]bool{}, map[string]bool{}

	for _, n := range g.Args {
		if n < 0 || n >= len(g.Nodes) || g.Nodes[n].Func != "" || seen[n] {
			return fmt.Errorf("arg_nodes: %d is not an argument, or occurs twice", n)
		}
		if names[g.Nodes[n].Name] {
			return fmt.Errorf("two arguments are called %q", g.Nodes[n].Name)
		}
		seen[n], names[g.Nodes[n].Name] = true, true
	}

	for i, n := range g.Nodes {
		if n.Func == "" && !seen[i] {
			return fmt.Errorf("node %d %q has no function and is not in arg_nodes", i, n.Name)
		}
	}
	return nil
}
