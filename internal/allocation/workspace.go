// Package allocation computes from a model's code how much memory each function allocates while it runs
// (crt_abi.md §6).
//
// It adds nothing up: package fit does.
package allocation

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/boardsmith/boardsmith/mlf"
)

// A Workspace is the memory that a model's functions allocate while they run.
type Workspace struct {
	// What functions allocate, free and call, in the order of their code. A function that is not in it allocates nothing.
	Steps map[string][]Step

	// Reasons why a run may need more than Steps show; none if all code was understood. They are sorted.
	Doubts []Doubt
}

// A StepKind is the kind of a Step.
type StepKind int

// The kinds of steps.
const (
	StepTake StepKind = iota // allocates
	StepGive                 // frees
	StepCall                 // calls a function of Workspace.Steps
)

// A Step is one memory operation of a function.
type Step struct {
	Kind  StepKind
	Bytes int64  // StepTake: at least 0
	Piece int    // StepTake, StepGive: the number of what is allocated or freed, from 1 on in each function
	Name  string // StepTake, StepGive: its variable, "" if unknown. StepCall: the function
}

// A DoubtKind is the kind of a Doubt.
type DoubtKind int

// The kinds of doubts.
const (
	DoubtCode   DoubtKind = iota // code was not understood: it may allocate any number of bytes
	DoubtObject                  // an object's code is not read: the archive's metadata shows about how much it allocates
	DoubtLeak                    // a function does not free what it allocates: each call needs more
)

// A Doubt is a reason why a run may need more memory than was computed.
type Doubt struct {
	Kind DoubtKind
	Text string // names the function or the object
}

// Unsure returns the texts of the doubts of these kinds, of all without a kind.
func (w *Workspace) Unsure(kinds ...DoubtKind) (texts []string) {
	for _, d := range w.Doubts {
		if len(kinds) == 0 || slices.Contains(kinds, d.Kind) {
			texts = append(texts, d.Text)
		}
	}
	return texts
}

// called returns the functions that the device's caller starts.
func called(m *mlf.Model) (names []string) {
	switch m.Executor {
	case mlf.AOT:
		return []string{m.RunFunction()}
	case mlf.Graph:
		if g, err := mlf.ParseGraph(m.Graph); err == nil {
			for _, n := range g.Nodes {
				if n.Func != "" && n.Func != mlf.Nop {
					names = append(names, n.Func)
				}
			}
		}
		return names
	}
	return []string{m.Entry}
}

// The functions of the runtime that allocate from the arena: what the first two do is followed, others are doubts.
const (
	takePrefix   = "TVMBackendAlloc"
	takeFunction = takePrefix + "Workspace"
	giveFunction = "TVMBackendFreeWorkspace"
)

var otherTakes = []string{
	"TVMPlatformMemoryAllocate", "TVMDeviceAllocDataSpace", "TVMDeviceAllocDataSpaceWithScope", "TVMArrayAlloc",
	"TVMNDArray_Create", "TVMNDArray_Empty", "TVMNDArray_CreateView", "TVMFuncRegisterGlobal", "TVMAotExecutor_Create",
	"TVMGraphExecutor_Create", "boardsmith_take", "boardsmith_block_take",
}

// A workspaceReader reads the code of one model.
type workspaceReader struct {
	model     *mlf.Model
	texts     []*cText
	functions map[string]*cFunction
	where     map[string]string // function → its file
	several   map[string]bool   // functions with more than one definition
	steps     map[string][]Step
	indirect  []string // functions whose address or name is used
	doubts    map[Doubt]bool
}

// Of computes what the model's functions allocate. It reads sources; of objects, it uses the metadata. What it
// does not understand is a doubt.
func Of(a *mlf.Archive, m *mlf.Model) *Workspace {
	r := &workspaceReader{
		model: m, functions: map[string]*cFunction{}, where: map[string]string{},
		several: map[string]bool{}, steps: map[string][]Step{}, doubts: map[Doubt]bool{},
	}
	if files := slices.Concat(m.Sources, m.Headers); slices.ContainsFunc(files, allocates) {
		for _, f := range files {
			r.texts = append(r.texts, readC(f))
		}
		r.readFunctions()
		r.checkTexts()
	}
	r.readObjects(a.ListedWorkspace(m))
	r.checkCalls()
	w := &Workspace{Steps: r.steps, Doubts: slices.Collect(maps.Keys(r.doubts))}
	slices.SortFunc(w.Doubts, func(x, y Doubt) int { return strings.Compare(x.Text, y.Text) })
	return w
}

// allocates reports whether a function of the file may allocate.
func allocates(f mlf.File) bool {
	return slices.ContainsFunc(append(otherTakes, takePrefix, "\\\n", "\\\r\n", "##"), // a name may be composed
		func(word string) bool { return bytes.Contains(f.Data, []byte(word)) })
}

func (r *workspaceReader) doubt(kind DoubtKind, format string, args ...any) {
	r.doubts[Doubt{kind, fmt.Sprintf(format, args...)}] = true
}

// readFunctions reads all bodies.
func (r *workspaceReader) readFunctions() {
	for _, t := range r.texts {
		for i := range t.functions {
			f := &t.functions[i]
			if other := r.functions[f.name]; other != nil {
				r.several[f.name] = r.several[f.name] || other.body != f.body
				continue
			}
			r.functions[f.name], r.where[f.name] = f, t.name
		}
	}
	for name, f := range r.functions {
		r.readBody(name, f)
	}
}

// checkTexts reports what is outside of functions and may allocate.
func (r *workspaceReader) checkTexts() {
	composes := slices.ContainsFunc(r.texts, func(t *cText) bool { return t.composes })
	for _, t := range r.texts {
		words := append([]string{takeFunction, giveFunction}, otherTakes...)
		if t.broken {
			r.doubt(DoubtCode, "%s cannot be read: its braces or quotes do not match", t.name)
		}
		for _, word := range words {
			if strings.Contains(string(t.optional), word) {
				r.doubt(DoubtCode, "%s calls %s under an #if", t.name, word)
			}
			if t.mentions[word] {
				r.doubt(DoubtCode, "%s takes the address of %s", t.name, word)
			}
		}
		for part := range t.parts {
			if composes {
				r.doubt(DoubtCode, "%s composes names, and %s may be the end of that of a function that allocates", t.name, part)
			}
		}
		for name := range t.mentions {
			if !t.registry {
				r.indirect = append(r.indirect, name)
			}
		}
	}
}

// checkMacros reports macros that may allocate or free. Those that stand for constants are read where they are used.
func (r *workspaceReader) checkMacros(takers map[string]bool) {
	for _, t := range r.texts {
		for _, macro := range t.macros {
			m := defineLine.FindStringSubmatch(macro)
			if m == nil {
				continue
			}
			eachName([]byte(m[1]+" "+m[2]), func(name string) {
				if name == takeFunction || name == giveFunction || slices.Contains(otherTakes, name) || takers[name] {
					r.doubt(DoubtCode, "macro %s in %s stands for %s, which allocates or frees", m[1], t.name, name)
				}
			})
		}
	}
}

// checkCalls reduces the steps to those of functions that allocate, and reports calls of them whose order is unknown.
func (r *workspaceReader) checkCalls() {
	takers := r.takers()
	r.checkMacros(takers)
	for name, steps := range r.steps {
		if !takers[name] {
			delete(r.steps, name)
			continue
		}
		r.steps[name] = slices.DeleteFunc(steps, func(s Step) bool { return s.Kind == StepCall && !takers[s.Name] })
	}
	for _, name := range r.indirect {
		if takers[name] {
			r.doubt(DoubtCode, "%s allocates and is called through a pointer or by its name", r.place(name))
		}
	}
	reached := map[string]bool{}
	for _, name := range called(r.model) {
		r.reach(name, reached, map[string]bool{})
		if len(takers) > 0 && len(r.texts) > 0 && r.functions[name] == nil && !r.inObject(name) {
			r.doubt(DoubtCode, "function %s not found in the sources, of which others allocate", name)
		}
	}
	for name, steps := range r.steps {
		takes := slices.ContainsFunc(steps, func(s Step) bool { return s.Kind == StepTake })
		if takes && !reached[name] {
			r.doubt(DoubtCode, "%s allocates: its callers are unknown", r.place(name))
		}
		if r.several[name] {
			r.doubt(DoubtCode, "%s allocates and is defined more than once", r.place(name))
		}
	}
}

func (r *workspaceReader) inObject(function string) bool {
	return slices.ContainsFunc(r.model.Objects, func(f mlf.File) bool {
		o, err := f.Info()
		return err == nil && slices.Contains(o.Defined, function)
	})
}

// takers returns the functions that allocate or call one that does.
func (r *workspaceReader) takers() map[string]bool {
	takers, callers := map[string]bool{}, map[string][]string{}
	var list []string
	add := func(name string) {
		if !takers[name] {
			takers[name] = true
			list = append(list, name)
		}
	}
	for name, steps := range r.steps {
		for _, s := range steps {
			switch s.Kind {
			case StepTake:
				add(name)
			case StepCall:
				callers[s.Name] = append(callers[s.Name], name)
			}
		}
	}
	for len(list) > 0 {
		last := list[len(list)-1]
		list = list[:len(list)-1]
		for _, caller := range callers[last] {
			add(caller)
		}
	}
	return takers
}

const deepestCall = 500 // calls in calls

// reach follows the calls from a function. path are its callers.
func (r *workspaceReader) reach(name string, reached, path map[string]bool) {
	if path[name] || len(path) == deepestCall {
		r.doubt(DoubtCode, "%s allocates and is recursive", r.place(name))
		return
	}
	if reached[name] {
		return
	}
	reached[name], path[name] = true, true
	for _, s := range r.steps[name] {
		if s.Kind == StepCall {
			r.reach(s.Name, reached, path)
		}
	}
	delete(path, name)
}

// place returns a function's name with its file.
func (r *workspaceReader) place(function string) string {
	if file := r.where[function]; file != "" {
		return "function " + function + " in " + file
	}
	return "function " + function
}

// readObjects adds what the metadata lists for functions in objects.
func (r *workspaceReader) readObjects(listed map[string]int64) {
	takers := r.takers()
	for _, f := range r.model.Objects {
		o, err := f.Info()
		if err != nil {
			r.doubt(DoubtCode, "object %s cannot be read: %v", f.Name, err)
			continue
		}
		for _, name := range o.Undefined {
			switch {
			case takers[name]:
				r.doubt(DoubtCode, "object %s calls %s, which allocates", f.Name, name)
			case slices.Contains(otherTakes, name):
				r.doubt(DoubtCode, "object %s calls %s", f.Name, name)
			case name != takeFunction:
			case r.addListed(listed, o.Defined):
				r.doubt(DoubtObject, "object %s is not read: metadata.json lists how much it allocates", f.Name)
			default:
				r.doubt(DoubtCode, "object %s allocates, and metadata.json does not list how much", f.Name)
			}
		}
	}
}

// addListed adds what the metadata lists for these functions of an object, and reports whether that is any memory.
func (r *workspaceReader) addListed(listed map[string]int64, defined []string) (found bool) {
	for _, name := range defined {
		if bytes := listed[name]; bytes > 0 {
			found = true
			r.steps[name] = []Step{{Kind: StepTake, Bytes: bytes, Piece: 1}, {Kind: StepGive, Piece: 1}}
		}
	}
	return found
}
