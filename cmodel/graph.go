// This file turns a graph and its parameters into tables.

package cmodel

import (
	"slices"

	"github.com/boardsmith/boardsmith/internal/modelgraph"
	"github.com/boardsmith/boardsmith/internal/paramblob"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/ndarray"
)

// maxEntries limits the tensors of a graph, because planning them takes time by the square of their number: this many
// take one to two seconds.
const maxEntries = 8192

// A graphCode holds the tables of a graph.
type graphCode struct {
	Params    []param
	Tensors   []graphTensor // in RAM: those of inputs and outputs, then Arena's
	Arena     []graphTensor // those that lie in the workspace
	Consts    []graphTensor // in flash: those of parameters
	Calls     []call
	Functions []string // of the calls, each once
	Copies    []copied
	MostArgs  int
	Bytes     int64 // of the workspace
	AtOnce    int64 // most bytes of it that are in use at once
	TVM       int64 // bytes of the same tensors by TVM's own plan, which shares memory by storage ids
	Data      int64 // bytes of the parameters
}

// A param is a parameter of the graph.
type param struct {
	Name  string
	Array *ndarray.Array
	Index int
}

// A graphTensor is a DLTensor of the tables.
type graphTensor struct {
	mlf.Tensor
	Bound  argument // input or output
	Offset int64    // in the workspace, of those that are not bound
	Param  int      // -1 if it is none
	Place  int      // in Tensors, or in Consts
}

type call struct {
	Func  string
	Args  []graphTensor
	First int // its first argument in the table of all

	MemoryAt, MemoryBytes int64 // of TVMBackendAllocWorkspace, in the workspace
}

// A copied output is no operator's own: an input, a parameter, or another output once more.
type copied struct {
	Output int
	From   graphTensor
}

// A graphReader derives the tables. Entries of nodes that only reshape are the memory of their input: its root.
type graphReader struct {
	*model
	g      *modelgraph.Graph
	root   []int
	bound  map[int]argument // root → input or output
	param  map[int]int      // root → parameter
	buffer map[int]int      // root → index in buffers

	buffers []buffer
	memory  map[int]int // node → index in buffers, of its operator's memory
}

func (g *model) readGraph() error {
	parsed, err := modelgraph.Parse(g.M.Graph)
	if err != nil {
		return g.fault("", "%v", err)
	}
	entries := parsed.Rows[len(parsed.Rows)-1]
	if entries > maxEntries {
		return g.fault("", "its graph has %d tensors, more than %d", entries, maxEntries)
	}

	r := &graphReader{
		model: g, g: parsed, root: make([]int, entries),
		bound: map[int]argument{}, param: map[int]int{}, buffer: map[int]int{}, memory: map[int]int{},
	}

	g.Entry, g.Graph = entryGraph, &graphCode{}
	if err := r.readArgs(); err != nil {
		return err
	}
	if err := r.readRoots(); err != nil {
		return err
	}

	r.readOutputs()
	if err := r.planArena(); err != nil {
		return err
	}
	r.makeTables()
	return nil
}

// readArgs binds the graph's arguments to the model's inputs, and reads its parameters.
func (r *graphReader) readArgs() error {
	var params []ndarray.Named
	if len(r.M.Params) > 0 {
		var err error
		if params, err = paramblob.Parse(r.M.Params); err != nil {
			return r.fault("", "%v", err)
		}
	}

	nodes := map[string]int{}
	for _, n := range r.g.Args {
		entry, name := r.g.Rows[n], r.g.Nodes[n].Name
		nodes[name] = entry
		if i := slices.IndexFunc(r.Inputs, func(t tensor) bool { return t.Name == name }); i >= 0 {
			r.bound[entry] = inputArg(i)
		}
	}

	for _, p := range params { // in the blob's order, which is TVMSetParameters' too
		entry, ok := nodes[p.Name]
		if !ok {
			return r.fault("", "its graph has no argument for parameter %q", p.Name)
		}
		t := mlf.Tensor{Name: p.Name, DType: r.g.DTypes[entry], Shape: r.g.Shapes[entry]}
		if t.DType != p.DType || !slices.Equal(t.Shape, p.Shape) {
			return r.fault("", "parameter %q is %v %s, in the graph %v", p.Name, p.DType,
				ndarray.ShapeString(p.Shape), t)
		}

		r.param[entry] = len(r.Graph.Params)
		r.Graph.Params = append(r.Graph.Params, param{p.Name, p.Array, len(r.Graph.Params)})
		r.Graph.Data += int64(len(p.Data))
	}

	for name, entry := range nodes {
		_, isParam := r.param[entry]
		if _, isInput := r.bound[entry]; isInput == isParam {
			return r.fault("", "argument %q of its graph is not either an input or a parameter", name)
		}
	}
	return nil
}

// readRoots finds the memory of each entry.
func (r *graphReader) readRoots() error {
	for i, n := range r.g.Nodes {
		from, to := r.g.Entries(i)
		for e := from; e < to; e++ {
			r.root[e] = e
		}

		switch {
		case n.Flatten:
			return r.fault("export it with TVM 0.9 or later", "operator %s takes every tensor as one-dimensional", n.Func)
		case n.IsNop() && (len(n.Inputs) != 1 || to != from+1):
			return r.fault("", "node %q reshapes %d tensors to %d", n.Name, len(n.Inputs), to-from)
		case n.IsNop():
			r.root[from] = r.root[n.Inputs[0]]
		}
	}
	return nil
}

// readOutputs binds what operators compute as outputs, and lists outputs that must be copied.
func (r *graphReader) readOutputs() {
	for i, head := range r.g.Heads {
		root := r.root[head]
		_, isBound := r.bound[root]
		_, isParam := r.param[root]
		if isBound || isParam {
			r.Graph.Copies = append(r.Graph.Copies, copied{Output: i, From: graphTensor{Place: head}})
			continue
		}
		r.bound[root] = outputArg(i)
	}
}

// planArena plans the memory of all other entries, and of what operators allocate.
func (r *graphReader) planArena() error {
	storage := map[int]int64{}

	use := func(entry, step int) {
		root := r.root[entry]
		_, isBound := r.bound[root]
		if _, isParam := r.param[root]; isBound || isParam {
			return
		}

		i, ok := r.buffer[root]
		if !ok {
			i = len(r.buffers)
			r.buffer[root] = i
			r.buffers = append(r.buffers, buffer{first: step})
		}

		bytes := r.g.Bytes(entry)
		r.buffers[i].last = step
		r.buffers[i].bytes = max(r.buffers[i].bytes, bytes)

		// TVM's own plan, to compare with.
		id := r.g.Storage[entry]
		storage[id] = max(storage[id], bytes)
	}

	operators, err := r.operatorPeaks()
	if err != nil {
		return err
	}
	for i, n := range r.g.Nodes {
		if n.Func == "" {
			continue
		}

		// Inputs and outputs must not overlap while the operator runs.
		from, to := r.g.Entries(i)
		for e := from; e < to; e++ {
			use(e, i)
		}
		for _, e := range n.Inputs {
			use(e, i)
		}

		if bytes := operators[n.Func]; bytes > 0 {
			r.memory[i] = len(r.buffers)
			r.buffers = append(r.buffers, buffer{bytes: bytes, first: i, last: i})
		}
	}

	for _, bytes := range storage {
		r.Graph.TVM += aligned(bytes)
	}
	if len(r.buffers) > 0 { // tensors without bytes have addresses, too
		r.Graph.Bytes = max(alignment, plan(r.buffers))
	}

	r.Graph.AtOnce = atOnce(r.buffers)
	if r.Graph.Bytes > 0 {
		r.Workspaces = append(r.Workspaces, workspace{Name: "arena", Bytes: r.Graph.Bytes})
	}
	return nil
}

// makeTables fills in tensors and calls.
func (r *graphReader) makeTables() {
	used := r.usedEntries()
	tensors := r.entryTensors(used)
	g := r.Graph

	list := func(to *[]graphTensor, before int, belongs func(graphTensor) bool) {
		for e := range tensors {
			if t := &tensors[e]; used[e] && belongs(*t) {
				t.Place = before + len(*to)
				*to = append(*to, *t)
			}
		}
	}

	list(&g.Tensors, 0, func(t graphTensor) bool { return t.Bound != noArg() })
	list(&g.Consts, 0, func(t graphTensor) bool { return t.Param >= 0 })
	// Tensors and Arena are one table in C.
	list(&g.Arena, len(g.Tensors), func(t graphTensor) bool { return t.Bound == noArg() && t.Param < 0 })
	r.makeCalls(tensors)

	// Until now, From.Place was the number of an entry.
	for i := range g.Copies {
		g.Copies[i].From = tensors[g.Copies[i].From.Place]
	}
}

// isCall reports whether a node calls a function.
func isCall(n modelgraph.Node) bool { return n.Func != "" && !n.IsNop() }

// usedEntries returns, for each entry of the graph, whether a call or a copy uses it.
func (r *graphReader) usedEntries() []bool {
	used := make([]bool, len(r.root))
	for i, n := range r.g.Nodes {
		if !isCall(n) {
			continue
		}
		for _, e := range n.Inputs {
			used[e] = true
		}
		for e, to := r.g.Entries(i); e < to; e++ {
			used[e] = true
		}
	}

	for _, c := range r.Graph.Copies {
		used[c.From.Place] = true
	}
	return used
}

// entryTensors returns the tensor of each entry, without its place in a table.
func (r *graphReader) entryTensors(used []bool) []graphTensor {
	tensors := make([]graphTensor, len(r.root))
	for e := range tensors {
		root := r.root[e]
		tensor := mlf.Tensor{DType: r.g.DTypes[e], Shape: r.g.Shapes[e]}
		t := graphTensor{Tensor: tensor, Bound: noArg(), Param: -1}
		arg, isBound := r.bound[root]
		p, isParam := r.param[root]

		switch {
		case isBound:
			t.Bound = arg
		case isParam:
			t.Param = p
		case used[e]:
			t.Offset = r.buffers[r.buffer[root]].offset
		}
		tensors[e] = t
	}
	return tensors
}

// makeCalls sets the graph's calls and functions.
func (r *graphReader) makeCalls(tensors []graphTensor) {
	g := r.Graph
	first := 0
	listed := map[string]bool{}

	for i, n := range r.g.Nodes {
		if !isCall(n) {
			continue
		}

		c := call{Func: n.Func, First: first}
		from, to := r.g.Entries(i)
		for _, e := range n.Inputs {
			c.Args = append(c.Args, tensors[e])
		}
		c.Args = append(c.Args, tensors[from:to]...)
		if b, ok := r.memory[i]; ok {
			c.MemoryAt, c.MemoryBytes = r.buffers[b].offset, r.buffers[b].bytes
		}

		first += len(c.Args)
		g.MostArgs = max(g.MostArgs, len(c.Args))
		if !listed[n.Func] {
			listed[n.Func] = true
			g.Functions = append(g.Functions, n.Func)
		}
		g.Calls = append(g.Calls, c)
	}
}
