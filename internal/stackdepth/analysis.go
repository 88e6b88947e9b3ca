// This file combines functions into chains of calls and finds the deepest.

package stackdepth

import (
	"debug/elf"
	"fmt"
	"slices"
	"strings"
)

// An analysis finds the deepest chains of calls.
type analysis struct {
	*machineCode
	calls    Calls
	port     []*function            // callees through pointers in main.c and platform.c
	send     []*function            // callees through pointers in the RPC server
	packed   []*function            // callees of the runtime: all functions that the host can call
	metadata []*function            // those of packed that describe a model
	taken    []*function            // possible callees of pointers in code that is modified or not ours
	byCaller map[string][]*function // callees of pointers in single functions
	excluded []*function            // not followed
	depths   map[*function]*depth
	path     []*function // the current path from the entry
	unsure   map[string]bool
}

// A depth is the depth of the stack in a function and its callees.
type depth struct {
	whole    chain // without functions called through the runtime
	dispatch chain // up to a call through the runtime; bytes is -1 if there is none
}

// A chain is a chain of calls.
type chain struct {
	bytes int64
	first *function
	frame int64 // frame of first in this chain; 0 if it calls by a jump
	next  *chain
}

func (c chain) deeper(d chain) chain {
	if d.bytes > c.bytes {
		return d
	}
	return c
}

// newAnalysis lists the possible callees of pointers, by caller.
func newAnalysis(m *machineCode, of Program) *analysis {
	a := &analysis{
		machineCode: m, calls: of.Calls, port: m.callees(of.Calls.Port), send: m.callees(of.Calls.Send),
		depths: map[*function]*depth{}, unsure: map[string]bool{},
	}

	operators := m.named(of.Operators...)
	a.packed = slices.Concat(m.registered("boardsmith_builtins"), m.registered("boardsmith_functions"), operators,
		m.named(of.Adapters...), m.inTables(Runtime, Executor))

	// The runtime's modules take the addresses of their functions in code, not in tables.
	a.packed = append(a.packed, m.takenFrom(slices.Concat(m.named(a.calls.Thread...), a.packed, a.port, a.send),
		Runtime, Executor)...)
	a.packed = unique(a.packed)

	for _, f := range a.packed {
		if strings.HasSuffix(f.name, "_get_c_metadata") {
			a.metadata = append(a.metadata, f)
		}
	}

	a.byCaller = map[string][]*function{
		parallelLaunch: nil, // resolved by its caller: see depth
		graphRun:       operators,
	}

	for name, to := range a.calls.Pointers {
		a.byCaller[name] = m.callees(to)
	}

	// A pointer in other code may lead to any function whose address such code takes.
	for _, f := range m.takenElsewhere() {
		if !slices.Contains(a.packed, f) { // those in packed are called by the runtime
			a.taken = append(a.taken, f)
		}
	}

	a.taken = unique(slices.Concat(a.taken, a.port)) // a modified template still calls its port
	return a
}

const (
	parallelLaunch  = "TVMBackendParallelLaunch" // calls a function of its caller
	graphRun        = "boardsmith_graph_run"     // calls the model's operators, in compiled graphs
	createsExecutor = "boardsmith_aot_create"    // calls only descriptions of the model through the runtime
)

// depth returns the depth of the stack from a function on. It computes each function once.
func (a *analysis) depth(f *function) *depth {
	if d := a.depths[f]; d != nil {
		return d
	}
	if slices.Contains(a.path, f) {
		a.unsure[a.recursion(f)] = true
		return &depth{chain{0, nil, 0, nil}, chain{-1, nil, 0, nil}}
	}

	a.path = append(a.path, f)
	if f.dynamic {
		a.unsure[f.name+" has a frame whose size depends on data"] = true
	}
	if f.flow.states == nil {
		a.unsure[f.name+" has code that cannot be decoded"] = true
	}

	d := &depth{chain{f.frame, f, f.frame, nil}, chain{bytes: -1}}
	for _, addr := range f.calls {
		a.follow(d, f, addr, f.frame)
		if g := a.functionAt(a.codeAddress(addr)); g != nil && g.name == parallelLaunch {
			a.followTaken(d, f, f.frame+g.frame)
		}
	}

	// A jump in place of a return leaves no frame of f.
	for _, addr := range f.tails {
		a.follow(d, f, addr, 0)
	}

	if f.indirect {
		a.followPointer(d, f)
	}

	a.path = a.path[:len(a.path)-1]
	a.depths[f] = d
	return d
}

// recursion describes a recursion: the functions through which f calls itself.
func (a *analysis) recursion(f *function) string {
	path := f.name + " calls itself"
	for _, g := range a.path[slices.Index(a.path, f)+1:] {
		path += " through " + g.name
	}
	return path
}

// follow adds a call of the function at an address. Assembler functions of the C library may jump to entries within
// themselves. A jump to where the firmware starts abandons the stack, so it adds nothing.
func (a *analysis) follow(d *depth, f *function, addr uint64, frame int64) {
	g := a.functionAt(a.codeAddress(addr))
	switch {
	case g != nil && g.savesForCaller(): // see addSaved
	case g == f && a.codeAddress(addr) != f.addr && f.Part == Libc:
	case g != nil && slices.Contains(a.calls.Thread, g.name), slices.Contains(a.excluded, g):
	case g != nil:
		a.add(d, f, g, frame)
	default:
		a.unsure[fmt.Sprintf("%s calls %#x, which is in no known function", f.name, addr)] = true
	}
}

// followTaken adds the functions whose addresses f computes: parallelLaunch calls one of them.
func (a *analysis) followTaken(d *depth, f *function, frame int64) {
	targets := a.takenBy(f)
	for _, g := range targets {
		a.add(d, f, g, frame)
	}
	if len(targets) == 0 {
		a.followUnknown(d, f)
	}
}

// followUnknown handles a pointer in code that is not ours: it adds every possible callee, of which the deepest counts.
func (a *analysis) followUnknown(d *depth, f *function) {
	a.unsure[f.name+" calls through a pointer"] = true
	a.addAll(d, f, slices.Concat(a.byCaller[f.name], a.taken))
}

// addAll adds calls of functions that are not on the current path.
func (a *analysis) addAll(d *depth, f *function, targets []*function) {
	for _, g := range targets {
		if !slices.Contains(a.path, g) {
			a.add(d, f, g, f.frame)
		}
	}
}

func (a *analysis) add(d *depth, f, g *function, frame int64) {
	below := a.depth(g)

	d.whole = d.whole.deeper(chain{frame + below.whole.bytes, f, frame, &below.whole})
	if below.dispatch.bytes >= 0 {
		d.dispatch = d.dispatch.deeper(chain{frame + below.dispatch.bytes, f, frame, &below.dispatch})
	}
}

// followPointer adds calls through pointers. Pointers of our own code have known callees. In an unmodified template,
// the drivers' other pointers lead to the RP2040's boot ROM and to early wait functions, which are called where the
// stack is shallow.
func (a *analysis) followPointer(d *depth, f *function) {
	targets, ok := a.byCaller[f.name]
	switch {
	case !f.Unmodified && f.name != graphRun:
		a.followUnknown(d, f)
	case ok:
		a.addAll(d, f, targets)
	case f.Part == Main:
		a.addAll(d, f, a.port)
	case f.Part == RPC:
		a.addAll(d, f, a.send)
	default:
		d.dispatch = d.dispatch.deeper(chain{f.frame, f, f.frame, nil})
	}
}

// deepest returns the deepest chain from a function on, with the functions that the host calls: each packed function
// that itself calls through the runtime occurs once (the time evaluator, an executor's run), followed by the deepest of
// all packed functions.
func (a *analysis) deepest(f *function) (int64, []string) {
	d := a.depth(f)
	bytes, names := d.whole.bytes, d.whole.names()
	if d.dispatch.bytes < 0 {
		return bytes, names
	}

	var metadata chain
	for _, g := range a.metadata {
		metadata = metadata.deeper(a.depth(g).whole)
	}

	dispatches := []chain{d.dispatch}
	for _, g := range a.packed {
		if c := a.depth(g).dispatch; c.bytes >= 0 && g.name != createsExecutor {
			dispatches = append(dispatches, c)
		}
	}

	for _, g := range a.packed {
		last := a.depth(g).whole
		if c := a.depth(g).dispatch; c.bytes >= 0 && g.name == createsExecutor {
			last = last.deeper(c.then(metadata))
		}

		n, through := last.bytes, []string(nil)
		for _, c := range dispatches {
			if c.first != g { // the chain ends in g, which occurs once
				n += c.bytes
				through = append(through, c.names()...)
			}
		}
		if n > bytes {
			bytes, names = n, append(through, last.names()...)
		}
	}

	return bytes, names
}

// then returns chain c continued by chain d.
func (c chain) then(d chain) chain {
	if c.next == nil {
		return chain{c.bytes + d.bytes, c.first, c.frame, &d}
	}
	next := c.next.then(d)
	return chain{c.bytes + d.bytes, c.first, c.frame, &next}
}

func unique(functions []*function) (distinct []*function) {
	for _, f := range functions {
		if !slices.Contains(distinct, f) {
			distinct = append(distinct, f)
		}
	}
	return distinct
}

func (c *chain) names() (all []string) {
	for ; c != nil && c.first != nil; c = c.next {
		all = append(all, fmt.Sprintf("%s %d", c.first.name, c.frame))
	}
	return all
}

// interruptFrame returns the bytes that the core pushes onto the stack of interrupted code: on Cortex-M eight words,
// with floating point 18 more, and a word for alignment (ARMv7-M ARM, B1.5.6, B1.5.7). The RISC-V port saves registers
// on the handlers' stack.
func (a *analysis) interruptFrame(code []*function) int64 {
	if a.image.Machine != elf.EM_ARM {
		return 0
	}

	// Without code that uses them, the core stores no floating-point registers.
	if slices.ContainsFunc(code, func(f *function) bool { return f.floats }) {
		return 4 * (8 + 18 + 1)
	}
	return 4 * (8 + 1)
}

// handlers returns the maximum depth of the handlers' stack and its path.
func (a *analysis) handlers() (deepest int64, path []string) {
	// All handlers but the last of a nest are interrupted, so they are not in code that masks interrupts.
	interrupted := *a
	interrupted.excluded, interrupted.depths = a.named(a.calls.Uninterrupted...), map[*function]*depth{}

	for _, nest := range a.calls.Handlers {
		var bytes int64
		var names []string
		for i, name := range nest {
			of := &interrupted
			if i == len(nest)-1 {
				of = a
			}
			for _, f := range a.named(name) {
				n, chain := of.deepest(f)
				bytes += n + a.interruptFrame(a.reach([]*function{f}, nil))
				names = append(names, chain...)
			}
		}

		if bytes > deepest {
			deepest, path = bytes, names
		}
	}
	return deepest, path
}
