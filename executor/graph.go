// This file is the graph executor: the host holds the graph, the device its operators and tensors (crt_abi.md §11).

package executor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/modelgraph"
	"github.com/boardsmith/boardsmith/internal/paramblob"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/ndarray"
	"github.com/boardsmith/boardsmith/rpc"
)

// A Graph runs a model operator by operator: one call per node, with its inputs and then its outputs as tensors.
type Graph struct {
	model
	graph       *modelgraph.Graph
	lib         rpc.Module
	storage     map[int]*rpc.Tensor // by storage id; nil where a linked parameter's memory is used
	entries     []*rpc.Tensor       // by entry: a view of its storage
	steps       []step
	in, out     []int        // entries of inputs and outputs
	overwritten map[int]bool // entries of arguments whose memory the model overwrites
}

// inconsistent returns the error for an archive whose parts contradict each other.
func inconsistent(format string, args ...any) error {
	return failure.New(failure.Config, "export the model again", format, args...)
}

// A step is a node that calls an operator.
type step struct {
	node string
	name string // the operator's function
	f    rpc.Function
	args []any
}

// openGraph prepares a model with a graph: it allocates the model's memory on the device and sends the parameters.
func openGraph(ctx context.Context, s *rpc.Session, lib rpc.Module, m *mlf.Model) (Executor, error) {
	parsed, err := modelgraph.Parse(m.Graph)
	if err != nil {
		return nil, err
	}

	base, err := newModel(ctx, s, m)
	if err != nil {
		return nil, err
	}

	g := &Graph{model: base, graph: parsed, storage: map[int]*rpc.Tensor{}, overwritten: map[int]bool{}, lib: lib}
	if err := g.prepare(ctx, s, m); err != nil {
		_ = g.Close(context.WithoutCancel(ctx)) // report the first error only
		return nil, err
	}
	return g, nil
}

func (g *Graph) prepare(ctx context.Context, s *rpc.Session, m *mlf.Model) (err error) {
	// An archive may lack parameters: the firmware then has them linked.
	params, err := paramblob.Parse(m.Params)
	if m.Params != nil && err != nil {
		return err
	}

	linked, err := g.linkedParams(ctx, params)
	if err != nil {
		return err
	}

	// Each step uses what an earlier one has set: entries, which of them the model overwrites, inputs.
	if err := g.allocate(ctx, s, linked); err != nil {
		return err
	}
	if err := g.findOperators(ctx); err != nil {
		return err
	}
	if err := g.bindTensors(linked); err != nil {
		return err
	}
	return g.load(ctx, params)
}

// argument returns the entry of the graph's argument of that name, or -1.
func (g *Graph) argument(name string) int {
	for _, n := range g.graph.Args {
		if g.graph.Nodes[n].Name == name {
			return g.graph.Rows[n]
		}
	}
	return -1
}

// linkedParams looks up parameters in the device's flash, by storage id. It requests only arguments that are neither
// inputs nor in the archive, and only if the firmware has linked parameters.
func (g *Graph) linkedParams(ctx context.Context, params []ndarray.Named) (map[int]rpc.Handle, error) {
	handles := map[int]rpc.Handle{}
	lookup, err := g.lib.Function(ctx, "_lookup_linked_param")
	if errors.Is(err, rpc.ErrNotFound) {
		return handles, nil
	}
	if err != nil {
		return nil, err
	}

	for _, n := range g.graph.Args {
		name, id := g.graph.Nodes[n].Name, g.graph.Storage[g.graph.Rows[n]]
		if slices.ContainsFunc(params, func(p ndarray.Named) bool { return p.Name == name }) {
			continue
		}

		result, err := lookup.Call(ctx, id)
		if err != nil {
			return nil, fmt.Errorf("linked parameter %d: %w", id, err)
		}

		if h, ok := result.(rpc.Handle); ok && h != 0 {
			handles[id] = h
		}
	}

	return handles, nil
}

// allocate reserves device memory for each storage id, as large as its largest entry, and makes each entry a view
// of it.
func (g *Graph) allocate(ctx context.Context, s *rpc.Session, linked map[int]rpc.Handle) error {
	sizes := map[int]int64{}
	for e, id := range g.graph.Storage {
		sizes[id] = max(sizes[id], g.graph.Bytes(e), 1)
	}

	g.entries = make([]*rpc.Tensor, len(g.graph.Storage))
	for e, id := range g.graph.Storage {
		if h, ok := linked[id]; ok {
			t, err := s.TensorAt(ctx, h, g.graph.DTypes[e], g.graph.Shapes[e])
			if err != nil {
				return fmt.Errorf("linked parameter %d: %w", id, err)
			}
			g.entries[e] = t
			g.contents.written = append(g.contents.written, t)
			continue
		}

		if g.storage[id] == nil {
			t, err := s.Empty(ctx, ndarray.DType{Code: ndarray.UInt, Bits: 8, Lanes: 1}, []int64{sizes[id]})
			if err != nil {
				return fmt.Errorf("%d bytes for storage %d: %w", sizes[id], id, err)
			}
			g.storage[id] = t
		}

		view, err := g.storage[id].View(0, g.graph.DTypes[e], g.graph.Shapes[e])
		if err != nil {
			return fmt.Errorf("entry %d: %w", e, err)
		}
		g.entries[e] = view
	}

	return nil
}

// findOperators looks up each operator and collects its arguments.
func (g *Graph) findOperators(ctx context.Context) error {
	functions := map[string]rpc.Function{}
	written := map[int]bool{}
	for n, node := range g.graph.Nodes {
		from, to := g.graph.Entries(n)

		// A nop only reshapes: its output is the memory of its input, and nothing is called.
		if node.IsNop() {
			if err := g.checkNop(node, from, to); err != nil {
				return err
			}
			continue
		}
		if node.Func == "" {
			continue
		}

		f, ok := functions[node.Func]
		if !ok {
			var err error
			if f, err = g.lib.Function(ctx, node.Func); err != nil {
				return fmt.Errorf("node %q: %w", node.Name, err)
			}
			functions[node.Func] = f
		}

		st := step{node: node.Name, name: node.Func, f: f}
		for _, e := range append(slices.Clone(node.Inputs), between(from, to)...) {
			arg, err := g.operand(e, node.Flatten)
			if err != nil {
				return fmt.Errorf("node %q: %w", node.Name, err)
			}
			st.args = append(st.args, arg)
		}

		for _, e := range between(from, to) {
			written[g.graph.Storage[e]] = true
		}
		g.steps = append(g.steps, st)
	}

	// An argument in memory that an operator writes is sent before each run.
	args := map[int]bool{}
	for _, n := range g.graph.Args {
		e := g.graph.Rows[n]
		args[e], g.overwritten[e] = true, written[g.graph.Storage[e]]
	}

	// All other entries are written by operators.
	for e, t := range g.entries {
		if !args[e] {
			g.contents.written = append(g.contents.written, t)
		}
	}

	return nil
}

func between(from, to int) (entries []int) {
	for e := from; e < to; e++ {
		entries = append(entries, e)
	}
	return entries
}

// checkNop returns an error unless the node's outputs share the memory of its inputs.
func (g *Graph) checkNop(node modelgraph.Node, from, to int) error {
	for i := range to - from {
		if i >= len(node.Inputs) || g.graph.Storage[node.Inputs[i]] != g.graph.Storage[from+i] {
			return inconsistent("node %q only reshapes, but its output and input have different storage ids", node.Name)
		}
	}
	return nil
}

// operand returns the view of an entry that an operator expects.
func (g *Graph) operand(e int, flatten bool) (*rpc.Tensor, error) {
	if !flatten {
		return g.entries[e], nil
	}

	n := int64(1)
	for _, d := range g.graph.Shapes[e] {
		n *= d
	}

	t, err := g.entries[e].View(0, g.graph.DTypes[e], []int64{n})
	g.contents.written = append(g.contents.written, t)
	return t, err
}

// bindTensors finds the entries of the model's inputs and outputs. A linked parameter is not an input.
func (g *Graph) bindTensors(linked map[int]rpc.Handle) error {
	var inputs []mlf.Tensor
	for _, t := range g.inputs {
		e := g.argument(t.Name)
		if e < 0 {
			return inconsistent("its graph has no input %q", t.Name)
		}

		if _, ok := linked[g.graph.Storage[e]]; !ok {
			inputs, g.in = append(inputs, t), append(g.in, e)
		}
	}

	// The firmware has the linked ones, so nobody sets them.
	g.inputs, g.set = inputs, make([]bool, len(inputs))
	g.out = g.graph.Heads
	return nil
}

// load sends the parameters. It returns an error for an argument without a source.
func (g *Graph) load(ctx context.Context, params []ndarray.Named) error {
	sent := map[int]bool{}
	for _, p := range params {
		e := g.argument(p.Name)
		if e < 0 {
			return inconsistent("parameter %q is not in the graph", p.Name)
		}

		want := mlf.Tensor{Name: p.Name, DType: g.graph.DTypes[e], Shape: g.graph.Shapes[e]}
		if p.DType != want.DType || !slices.Equal(p.Shape, want.Shape) {
			return inconsistent("parameter %s is %v %s in the archive", want, p.DType, ndarray.ShapeString(p.Shape))
		}

		if err := g.contents.write(ctx, g.entries[e], p.Array, g.overwritten[e]); err != nil {
			return fmt.Errorf("parameter %q: %w", p.Name, err)
		}
		sent[e] = true
	}

	// A linked parameter has no storage: its memory is in the firmware.
	for _, n := range g.graph.Args {
		e := g.graph.Rows[n]
		if !sent[e] && !slices.Contains(g.in, e) && g.storage[g.graph.Storage[e]] != nil {
			return inconsistent("parameter %q is neither in the archive nor linked into the firmware", g.graph.Nodes[n].Name)
		}
	}

	return nil
}

// SetInput implements Executor.
func (g *Graph) SetInput(ctx context.Context, name string, a *ndarray.Array) error {
	i, err := g.checkInput(name, a)
	if err != nil {
		return err
	}

	e := g.in[i]
	return g.setInput(ctx, i, g.entries[e], a, g.overwritten[e])
}

// Run implements Executor.
func (g *Graph) Run(ctx context.Context) error {
	if err := g.begin(ctx); err != nil {
		return err
	}

	for _, st := range g.steps {
		if _, err := st.f.Call(ctx, st.args...); err != nil {
			return fmt.Errorf("operator %s: %w", st.name, err)
		}
	}

	g.hasOutputs = true
	return nil
}

// Output implements Executor.
func (g *Graph) Output(ctx context.Context, i int) (*ndarray.Array, error) {
	if err := g.checkOutput(i); err != nil {
		return nil, err
	}
	return fetch(ctx, g.entries[g.out[i]], g.outputs[i])
}

// An OperatorTime is the measured time of one node of a graph.
type OperatorTime struct {
	Node    string    // in the graph
	Name    string    // of the operator's function
	Samples []float64 // seconds per call
}

// Debug measures each operator by itself, in the order of the graph. All inputs must have been set. Outputs are
// undefined afterwards, until the next Run.
func (g *Graph) Debug(ctx context.Context, o rpc.TimeOptions) ([]OperatorTime, error) {
	if err := g.begin(ctx); err != nil {
		return nil, err
	}

	var times []OperatorTime
	for _, st := range g.steps {
		samples, err := g.lib.Time(ctx, st.name, o, st.args...)
		if err != nil {
			return nil, fmt.Errorf("time operator %s: %w", st.name, err)
		}
		times = append(times, OperatorTime{st.node, st.name, samples})
	}
	return times, nil
}

// Time implements Executor. A sample is the sum of all operators' samples, without the time that host and link take
// between operators.
func (g *Graph) Time(ctx context.Context, o rpc.TimeOptions) ([]float64, error) {
	times, err := g.Debug(ctx, o)
	if err != nil {
		return nil, err
	}

	var sum []float64
	for i, t := range times {
		if i == 0 {
			sum = make([]float64, len(t.Samples))
		}
		if len(t.Samples) != len(sum) {
			return nil, fmt.Errorf("operator %s returned %d samples, earlier operators %d", t.Name, len(t.Samples), len(sum))
		}

		for j, s := range t.Samples {
			sum[j] += s
		}
	}

	return sum, nil
}

// Close implements Executor.
func (g *Graph) Close(ctx context.Context) error {
	var tensors []*rpc.Tensor
	for _, id := range slices.Sorted(maps.Keys(g.storage)) {
		tensors = append(tensors, g.storage[id])
	}
	return free(ctx, tensors)
}
