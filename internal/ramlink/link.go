// Package ramlink compiles and links operators for the RAM of a device that runs a project's firmware: one run of the
// compiler and one of the linker. It writes nothing into the project's folder.
package ramlink

import (
	"bytes"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/go-hclog"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/cache"
	"github.com/boardsmith/boardsmith/crt"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/blueprint"
	"github.com/boardsmith/boardsmith/internal/buildenv"
	"github.com/boardsmith/boardsmith/internal/cachekey"
	"github.com/boardsmith/boardsmith/internal/command"
	"github.com/boardsmith/boardsmith/internal/files/scratch"
	"github.com/boardsmith/boardsmith/internal/firmware"
	"github.com/boardsmith/boardsmith/internal/fit"
	"github.com/boardsmith/boardsmith/internal/toolwords"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/rpc"
)

// Operators are C files and objects that hold packed functions.
type Operators struct {
	Files []File
	// the functions to be called, by their C names; at least one. NAME=SYMBOL registers the C function SYMBOL as NAME.
	Entries []string
	Flags   []string // of the compiler, behind the board's
	// of all entries: "" and mlf.ABIPacked are packed functions. With mlf.ABITVMFFI the C function of entry NAME is
	// __tvm_ffi_NAME, and files find TVM's headers for this ABI.
	ABI mlf.ABI
	// what entries take, by their names: other calls of them are refused. An entry without one takes anything.
	Signatures []mlf.Signature
}

// A File is a C file (.c), an object (.o), or what C files include: by its name, or by its place beside them.
type File struct {
	// Relative and clean, with slashes, and not an option (-…). Unique, also without the folder as the object (.o) that
	// a C file is compiled to.
	Name string
	Data []byte
}

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
	Template  *blueprint.Blueprint
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
	link     []string          // the linker and its arguments before the objects
	libs     []string          // its arguments behind them
	process  bool              // programs take the C library from the system's, by stubs
	about    []string          // what an object is made with besides its own flags and files
	own      []File            // objects that are linked with all operators
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
	l := &Linker{setting: s, process: len(b.Memory) == 0}
	l.about = slices.Concat(compiler.Words(), steps.Compile, b.CFlags,
		[]string{o.OperatorOpt, o.OperatorFlags, o.RuntimeOpt}, s.headers())
	l.compile = append([]string{s.Compiler}, s.words(steps.Compile)...)
	if err := l.askLinker(ctx, s.Compiler, s.words(steps.Link)); err != nil {
		return nil, err
	}
	if l.own, err = l.compileOwn(ctx, File{"shim.c", crt.Sources.Shim}); err != nil {
		return nil, err
	}
	libc, err := l.libc(ctx)
	if err != nil {
		return nil, err
	}
	l.own = append(l.own, libc...)
	return l, l.useLibraries()
}

// compileOwn compiles a file that is linked with all operators.
func (l *Linker) compileOwn(ctx context.Context, files ...File) (objects []File, err error) {
	err = inTemp(func(dir string) error {
		objects, err = l.objects(ctx, dir, Operators{Files: files})
		return err
	})
	return objects, err
}

// ownLibC has what the runtime defines in place of the C library. With it, code takes the time in RAM that it takes in
// flash.
const ownLibC = "crt/src/runtime/libc.c"

// libc compiles ownLibC as the firmware does. It returns nothing for a process, or if the project has no such file.
func (l *Linker) libc(ctx context.Context) ([]File, error) {
	s := l.setting
	i := slices.IndexFunc(s.Template.Compile, func(step blueprint.CompileStep) bool { return step.Compiles(ownLibC) })
	data, err := os.ReadFile(filepath.Join(s.Folder, filepath.FromSlash(ownLibC)))
	if l.process || i < 0 || errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	flags := s.words(s.Template.Compile[i].Flags)
	as := *l
	as.compile, as.about = append(slices.Clone(l.compile[:1]), flags...), slices.Concat(l.about, flags)
	return as.compileOwn(ctx, File{path.Base(ownLibC), data})
}

// headers returns the names and digests of the project's files that C files of operators may include.
func (s Setting) headers() (all []string) {
	for _, name := range slices.Sorted(maps.Keys(s.Files)) {
		header := slices.Contains([]string{".h", ".hpp", ".hh", ".inc"}, path.Ext(name)) ||
			s.inLibrary(name) // whose headers may include files of any name
		if header && !s.Template.Landmarks.Folders.InModel(name) {
			all = append(all, name, s.Files[name])
		}
	}
	return all
}

// words are a template's flags for the board. Folders of headers are the project's, whatever folder the tool runs in.
func (s Setting) words(flags []string) []string {
	// The flags of a model's files are not for candidates.
	all := blueprint.CompileStep{Flags: flags}.FlagsFor(s.Board, s.Options, "")
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

const (
	operatorScript = "operators.ld"
	linkedFile     = "operators.elf"
	initFunction   = "boardsmith_program_init"
	tablePointer   = "_tvm_backend_functions"
	importNames    = "boardsmith_import_names"
	importPointers = "boardsmith_imports"
)

// askLinker reads from the compiler's output how it would call the linker: without the compiler in between, a link
// takes a third of the time.
func (l *Linker) askLinker(ctx context.Context, cc string, flags []string) error {
	const object = "operators.o"
	isLibrary := func(w string) bool { return strings.HasPrefix(w, "-l") }
	var libraries []string
	for _, w := range flags {
		if isLibrary(w) {
			libraries = append(libraries, w)
		}
	}
	args := slices.Concat(slices.DeleteFunc(slices.Clone(flags), isLibrary),
		[]string{"-nostartfiles", "-static", "-###", "-T" + operatorScript, object}, libraries)
	said, err := buildenv.Once(ctx, l.setting.Tools, cc, strings.Join(args, "\x00"), func() (string, error) {
		_, said, err := command.Command{Path: cc, Args: args, Timeout: buildenv.AskTimeout}.Capture(ctx)
		return said, err
	})
	if err != nil {
		return err
	}
	ld, err := buildenv.Once(ctx, l.setting.Tools, cc, "-print-prog-name=ld",
		func() (string, error) { return command.Ask(ctx, cc, "-print-prog-name=ld") })
	if err != nil {
		return err
	}
	if ld, err = command.Find(ld, l.setting.Board.Toolchain.Install); err != nil {
		return err
	}
	l.link = []string{ld}
	var words []string
	for line := range strings.SplitSeq(said, "\n") {
		if strings.HasPrefix(line, " ") { // a command line; the last one links
			words = quotedWords(line)
		}
	}
	at := slices.Index(words, object)
	if at < 1 {
		return fmt.Errorf("%s does not say how it links: %q", command.Name(cc), said)
	}
	l.link = append(l.link, linkerWords(words[1:at])...)
	l.libs = linkerWords(words[at+1:])
	return nil
}

// linkerWords removes the words that a link of operators sets itself, and the compiler's own plug-in.
func linkerWords(words []string) (kept []string) {
	for i := 0; i < len(words); i++ {
		switch w := words[i]; {
		case w == "-plugin", w == "-o", w == "-T", w == "-dynamic-linker":
			i++
		case strings.HasPrefix(w, "-plugin-opt"), strings.HasPrefix(w, "-T"):
		default:
			kept = append(kept, w)
		}
	}
	return kept
}

// quotedWords takes a command line apart as GCC prints it with -###.
func quotedWords(line string) (words []string) {
	var word strings.Builder
	quoted, begun := false, false
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case c == '"':
			quoted, begun = !quoted, true
		case c == ' ' && !quoted:
			if begun {
				words = append(words, word.String())
			}
			word.Reset()
			begun = false
		default:
			if c == '\\' && i+1 < len(line) {
				i++
			}
			word.WriteByte(line[i])
			begun = true
		}
	}
	if begun {
		words = append(words, word.String())
	}
	return words
}

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
func checkNames(files []File) error {
	written := map[string]string{}
	for _, f := range files {
		switch {
		case !fs.ValidPath(f.Name) || f.Name == "." || !filepath.IsLocal(filepath.FromSlash(f.Name)):
			return failure.Errorf(failure.Config, "operators: %q is no clean, relative name of a file", f.Name)
		case strings.HasPrefix(f.Name, "-"):
			return failure.Errorf(failure.Config, "operators: file name %q begins like an option", f.Name)
		}
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
func writeAll(dir string, files []File) error {
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

// objects compiles the C files in dir, in one run of the compiler, unless the cache has what they make.
func (l *Linker) objects(ctx context.Context, dir string, o Operators) (objects []File, err error) {
	var sources, words []string
	facts := cachekey.New("operators v3").Add("made with", l.about...).Add("flags", o.Flags...)
	for _, f := range o.Files {
		switch path.Ext(f.Name) {
		case ".o":
			if err := fit.CheckObject(l.setting.Board, mlf.File{Name: f.Name, Data: f.Data}); err != nil {
				return nil, err
			}
			objects = append(objects, f)
			continue
		case ".c":
			sources = append(sources, f.Name)
			words = append(words, "./"+f.Name)
		}
		facts.Add("file", f.Name, string(f.Data))
	}
	if len(sources) == 0 {
		return objects, nil
	}
	key := facts.Key()
	kept := cache.OrDefault(l.setting.Cache)
	if kept != nil {
		if made, ok := kept.Get(key); ok && len(made) == len(sources) {
			for _, f := range made {
				objects = append(objects, File{f.Name, f.Data})
			}
			return objects, nil
		}
	}
	if err := writeAll(dir, o.Files); err != nil {
		return nil, err
	}
	if err := checkFlags(o.Flags); err != nil {
		return nil, err
	}
	flags := []string{"-ffile-prefix-map=" + dir + "=.", "-I.", "-MMD", "-c"}
	if err := l.run(ctx, dir, slices.Concat(l.compile, o.Flags, flags, words)); err != nil {
		return nil, vanished(err, dir, o.Files)
	}
	var made []cache.File
	for _, name := range sources {
		if err := l.checkIncludes(dir, name); err != nil {
			return nil, err
		}
		name = objectName(name)
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return nil, err
		}
		objects = append(objects, File{name, data})
		made = append(made, cache.File{Name: name, Data: data})
	}
	if kept != nil {
		_ = kept.Put(key, made) // else it is compiled again the next time
	}
	return objects, nil
}

// vanished returns a tool's error as one of class host if one of the files that were written for the tool is no longer
// there.
func vanished(err error, dir string, files []File) error {
	for _, f := range files {
		if _, gone := os.Lstat(filepath.Join(dir, filepath.FromSlash(f.Name))); errors.Is(gone, fs.ErrNotExist) {
			return failure.New(failure.Host, "set TMPDIR to a folder in which nothing is removed, and repeat",
				"another program removed %s while it was used: %w", filepath.Join(dir, f.Name), err)
		}
	}
	return err
}

// run runs a compiler or linker when its turn comes.
func (l *Linker) run(ctx context.Context, dir string, words []string) error {
	give, err := l.setting.Tools.TakeJob(ctx, l.setting.Jobs)
	if err != nil {
		return err
	}
	defer give()
	err = buildenv.Run{Dir: dir, Path: words[0], Args: words[1:], Log: l.setting.Log, Line: func(string) {}}.Do(ctx)
	var tool *buildenv.ToolError
	if errors.As(err, &tool) {
		tool.Command = "" // dir is removed
	}
	return l.setting.Explain(err)
}

// script places operators at an address: what is uploaded, with room for the registry at its end, then what begins as
// zero.
const script = `SECTIONS {
  . = 0x%x;
  .text : { *(.text .text.*) *(.glue_7 .glue_7t .v4_bx) }
  .rodata : { *(.rodata .rodata.* .srodata .srodata.*) *(.got .got.plt) }
  .init_array : ALIGN(8) {
    boardsmith_constructors = .;
    KEEP(*(SORT_BY_INIT_PRIORITY(.init_array.*)))
    KEEP(*(.init_array))
    boardsmith_constructors_end = .;
  }
  .data : { *(.data .data.* .sdata .sdata.*) }
  .tdata : { *(.tdata .tdata.*) }
  .tbss : { *(.tbss .tbss.*) }
  boardsmith_registry = ALIGN(16);
  . = boardsmith_registry + %d;
  boardsmith_zero = .;
  .bss (NOLOAD) : { *(.bss .bss.* .sbss .sbss.* COMMON) }
  boardsmith_end = .;
  /DISCARD/ : {
    *(.comment .note .note.* .eh_frame .ARM.exidx .ARM.exidx.* .ARM.extab .ARM.extab.* .ARM.attributes .riscv.attributes)
    *(.fini_array .fini_array.*)
  }
}
`

// Link makes a program of operators for a window. Errors: a *ToolError where the compiler or the linker fails, a
// *FitError where the window is too small; of class config for names of files; of class link for an entry that is not
// there and for variables of threads.
func (l *Linker) Link(ctx context.Context, o Operators, w rpc.Window) (program rpc.Program, err error) {
	if ctx.Err() != nil {
		return program, failure.Stopped(ctx, "link operators")
	}
	if len(o.Entries) == 0 {
		return program, failure.Errorf(failure.Config, "operators: no entry is named")
	}
	o, own, err := l.packed(ctx, o)
	if err != nil {
		return program, err
	}
	if err := checkNames(o.Files); err != nil {
		return program, err
	}
	err = inTemp(func(dir string) error {
		program, err = l.linkIn(ctx, dir, o, own, w)
		return err
	})
	return program, err
}

func (l *Linker) linkIn(ctx context.Context, dir string, o Operators, own []File, w rpc.Window) (rpc.Program, error) {
	operatorsDir, linkDir := filepath.Join(dir, operatorsPart), filepath.Join(dir, linkPart)
	objects, err := l.objects(ctx, operatorsDir, o)
	if err != nil {
		return rpc.Program{}, err
	}
	if objects, err = l.withLibraries(ctx, operatorsDir, objects, o.Entries); err != nil {
		return rpc.Program{}, err
	}
	stubs, err := l.stubs(ctx, linkDir, slices.Concat(own, objects))
	if err != nil {
		return rpc.Program{}, err
	}
	own = slices.Concat(own, stubs)
	layout := firmware.Registry{
		Entries: append([]string{initFunction}, o.Entries...), Signatures: o.signatures(),
		WordBytes: l.setting.Board.ELF.Class / 8,
	}
	if l.setting.Board.ELF.Class == 0 {
		layout.WordBytes = 8
	}
	linkerScript := File{operatorScript, fmt.Appendf(nil, script, w.Base, layout.Bytes())}
	if err := errors.Join(writeAll(linkDir, append(own, linkerScript)), writeAll(operatorsDir, objects)); err != nil {
		return rpc.Program{}, err
	}
	words := slices.Concat(l.link, []string{
		"-T", toLinkPart + operatorScript, "-o", toLinkPart + linkedFile, "--gc-sections", "-e", initFunction,
		"-u", tablePointer,
	})
	for _, e := range layout.Entries {
		_, symbol := firmware.EntryNames(e)
		words = append(words, "-u", symbol)
	}
	for _, f := range own {
		words = append(words, toLinkPart+f.Name)
	}
	for _, f := range objects {
		words = append(words, "./"+f.Name)
	}
	words = append(words, l.libs...)
	if err := l.run(ctx, operatorsDir, words); err != nil {
		err = vanished(vanished(err, operatorsDir, objects), linkDir, own)
		return rpc.Program{}, l.missing(ctx, dir, words, o, err)
	}
	linked, err := os.ReadFile(filepath.Join(linkDir, linkedFile))
	if err != nil {
		return rpc.Program{}, err
	}
	f, err := elf.NewFile(bytes.NewReader(linked))
	if err != nil {
		return rpc.Program{}, err
	}
	p, err := l.program(f, layout, w)
	p.ELF = linked
	return p, err
}

// missing is buildenv.ExplainSymbol for the error of a link in dir, which it runs again for its map.
func (l *Linker) missing(ctx context.Context, dir string, words []string, o Operators, err error) error {
	var tool *buildenv.ToolError
	if !errors.As(err, &tool) {
		return err
	}
	if function, _ := toolwords.MissingInFunction(string(tool.Tail)); function != "" {
		_ = l.run(ctx, filepath.Join(dir, operatorsPart), append(slices.Clip(words), "-Map", toLinkPart+"operators.map"))
	}
	return buildenv.ExplainSymbol(err, os.DirFS(filepath.Join(dir, linkPart)), func(object string) string {
		for _, f := range o.Files {
			if path.Ext(f.Name) == ".c" && objectName(f.Name) == path.Base(object) {
				return f.Name
			}
		}
		return "code for RAM"
	})
}

// signatures returns the signatures of entries, with the names in C.
func (o Operators) signatures() (all []firmware.Signature) {
	for _, e := range o.Entries {
		name, symbol := firmware.EntryNames(e)
		i := slices.IndexFunc(o.Signatures, func(s mlf.Signature) bool { return s.Function == name })
		if i >= 0 {
			s := o.Signatures[i]
			all = append(all, firmware.Signature{
				Symbol: symbol, Leading: uint8(s.Leading), MinTensors: uint8(s.MinTensors), MaxTensors: uint8(s.MaxTensors),
			})
		}
	}
	return all
}

// program takes the linked bytes, checks that they fit, and adds the registry.
func (l *Linker) program(f *elf.File, r firmware.Registry, w rpc.Window) (rpc.Program, error) {
	at, err := firmware.Symbols(f, "the operators")
	if err != nil {
		return rpc.Program{}, err
	}
	p := rpc.Program{
		Base: w.Base, Zero: at["boardsmith_end"] - at["boardsmith_zero"], Table: at[tablePointer],
		Registry: at["boardsmith_registry"], Signatures: r.SignaturesAt(at["boardsmith_registry"]),
	}
	if at["boardsmith_constructors"] != at["boardsmith_constructors_end"] || at[importPointers] != 0 {
		p.Init = initFunction
	}
	if need := at["boardsmith_end"] - w.Base; need > w.Bytes {
		return rpc.Program{}, &fit.Error{
			Board: l.setting.Board.Name, Part: "upload window", Over: int64(need - w.Bytes),
			Need: int64(need), Have: int64(w.Bytes), Option: fmt.Sprintf("upload_kib=%d", RoundUp(need)),
		}
	}
	p.Bytes, err = r.Append(f, at, w.Base, at["boardsmith_registry"], at["boardsmith_zero"])
	return p, err
}

// RoundUp is the least power of two of KiB that holds so many bytes.
func RoundUp(bytes uint64) (kib int) {
	for kib = 1; uint64(kib)*1024 < bytes; kib *= 2 {
	}
	return kib
}

// stubs returns an object with what the operators lack of the C library where they run in a process: its functions lie
// in the system's libraries, whose addresses only the process has. Nothing for a chip.
func (l *Linker) stubs(ctx context.Context, dir string, objects []File) ([]File, error) {
	if !l.process {
		return nil, nil
	}
	lacking, defined := map[string]bool{}, map[string]bool{}
	for _, o := range objects {
		f, err := elf.NewFile(bytes.NewReader(o.Data))
		if err != nil {
			return nil, failure.Errorf(failure.Link, "%s: %w", o.Name, err)
		}
		symbols, err := f.Symbols()
		if err != nil {
			return nil, failure.Errorf(failure.Link, "%s: %w", o.Name, err)
		}
		for _, s := range symbols {
			if elf.ST_BIND(s.Info) == elf.STB_LOCAL || s.Name == "" {
				continue
			}
			if s.Section == elf.SHN_UNDEF {
				lacking[s.Name] = true
			} else {
				defined[s.Name] = true
			}
		}
	}
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(lacking)), func(name string) bool {
		return defined[name] || strings.HasPrefix(name, "boardsmith_") || name == "_GLOBAL_OFFSET_TABLE_"
	})
	if len(names) == 0 {
		return nil, nil
	}
	made, err := l.objects(ctx, dir, Operators{Files: []File{{"stubs.c", stubsSource(names)}}})
	return made, err
}

// stubsSource is the C of functions that jump to where the pointers lead.
func stubsSource(names []string) []byte {
	var w bytes.Buffer
	fmt.Fprintf(&w, "extern const char %s[];\nextern void* %s[];\nconst char %s[] =", importNames, importPointers,
		importNames)
	for _, name := range names {
		fmt.Fprintf(&w, "\n  %q \"\\0\"", name)
	}
	fmt.Fprintf(&w, ";\nvoid* %s[%d];\n", importPointers, len(names))
	w.WriteString(`#if defined(__x86_64__)
#define STUB(name, offset) __asm__(".text\n.globl " #name "\n" #name ": jmp *` + importPointers + `+" #offset "(%rip)\n")
#elif defined(__aarch64__)
#define STUB(name, offset) \
  __asm__(".text\n.globl " #name "\n" #name ": adrp x16, ` + importPointers + `+" #offset "\n" \
          " ldr x16, [x16, #:lo12:` + importPointers + `+" #offset "]\n br x16\n")
#else
#error "stubs for this processor are not known"
#endif
`)
	for i, name := range names {
		fmt.Fprintf(&w, "STUB(%s, %d);\n", name, 8*i)
	}
	return w.Bytes()
}
