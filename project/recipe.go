// This file determines what a build depends on: its inputs, tools and settings, and the keys that follow from them.

package project

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/boardsmith/boardsmith/cache"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/files/plainfile"
)

// A recipe holds all inputs of a build, and the keys derived from them.
type recipe struct {
	inputs  map[string]string
	outside map[string]string // those that are not in the project
	tools   []toolState
	edited  []string
	env     []string          // of the build command
	values  []string          // of the user's variables in env that no outside inputs stand for
	found   []toolState       // compiler and libraries, if only the build finds them: set by it
	trees   map[string]string // states of source trees outside of the project
	toolKey cache.Key         // of the tools, the command and what is outside of the project
	key     cache.Key         // of the whole, without found
}

// recipe reads the inputs and identifies the tools.
func (p *Project) recipe(ctx context.Context, t *tree) (*recipe, error) {
	if ctx.Err() != nil {
		return nil, failure.Stopped(ctx, "build")
	}
	r := &recipe{}
	cc, err := p.compiler()
	if err != nil {
		return nil, err
	}
	if r.env, r.values, err = p.environment(cc); err != nil {
		return nil, err
	}
	var compiler, others []toolState
	var steps errgroup.Group
	steps.Go(func() (err error) { compiler, err = p.compilers(ctx, cc); return err })
	steps.Go(func() (err error) { others, err = p.otherTools(ctx); return err })
	steps.Go(func() (err error) { r.trees, err = p.treeStates(ctx); return err })
	steps.Go(func() error { return p.readInputs(t, r) })
	if err := steps.Wait(); err != nil {
		return nil, err
	}
	r.tools = slices.Concat(compiler, others)
	if r.outside, err = p.outside(); err != nil {
		return nil, err
	}
	r.toolKey = p.settings(r).Key()
	all := p.settings(r)
	for _, name := range slices.Sorted(maps.Keys(r.inputs)) {
		all.Say("file", name, r.inputs[name])
	}
	p.sayPostLink(all)
	r.key = all.Key()
	return r, nil
}

// compiler returns the path of the board's compiler, or "" if only the build finds it.
func (p *Project) compiler() (string, error) {
	chain := p.state.Board.Toolchain
	if chain.CC == "" {
		return "", nil
	}
	return p.findProgram(chain.CC, chain.Install)
}

// compilers identifies the board's compiler and its libraries.
func (p *Project) compilers(ctx context.Context, cc string) ([]toolState, error) {
	if cc == "" {
		return nil, nil
	}
	compiler, err := p.builder.identify(ctx, p.state.Board.Toolchain.CC, cc)
	if err != nil {
		return nil, err
	}
	library, err := p.libraries(ctx, cc, &p.state.Board.Board) // as generated, whatever a build found out
	return append([]toolState{compiler}, library...), err
}

// readInputs reads the inputs, and detects user changes in the project's other files.
func (p *Project) readInputs(t *tree, r *recipe) error {
	names, err := t.list(p.state.Template.Inputs)
	if err != nil {
		return err
	}
	all := slices.Concat(names, slices.Collect(maps.Keys(p.state.Files)))
	slices.Sort(all)
	sums, err := t.digests(slices.Compact(all))
	if err != nil {
		return err
	}
	r.inputs = make(map[string]string, len(names))
	for _, name := range names {
		if sums[name] != "" {
			if err := p.checkName(name); err != nil {
				return err
			}
			r.inputs[name] = sums[name]
		} else if err := t.leaveOut(name); err != nil {
			return err
		}
	}
	r.edited = t.differing(sums, p.state.Files, nil)
	return nil
}

// checkName returns an error for a source or header whose name make, or the shell that it calls, divides or changes.
func (p *Project) checkName(name string) error {
	const divides, changes = " \t\n:;|", "$'\"()&\\`<>" // prerequisites; words of a command
	characters := divides
	switch {
	case p.state.Template.Build[0] != "make":
		return nil
	case isSource(name):
		characters += changes
	case path.Ext(name) != ".h":
		return nil
	}
	if i := strings.IndexAny(name, characters); i >= 0 {
		return failure.New(failure.Config, "rename it, or its folder", "%s cannot be an input: make cannot have %q in a name",
			filepath.Join(p.dir, filepath.FromSlash(name)), name[i:i+1])
	}
	return nil
}

// leaveOut returns an error if what is no plain file is an input, because a build command may read it. What has gone is
// left out.
func (t *tree) leaveOut(name string) error {
	link, err := t.root.Lstat(filepath.FromSlash(name))
	if notThere(err) {
		return nil
	}
	info, follow := t.root.Stat(filepath.FromSlash(name))
	switch {
	case err == nil && link.Mode()&fs.ModeSymlink == 0:
		err = plainfile.ErrSpecial
	case notThere(follow):
		err = errors.New("a link that leads nowhere")
	case follow != nil:
		err = errors.New("a link out of the project, by an absolute path or in a circle")
	case info.IsDir():
		err = errors.New("a link to a folder")
	default:
		err = plainfile.ErrSpecial
	}
	return failure.New(failure.Config, "put files there, or links to files of the project", "%s cannot be an input: %w",
		filepath.Join(t.dir, filepath.FromSlash(name)), err)
}

// unchanged returns an error if inputs differ from what r has read: it is unknown which content was compiled, so
// that neither the result nor the runtime may be stored under r's keys.
func (p *Project) unchanged(ctx context.Context, t *tree, r *recipe) error {
	var now recipe
	if err := p.readInputs(t, &now); err != nil {
		return err
	}
	var err error
	if now.outside, err = p.outside(); err != nil {
		return err
	}
	if now.trees, err = p.treeStates(ctx); err != nil {
		return err
	}
	names := slices.Concat(changes(r.inputs, now.inputs), changes(r.outside, now.outside), changes(r.trees, now.trees))
	if len(names) > 0 {
		return failure.New(failure.Config, "build again", "%s changed during the build", strings.Join(names, ", "))
	}
	return nil
}

// allTools lists the compiler first.
func (r *recipe) allTools() []toolState { return slices.Concat(r.found, r.tools) }

// changes lists, sorted, the names whose digests differ or that only one of the two has.
func changes(before, now map[string]string) (names []string) {
	for name, sum := range before {
		if now[name] != sum {
			names = append(names, name)
		}
	}
	for name := range now {
		if _, known := before[name]; !known {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// settings lists everything that determines the result of compiling, but for the inputs.
func (p *Project) settings(r *recipe) *cache.Sentence {
	s := cache.NewSentence("build v2")
	for _, t := range r.tools {
		s.Say("tool", t.identity()...)
	}
	s.Say("command", p.state.Template.Build...) // without the number of jobs
	for _, name := range slices.Sorted(maps.Keys(p.state.Template.Env)) {
		s.Say("environment", name, p.state.Template.Env[name])
	}
	s.Say("values", r.values...)
	for _, name := range slices.Sorted(maps.Keys(r.trees)) {
		s.Say("tree", name, r.trees[name])
	}
	for _, name := range slices.Sorted(maps.Keys(r.outside)) {
		s.Say("outside", name, r.outside[name])
	}
	return s
}

func isSourceOrHeader(name string) bool {
	return isSource(name) || isHeader(name) || slices.Contains([]string{".cc", ".cpp", ".cxx", ".s"}, path.Ext(name))
}

func isHeader(name string) bool {
	return slices.Contains([]string{".h", ".hh", ".hpp"}, path.Ext(name))
}
