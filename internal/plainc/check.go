// This file checks a description and derives the model from it.

package plainc

import (
	"fmt"
	"math"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/boardsmith/boardsmith/internal/spelling"
	"github.com/boardsmith/boardsmith/ndarray"
)

var (
	nameRE       = regexp.MustCompile(`^[a-z][a-z0-9_]{0,63}$`)
	identifierRE = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,63}$`)
	typeRE       = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*( [A-Za-z_][A-Za-z0-9_]*)*( ?\*)*$`)
	defineRE     = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*(=[ -~]*)?$`)
	memberRE     = regexp.MustCompile(`^(\[(0|[1-9]\d{0,2})\]|[A-Za-z_]\w*)(\.[A-Za-z_]\w*|\[(0|[1-9]\d{0,5})\])*$`)
	licenseRE    = regexp.MustCompile(`^[\w.+() -]+$`)
	includeRE    = regexp.MustCompile(`^[\w./+-]+$`)
)

// The ways to pass a value.
const (
	byPointer = "pointer"
	byArray   = "array"
	byFlat    = "flat"
	byValue   = "value"
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
func (v value) name() string {
	for _, name := range []string{v.Input, v.Output, v.Arena, v.State} {
		if name != "" {
			return name
		}
	}
	return ""
}

// check returns the model. Faults are in r.faults.
func (r *reader) check() *model {
	m := &model{Description: &r.Description, file: path.Base(r.file), lines: map[string]int{}}
	if !nameRE.MatchString(r.Name) {
		const text = "name %q: it consists of lower-case letters, digits and underscores, and begins with a letter"
		r.fault(r.lines["name"], text, r.Name)
	}
	if strings.HasPrefix(r.Name, "boardsmith_") {
		r.fault(r.lines["name"], "name %q: names that begin with boardsmith_ are those of generated files", r.Name)
	}

	r.checkDefines()
	if r.License != "" && !licenseRE.MatchString(r.License) {
		r.fault(r.lines["license"], "license: %q is not an SPDX expression", r.License)
	}

	r.collect(m)
	r.addExamples(m)

	// First init: an arena that it gets is a state of the run.
	if r.Init != nil {
		m.init = r.call(m, "init.", r.Init.Function, r.Init.Arguments, r.Init.Returns)
	}
	m.run = r.call(m, "", r.Function, r.Arguments, r.Returns)

	r.checkTensors(m)
	return m
}

// checkDefines checks the macros: each is one line of C, and has a name of its own.
func (r *reader) checkDefines() {
	seen := map[string]bool{}
	for i, d := range r.Defines {
		line := r.lines[fmt.Sprintf("defines[%d]", i)]
		name, _, _ := strings.Cut(d, "=")
		switch {
		case !defineRE.MatchString(d) || strings.HasSuffix(d, `\`): // the macro would go on in the next line
			r.fault(line, "defines: %q is not a macro, as in N or N=2", d)
		case seen[name]:
			r.fault(line, "defines: %s is given twice", name)
		}
		seen[name] = true
	}
}

// call checks one of the two functions. at is "" or "init.".
func (r *reader) call(m *model, at, function string, arguments []Argument, returns Returns) call {
	c := call{function: function, returns: returns, line: r.lines[at+"function"], lineOf: r.lines[at+"returns"]}
	switch {
	case !identifierRE.MatchString(function):
		r.fault(c.line, "%sfunction: %q is not the name of a C function", at, function)
	case function == "main" && !strings.Contains("\n"+strings.Join(r.Defines, "\n"), "\nmain="):
		r.fault(c.line, "%sfunction: the program has a function main of its own: define main=%s_main, which renames it", at,
			r.Name)
	}

	for i, a := range arguments {
		c.arguments = append(c.arguments, r.argument(m, at, i, a))
	}
	r.returned(m, at, &c)
	return c
}

// argument checks argument i of a function.
func (r *reader) argument(m *model, at string, i int, a Argument) argument {
	item := fmt.Sprintf("%sarguments[%d]", at, i)
	v := value{Value: a.Value, line: r.lines[item], number: i + 1}
	v.label = fmt.Sprintf("%sargument %d", strings.Replace(at, ".", " ", 1), i+1)

	if a.Struct == "" {
		if len(a.Members) > 0 {
			r.fault(v.line, "%s: members without a struct: name the struct's type in C", v.label)
		}
		return argument{value: r.value(m, at, v, byPointer, byArray, byValue)}
	}

	v.label += " (" + a.Struct + ")"
	arg := argument{value: v, structure: a.Struct}
	switch {
	case !reflect.DeepEqual(a.Value, Value{Pass: a.Pass}):
		r.fault(v.line, "%s: a struct has members, and nothing but pass beside them", v.label)
	case !typeRE.MatchString(a.Struct):
		r.fault(v.line, "%s: struct is not the name of a type in C", v.label)
	case len(a.Members) == 0:
		r.fault(v.line, "%s: a struct without members", v.label)
	case isElement(a.Members[0].Member) && a.Pass != "":
		r.fault(v.line, "%s: pass: an array of structs is passed by pointer", v.label)
	case !slices.Contains([]string{"", "pointer", byValue}, a.Pass):
		r.fault(v.line, "%s: pass %q: a struct is passed by pointer or value", v.label, a.Pass)
	}

	for k, member := range a.Members {
		line := r.lines[fmt.Sprintf("%s.members[%d]", item, k)]
		of := value{
			Value: member.Value, line: line, member: member.Member, number: i + 1,
			label: fmt.Sprintf("%s, member %s", v.label, member.Member),
		}
		switch {
		case !memberRE.MatchString(member.Member) || isElement(member.Member) != isElement(a.Members[0].Member):
			r.fault(of.line, "%s, member %d: %q is not the name of a member", v.label, k+1, member.Member)
		case slices.ContainsFunc(a.Members[:k], func(other Member) bool { return other.Member == member.Member }):
			r.fault(of.line, "%s: this member is given twice", of.label)
		}
		arg.members = append(arg.members, r.value(m, at, of, byPointer, byArray, byFlat, byValue))
	}
	return arg
}

// isElement reports whether a member is one of an array of structs, or in one.
func isElement(member string) bool { return strings.HasPrefix(member, "[") }

func kinds(v Value) (n int) {
	for _, name := range []string{v.Input, v.Output, v.Arena, v.State, v.Expression} {
		if name != "" {
			n++
		}
	}
	return n
}

// value checks a value, which may be passed in some ways.
func (r *reader) value(m *model, at string, v value, ways ...string) value {
	if n := kinds(v.Value); n != 1 {
		r.fault(v.line, "%s: it must be one of input, output, arena, state, struct and value; it has %d of them", v.label,
			n)
		return v
	}

	if v.Pass != "" && !slices.Contains(ways, v.Pass) {
		r.fault(v.line, "%s: pass %q: choose one of %s", v.label, v.Pass, strings.Join(ways, ", "))
	}
	if name := v.name(); name != "" {
		v.label += ", " + name
		if !identifierRE.MatchString(name) {
			r.fault(v.line, "%s: a name consists of letters, digits and underscores, and begins with no digit", v.label)
		}
	}

	m.lines[v.name()] = v.line
	if v.CType != "" && !typeRE.MatchString(v.CType) {
		r.fault(v.line, "%s: ctype %q is not the name of a type in C", v.label, v.CType)
	}
	if v.Arena == "" && (v.Bytes != 0 || v.Align != 0) {
		r.fault(v.line, "%s: bytes and align are for an arena", v.label)
	}

	switch {
	case v.Input != "" || v.Output != "":
		return r.tensor(m, at, v)
	case v.DType != "" || v.Shape != nil || v.Scale != nil || v.ZeroPoint != nil:
		r.fault(v.line, "%s: dtype, shape, scale and zero_point are for inputs and outputs", v.label)
	case v.Arena != "":
		r.arena(m, at, v)
	case v.State != "":
		r.state(m, v)
	case v.Expression == unknown:
		r.fault(v.line, "%s: replace the question mark", v.label)
	case v.Expression != "":
		// A comment, the end of a statement or of a line would change the call around it.
		if strings.ContainsFunc(v.Expression, func(c rune) bool { return c < ' ' || c > '~' }) ||
			strings.ContainsAny(v.Expression, `;#\`) || strings.Contains(v.Expression, "//") ||
			strings.Contains(v.Expression, "/*") {
			r.fault(v.line, "%s: value %q is not an expression in one line of C", v.label, v.Expression)
		}
		if v.Pass != "" || v.CType != "" {
			r.fault(v.line, "%s: a value is passed as it is, without pass and ctype", v.label)
		}
	}
	return v
}

// tensor checks an input or output and adds it to the model.
func (r *reader) tensor(m *model, at string, v value) value {
	if at != "" {
		r.fault(v.line, "%s: init has no inputs and outputs", v.label)
	}

	d, ok := r.dtype(v.line, v.label, v.DType)
	if !ok {
		return v
	}
	if v.Shape == nil {
		r.fault(v.line, "%s: no shape; [] is the shape of a scalar", v.label)
		return v
	}
	for _, n := range v.Shape {
		if n < 1 {
			r.fault(v.line, "%s: shape %s: a dimension is at least 1", v.label, ndarray.ShapeString(v.Shape))
			return v
		}
	}

	n, err := ndarray.Bytes(d, v.Shape)
	if err != nil {
		r.fault(v.line, "%s: %w", v.label, err)
		return v
	}

	v.dims = v.Shape
	if v.element = v.CType; v.element == "" {
		v.element = Elements[v.DType]
	}

	scale, zero := r.quantization(v, d)
	switch t := (tensor{v.name(), d, v.Shape, n, scale, zero}); {
	case v.Pass == byArray && len(v.Shape) == 0 || v.Pass == byFlat && len(v.Shape) == 0:
		r.fault(v.line, "%s: a scalar is passed by pointer or value", v.label)
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

// quantization checks the scale and the zero point of a tensor.
func (r *reader) quantization(v value, d ndarray.DType) (scale float64, zero int64) {
	if v.ZeroPoint != nil {
		zero = *v.ZeroPoint
	}

	low, high := d.Range()
	switch {
	case v.Scale == nil && v.ZeroPoint == nil:
	case v.Scale == nil:
		r.fault(v.line, "%s: zero_point without a scale", v.label)
	case low == high:
		r.fault(v.line, "%s: scale and zero_point are for integers of at most 32 bits", v.label)
	case !(*v.Scale > 0) || math.IsInf(*v.Scale, 0):
		r.fault(v.line, "%s: scale %v is not a positive number", v.label, *v.Scale)
	case zero < low || zero > high:
		r.fault(v.line, "%s: zero_point %d is no %v", v.label, zero, d)
	default:
		scale = *v.Scale
	}
	return scale, zero
}

// Elements are the types in C of the elements of tensors.
var Elements = map[string]string{
	"float32": "float", "float64": "double", "int8": "int8_t", "int16": "int16_t", "int32": "int32_t", "int64": "int64_t",
	"uint8": "uint8_t", "uint16": "uint16_t", "uint32": "uint32_t", "uint64": "uint64_t",
}

func (r *reader) dtype(line int, label, name string) (ndarray.DType, bool) {
	if Elements[name] == "" {
		const text = "%s: dtype %q: choose one of float32, float64, and int or uint with 8, 16, 32 or 64; " +
			"of bool, uint8 with the ctype _Bool"
		r.fault(line, text, label, name)
		return ndarray.DType{}, false
	}

	d, err := ndarray.ParseDType(name)
	if err != nil {
		r.fault(line, "%s: %w", label, err)
	}
	return d, err == nil
}

// arena checks an arena. One that init gets is kept between runs, so that it is a variable; others are the caller's.
func (r *reader) arena(m *model, at string, v value) {
	align := max(v.Align, defaultAlign)
	switch {
	case v.Pass != "" || v.CType != "":
		r.fault(v.line, "%s: an arena is passed as void*, without pass and ctype", v.label)
	case v.Align < 0 || v.Align&(v.Align-1) != 0 || v.Align > 4096:
		r.fault(v.line, "%s: align %d is not a power of 2 up to 4096", v.label, v.Align)
	}

	if i := slices.IndexFunc(m.states, func(s state) bool { return s.name == v.Arena }); i >= 0 {
		if s := m.states[i]; s.ctype != "" || v.Bytes != 0 && v.Bytes != s.bytes || v.Align != 0 && align != s.align {
			r.fault(v.line, "%s: it differs from %s in line %d", v.label, v.Arena, s.line)
		}
		return
	}

	if slices.ContainsFunc(m.pools, func(p pool) bool { return p.name == v.Arena }) {
		r.fault(v.line, "%s: this arena is an argument twice", v.label)
		return
	}
	if v.Bytes < 1 || v.Bytes > 1<<30 {
		r.fault(v.line, "%s: bytes %d is not the size of an arena", v.label, v.Bytes)
		return
	}

	if at != "" {
		m.states = append(m.states, state{name: v.Arena, bytes: v.Bytes, align: align, line: v.line})
		return
	}

	// The caller aligns a pool to defaultAlign only; the call aligns it further.
	m.pools = append(m.pools, pool{name: v.Arena, size: v.Bytes, align: align, bytes: v.Bytes + align - defaultAlign})
}

func (r *reader) state(m *model, v value) {
	if v.CType == "" {
		r.fault(v.line, "%s: a state has a ctype", v.label)
		return
	}
	if v.Pass == byArray || v.Pass == byFlat {
		r.fault(v.line, "%s: a state is passed by pointer or value", v.label)
	}

	// It may be an argument of init and of the run.
	if i := slices.IndexFunc(m.states, func(s state) bool { return s.name == v.State }); i >= 0 {
		if s := m.states[i]; s.ctype != v.CType {
			r.fault(v.line, "%s: it differs from %s in line %d", v.label, v.State, s.line)
		}
		return
	}
	m.states = append(m.states, state{name: v.State, ctype: v.CType, line: v.line})
}

// returned checks what a function returns.
func (r *reader) returned(m *model, at string, c *call) {
	n := 0
	for _, has := range []bool{c.returns.Status != nil, c.returns.Output != "", c.returns.Ignored} {
		if has {
			n++
		}
	}

	label := at + "returns"
	switch {
	case n > 1 || n == 0 && c.lineOf > 0:
		r.fault(c.lineOf, "%s: it must have one of status, output and ignored", label)
	case c.returns.Output == "" && c.returns.DType != "":
		r.fault(c.lineOf, "%s: dtype without an output", label)
	case c.returns.Output == "":
	case at != "":
		r.fault(c.lineOf, "%s: init has no outputs", label)
	case !identifierRE.MatchString(c.returns.Output):
		r.fault(c.lineOf, "%s: output %q: a name consists of letters, digits and underscores", label, c.returns.Output)
	default:
		if d, ok := r.dtype(c.lineOf, label, c.returns.DType); ok {
			c.element = Elements[c.returns.DType]
			m.lines[c.returns.Output] = c.lineOf
			m.outputs = append(m.outputs, tensor{name: c.returns.Output, dtype: d, shape: []int64{}, bytes: d.Size()})
		}
	}
}

// checkTensors checks that names differ, and that there is an output.
func (r *reader) checkTensors(m *model) {
	// An output may be missing because of a fault that was reported.
	if len(m.outputs) == 0 && len(r.faults) == 0 {
		r.fault(r.lines["arguments"], "arguments: the model has no output")
	}

	seen := map[string]string{}
	check := func(kind, name string) {
		if kind != "state" && spelling.IsKeyword(name) {
			r.fault(r.lines["arguments"], "arguments: %s %s has the name of a keyword of C: choose another", kind, name)
		}

		// The macros of the C interface have these names in upper case.
		key := strings.ToLower(name)
		if other, ok := seen[key]; ok {
			r.fault(r.lines["arguments"], "arguments: %s %s and %s have one name", kind, name, other)
		}
		seen[key] = kind + " " + name
	}

	for _, t := range m.inputs {
		check("input", t.name)
	}
	for _, t := range m.outputs {
		check("output", t.name)
	}
	for _, p := range m.pools {
		check("arena", p.name)
		if other, ok := seen[strings.ToLower(p.name)+"_workspace_pool"]; ok { // in the C interface, one macro has both sizes
			r.fault(r.lines["arguments"], "arguments: %s has the name of arena %s and _workspace_pool: rename it", other, p.name)
		}
	}
	for _, s := range m.states {
		check("state", s.name)
	}
}

// isHeader reports whether a file is one that the call includes by default.
func isHeader(name string) bool { return path.Ext(name) == ".h" }
