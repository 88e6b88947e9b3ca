// Package blueprint reads template.json, which describes how to build a template, and checks it. It builds nothing. No
// code depends on a template's name.
package blueprint

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

// Blueprint is template.json. Paths are slash paths in the project's folder. Package jsonfile checks values by the tags
// "is" and "keys".
type Blueprint struct {
	// the version of what template.json means; 0 is 1
	Interface int `json:"interface,omitempty" is:"0..2147483647"`

	Doc      string     `json:"doc"`                         // one line for people
	Prepare  [][]string `json:"prepare,omitempty" is:"text"` // commands before it, as a configure step
	Build    []string   `json:"build" is:"text"`             // the command that builds
	Tools    []Tool     `json:"tools"`                       // programs that it calls besides the board's compiler
	Generate []string   `json:"generate"`                    // files of generators that it needs
	// files and folders that determine the firmware, and !PATTERN for what does not; without names all files
	Inputs  []string      `json:"inputs,omitempty" is:"input"`
	ELF     string        `json:"elf" is:"inside"`             // the result
	Map     string        `json:"map" is:"inside"`             // the linker's map
	Board   string        `json:"board,omitempty" is:"inside"` // the board file that the build command writes
	Options []string      `json:"options"`                     // the board's options that it uses
	Compile []CompileStep `json:"compile"`                     // for compile_commands.json; empty if its build command writes that

	// of the build command: $NAME is the user's variable, $NAME? may be unset, others are literal
	Env map[string]string `json:"env,omitempty" keys:"identifier"`
	// inputs outside the project, as $VARIABLE/PATH with a variable of Env
	Outside []string `json:"outside,omitempty"`
	// source trees outside the project, as $VARIABLE or $VARIABLE/PATTERN
	Trees []string `json:"trees,omitempty" is:"pattern"`
	// places that the build may read and that do not count, such as those of toolchains that it finds itself
	Reads  []string     `json:"reads,omitempty" is:"readable"`
	Find   []Search     `json:"find,omitempty"`             // folders for variables of Env that the user has not set
	Checks []SetupCheck `json:"checks,omitempty"`           // of what else the build needs of this computer
	Boards []string     `json:"boards,omitempty" is:"text"` // the command that lists the boards that the build command knows
	// patterns of results that the project's build folder gets, besides those that are named here
	Results []string `json:"results,omitempty" is:"inside pattern"`
	// patterns of sources, headers and files of the model whose contents a configure step reads
	ConfigureReads []string `json:"configure_reads,omitempty" is:"inside pattern"`
	// patterns of inputs outside of the model whose changes the configure step, run anew, takes into account
	Reconfigure []string `json:"reconfigure,omitempty" is:"inside pattern"`
	// the folder to which the map's paths are relative; "" is the project's
	LinkedIn string `json:"linked_in,omitempty" is:"inside"`
	// what the board's programmer takes for the folder of the build; "" is the build folder
	ProgrammerFolder string `json:"programmer_folder,omitempty" is:"inside"`
	// the image in other forms, for a board with a memory map
	Forms Forms `json:"forms,omitzero"`
	// the build compiles what a board names in sources, in src, though the template has no ports
	Sources bool `json:"sources,omitempty"`
	// patterns of names of the board's files of settings that the build reads, in the project's folder board
	Settings     []string `json:"settings,omitempty" is:"pattern"`
	LinkerScript string   `json:"linker_script,omitempty" is:"inside"` // for a board with a memory map; board.mk names it
	// patterns of the template's sources that a board's start-up code replaces; none: it takes no such code
	Startup []string `json:"startup,omitempty" is:"pattern"`
	// what the image must have if the board brings its linker script or start-up code
	Contract  Contract           `json:"contract,omitzero"`
	Landmarks firmware.Landmarks `json:"landmarks,omitzero"` // how to find places in the ELF file
	// how operators for a device's RAM are compiled and linked
	Operators OperatorSteps `json:"operators,omitzero"`
	Areas     fit.Areas     `json:"areas,omitzero"` // sections that are stacks or the arena
	// facts for computing the stacks' depth that are not in the machine code
	Calls stackdepth.Calls `json:"calls,omitzero"`
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
func (t *Blueprint) FolderForProgrammer() string { return cmp.Or(t.ProgrammerFolder, t.BuildFolder()) }

// BoardFile returns Board as a list of at most one name.
func (t *Blueprint) BoardFile() []string {
	return slices.DeleteFunc([]string{t.Board}, func(name string) bool { return name == "" })
}

// BuildFolder returns the folder that holds all results of the build command.
func (t *Blueprint) BuildFolder() string {
	first, _, _ := strings.Cut(t.ELF, "/")
	return first
}

// LibraryArchives is the pattern of the archives of libraries, which are results of a build with libraries.
func (t *Blueprint) LibraryArchives() string { return path.Join(t.BuildFolder(), fit.Libraries, "*.a") }

// CutIf splits a word of the build command that depends on a place.
func CutIf(word string) (place, then string, ok bool) {
	after, ok := strings.CutPrefix(word, ifWord)
	place, then, closed := strings.Cut(after, "}")
	return place, then, ok && closed
}

// MakesForms reports whether the build command makes the image's other forms only on request.
func (t *Blueprint) MakesForms() bool { return slices.Contains(t.Build, FormsWord) }

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
func (t *Blueprint) IsFolder(name string) bool {
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
func (t *Blueprint) UsersVariable(name string) (from string, optional, ok bool) {
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
