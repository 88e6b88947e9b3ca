// Package operatormemory reads in a model's code how much memory its functions allocate while they run (crt_abi.md §6).
//
// It reads one form, which TVM's code generators write: a function takes pieces of constant sizes, and frees the last
// one first, each by a line of its own that always executes. Other code that may allocate makes the need unknown. The
// package adds nothing up: package fit does.
package operatormemory

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/boardsmith/boardsmith/internal/modelgraph"
	"github.com/boardsmith/boardsmith/mlf"
)

// A Workspace is the memory that a model's functions allocate while they run.
type Workspace struct {
	// What a call of a function allocates and frees, with the functions that it calls: the bytes of a piece, or Free.
	Steps map[string][]int64

	// Reasons why a run may need more than Steps show.
	Unknown []string // code that was not understood: it may allocate any number of bytes
	Objects []string // code that is not read: the archive's metadata shows about how much it allocates
	Leaks   []string // functions that do not free what they allocate: each call needs more
}

// Free is the step that frees the piece that was allocated last.
const Free = -1

// Unsure returns all reasons why a run may need more.
func (w *Workspace) Unsure() []string { return slices.Concat(w.Unknown, w.Objects, w.Leaks) }

const (
	takeFunction = "TVMBackendAllocWorkspace"
	giveFunction = "TVMBackendFreeWorkspace"
)

// memoryWords are parts of the names of the runtime's functions that allocate from the arena, or free.
var memoryWords = []string{
	"BackendAlloc", "FreeWorkspace", "TVMPlatformMemoryAllocate", "TVMDeviceAllocDataSpace", "TVMArrayAlloc",
	"TVMNDArray_Create", "TVMNDArray_Empty", "TVMFuncRegisterGlobal", "Executor_Create", "boardsmith_take",
	"boardsmith_block_take",
}

func allocates(text string) bool {
	return slices.ContainsFunc(memoryWords, func(word string) bool { return strings.Contains(text, word) })
}

// A reader reads the code of one model.
type reader struct {
	*Workspace
	texts     []*function
	functions map[string]*function
}

// A function is a definition, or all that a file has outside of them.
type function struct {
	place    string // its name with its file
	body     string
	outside  bool
	registry bool // the file has the registry of the system library

	steps   []step
	held    []string // the variables of pieces that are not freed
	open    bool     // while the functions that it calls are followed
	strange string   // a reason why steps may not show what executes
	unknown bool     // there is a reason in Workspace.Unknown
}

// A step is a call of a function, else an element of Workspace.Steps.
type step struct {
	call  string
	bytes int64
}

// Of returns what the model's functions allocate. It reads sources; of objects, it uses the metadata.
func Of(a *mlf.Archive, m *mlf.Model) *Workspace {
	r := &reader{&Workspace{Steps: map[string][]int64{}}, nil, map[string]*function{}}

	// Most archives allocate nothing, and their code may have megabytes of constants: it is not split then.
	files := slices.Concat(m.Sources, m.Headers)
	if slices.ContainsFunc(files, func(f mlf.File) bool { return allocates(string(f.Data)) }) {
		for _, f := range files {
			r.split(f)
		}
	}
	for _, f := range r.texts {
		r.read(f)
	}
	r.readObjects(m.Objects, a.ListedWorkspace(m))

	for _, name := range called(m) {
		r.follow(name)
	}

	// A function that allocates must be reached by calls alone, else it may run while others hold memory.
	for name, f := range r.functions {
		_, isCalled := r.Steps[name]
		if !isCalled && slices.ContainsFunc(f.steps, func(s step) bool { return s.call == "" }) {
			r.unknown(f, "allocates: its callers are unknown")
		}
		if f.strange != "" && len(r.Steps[name]) > 0 {
			r.unknown(f, "allocates and %s", f.strange)
		}
	}

	slices.Sort(r.Unknown)
	return r.Workspace
}

// called returns the functions that the device's caller starts.
func called(m *mlf.Model) (names []string) {
	switch m.Executor {
	case mlf.AOT:
		return []string{m.RunFunction()}
	case mlf.Graph:
		if g, err := modelgraph.Parse(m.Graph); err == nil {
			for _, n := range g.Nodes {
				names = append(names, n.Func)
			}
		}
		return names
	}
	return []string{m.Entry}
}

// unknown adds a reason. One of each function is enough.
func (r *reader) unknown(f *function, format string, args ...any) {
	if !f.unknown {
		f.unknown = true
		r.Unknown = append(r.Unknown, f.place+" "+fmt.Sprintf(format, args...))
	}
}

// declaration is a prototype or the beginning of a definition.
var declaration = regexp.MustCompile(`(?m)^\w[^;={}#]*?\b(\w+)\([^;={}]*\)\s*[;{]`)

// split splits a file into functions and what is outside of them. It ignores prototypes.
func (r *reader) split(file mlf.File) {
	text := strings.ReplaceAll(string(file.Data), "\r\n", "\n")
	rest := &function{place: file.Name, outside: true, registry: file.HasRegistry()}
	r.texts = append(r.texts, rest)
	for {
		at := declaration.FindStringSubmatchIndex(text)
		if at == nil {
			rest.body += text
			return
		}

		name, isPrototype := text[at[2]:at[3]], text[at[1]-1] == ';'
		rest.body += text[:at[0]]
		text = text[at[1]:]
		if isPrototype {
			continue
		}

		end := closing(text)
		f := &function{place: "function " + name + " in " + file.Name, body: text[:end]}
		text = text[end:]
		r.texts = append(r.texts, f)

		// Several files may include a header's function; #if may choose between different ones.
		if other := r.functions[name]; other == nil {
			r.functions[name] = f
		} else if other.body != f.body {
			other.strange = "is defined more than once"
		}
	}
}

// closing returns the length of text up to the brace that closes what is open before it. Braces in strings count, too:
// what allocates behind them is not where TVM's code does it.
func closing(text string) int {
	depth := 1
	for i, c := range text {
		switch c {
		case '{':
			depth++
		case '}':
			depth--
		}
		if depth == 0 {
			return i
		}
	}
	return len(text)
}

var (
	// a name, with what shows that it is called or changed
	use       = regexp.MustCompile(`&?\b[A-Za-z_]\w*(?:\(| = |\+\+|--)?`)
	operation = regexp.MustCompile(`^(?:(?:\w+ )*\w+ ?\* ?(\w+) = ` + takeFunction + `\(\w+, \w+, ` +
		`(?:\(uint64_t\))?([1-9]\d{0,9})[uUlL]*, \w+, \w+\);|` +
		`(?:if \(|return \(?)?` + giveFunction + `\(\w+, \w+, (\w+)\)[^?|]*)$`)
	errorReturn = regexp.MustCompile(`\breturn -?[1-9]\w*;`)
)

// read reads the steps of a function.
func (r *reader) read(f *function) {
	depth, end := 0, "{" // of braces; the last character of the line before
	for line := range strings.Lines(f.body) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		if line[0] == '#' {
			f.strange = fmt.Sprintf("has an %.120s", line)
		}

		returns := false
		for _, used := range use.FindAllString(line, -1) {
			name := strings.Trim(used, "&( =+-")
			other := r.functions[name]
			switch {
			case allocates(name):
				r.operate(f, line, !f.outside && depth == 0 && strings.Contains("{;}", end))
			case other != nil && !f.registry:
				f.steps = append(f.steps, step{call: name})
				if f.outside || !strings.HasSuffix(used, "(") {
					other.strange = "is called through a pointer or by its name in " + f.place
				}
			case used != name && slices.Contains(f.held, name), name == "goto":
				f.strange = fmt.Sprintf("has a line that is not understood: %.120s", line)
			}
			returns = returns || name == "return"
		}

		if returns && !errorReturn.MatchString(line) { // an error ends a run
			r.leak(f)
		}

		// A statement behind any other end of a line belongs to an if or a loop without braces.
		depth += strings.Count(line, "{") - strings.Count(line, "}")
		end = line[len(line)-1:]
	}
	r.leak(f)
}

// operate reads a line that allocates or frees. It must be one that always executes.
func (r *reader) operate(f *function, line string, always bool) {
	m := operation.FindStringSubmatch(line)
	switch last := len(f.held) - 1; {
	case m == nil || !always:
		r.unknown(f, "allocates or frees by other code than TVM's: %.120s", line)
	case m[2] != "":
		bytes, _ := strconv.ParseInt(m[2], 10, 64) // of at most 10 digits
		f.steps, f.held = append(f.steps, step{bytes: bytes}), append(f.held, m[1])
	case last < 0 || f.held[last] != m[3]:
		r.unknown(f, "frees %s, which is not what it has taken last", m[3])
	default:
		f.steps, f.held = append(f.steps, step{bytes: Free}), f.held[:last]
	}
}

// leak reports what a function holds where it ends.
func (r *reader) leak(f *function) {
	for _, variable := range f.held {
		reason := f.place + " does not free " + variable + ": each call allocates more"
		if !f.unknown && !slices.Contains(r.Leaks, reason) {
			r.Leaks = append(r.Leaks, reason)
		}
	}
}

// readObjects adds what the metadata lists for functions in objects.
func (r *reader) readObjects(objects []mlf.File, listed map[string]int64) {
	for _, file := range objects {
		f := &function{place: "object " + file.Name}
		o, err := file.Info()
		if err != nil {
			r.unknown(f, "cannot be read: %v", err)
		}

		for _, name := range o.Undefined {
			if other := r.functions[name]; other != nil && other.body != "" {
				other.strange = "is called by " + f.place
			}
			if name == giveFunction || !allocates(name) {
				continue
			}

			// Which function of the object allocates, and when, is not known: each may have all that is listed for it.
			known := false
			for _, defined := range o.Defined {
				if bytes := listed[defined]; bytes > 0 && name == takeFunction {
					r.functions[defined] = &function{place: "function " + defined, steps: []step{{bytes: bytes}, {bytes: Free}}}
					known = true
				}
			}

			if known {
				r.Objects = append(r.Objects, f.place+" is not read: metadata.json lists how much it allocates")
			} else {
				r.unknown(f, "allocates, and metadata.json does not list how much")
			}
		}
	}
}

const mostSteps = 1 << 16 // of a call

// follow returns the steps of a function with those of the functions that it calls.
func (r *reader) follow(name string) []int64 {
	f := r.functions[name]
	if f == nil {
		return nil
	}
	if steps, known := r.Steps[name]; known {
		if f.open {
			f.strange = "is recursive"
		}
		return steps
	}

	// Calls of calls may multiply without limit.
	var steps []int64
	r.Steps[name], f.open = nil, true
	for _, s := range f.steps {
		if s.call == "" {
			steps = append(steps, s.bytes)
		} else if steps = append(steps, r.follow(s.call)...); len(steps) > mostSteps {
			f.strange = "calls too many functions that do"
			break
		}
	}

	r.Steps[name], f.open = steps, false
	return steps
}
