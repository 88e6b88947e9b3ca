// Package ramlink compiles and links operators for the RAM of a device that runs a project's firmware: one run of the
// compiler for each C file and one of the linker. It writes nothing into the project's folder.
package ramlink

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/hashicorp/go-hclog"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/cache"
	"github.com/boardsmith/boardsmith/crt"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/boardfile"
	"github.com/boardsmith/boardsmith/internal/cachekey"
	"github.com/boardsmith/boardsmith/internal/command"
	"github.com/boardsmith/boardsmith/internal/files/scratch"
	"github.com/boardsmith/boardsmith/internal/files/tarfile"
	"github.com/boardsmith/boardsmith/internal/fit"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/project/internal/buildenv"
	"github.com/boardsmith/boardsmith/project/internal/templatefile"
)

// Operators are C files and objects that hold packed functions.
type Operators struct {
	// C files (.c), objects (.o), and what C files include: by its name, or by its place beside them. Names are no
	// options (-…), and unique, also without the folder as the object (.o) that a C file is compiled to.
	Files []mlf.File
	// the functions to be called, by their C names; at least one. NAME=SYMBOL registers the C function SYMBOL as NAME.
	Entries []string
	Flags   []string // of the compiler, behind the board's
	// of all entries: "" and mlf.ABIPacked are packed functions. With mlf.ABITVMFFI the C function of entry NAME is
	// __tvm_ffi_NAME, and files find TVM's headers for this ABI.
	ABI mlf.ABI
	// what entries take, by their names: other calls of them are refused. An entry without one takes anything.
	Signatures []mlf.Signature
	// Check is the name of an entry that Link also registers as its CheckName; "": none.
	Check string
	// Untrusted operators come from a stranger: messages of tools show no line of a file that is not among Files.
	Untrusted bool
}

// CheckName returns the name of a function that calls an entry after it has left other numbers than before on the
// stack and in memory for workspaces, so that what the entry reads before it writes differs from call to call.
func (Operators) CheckName(entry string) string { return entry + "'" }

// A Library is a project's library.
type Library struct {
	Name    string
	Folder  string // of the project's copy, absolute
	Archive string // where a build puts it, absolute
}

// A Setting is what operators are linked for: a project's firmware on a board. Folders are absolute.
type Setting struct {
	Board     *boards.Board
	Options   boards.Options // settled
	Template  *templatefile.Description
	Folder    string            // the project's
	Files     map[string]string // that were generated there, name to digest
	Libraries []Library
	Compiler  string // path
	Tools     *buildenv.Tools
	Jobs      int // compilers at once
	Cache     *cache.Cache
	Log       hclog.Logger
	Explain   func(error) error // adds to an error of a tool what is known about its cause
}

// A Linker makes programs for the RAM of devices that run one project's firmware. Many goroutines may use it,
// also after the project was closed; generating the project again ends its use.
type Linker struct {
	setting  Setting
	compile  []string          // the compiler and its flags
	includer includer          // of the compiler
	included *sync.Map         // headers by their absolute paths, each of which any operator may include
	link     []string          // the linker and its arguments before the objects
	libs     []string          // its arguments behind them
	process  bool              // programs take the C library from the system's, by stubs
	about    []string          // what an object is made with besides its own flags and files
	own      []mlf.File        // objects that are linked with all operators in RAM, and take the firmware's place
	llvm     []mlf.File        // objects that are linked with all operators
	archives map[string]string // of libraries, by name; absolute
}

// New reads from the tools, once, what linking requires. Operators may call functions of the libraries, which are
// linked into each program. Errors: *failure.MissingToolError, *buildenv.ToolError; of class config if a library was
// not compiled.
func New(ctx context.Context, s Setting) (*Linker, error) {
	// Its folder does not determine what it makes.
	compiler, err := s.Tools.Identify(ctx, command.Name(s.Compiler), s.Compiler)
	if err != nil {
		return nil, err
	}

	steps, b, o := s.Template.Operators, s.Board, s.Options
	l := &Linker{setting: s, process: len(b.Memory) == 0, included: &sync.Map{}}
	l.about = slices.Concat(compiler.Words(), steps.Compile, b.CFlags,
		[]string{o.OperatorOpt, o.OperatorFlags, o.RuntimeOpt}, s.headers())
	l.compile = append([]string{s.Compiler}, s.words(steps.Compile)...)

	if err := l.askIncluder(ctx); err != nil {
		return nil, err
	}
	if err := l.askLinker(ctx, s.Compiler, s.words(steps.Link)); err != nil {
		return nil, err
	}

	if l.own, err = l.compileOwn(ctx, l.stackFlags(), mlf.File{Name: "shim.c", Data: crt.Sources.Shim}); err != nil {
		return nil, err
	}
	if l.llvm, err = l.compileOwn(ctx, nil, mlf.File{Name: "llvm.c", Data: crt.Sources.LLVM}); err != nil {
		return nil, err
	}

	libc, err := l.libc(ctx)
	if err != nil {
		return nil, err
	}
	l.own = append(l.own, libc...)

	// This comes last: what was compiled so far takes no header of a library.
	return l, l.useLibraries()
}

// stackFlags returns the macro with the part of the stack, in bytes, that a check overwrites.
func (l *Linker) stackFlags() []string {
	stack := l.setting.Options.StackBytes / 8 // the rest has the server's calls, and room for the operator
	if l.process {
		stack = 16384
	}
	return []string{fmt.Sprintf("-DBOARDSMITH_CHECK_STACK_BYTES=%d", stack)}
}

// compileOwn compiles files that are linked with all operators.
func (l *Linker) compileOwn(ctx context.Context, flags []string, files ...mlf.File) (objects []mlf.File, err error) {
	err = inTemp(func(dir string) error {
		objects, err = l.objects(ctx, dir, Operators{Files: files, Flags: flags})
		return err
	})
	return objects, err
}

// ownLibC has what the runtime defines in place of the C library. With it, code takes the time in RAM that it takes in
// flash.
const ownLibC = "crt/src/runtime/libc.c"

// libc compiles ownLibC as the firmware does. It returns nothing for a process, or if the project has no such file.
func (l *Linker) libc(ctx context.Context) ([]mlf.File, error) {
	s := l.setting
	i := slices.IndexFunc(s.Template.Compile, func(step templatefile.CompileStep) bool { return step.Compiles(ownLibC) })
	data, err := os.ReadFile(filepath.Join(s.Folder, filepath.FromSlash(ownLibC)))
	if l.process || i < 0 || errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	flags := s.words(s.Template.Compile[i].Flags)

	// It is compiled with the firmware's flags instead of those of operators.
	as := *l
	as.compile, as.about = append(slices.Clone(l.compile[:1]), flags...), slices.Concat(l.about, flags)
	return as.compileOwn(ctx, nil, mlf.File{Name: path.Base(ownLibC), Data: data})
}

// headers returns the names and digests of the project's files that C files of operators may include.
func (s Setting) headers() (all []string) {
	for _, name := range slices.Sorted(maps.Keys(s.Files)) {
		header := boardfile.IsHeader(name) || s.inLibrary(name) // whose headers may include files of any name
		if header && !s.Template.Landmarks.Folders.InModel(name) {
			all = append(all, name, s.Files[name])
		}
	}
	return all
}

// words are a template's flags for the board. Folders of headers are the project's, whatever folder the tool runs in.
func (s Setting) words(flags []string) []string {
	// The flags of a model's files are not for candidates.
	all := templatefile.CompileStep{Flags: flags}.FlagsFor(s.Board, s.Options, "")
	for i, w := range all {
		if name, ok := strings.CutPrefix(w, "-I"); ok {
			all[i] = "-I" + filepath.Join(s.Folder, filepath.FromSlash(name))
		}
	}
	return all
}

// inLibrary reports whether a file of the project is one of a library.
func (s Setting) inLibrary(name string) bool {
	file := filepath.Join(s.Folder, filepath.FromSlash(name))
	return slices.ContainsFunc(s.Libraries, func(l Library) bool { return contains(l.Folder, file) })
}

// An operator's files are in one folder, in which the tools run; the linker's own are in another one, so that no name
// of an operator's file is one of theirs.
const (
	operatorsPart = "operators"
	linkPart      = "link"
	toLinkPart    = "../" + linkPart + "/"
)

func inTemp(do func(dir string) error) error {
	folder, err := scratch.Make("boardsmith-operators")
	if err != nil {
		return err
	}
	err = do(folder.Dir)
	return errors.Join(err, folder.Remove())
}

// checkNames returns an error of class config if a tool would not take a name as a file's, or if two files are written
// under one name.
func checkNames(files []mlf.File) error {
	written := map[string]string{}
	for _, f := range files {
		switch {
		case !fs.ValidPath(f.Name) || f.Name == "." || !filepath.IsLocal(filepath.FromSlash(f.Name)):
			return failure.Errorf(failure.Config, "operators: %q is no clean, relative name of a file", f.Name)
		case strings.HasPrefix(f.Name, "-"):
			return failure.Errorf(failure.Config, "operators: file name %q begins like an option", f.Name)
		}

		// Objects have no folders in their names: a/x.c and b/x.c make the same one.
		names := []string{f.Name}
		if path.Ext(f.Name) == ".c" {
			names = append(names, objectName(f.Name))
		}

		for _, name := range names {
			if other, ok := written[name]; ok {
				return failure.New(failure.Config, "rename one of them", "operators: files %q and %q both make %q", other, f.Name,
					name)
			}
			written[name] = f.Name
		}
	}
	return nil
}

// objectName returns the name of the object that a C file is compiled to.
func objectName(source string) string { return strings.TrimSuffix(path.Base(source), ".c") + ".o" }

// writeAll writes files into a folder, which it makes with the folders of their names.
func writeAll(dir string, files []mlf.File) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}

	for _, f := range files {
		name := filepath.Join(dir, filepath.FromSlash(f.Name))
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(name, f.Data, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// objects compiles the C files in dir, unless the cache has what they make.
func (l *Linker) objects(ctx context.Context, dir string, o Operators) (objects []mlf.File, err error) {
	var sources []string
	facts := cachekey.New("operators v4").Add("made with", l.about...).Add("flags", o.Flags...)

	for _, f := range o.Files {
		switch path.Ext(f.Name) {
		case ".o":
			// Other compilers may have made an object.
			if err := fit.CheckObject(l.setting.Board, f); err != nil {
				return nil, err
			}

			own := func() ([]byte, error) { return l.own[0].Data, nil }
			if err := fit.CheckFPU(l.setting.Board, []mlf.File{f}, own); err != nil {
				return nil, err
			}

			objects = append(objects, f)
			continue
		case ".c":
			sources = append(sources, f.Name)
		}

		// Headers count, too: any C file may include them.
		facts.Add("file", f.Name, string(f.Data))
	}

	if len(sources) == 0 {
		return objects, nil
	}
	if err := checkFlags(o.Flags); err != nil {
		return nil, err
	}

	key := facts.Key()
	store := cache.OrDefault(l.setting.Cache)
	if store != nil {
		if compiled, ok := store.Get(key); ok && len(compiled) == len(sources) {
			for _, f := range compiled {
				objects = append(objects, mlf.File(f))
			}
			return objects, nil
		}
	}

	if err := writeAll(dir, o.Files); err != nil {
		return nil, err
	}

	var compiled []tarfile.File
	for _, name := range sources {
		object, err := l.compileSource(ctx, dir, name, o)
		if err != nil {
			return nil, err
		}
		objects = append(objects, object)
		compiled = append(compiled, tarfile.File(object))
	}

	if store != nil {
		_ = store.Put(key, compiled) // else it is compiled again the next time
	}
	return objects, nil
}

// compileSource compiles one C file of operators whose files are in dir.
func (l *Linker) compileSource(ctx context.Context, dir, source string, o Operators) (mlf.File, error) {
	flags := append(l.listing(o), "-ffile-prefix-map="+dir+"=.", "-I.", "-c", "./"+source)
	r := reading{l: l, dir: dir, source: source}
	if err := l.runNoting(ctx, dir, slices.Concat(l.compile, o.Flags, flags), r.add); err != nil {
		// The compiler's messages could quote a file that operators must not read.
		if o.Untrusted {
			if err := r.checkFailed(ctx, o.Flags); err != nil {
				return mlf.File{}, err
			}
		}
		return mlf.File{}, vanished(err, dir, o.Files)
	}

	name := objectName(source)
	data, err := os.ReadFile(filepath.Join(dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		err = vanished(failure.New(failure.Config, "leave out the flag by which it writes none",
			"operators: the compiler writes no object of %s with %q", source, o.Flags), dir, o.Files)
	}
	if err != nil {
		return mlf.File{}, err
	}
	return mlf.File{Name: name, Data: data}, l.checkIncludes(dir, source)
}

// vanished returns a tool's error as one of class host if one of the files that were written for the tool is no longer
// there.
func vanished(err error, dir string, files []mlf.File) error {
	for _, f := range files {
		if _, gone := os.Lstat(filepath.Join(dir, filepath.FromSlash(f.Name))); errors.Is(gone, fs.ErrNotExist) {
			return failure.New(failure.Host, "set TMPDIR to a folder in which nothing is removed, and repeat",
				"another program removed %s while it was used: %w", filepath.Join(dir, f.Name), err)
		}
	}
	return err
}

// run runs a linker or another tool when its turn comes.
func (l *Linker) run(ctx context.Context, dir string, words []string) error {
	return l.runNoting(ctx, dir, words, nil)
}

// runNoting is run, and passes what the tool prints to noted, line by line.
func (l *Linker) runNoting(ctx context.Context, dir string, words []string, noted func(string)) error {
	give, err := l.setting.Tools.TakeJob(ctx, l.setting.Jobs)
	if err != nil {
		return err
	}
	defer give()

	err = buildenv.Run{
		Dir: dir, Path: words[0], Args: words[1:], Log: l.setting.Log, Noted: noted,
	}.Do(ctx)
	var tool *buildenv.ToolError
	if errors.As(err, &tool) {
		tool.Command = "" // dir is removed
	}

	return l.setting.Explain(err)
}
