// Package templatefile reads template.json, which describes how to build a template, and checks it. It builds nothing.
// No code depends on a template's name.
package templatefile

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/internal/firmware"
	"github.com/boardsmith/boardsmith/internal/fit"
	"github.com/boardsmith/boardsmith/internal/stackdepth"
)

// knownInterface is the latest version of what template.json means.
const knownInterface = 1

// Names in a template's folder.
const (
	TemplateFile = "template.json"
)

// Names of boardsmith's own files in a project's folder, which no file of a template may have.
const (
	StateFile = "project.json"
	ModelTar  = "model.tar"
	// SamplesFile has the inputs of standalone firmware that are compiled in; a later step reads it.
	SamplesFile = "samples.npz"
	CompileFile = "compile_commands.json" // for editors
	OwnPrefix   = ".boardsmith."          // begins the names of all others
	// TemporaryPrefix begins the names of own files that are written and then renamed.
	TemporaryPrefix = ".tmp-"
)

// Files that are generated for a board and its options, which a template may request in Generate.
const (
	ConfigFile    = "crt_config/crt_config.h" // configures the runtime
	MakeFile      = "crt_config/board.mk"     // the board's tools and flags, for make
	OperatorsFile = "crt_config/operators.mk" // the compiler's flags for the model; the runtime does not depend on it
	MemoryFile    = "crt_config/memory.h"     // the memory map, for the linker script
	LibrariesFile = "crt_config/libraries.mk" // the project's libraries, for make; absent without any
)

// GeneratedFiles are all of them. It must not be changed.
var GeneratedFiles = []string{ConfigFile, MakeFile, OperatorsFile, MemoryFile, LibrariesFile}

// Description is template.json. Paths are slash paths in the project's folder. Package jsonfile checks values by the
// tags "is" and "keys".
type Description struct {
	// the version of this table's rules: 1, which is also the default. A later one is refused
	Interface int `json:"interface,omitempty" is:"0..2147483647"`

	Doc string `json:"doc"` // one line of description
	// commands that run before `build`, each a list of words, such as a configure step
	Prepare [][]string `json:"prepare,omitempty" is:"text"`
	Build   []string   `json:"build" is:"text"` // the build command, as a list of words; see [Words](#words)
	// programs that the build command needs besides the board's compiler: `name`; `install`, the Debian command
	// that installs it; and `in`, [places](#places) where it may be if it is not on `PATH`. A build depends on the
	// first line that `NAME --version` prints or, if that fails, on the program's file; on neither with `starter`:
	// true, for a program that only starts others
	Tools []Tool `json:"tools"`
	// the generated files that it needs: any of `crt_config/crt_config.h`, `crt_config/board.mk`,
	// `crt_config/operators.mk` (the compiler's flags for the model), `crt_config/memory.h` and
	// `crt_config/libraries.mk` ([libraries](#libraries), only with any)
	Generate []string `json:"generate"`
	// what the firmware is built from. Default: all files of the project, but for the build folder, hidden files
	// and folders at the top, compile_commands.json, samples.npz, `LICENSES/`, the programs for TVM's Python, and
	// what is in `model/` outside of `codegen`. `"!PATTERN"` excludes files or folders; an entry without `!` names
	// a file or folder, and then only what is named is an input. A build sees nothing but inputs
	Inputs []string `json:"inputs,omitempty" is:"input"`
	// the linked image, in the build folder, which is the first folder of its path
	ELF string `json:"elf" is:"inside"`
	Map string `json:"map" is:"inside"` // the linker's map, in the build folder
	// the file, in the build folder, in which the build command describes the board, as a [board
	// file](board.md#fields); see [The board](#the-board)
	Board string `json:"board,omitempty" is:"inside"`
	// the board options that it uses; setting any other is an error
	Options []string `json:"options"`
	// the compile command, for compile_commands.json; leave it out if the build command writes that file
	Compile []CompileStep `json:"compile"`

	// environment variables of the build command, name to value, besides `PATH`, `HOME`, `TMPDIR`, `LC_ALL=C` and
	// `PWD`, which every tool gets, and `SOURCE_DATE_EPOCH` if it is set. The value `$NAME` copies the user's
	// variable of that name, which must be set. With another value all is built again, unless an input in
	// `outside` or a tree begins with the variable. `$NAME?` is the same for a variable that may be unset
	Env map[string]string `json:"env,omitempty" keys:"identifier"`
	// inputs outside of the project: `$NAME/PATH`, with `"NAME": "$NAME"` in `env`, or `"$NAME?"`: then there are
	// none if the variable is unset. Their contents count, not their location
	Outside []string `json:"outside,omitempty"`
	// source trees outside of the project that are too large to read for each build: `$NAME` or `$NAME/PATH`, with
	// `"NAME": "$NAME"` in `env`. PATH may begin with `..`; if it is a pattern, it stands for all folders that
	// match it (`$NAME/../modules/*`), else it must be there. A build depends on a tree's git commit and on the
	// contents of changed tracked files, also of submodules, but neither on untracked files nor on the tree's
	// location. Of a tree without git, it depends on names, sizes and times of all files
	Trees []string `json:"trees,omitempty" is:"pattern"`
	// what else the build may [read outside of the project](#what-a-build-reads), without counting it: tools that
	// it finds itself, and what need not be noticed: [places](#places), which may be patterns. A variable may have
	// the beginning of programs' names, as CROSS_COMPILE does
	Reads []string `json:"reads,omitempty" is:"readable"`
	// folders for variables of `env` that the user has not set: `name`, the variable; `in`, [places](#places);
	// `has`, a file. The first place with that file is the variable's value. `install`: how to get it
	Find []Search `json:"find,omitempty"`
	// what else the build needs of the computer: `name`; `command`, a list of words, which succeeds if it is
	// there; and `install`, how to get it. A word `$NAME/PATH` is below a variable's folder. Only `doctor` and
	// `template:check` run these commands
	Checks []SetupCheck `json:"checks,omitempty"`
	// a command, like those of `checks`, that prints the boards that the build command can build for: the first
	// word of each line. `mage boards` lists them; an error of a build that cannot be configured names the nearest
	Boards []string `json:"boards,omitempty" is:"text"`
	// patterns of results that are copied into the project's build folder, besides those that other fields name
	Results []string `json:"results,omitempty" is:"inside pattern"`
	// patterns of sources, headers and files of the model that a configure step reads: see [The folder of a
	// build](#the-folder-of-a-build)
	ConfigureReads []string `json:"configure_reads,omitempty" is:"inside pattern"`
	// patterns of inputs outside of the model whose changes the configure step takes into account when it begins
	// from nothing: see [The folder of a build](#the-folder-of-a-build)
	Reconfigure []string `json:"reconfigure,omitempty" is:"inside pattern"`
	// the folder to which paths in the linker's map are relative. Default: the project's folder
	LinkedIn string `json:"linked_in,omitempty" is:"inside"`
	// the folder that the programmer `west` takes for that of the build. Default: the build folder
	ProgrammerFolder string `json:"programmer_folder,omitempty" is:"inside"`
	// `bin` and `hex`: the image as raw bytes and as Intel HEX, for a board with a memory map; `apart`: raw bytes
	// of a flash besides that of the code, with `*` in place of its region's name
	Forms Forms `json:"forms,omitzero"`
	// true: the build compiles the C that a board names in `sources`, which a project has in `src/`. Not needed
	// with a folder `port/` or with `src` among `inputs`. Without it, a board with sources of its own is refused
	Sources bool `json:"sources,omitempty"`
	// patterns of names, as in `*.conf`: the files of a board's `settings` that the build reads, in the project's
	// folder `board/`. Without it, a board with such files is refused
	Settings []string `json:"settings,omitempty" is:"pattern"`
	// the linker script that board.mk names, for a board with a memory map. board.mk names a board's own instead;
	// without this field, such a board is refused
	LinkerScript string `json:"linker_script,omitempty" is:"inside"`
	// patterns of sources in `port/` that a board's `startup` replaces. Without it, a board with one is refused
	Startup []string `json:"startup,omitempty" is:"pattern"`
	// places whose sections are checked after the link with a board's own linker script or start-up code:
	// `vectors`, the vector table of an Arm core, which precedes code and constants, and of a Cortex-M begins with
	// a stack pointer and the reset's function; `cleared`, [places](#landmarks) that the start clears; `window`,
	// the start of memory for uploaded code; `constructors`, the place of all constructors, of which none may be
	// left out; `page`, the document that errors name. What symbols must be is asserted by the linker:
	// `contract.ld` of the template `baremetal`, which its Makefile appends to any linker script. A message that
	// begins with `error: ` and the name of a board file's field and a colon gets that field's line in
	// `board:check`
	Contract  Contract           `json:"contract,omitzero"`
	Landmarks firmware.Landmarks `json:"landmarks,omitzero"` // places in the image: [Landmarks](#landmarks)
	// how operators for the device's RAM are compiled and linked: [Operators](#operators)
	Operators OperatorSteps `json:"operators,omitzero"`
	// names of sections, of the image or of objects in it, that are only stacks (`stacks`) or only the arena
	// (`arena`). Default: none, and `mage size` counts them as other parts' variables. `own`: patterns of archives
	// that have the objects of the project's sources; all other objects in the build folder are then the operating
	// system's
	Areas fit.Areas        `json:"areas,omitzero"`
	Calls stackdepth.Calls `json:"calls,omitzero"` // inputs for the stacks' depth: [Calls](#calls)
}

// OperatorSteps are the flags of the compiler and of the linker for operators that are uploaded. {cflags}, {ldflags},
// {runtime_opt}, {operator_opt} and {operator_flags} are as in compileStep; an -I is of a folder of the project.
type OperatorSteps struct {
	Compile []string `json:"compile"`
	Link    []string `json:"link"`
}

// A Contract names places in an image whose sections are checked after the link with a board's own linker script or
// start-up code. The linker script asserts what symbols have to be.
type Contract struct {
	Page    string `json:"page"`              // the document that explains it
	Vectors string `json:"vectors,omitempty"` // the vector table of an Arm core, which precedes the code
	// memory that the start-up code clears. Other variables without initial values must be in Areas, in Kept or in
	// Window
	Cleared []firmware.Place `json:"cleared,omitempty"`
	Window  string           `json:"window,omitempty"` // the start of memory for uploaded code
	// the constructors that the start-up code calls; others in the image, or left out of it, are errors
	Constructors firmware.Place `json:"constructors,omitzero"`
}

// Forms are the image as raw bytes and as Intel HEX.
type Forms struct {
	Bin string `json:"bin,omitempty" is:"inside"`
	Hex string `json:"hex,omitempty" is:"inside"`
	// raw bytes of the flash besides that of the code, which Bin does not have; * stands for the name of its region
	ExtraBin string `json:"apart,omitempty" is:"inside pattern"`
}

// Names returns the names that are set. region is the flash besides that of the code that the image has; "" is none.
func (f Forms) Names(region string) []string {
	return slices.DeleteFunc([]string{f.Bin, f.Hex, f.ExtraBinOf(region)}, func(name string) bool { return name == "" })
}

// ExtraBinOf returns the name of the raw bytes of a region besides that of the code, "" of none.
func (f Forms) ExtraBinOf(region string) string {
	if region == "" {
		return ""
	}
	return strings.Replace(f.ExtraBin, "*", region, 1)
}

// Words of a template's build command and environment that are replaced.
const (
	JobsWord      = "{jobs}"         // the number of jobs
	FormsWord     = "{forms}"        // must be a whole word: the requested forms of the image, one word each
	BoardWord     = "{zephyr_board}" // Zephyr's name of the board
	ToolchainWord = "{toolchain}"    // the folder whose bin/ holds the compiler
	ifWord        = "{if "           // {if $NAME/PATH}WORD is WORD if that is there, else nothing
)

// A Tool is a program that the build command calls.
type Tool struct {
	Name    string   `json:"name" is:"required"`
	Install string   `json:"install"`                 // one command that installs it on Debian
	In      []string `json:"in,omitempty" is:"place"` // folders where it may be if it is not on PATH; as In of Search
	// it only starts other programs: its version has no part in what they make
	Starter bool `json:"starter,omitempty"`
}

// FolderForProgrammer returns what the board's programmer takes for the folder of the build.
func (t *Description) FolderForProgrammer() string {
	return cmp.Or(t.ProgrammerFolder, t.BuildFolder())
}

// BoardFile returns Board as a list of at most one name.
func (t *Description) BoardFile() []string {
	return slices.DeleteFunc([]string{t.Board}, func(name string) bool { return name == "" })
}

// BuildFolder returns the folder that holds all results of the build command.
func (t *Description) BuildFolder() string {
	first, _, _ := strings.Cut(t.ELF, "/")
	return first
}

// LibraryArchives is the pattern of the archives of libraries, which are results of a build with libraries.
func (t *Description) LibraryArchives() string {
	return path.Join(t.BuildFolder(), fit.Libraries, "*.a")
}

// CutIf splits a word of the build command that depends on a place.
func CutIf(word string) (place, then string, ok bool) {
	after, ok := strings.CutPrefix(word, ifWord)
	place, then, closed := strings.Cut(after, "}")
	return place, then, ok && closed
}

// MakesForms reports whether the build command makes the image's other forms only on request.
func (t *Description) MakesForms() bool { return slices.Contains(t.Build, FormsWord) }

// A CompileStep describes for editors how a template compiles the files that match a pattern. The build command
// does not use it.
type CompileStep struct {
	Files []string `json:"files" is:"pattern"` // patterns of C files in the project
	// Flags are those that affect the code's meaning, without warnings and output names. {cflags} stands for the
	// board's flags, {runtime_opt} and {operator_opt} for the options of those names, {operator_flags} for the
	// file's flags of that option.
	Flags []string `json:"flags"`
}

// Compiles reports whether the step is for a file of the project.
func (s CompileStep) Compiles(name string) bool {
	return slices.ContainsFunc(s.Files, func(pattern string) bool {
		ok, _ := path.Match(pattern, name) // check has validated the pattern
		return ok
	})
}

// FlagsFor returns the flags for a C file, by its name without a folder.
func (s CompileStep) FlagsFor(b *boards.Board, o boards.Options, file string) []string {
	var flags []string
	options := strings.NewReplacer("{runtime_opt}", o.RuntimeOpt, "{operator_opt}", o.OperatorOpt)

	for _, f := range s.Flags {
		switch f {
		case "{cflags}":
			flags = append(flags, b.CFlags...)
		case "{operator_flags}":
			flags = append(flags, o.OperatorFlagsOf(file)...)
		case "{ldflags}":
			flags = append(flags, b.LDFlags...)
		default:
			flags = append(flags, options.Replace(f))
		}
	}
	return flags
}

// A Search is where a folder is found whose variable the user has not set: in the first of these places that has a
// file.
type Search struct {
	Name    string   `json:"name" is:"required"`        // of the variable
	Has     string   `json:"has" is:"required inside"`  // a file below the folder
	In      []string `json:"in" is:"required searched"` // begin with AboveWord or HomeWord
	Install string   `json:"install,omitempty"`         // how to get it
}

// A SetupCheck is a command that succeeds if something is there that the build needs and that is no program: a module
// of an interpreter, or a setting.
type SetupCheck struct {
	Name    string   `json:"name" is:"required"`
	Command []string `json:"command" is:"required text"` // $NAME/PATH is below the folder of a variable of env
	Install string   `json:"install"`                    // a command that installs it, or what to do
}

// IsFolder reports whether the value of a user's variable is a folder: the template looks for something below it.
func (t *Description) IsFolder(name string) bool {
	isFound := func(s Search) bool { return s.Name == name }
	isBelow := func(tool Tool) bool { return slices.ContainsFunc(tool.In, BeginsWith(name)) }
	return slices.ContainsFunc(slices.Concat(t.Outside, t.Trees), BeginsWith(name)) ||
		slices.ContainsFunc(t.Find, isFound) || slices.ContainsFunc(t.Tools, isBelow)
}

// BeginsWith returns a function that reports whether a path is $NAME or below it.
func BeginsWith(name string) func(path string) bool {
	return func(path string) bool { return path == "$"+name || strings.HasPrefix(path, "$"+name+"/") }
}

// UsersVariable returns the user's variable that becomes a variable of the build command.
func (t *Description) UsersVariable(name string) (from string, optional, ok bool) {
	from, ok = strings.CutPrefix(t.Env[name], "$")
	from, optional = strings.CutSuffix(from, "?")
	return from, optional, ok
}

// SplitTree returns the variable that a source tree begins with, how many folders above its value are meant, and the
// path or pattern below that. The value's own path is no pattern, whatever characters it has.
func SplitTree(tree string) (name string, above int, pattern string) {
	name, pattern, _ = strings.Cut(strings.TrimPrefix(tree, "$"), "/")
	for pattern == ".." || strings.HasPrefix(pattern, "../") {
		above, pattern = above+1, strings.TrimPrefix(pattern[len(".."):], "/")
	}
	return name, above, pattern
}

// Words that begin a place, beside $NAME for a variable's folder.
const (
	AboveWord = "{above}" // the project's folder, and each one around it
	HomeWord  = "~"
)
