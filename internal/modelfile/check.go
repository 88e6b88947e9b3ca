// This file derives the model from a description, and checks the rules between its fields.

package modelfile

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/boardsmith/boardsmith/ndarray"
)

// The ways to pass a value other than by a pointer.
const (
	byArray = "array"
	byFlat  = "flat"
	byValue = "value"
)

// defaultAlign is the alignment of a pool.
const defaultAlign = 16

// A model is a description that was checked.
type model struct {
	*Description
	file            string // the description's name
	files           []member
	inputs, outputs []tensor
	pools           []pool
	states          []state
	run, init       call
	includes        []string
	lines           map[string]int // of inputs, outputs and arenas, by their names
}

type tensor struct {
	name  string
	dtype ndarray.DType
	shape []int64
	bytes int
	scale float64 // 0: not quantized
	zero  int64
}

// A pool is an arena that the caller provides.
type pool struct {
	name        string
	size, align int64 // of the arena
	bytes       int64 // with what the alignment may take
}

// A state is a variable that is kept between runs.
type state struct {
	name, ctype  string
	bytes, align int64 // of an arena
	line         int
}

// A call is a function with its arguments.
type call struct {
	function  string
	arguments []argument
	returns   Returns
	element   string // of a returned output, in C
	line      int    // of the function
	lineOf    int    // of what it returns
}

type argument struct {
	value
	structure string // type of a struct in C; "" for others
	members   []value
}

// A value is a Value that was checked.
type value struct {
	Value
	label   string // for messages: "argument 2, output scores"
	line    int
	member  string
	element string // type of elements in C
	dims    []int64
	number  int // of the argument, from 1
}

// name returns the name of the tensor, arena or state.
func (v value) name() string { return cmp.Or(v.Input, v.Output, v.Arena, v.State) }

// check returns the model. Faults are in r.faults.
func (r *reader) check() *model {
	m := &model{Description: &r.Description, file: path.Base(r.file), lines: map[string]int{}}
	macros := map[string]bool{}
	for i, d := range r.Defines {
		name, _, _ := strings.Cut(d, "=")
		if macros[name] {
			r.fault(r.lines[fmt.Sprintf("defines[%d]", i)], "defines: %s is given twice", name)
		}
		macros[name] = true
	}

	r.collect(m)
	r.addExamples(m)

	// First init: an arena that it gets is a state of the run.
	if r.Init != nil {
		m.init = r.call(m, "init.", r.Init.Function, r.Init.Arguments, r.Init.Returns)
	}
	m.run = r.call(m, "", r.Function, r.Arguments, r.Returns)

	r.checkNames(m)
	return m
}

// call adds what one of the two functions gets and returns. at is "" or "init.".
func (r *reader) call(m *model, at, function string, arguments []Argument, returns Returns) call {
	c := call{function: function, returns: returns, line: r.lines[at+"function"], lineOf: r.lines[at+"returns"]}
	for i, a := range arguments {
		c.arguments = append(c.arguments, r.argument(m, at, i, a))
	}

	switch {
	case returns.Output == "":
	case at != "":
		r.fault(c.lineOf, "%sreturns: init has no outputs", at)
	default:
		d, _ := ndarray.ParseDType(returns.DType) // one of Elements
		c.element = Elements[returns.DType]
		m.lines[returns.Output] = c.lineOf
		m.outputs = append(m.outputs, tensor{name: returns.Output, dtype: d, shape: []int64{}, bytes: d.Size()})
	}
	return c
}

// argument adds argument i of a function.
func (r *reader) argument(m *model, at string, i int, a Argument) argument {
	item := fmt.Sprintf("%sarguments[%d]", at, i)
	v := value{Value: a.Value, line: r.lines[item], number: i + 1}
	v.label = fmt.Sprintf("%sargument %d", strings.Replace(at, ".", " ", 1), i+1)
	if a.Struct == "" {
		return argument{value: r.value(m, at, v)}
	}

	v.label += " (" + a.Struct + ")"
	arg := argument{value: v, structure: a.Struct}
	for k, member := range a.Members {
		arg.members = append(arg.members, r.value(m, at, value{
			Value: member.Value, line: r.lines[fmt.Sprintf("%s.members[%d]", item, k)], member: member.Member, number: i + 1,
			label: fmt.Sprintf("%s, member %s", v.label, member.Member),
		}))
	}
	return arg
}

// value adds a value to the model.
func (r *reader) value(m *model, at string, v value) value {
	if name := v.name(); name != "" {
		v.label += ", " + name
		m.lines[name] = v.line
	}

	switch {
	case v.Input != "" || v.Output != "":
		return r.tensor(m, at, v)
	case v.Arena != "":
		r.arena(m, at, v)
	case v.State != "":
		r.state(m, v)
	}
	return v
}

// tensor adds an input or output to the model.
func (r *reader) tensor(m *model, at string, v value) value {
	d, _ := ndarray.ParseDType(v.DType) // one of Elements
	n, err := ndarray.Bytes(d, v.Shape)
	if err != nil {
		r.fault(v.line, "%s: %w", v.label, err)
		return v
	}

	v.dims, v.element = v.Shape, cmp.Or(v.CType, Elements[v.DType])
	scale, zero := r.quantization(v, d)
	switch t := (tensor{v.name(), d, v.Shape, n, scale, zero}); {
	case at != "":
		r.fault(v.line, "%s: init has no inputs and outputs", v.label)
	case v.Pass == byValue && v.Output != "":
		r.fault(v.line, "%s: an output cannot be passed by value", v.label)
	case v.Pass == byValue && n != d.Size():
		r.fault(v.line, "%s: only a tensor of one element can be passed by value", v.label)
	case v.Input != "":
		m.inputs = append(m.inputs, t)
	default:
		m.outputs = append(m.outputs, t)
	}
	return v
}

// quantization returns the scale and the zero point of a tensor.
func (r *reader) quantization(v value, d ndarray.DType) (scale float64, zero int64) {
	if v.Scale == nil {
		return 0, 0
	}
	if v.ZeroPoint != nil {
		zero = *v.ZeroPoint
	}

	low, high := d.Range()
	switch {
	case low == high:
		r.fault(v.line, "%s: scale and zero_point are for integers of at most 32 bits", v.label)
	case *v.Scale <= 0:
		r.fault(v.line, "%s: scale %v is not a positive number", v.label, *v.Scale)
	case zero < low || zero > high:
		r.fault(v.line, "%s: zero_point %d is no %v", v.label, zero, d)
	}
	return *v.Scale, zero
}

// Elements are the types in C of the elements of tensors.
var Elements = map[string]string{
	"float32": "float", "float64": "double", "int8": "int8_t", "int16": "int16_t", "int32": "int32_t", "int64": "int64_t",
	"uint8": "uint8_t", "uint16": "uint16_t", "uint32": "uint32_t", "uint64": "uint64_t",
}

// arena adds an arena. One that init gets is kept between runs, so that it is a variable; others are the caller's.
func (r *reader) arena(m *model, at string, v value) {
	align := max(v.Align, defaultAlign)
	if i := slices.IndexFunc(m.states, func(s state) bool { return s.name == v.Arena }); i >= 0 {
		if s := m.states[i]; s.ctype != "" || v.Bytes != 0 && v.Bytes != s.bytes || v.Align != 0 && align != s.align {
			r.fault(v.line, "%s: it differs from %s in line %d", v.label, v.Arena, s.line)
		}
		return
	}

	switch {
	case v.Bytes == 0:
		r.fault(v.line, "%s: bytes are missing", v.label)
	case at != "":
		m.states = append(m.states, state{name: v.Arena, bytes: v.Bytes, align: align, line: v.line})
	default:
		// The caller aligns a pool to defaultAlign only; the call aligns it further.
		m.pools = append(m.pools, pool{name: v.Arena, size: v.Bytes, align: align, bytes: v.Bytes + align - defaultAlign})
	}
}

// state adds a state, which may be an argument of init and of the run.
func (r *reader) state(m *model, v value) {
	i := slices.IndexFunc(m.states, func(s state) bool { return s.name == v.State })
	if i < 0 {
		m.states = append(m.states, state{name: v.State, ctype: v.CType, line: v.line})
	} else if s := m.states[i]; s.ctype != v.CType {
		r.fault(v.line, "%s: it differs from %s in line %d", v.label, v.State, s.line)
	}
}

// checkNames checks that there is an output, and that no two names are one in the C interface, whose macros are in
// upper case. That of an arena's size ends in _WORKSPACE_POOL_SIZE.
func (r *reader) checkNames(m *model) {
	// An output may be missing because of a fault that was reported.
	if len(m.outputs) == 0 && len(r.faults) == 0 {
		r.fault(r.lines["arguments"], "arguments: the model has no output")
	}

	seen := map[string]string{}
	add := func(name, of string) {
		name = strings.ToLower(name)
		if other := seen[name]; other != "" {
			r.fault(r.lines["arguments"], "arguments: %s and %s have one name: rename one of them", other, of)
		}
		seen[name] = of
	}

	for _, t := range m.inputs {
		add(t.name, "input "+t.name)
	}
	for _, t := range m.outputs {
		add(t.name, "output "+t.name)
	}
	for _, p := range m.pools {
		add(p.name, "arena "+p.name)
		add(p.name+"_workspace_pool", "the size of arena "+p.name)
	}
	for _, s := range m.states {
		add(s.name, "state "+s.name)
	}
}
