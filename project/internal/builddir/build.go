// Package builddir builds a project in a folder of the cache, in which what was compiled before is not compiled again,
// and copies the results into the project.
//
// It checks neither the model nor the image: package project does.
package builddir

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/go-hclog"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/cache"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/diagnostics"
	"github.com/boardsmith/boardsmith/internal/files/scratch"
	"github.com/boardsmith/boardsmith/project/internal/buildenv"
	"github.com/boardsmith/boardsmith/project/internal/projectfile"
	"github.com/boardsmith/boardsmith/project/internal/templatefile"
	"github.com/boardsmith/boardsmith/project/internal/workdir"
)

// A Build is the build of a project. One goroutine at a time may use it.
type Build struct {
	State    *projectfile.State
	Tree     *workdir.Tree // the project's folder
	Env      buildenv.Env
	Cache    *cache.Cache // nil: the user's
	Log      hclog.Logger
	Jobs     int  // compilers at once, of all builds with Env.Tools
	Forms    bool // build also the image's raw and Intel HEX files
	Fresh    bool // build once more, from nothing, and compare
	Progress func(detail string, done, total int)

	Explain func(err error, folder string) error // adds the cause to an error of the build command, which ran in a folder
	Check   func(folder string) error            // of the results of a build in a folder

	Board   *projectfile.Board // as the build completed it; nil unless the template names a file for that
	r       *recipe
	program string          // that builds
	last    *Record         // of the last build, to compare with
	warned  map[string]bool // what was shown
}

// board returns the board as far as it is known.
func (b *Build) board() *boards.Board {
	if board := cmp.Or(b.Board, b.State.Built); board != nil {
		return &board.Board
	}
	return &b.State.Board.Board
}

// advice is the next step after an error in the results of the build command.
func (b *Build) advice() string { return Advice(b.State) }

// Advice is the next step after an error in the results of a project's build command.
func Advice(s *projectfile.State) string {
	return "correct the build command of template " + s.Template.Name
}

// Run removes the results of the last build, builds in a folder of the cache, and copies the results into the project.
// It returns their names.
func (b *Build) Run(ctx context.Context) ([]string, error) {
	// The comparison needs the record of the last build, which is removed next.
	if b.Fresh {
		b.last = Last(b.Tree, b.State)
	}

	// After a failure, no image of earlier inputs is left.
	if err := RemoveResults(b.Tree, b.State.Template.BuildFolder(), b.State.Template.ELF); err != nil {
		return nil, err
	}

	var err error
	if b.program, err = b.Env.Builder(); err != nil {
		return nil, err
	}

	return b.inFolder(ctx)
}

// complete notes the board that the build command completed in a folder, and the compiler that it found.
func (b *Build) complete(ctx context.Context, in *workdir.Tree) (err error) {
	if b.Board, err = b.Complete(in); err != nil || b.State.Board.Toolchain.CC != "" {
		return err
	}

	b.r.found, err = b.identifyFound(ctx, &b.Board.Board)
	return err
}

// run copies the inputs into a folder, runs the template's command there, and shows progress by the sources that it
// prints. What it may read is limited, where the system can do that.
func (b *Build) run(ctx context.Context, in *workdir.Tree, lock *os.File) error {
	changed, err := b.copyInputs(in)
	if err != nil {
		return err
	}
	if err := in.MakeFolders([]string{b.State.Template.ELF}); err != nil {
		return err
	}

	temporary, err := scratch.Make("boardsmith-run-")
	if err != nil {
		return err
	}
	defer temporary.Remove() // if this fails, a later process does it

	total, line := b.progress(changed)
	wanted := total
	if len(b.State.Template.Compile) == 0 {
		wanted = b.Jobs // it has more sources than those in the project
	}
	more, give := b.Env.Tools.TakeMore(wanted - 1)
	defer give()

	words := b.Env.Command(b.board(), 1+more, b.wantedForms())
	tool := buildenv.Run{
		Dir: in.Dir, Shown: b.Tree.Dir, Held: lock, Log: b.Log, Temp: temporary.Dir, Line: line,
		// The folder is no work tree, whatever is around it.
		Env: append(slices.Clone(b.r.env), "GIT_CEILING_DIRECTORIES="+filepath.Dir(in.Dir)),
	}

	cc, _ := b.compiler() // ReadInputs has found it
	if tool.Reads = b.Env.Reads(ctx, cc, b.State.Board.CFlags); tool.Reads != nil {
		tool.Reads = append(tool.Reads, in.Dir, temporary.Dir)
	} else {
		b.warn("what the build reads beside its inputs is not noticed: a tool is a snap, or the system is no Linux 5.19 " +
			"or later with Landlock; a fresh build compares with one from nothing")
	}

	tool.Noted = b.noted()
	if err = b.prepareCommands(ctx, &tool, 1+more); err == nil {
		tool.Path, tool.Args = b.program, words[1:]
		err = tool.Do(ctx)
	}
	tool.Noted("") // the last warning has ended
	tool.Noted(".")

	failed := (*buildenv.ToolError)(nil)
	if !errors.As(err, &failed) {
		return err
	}

	// The linker's message names a file, but the user can only install a package.
	if !b.r.hasLibrary(&b.State.Board.Board) && diagnostics.LibraryMissing.Match(failed.Tail) {
		chain := b.State.Board.Toolchain
		return &failure.MissingToolError{Tool: "the C library of " + chain.CC, Install: chain.Install}
	}

	b.nameProject(failed, in.Dir, tool.Reads)
	return err
}

// progress returns how many of the changed files are sources, and a function that shows progress by a line that a
// command prints.
func (b *Build) progress(changed []string) (total int, line func(string)) {
	sources := map[string]bool{} // those that no line has named yet
	for _, name := range changed {
		if workdir.IsSource(name) {
			sources[name] = true
		}
	}

	total = len(sources)
	return total, func(line string) {
		words := strings.Fields(line)

		// ninja prints numbers of its own, which count all steps.
		if m := diagnostics.NinjaStep.FindStringSubmatch(line); m != nil {
			step, _ := strconv.Atoi(m[1]) // digits
			of, _ := strconv.Atoi(m[2])
			b.Progress(words[len(words)-1], step, of)
			return
		}

		for _, word := range words {
			if name := strings.TrimPrefix(word, b.Tree.Dir+"/"); sources[name] {
				delete(sources, name)
				done := total - len(sources)
				b.Progress(name, done, total)
			}
		}
	}
}

// noted returns a function that shows, by the lines that a command prints, the warnings of configure steps, and those
// of compilers about sources of the user's own: each once.
func (b *Build) noted() func(line string) {
	var configure diagnostics.Warnings
	return func(line string) {
		text := configure.Ended(line)
		if b.isOwnWarning(line) {
			text = line
		}
		b.warn(strings.ReplaceAll(text, b.Tree.Dir+"/", ""))
	}
}

// warn shows a warning, unless it is empty or was shown.
func (b *Build) warn(text string) {
	if text == "" || b.warned[text] {
		return
	}

	if b.warned == nil {
		b.warned = map[string]bool{}
	}
	b.warned[text] = true
	b.Log.Warn(text)
}

var compilerWarning = regexp.MustCompile(`^([^\s:]+):\d+:\d+: warning: `)

// isOwnWarning reports whether a line is a compiler's warning about a source of the user's own.
func (b *Build) isOwnWarning(line string) bool {
	m := compilerWarning.FindStringSubmatch(line)
	if m == nil {
		return false
	}

	name := path.Clean(strings.TrimPrefix(m[1], b.Tree.Dir+"/"))
	digest, input := b.r.inputs[name]
	return input && !templatefile.IsShipped(digest) && !b.State.Template.Landmarks.Folders.InModel(name)
}

// prepareCommands runs the template's commands before the build command, which tool is to run.
func (b *Build) prepareCommands(ctx context.Context, tool *buildenv.Run, jobs int) error {
	for _, of := range b.State.Template.Prepare {
		program, err := b.Env.ProgramOf(of)
		if err != nil {
			return err
		}

		tool.Path, tool.Args = program, b.Env.Words(of, b.board(), jobs, nil)[1:]
		if err := tool.Do(ctx); err != nil {
			return err
		}

		// The command for the user, after a later failure, repeats this one.
		tool.After = append(tool.After, append([]string{tool.Path}, tool.Args...))
	}
	return nil
}

// hasLibrary reports whether a C library was found for a board that is not a process.
func (r *recipe) hasLibrary(b *boards.Board) bool {
	isCLibrary := func(t buildenv.Identity) bool { return t.Name == buildenv.CLibrary }
	return len(b.Memory) == 0 || slices.ContainsFunc(r.allTools(), isCLibrary)
}

// OtherForms returns the image's other forms, for a board with a memory map or one that may turn out to have one.
func OtherForms(s *projectfile.State) []string {
	if len(s.Board.Memory) == 0 && s.Template.Board == "" {
		return nil
	}

	apart, _ := s.Board.ExtraRegion()
	return s.Template.Forms.Names(apart.Name)
}

// wantedForms returns the forms that the build command is asked for.
func (b *Build) wantedForms() []string {
	if !b.Forms || !b.State.Template.MakesForms() {
		return nil
	}
	return OtherForms(b.State)
}

// hasForms reports whether a build wrote all requested forms.
func (b *Build) hasForms(r *Record) bool {
	return !slices.ContainsFunc(b.wantedForms(), func(name string) bool { return r.Others[name] == "" })
}

// IsUpToDate reports whether a build would give the results of the last one.
func (b *Build) IsUpToDate(ctx context.Context, last *Record) bool {
	return last != nil && last.Recipe == hex.EncodeToString(b.r.key[:]) && b.hasForms(last) &&
		(b.State.Board.Toolchain.CC != "" || b.findsAgain(ctx, last.Detected, b.State.Built))
}

// ByHand runs the build command in the project's folder, as a user does by hand, and the board's command after the
// link. It returns the words of the build command.
func (b *Build) ByHand(ctx context.Context) ([]string, error) {
	cc, err := b.compiler()
	if err != nil {
		return nil, err
	}
	env, _, err := b.Env.Environ(cc)
	if err != nil {
		return nil, err
	}

	program, err := b.Env.Builder()
	if err != nil {
		return nil, err
	}

	words := b.Env.Command(b.board(), b.Jobs, nil)
	run := buildenv.Run{Dir: b.Tree.Dir, Env: env, Log: b.Log}
	if err := b.prepareCommands(ctx, &run, b.Jobs); err != nil {
		return nil, err
	}

	run.Path, run.Args = program, words[1:]
	if err := run.Do(ctx); err != nil {
		return nil, err
	}

	return words, b.postLink().Run(ctx, b.Tree, b.Tree.Dir, nil)
}
