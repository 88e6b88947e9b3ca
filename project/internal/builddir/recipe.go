// This file determines what a build depends on: its inputs, tools and settings, and the keys that follow from them.

package builddir

import (
	"context"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/cachekey"
	"github.com/boardsmith/boardsmith/project/internal/buildenv"
	"github.com/boardsmith/boardsmith/project/internal/postlink"
	"github.com/boardsmith/boardsmith/project/internal/workdir"
)

// A recipe holds all inputs of a build, and the keys derived from them.
type recipe struct {
	inputs  map[string]string
	outside map[string]string // those that are not in the project
	tools   []buildenv.Identity
	edited  []string
	env     []string            // of the build command
	values  []string            // of the user's variables in env that no outside inputs stand for
	found   []buildenv.Identity // compiler and libraries, if only the build finds them: set by it
	trees   map[string]string   // states of source trees outside of the project
	toolKey cachekey.Key        // of the tools, the command and what is outside of the project
	key     cachekey.Key        // of the whole, without found
}

// ReadInputs reads the inputs and identifies the tools.
func (b *Build) ReadInputs(ctx context.Context) error {
	if ctx.Err() != nil {
		return failure.Stopped(ctx, "build")
	}

	r := &recipe{}
	cc, err := b.compiler()
	if err != nil {
		return err
	}
	if r.env, r.values, err = b.Env.Environ(cc); err != nil {
		return err
	}

	var compiler, others []buildenv.Identity
	var steps errgroup.Group
	steps.Go(func() (err error) { compiler, err = b.compilers(ctx, cc); return err })
	steps.Go(func() (err error) { others, err = b.Env.OtherTools(ctx); return err })
	steps.Go(func() (err error) { r.trees, err = b.Env.Trees(ctx); return err })
	steps.Go(func() error { return b.readInputs(b.Tree, r) })
	if err := steps.Wait(); err != nil {
		return err
	}

	after, err := b.postLink().Tool(ctx)
	if err != nil {
		return err
	}
	r.tools = slices.Concat(compiler, others, after)

	if r.outside, err = b.Env.Outside(); err != nil {
		return err
	}

	// This key chooses the folder. It is without the inputs, whose changes build commands notice there.
	r.toolKey = b.settings(r).Key()

	all := b.settings(r)
	for _, name := range slices.Sorted(maps.Keys(r.inputs)) {
		all.Add("file", name, r.inputs[name])
	}

	// What runs after the link changes the project's image, but nothing in the folder.
	b.postLink().AddTo(all)
	r.key = all.Key()

	b.r = r
	return nil
}

// compiler returns the path of the board's compiler, or "" if only the build finds it.
func (b *Build) compiler() (string, error) {
	chain := b.State.Board.Toolchain
	if chain.CC == "" {
		return "", nil
	}
	return b.Env.Program(chain.CC, chain.Install)
}

// compilers identifies the board's compiler and its libraries.
func (b *Build) compilers(ctx context.Context, cc string) ([]buildenv.Identity, error) {
	if cc == "" {
		return nil, nil
	}
	compiler, err := b.Env.Tools.Identify(ctx, b.State.Board.Toolchain.CC, cc)
	if err != nil {
		return nil, err
	}

	library, err := b.Env.Tools.Libraries(ctx, cc, &b.State.Board.Board) // as generated, whatever a build found out
	return append([]buildenv.Identity{compiler}, library...), err
}

// readInputs reads the inputs, and detects user changes in the project's other files.
func (b *Build) readInputs(t *workdir.Tree, r *recipe) error {
	names, err := b.listInputs(t)
	if err != nil {
		return err
	}

	// Generated files that are no inputs are read too, for user changes.
	all := slices.Concat(names, slices.Collect(maps.Keys(b.State.Files)))
	slices.Sort(all)
	sums, err := t.Digests(slices.Compact(all))
	if err != nil {
		return err
	}

	r.inputs = make(map[string]string, len(names))
	for _, name := range names {
		if sums[name] != "" {
			if err := b.checkName(name); err != nil {
				return err
			}
			r.inputs[name] = sums[name]
		} else if err := t.CheckAbsent(name); err != nil {
			return err
		}
	}

	r.edited = t.Differing(sums, b.State.Files, nil)
	return nil
}

// listInputs lists the inputs in a folder, the project's or one in which it is built.
func (b *Build) listInputs(t *workdir.Tree) ([]string, error) {
	entries, err := fs.ReadDir(t.Root.FS(), ".")
	if err != nil {
		return nil, err
	}

	top := make([]string, len(entries))
	for i, e := range entries {
		top[i] = e.Name()
	}

	// The roots are whole folders, in which patterns may exclude files.
	names, err := t.List(b.State.Template.InputRoots(top))
	return slices.DeleteFunc(names, func(name string) bool { return !b.State.Template.IsInput(name) }), err
}

// checkName returns an error for a source or header whose name make, or the shell that it calls, divides or changes.
func (b *Build) checkName(name string) error {
	const divides, changes = " \t\n:;|", "$'\"()&\\`<>" // prerequisites; words of a command
	characters := divides

	switch {
	case b.State.Template.Build[0] != "make":
		return nil
	case workdir.IsSource(name):
		characters += changes
	case path.Ext(name) != ".h":
		return nil
	}

	if i := strings.IndexAny(name, characters); i >= 0 {
		return failure.New(failure.Config, "rename it, or its folder", "%s cannot be an input: make cannot have %q in a name",
			filepath.Join(b.Tree.Dir, filepath.FromSlash(name)), name[i:i+1])
	}
	return nil
}

// unchanged returns an error if inputs differ from what r has read: it is unknown which content was compiled, so
// that neither the result nor the runtime may be stored under r's keys.
func (b *Build) unchanged(ctx context.Context) error {
	var current recipe
	if err := b.readInputs(b.Tree, &current); err != nil {
		return err
	}

	var err error
	if current.outside, err = b.Env.Outside(); err != nil {
		return err
	}
	if current.trees, err = b.Env.Trees(ctx); err != nil {
		return err
	}

	names := slices.Concat(changes(b.r.inputs, current.inputs), changes(b.r.outside, current.outside),
		changes(b.r.trees, current.trees))
	if len(names) > 0 {
		return failure.New(failure.Config, "build again", "%s changed during the build", strings.Join(names, ", "))
	}
	return nil
}

// allTools lists the compiler first.
func (r *recipe) allTools() []buildenv.Identity { return slices.Concat(r.found, r.tools) }

// changes lists, sorted, the names whose digests differ or that only one of the two has.
func changes(before, after map[string]string) (names []string) {
	for name, sum := range before {
		if after[name] != sum {
			names = append(names, name)
		}
	}

	for name := range after {
		if _, ok := before[name]; !ok {
			names = append(names, name)
		}
	}

	slices.Sort(names)
	return names
}

// settings lists everything that determines the result of compiling, but for the inputs.
func (b *Build) settings(r *recipe) *cachekey.Builder {
	s := cachekey.New("build v2")
	for _, t := range r.tools {
		s.Add("tool", t.Words()...)
	}

	for _, words := range b.State.Template.Prepare {
		s.Add("prepare", words...)
	}

	s.Add("command", b.State.Template.Build...) // without the number of jobs
	for _, name := range slices.Sorted(maps.Keys(b.State.Template.Env)) {
		s.Add("environment", name, b.State.Template.Env[name])
	}

	s.Add("values", r.values...)

	for _, name := range slices.Sorted(maps.Keys(r.trees)) {
		s.Add("tree", name, r.trees[name])
	}
	for _, name := range slices.Sorted(maps.Keys(r.outside)) {
		s.Add("outside", name, r.outside[name])
	}
	return s
}

func isSourceOrHeader(name string) bool {
	return workdir.IsSource(name) || isHeader(name) ||
		slices.Contains([]string{".cc", ".cpp", ".cxx", ".s"}, path.Ext(name))
}

// isHeader reports whether a file is read by #include only, which a compiler notes. One of another ending may also be
// read by an assembler's .incbin, which none does.
func isHeader(name string) bool {
	return slices.Contains([]string{".h", ".hh", ".hpp"}, path.Ext(name))
}

// Tools lists what ReadInputs has identified, the compiler first.
func (b *Build) Tools() []buildenv.Identity { return b.r.allTools() }

// postLink returns the board's command after the link.
func (b *Build) postLink() postlink.Command {
	return postlink.Command{
		Template: &b.State.Template.Description, Board: b.board(), Env: b.Env, Log: b.Log, Advice: b.advice(),
	}
}
