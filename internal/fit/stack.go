// This file computes the maximum depth of the firmware's stacks from the machine code of the linked image.
//
// stackcode.go reads each function's frame and calls from its instructions; a test compares them with GCC's own report.
// Calls through pointers are resolved by caller, following the structure of the runtime and the template. Where the
// depth cannot be known (a frame whose size depends on data, recursion, a pointer in other code), the result is marked
// as unsure with the function and the reason. A result that is sure has resolved every call in the reached code.

package fit

import (
	"debug/elf"
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/boardsmith/boardsmith/internal/firmware"
	"github.com/boardsmith/boardsmith/mlf"
)

// Calls describe what a template's machine code does not show: which functions run on which stack, and where calls
// through pointers lead. With the zero value, no stack is computed.
type Calls struct {
	Thread []string `json:"thread,omitempty"` // functions in which the thread's stack starts
	// Each of Handlers is a nest of handlers that may be on the handlers' stack at the same time, each interrupting the
	// previous one by its priority. In the worst case a fault interrupts the last one; only its frame must fit there.
	Handlers [][]string `json:"handlers,omitempty"`
	// functions that run with interrupts masked, so that only the last of a nest can be in them
	Uninterrupted []string `json:"uninterrupted,omitempty"`
	// callees through pointers in main.c and the platform's functions
	Port     Callees            `json:"port,omitzero"`
	Send     Callees            `json:"send,omitzero"`      // callees through pointers in the RPC server
	Pointers map[string]Callees `json:"pointers,omitempty"` // callees of other functions, by the caller's name
}

// Callees are functions, by name or as entries of tables of pointers in the image.
type Callees struct {
	Functions []string         `json:"functions,omitempty"`
	In        []firmware.Place `json:"in,omitempty"`
}

// A StackUse is the worst-case depth of the stacks.
type StackUse struct {
	Need        int64    // bytes of the thread's stack, with the frame of an interrupt
	Have        int64    // bytes there are
	Path        []string // the functions of the deepest call chain, each with the bytes of its frame, main first
	Handlers    int64    // bytes of the handlers' stack, with nested handlers
	Room        int64    // bytes available for them; 0 if the image has no such stack
	HandlerPath []string // their deepest call chains, the first handler first
	// why more may be needed: functions with the reason; empty if every call in the reached code is resolved
	Unsure []string
}

// A stackWalk finds the deepest chains of calls.
type stackWalk struct {
	*program
	calls  Calls
	port   []*codeFunction            // callees through pointers in main.c and platform.c
	send   []*codeFunction            // callees through pointers in the RPC server
	packed []*codeFunction            // callees of the runtime: all functions that the host can call
	tells  []*codeFunction            // those of packed that describe a model
	taken  []*codeFunction            // possible callees of pointers in code that is not ours
	known  map[string][]*codeFunction // what certain functions do
	deep   map[*codeFunction]*stackDepth
	under  map[*codeFunction]bool // functions on the current path from the entry
	way    []*codeFunction        // the same functions, in order
	unsure map[string]bool

	without []*codeFunction // not followed
}

// A stackDepth is the depth of the stack in a function and its callees.
type stackDepth struct {
	whole chain // without functions called through the runtime
	hub   chain // up to a call through the runtime; bytes is -1 if there is none
}

// A chain is a chain of calls.
type chain struct {
	bytes int64
	first *codeFunction
	frame int64 // frame of first in this chain; 0 if it calls by a jump
	next  *chain
}

func (c chain) deeper(d chain) chain {
	if d.bytes > c.bytes {
		return d
	}
	return c
}

// newStackWalk lists the possible callees of pointers, by caller.
func newStackWalk(p *program, m *mlf.Model) *stackWalk {
	w := &stackWalk{
		program: p, deep: map[*codeFunction]*stackDepth{}, under: map[*codeFunction]bool{},
		unsure: map[string]bool{},
	}
	w.calls = p.layout.of.Calls
	w.port = p.callees(w.calls.Port)
	w.send = p.callees(w.calls.Send)
	w.packed = slices.Concat(p.registered("boardsmith_builtins"), p.registered("boardsmith_functions"),
		p.named(m.Functions...))
	if m.Header != nil {
		w.packed = append(w.packed, p.named(m.Header.Adapter("run"), m.Header.Adapter("get_c_metadata"))...)
	}
	w.packed = append(w.packed, p.tabled(partRuntime, partExecutor)...)
	w.packed = append(w.packed, p.takenFrom(slices.Concat(p.named(w.calls.Thread...), w.packed, w.port, w.send),
		partRuntime, partExecutor)...)
	w.packed = unique(w.packed)
	for _, f := range w.packed {
		if strings.HasSuffix(f.name, "_get_c_metadata") {
			w.tells = append(w.tells, f)
		}
	}
	w.known = map[string][]*codeFunction{
		parallelLaunch: nil, // resolved by its caller: see depth
		graphRun:       p.named(m.Functions...),
	}
	for name, to := range w.calls.Pointers {
		w.known[name] = p.callees(to)
	}
	for _, f := range p.takenElsewhere() {
		if !slices.Contains(w.packed, f) { // those in packed are called by the runtime
			w.taken = append(w.taken, f)
		}
	}
	w.taken = unique(slices.Concat(w.taken, w.port)) // a modified template still calls its port
	return w
}

// parallelLaunch names the function that calls a function of its caller.
const parallelLaunch = "TVMBackendParallelLaunch"

// graphRun names the function of compiled graphs that calls the model's operators. It is among the model's files.
const graphRun = "boardsmith_graph_run"

// depth returns the depth of the stack from a function on. It computes each function once.
func (w *stackWalk) depth(f *codeFunction) *stackDepth {
	if d := w.deep[f]; d != nil {
		return d
	}
	if w.under[f] {
		w.unsure[w.circle(f)] = true
		return &stackDepth{chain{0, nil, 0, nil}, chain{-1, nil, 0, nil}}
	}
	w.under[f], w.way = true, append(w.way, f)
	if f.dynamic {
		w.unsure[f.name+" has a frame whose size depends on data"] = true
	}
	if !f.decoded() {
		w.unsure[f.name+" has code that cannot be decoded"] = true
	}
	d := &stackDepth{chain{f.frame, f, f.frame, nil}, chain{bytes: -1}}
	for _, addr := range f.calls {
		w.follow(d, f, addr, f.frame)
		if g := w.function(w.codeAddress(addr)); g != nil && g.name == parallelLaunch {
			w.followRefs(d, f, f.frame+g.frame)
		}
	}
	for _, addr := range f.tails {
		w.follow(d, f, addr, 0)
	}
	if f.indirect {
		w.followPointer(d, f)
	}
	delete(w.under, f)
	w.way = w.way[:len(w.way)-1]
	w.deep[f] = d
	return d
}

// circle describes a recursion: the functions through which f calls itself.
func (w *stackWalk) circle(f *codeFunction) string {
	path := f.name + " calls itself"
	for _, g := range w.way[slices.Index(w.way, f)+1:] {
		path += " through " + g.name
	}
	return path
}

// follow adds a call of the function at an address. Assembler functions of the C library may jump to entries within
// themselves. A jump to where the firmware starts abandons the stack, so it adds nothing.
func (w *stackWalk) follow(d *stackDepth, f *codeFunction, addr uint64, frame int64) {
	g := w.function(w.codeAddress(addr))
	switch {
	case g != nil && g.savesForCaller(): // see addSaved
	case g == f && w.codeAddress(addr) != f.addr && f.part == partLibc:
	case g != nil && slices.Contains(w.calls.Thread, g.name), slices.Contains(w.without, g):
	case g != nil:
		w.add(d, f, g, frame)
	default:
		w.unsure[fmt.Sprintf("%s calls %#x, which is in no known function", f.name, addr)] = true
	}
}

// followRefs adds the functions whose addresses f computes: parallelLaunch calls one of them.
func (w *stackWalk) followRefs(d *stackDepth, f *codeFunction, frame int64) {
	found := false
	for _, ref := range f.refs {
		if g := w.at(ref); len(g) > 0 && w.isPointer(ref) {
			w.add(d, f, g[0], frame)
			found = true
		}
	}
	if !found {
		w.doubtPointer(d, f)
	}
}

// doubtPointer handles a pointer in code that is not ours: it adds every possible callee, of which the deepest counts.
func (w *stackWalk) doubtPointer(d *stackDepth, f *codeFunction) {
	w.unsure[f.name+" calls through a pointer"] = true
	w.addAll(d, f, slices.Concat(w.known[f.name], w.taken))
}

// addAll adds calls of functions that are not on the current path.
func (w *stackWalk) addAll(d *stackDepth, f *codeFunction, targets []*codeFunction) {
	for _, g := range targets {
		if !w.under[g] {
			w.add(d, f, g, f.frame)
		}
	}
}

func (w *stackWalk) add(d *stackDepth, f, g *codeFunction, frame int64) {
	below := w.depth(g)
	d.whole = d.whole.deeper(chain{frame + below.whole.bytes, f, frame, &below.whole})
	if below.hub.bytes >= 0 {
		d.hub = d.hub.deeper(chain{frame + below.hub.bytes, f, frame, &below.hub})
	}
}

// followPointer adds calls through pointers. Pointers of our own code have known callees. In an unmodified template,
// the drivers' other pointers lead to the RP2040's boot ROM and to early wait functions, which are called where the
// stack is shallow.
func (w *stackWalk) followPointer(d *stackDepth, f *codeFunction) {
	targets, ok := w.known[f.name]
	switch {
	case !f.ours && f.name != graphRun:
		w.doubtPointer(d, f)
	case ok:
		w.addAll(d, f, targets)
	case f.part == partMain:
		w.addAll(d, f, w.port)
	case f.part == partRPC:
		w.addAll(d, f, w.send)
	default:
		d.hub = d.hub.deeper(chain{f.frame, f, f.frame, nil})
	}
}

// deepest returns the deepest chain from a function on, with the functions that the host calls: each packed function
// that itself calls through the runtime occurs once (the time evaluator, an executor's run), followed by the deepest of
// all packed functions.
func (w *stackWalk) deepest(f *codeFunction) (int64, []string) {
	d := w.depth(f)
	bytes, names := d.whole.bytes, d.whole.names()
	if d.hub.bytes < 0 {
		return bytes, names
	}
	var tells chain
	for _, g := range w.tells {
		tells = tells.deeper(w.depth(g).whole)
	}
	hubs := []chain{d.hub}
	for _, g := range w.packed {
		if at := w.depth(g); at.hub.bytes >= 0 && g.name != createsExecutor {
			hubs = append(hubs, at.hub)
		}
	}
	for _, g := range w.packed {
		at := w.depth(g)
		last := at.whole
		if at.hub.bytes >= 0 && g.name == createsExecutor {
			last = last.deeper(at.hub.then(tells))
		}
		n, through := last.bytes, []string(nil)
		for _, hub := range hubs {
			if hub.first != g { // the chain ends in g, which occurs once
				n += hub.bytes
				through = append(through, hub.names()...)
			}
		}
		if n > bytes {
			bytes, names = n, append(through, last.names()...)
		}
	}
	return bytes, names
}

// createsExecutor names the function that calls only descriptions of the model through the runtime.
const createsExecutor = "boardsmith_aot_create"

// then returns chain c continued by chain d.
func (c chain) then(d chain) chain {
	if c.next == nil {
		return chain{c.bytes + d.bytes, c.first, c.frame, &d}
	}
	next := c.next.then(d)
	return chain{c.bytes + d.bytes, c.first, c.frame, &next}
}

func unique(all []*codeFunction) (some []*codeFunction) {
	for _, f := range all {
		if !slices.Contains(some, f) {
			some = append(some, f)
		}
	}
	return some
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
func (w *stackWalk) interruptFrame(code []*codeFunction) int64 {
	if w.machine != elf.EM_ARM {
		return 0
	}
	if slices.ContainsFunc(code, func(f *codeFunction) bool { return f.floats }) {
		return 4 * (8 + 18 + 1)
	}
	return 4 * (8 + 1)
}

// handlers returns the maximum depth of the handlers' stack and its path.
func (w *stackWalk) handlers() (deepest int64, path []string) {
	others := *w
	others.without, others.deep = w.named(w.calls.Uninterrupted...), map[*codeFunction]*stackDepth{}
	for _, nest := range w.calls.Handlers {
		var bytes int64
		var names []string
		for i, name := range nest {
			walk := &others
			if i == len(nest)-1 {
				walk = w
			}
			for _, f := range w.named(name) {
				n, way := walk.deepest(f)
				bytes += n + w.interruptFrame(w.reached([]*codeFunction{f}))
				names = append(names, way...)
			}
		}
		if bytes > deepest {
			deepest, path = bytes, names
		}
	}
	return deepest, path
}

// stackBytes returns the size of the template's stack number n, or 0 if the image has no such stack.
func (l *Layout) stackBytes(n int) int64 {
	if n >= len(l.of.Stacks) {
		return 0
	}
	r, _ := l.of.Stacks[n].Find(l.image)
	return int64(r.Size())
}

// Stack computes the depth of an image's stacks. It returns nil if the image has no stack of its own, or its machine
// code cannot be read.
func (l *Layout) Stack(m *mlf.Model) (*StackUse, error) {
	p, err := readProgram(l)
	if p == nil || err != nil {
		return nil, err
	}
	w := newStackWalk(p, m)
	u := &StackUse{Have: l.stackBytes(0), Room: l.stackBytes(1)}
	entries := p.named(w.calls.Thread...)
	if len(entries) == 0 || u.Have == 0 {
		return nil, nil
	}
	entries[0].frame = 0 // it sets SP to the stack's start instead of moving it
	u.Need, u.Path = w.deepest(entries[0])
	u.Need += w.interruptFrame(w.functions)
	u.Handlers, u.HandlerPath = w.handlers()
	for why := range w.unsure {
		u.Unsure = append(u.Unsure, why)
	}
	sort.Strings(u.Unsure)
	return u, nil
}
