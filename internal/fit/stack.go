// This file computes how deep the firmware's stack can become, from the machine code of the linked image.
//
// Each function's frame and calls are read off its instructions (stackcode.go): a test holds them against what GCC says
// of the functions that it compiles. Calls through pointers are resolved by who makes them, as the runtime and the
// template are written. What cannot be known (a frame that depends on data, recursion, a pointer in anybody else's
// code) makes the result unsure, and says where: without a doubt, every call in the code that is reached is resolved.

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

// Calls say what the machine code of a template's image does not show: who runs on which stack, and where calls through
// pointers lead. The zero value is a template whose stacks are not computed.
type Calls struct {
	Thread []string `json:"thread,omitempty"` // where the thread's stack begins
	// Handlers are handlers that may stand on the handlers' stack together, each interrupting the one before by its
	// priority. The last of them is interrupted by a fault at worst, which must have its frame there and nothing else.
	Handlers [][]string `json:"handlers,omitempty"`
	// run with interrupts masked, so that only the last of a nest can stand in them
	Uninterrupted []string `json:"uninterrupted,omitempty"`
	// what main.c and the platform's functions call through pointers
	Port     Callees            `json:"port,omitzero"`
	Send     Callees            `json:"send,omitzero"`      // what the RPC server does
	Pointers map[string]Callees `json:"pointers,omitempty"` // what certain functions do, by name
}

// Callees are functions by name, and those that tables of pointers in the image lead to.
type Callees struct {
	Functions []string         `json:"functions,omitempty"`
	In        []firmware.Place `json:"in,omitempty"`
}

// A StackUse is the worst-case depth of the stacks.
type StackUse struct {
	Need        int64    // bytes of the thread's stack, an interrupt's frame included
	Have        int64    // bytes there are
	Path        []string // the functions of the deepest call chain, each with the bytes of its frame, main first
	Handlers    int64    // bytes of the handlers' stack, with handlers that interrupt each other
	Room        int64    // bytes there are for them; 0 where the image has no such stack
	HandlerPath []string // their deepest call chains, the first handler first
	Unsure      []string // why it may be more: functions and what they do; empty if every call that is reached is resolved
}

// A stackWalk finds the deepest chains of calls.
type stackWalk struct {
	*program
	calls  Calls
	port   []*codeFunction            // what main.c and platform.c call through pointers
	send   []*codeFunction            // what the RPC server does
	packed []*codeFunction            // what the runtime does: all that the host can have called
	tells  []*codeFunction            // of those, what describes a model
	taken  []*codeFunction            // what a pointer in code that is not ours can lead to
	known  map[string][]*codeFunction // what certain functions do
	deep   map[*codeFunction]*stackDepth
	under  map[*codeFunction]bool // on the way from the entry
	way    []*codeFunction        // the same, in order
	unsure map[string]bool

	without []*codeFunction // not followed
}

// A stackDepth is how deep the stack becomes in a function and below.
type stackDepth struct {
	whole chain // without what is called through the runtime
	hub   chain // to the place where something is called through the runtime; bytes is -1 if there is none
}

// A chain is a chain of calls.
type chain struct {
	bytes int64
	first *codeFunction
	frame int64 // of first in this chain: 0 if it jumped away
	next  *chain
}

func (c chain) deeper(d chain) chain {
	if d.bytes > c.bytes {
		return d
	}
	return c
}

// newStackWalk lists what is called through pointers, by who calls.
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
		w.packed = append(w.packed, p.named(m.Header.Name+"_run", m.Header.Name+"_get_c_metadata")...)
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
	w.known = map[string][]*codeFunction{parallelLaunch: nil} // its caller says what: see depth
	for name, to := range w.calls.Pointers {
		w.known[name] = p.callees(to)
	}
	for _, f := range p.takenElsewhere() {
		if !slices.Contains(w.packed, f) { // else the runtime calls it
			w.taken = append(w.taken, f)
		}
	}
	w.taken = unique(slices.Concat(w.taken, w.port)) // a template that was changed still calls its port
	return w
}

// parallelLaunch calls a function of its caller's own.
const parallelLaunch = "TVMBackendParallelLaunch"

// depth computes, or recalls, how deep the stack becomes from a function on.
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
		w.unsure[f.name+" takes as much stack as its data say"] = true
	}
	if !f.decoded() {
		w.unsure[f.name+" has no code that can be read"] = true
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

// circle says how a function comes to call itself.
func (w *stackWalk) circle(f *codeFunction) string {
	said := f.name + " calls itself"
	for _, g := range w.way[slices.Index(w.way, f)+1:] {
		said += " through " + g.name
	}
	return said
}

// follow adds a call of the function at an address. Inside a function of the C library's assembler there are entries of
// its own. To go to where the firmware starts is to give the stack up.
func (w *stackWalk) follow(d *stackDepth, f *codeFunction, addr uint64, frame int64) {
	g := w.function(w.codeAddress(addr))
	switch {
	case g != nil && g.savesForCaller(): // see addSaved
	case g == f && w.codeAddress(addr) != f.addr && f.part == partLibc:
	case g != nil && slices.Contains(w.calls.Thread, g.name), slices.Contains(w.without, g):
	case g != nil:
		w.add(d, f, g, frame)
	default:
		w.unsure[fmt.Sprintf("%s calls %#x, where no code is known", f.name, addr)] = true
	}
}

// followRefs adds the functions whose addresses f computes, of which it has one called in parallel.
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

// doubtPointer adds all that a pointer can lead to in code that is not ours: the deepest of it stands for what is
// called.
func (w *stackWalk) doubtPointer(d *stackDepth, f *codeFunction) {
	w.unsure[f.name+" calls through a pointer"] = true
	w.addAll(d, f, slices.Concat(w.known[f.name], w.taken))
}

// addAll adds calls of functions, but for those that the way from the entry leads through.
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

// followPointer adds calls through pointers. Those of our own code are known: of the template, if nobody has changed
// it, what else its drivers call so are the RP2040's boot ROM and what is there to wait with, early, where nothing is
// deep.
func (w *stackWalk) followPointer(d *stackDepth, f *codeFunction) {
	targets, ok := w.known[f.name]
	switch {
	case !f.ours:
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

// deepest is the deepest chain from a function on, what the host has called included: each packed function that calls
// through the runtime itself once (the time evaluator, an executor's run), and in the end the deepest of them all.
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
			if hub.first != g { // it ends in g, which is there once
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

// createsExecutor calls through the runtime only what describes the model.
const createsExecutor = "boardsmith_aot_create"

// then is a chain that goes on as another.
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

// interruptFrame is what the core itself puts on the stack of code that is interrupted: on Cortex-M eight words, with
// floating point 18 more, and a word for alignment (ARMv7-M ARM, B1.5.6, B1.5.7). The RISC-V port puts it on the
// handlers' stack.
func (w *stackWalk) interruptFrame(code []*codeFunction) int64 {
	if w.machine != elf.EM_ARM {
		return 0
	}
	if slices.ContainsFunc(code, func(f *codeFunction) bool { return f.floats }) {
		return 4 * (8 + 18 + 1)
	}
	return 4 * (8 + 1)
}

// handlers computes how deep the handlers' stack becomes.
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

// stackBytes is the size of a stack by its number among the template's; 0 where the image has no such stack.
func (l *Layout) stackBytes(n int) int64 {
	if n >= len(l.of.Stacks) {
		return 0
	}
	r, _ := l.of.Stacks[n].Find(l.image)
	return int64(r.Size())
}

// Stack computes the depth of an image's stacks; nil where it has no stack of its own, or its machine code cannot
// be read.
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
	entries[0].frame = 0 // what it does to SP is to set it
	u.Need, u.Path = w.deepest(entries[0])
	u.Need += w.interruptFrame(w.functions)
	u.Handlers, u.HandlerPath = w.handlers()
	for why := range w.unsure {
		u.Unsure = append(u.Unsure, why)
	}
	sort.Strings(u.Unsure)
	return u, nil
}
