// Package diagnostics recognises the messages of compilers, linkers and build tools.
package diagnostics

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/boardsmith/boardsmith/failure"
)

const (
	overflowWords   = "overflowed by"
	willNotFitWords = "will not fit in region"
	quoted          = "[`'‘]([^`'‘’]+)['’]" // a name, as GNU tools quote it in any locale
)

var (
	noRoom     = regexp.MustCompile(`region .* ` + overflowWords + `|` + willNotFitWords + `|not enough room for`)
	overflowed = regexp.MustCompile("region " + quoted + " " + overflowWords + ` (\d+) bytes?`)
	inNoRegion = regexp.MustCompile("section " + quoted + ` (?:` + willNotFitWords + `|is not within region) ` + quoted)
	linkFailed = regexp.MustCompile(`undefined reference|multiple definition|ld returned|linker command failed|cannot find -l|ld: error|collect2: error`)
	errorLine  = regexp.MustCompile(`(?i)(^|[: ])(fatal )?error: |undefined reference|multiple definition|` +
		overflowWords + `|^make: \*\*\*|cannot find`)
	notFound = regexp.MustCompile(`(?m)^make(\[\d+\])?: \*\*\* .*\] Error 127$|` +
		`^(/bin/)?sh: (line )?\d+: .*: (command )?not found$`)
	linkerEnd  = regexp.MustCompile(`^collect2: error: ld returned`) // also where a warning was fatal
	warning    = regexp.MustCompile(`\bld(\.\w+)?: warning: `)
	linker     = regexp.MustCompile(`^(\S*[/-])?ld(\.\w+)?(\.exe)?:`) // begins its messages
	sourceLine = regexp.MustCompile(`^\s*(\d+ )?\s*\|`)
	// compilerWarning matches a compiler's message that is no error, whatever words of a source it has.
	compilerWarning = regexp.MustCompile(`^[^:]+:\d+(:\d+)?: (warning|note): `)
)

// NamesCode reports whether a message is about the code that was compiled or linked. Another one may be about the
// computer: a library that a compiler could not load, a wrapper's exit code.
func NamesCode(message string) bool {
	return InSource(message, func(string) bool { return true }) || noRoom.MatchString(message)
}

// Classify returns the failed step, by a tool's messages.
func Classify(text string) failure.Class {
	switch {
	case noRoom.MatchString(text):
		return failure.DoesNotFit
	case linkFailed.MatchString(text):
		return failure.Link
	case notFound.MatchString(text):
		return failure.ToolMissing
	default:
		return failure.Compile
	}
}

// Explain returns the class and the message of a failure by what a tool printed, on standard error and on both streams:
// a build tool such as ninja copies compilers' errors to its standard output, and others only report that it failed,
// anywhere between these lines. The text is the one of the two that has the message.
func Explain(stderr, both string) (class failure.Class, message, text string) {
	if noWorkspace.MatchString(stderr) {
		return failure.Config, strings.TrimSpace(stderr), stderr
	}

	if message := configureError(stderr); message != "" {
		return failure.Config, message, stderr
	}

	message = FirstError(stderr)
	if message != "" && !onlyFailed.MatchString(message) {
		return Classify(stderr), message, stderr
	}

	// ninja prints the errors of compilers on standard output, behind the step that failed.
	if steps := failedSteps(both); len(steps) > 0 {
		for _, step := range steps {
			if other := FirstError(others(printed(step))); other != "" {
				return Classify(step), other, both
			}
		}

		last := steps[len(steps)-1] // what is like one, but printed by another step, comes before it
		name, _, _ := strings.Cut(last, "\n")
		return Classify(last), cmp.Or(lastWords(printed(last)), name), both
	}

	if other := FirstError(others(both)); other != "" {
		message = other
	} else if at := makeFailed.FindStringIndex(stderr); at != nil {
		message = strings.TrimPrefix(lastWords(stderr[:at[0]])+"\n"+stderr[at[0]:at[1]], "\n")
	}

	return Classify(both), message, both
}

// noWorkspace matches west's output outside of a workspace, where it has no commands of Zephyr.
var noWorkspace = regexp.MustCompile(`west: unknown command "build"`)

// NoInput returns a line about a file of the project that the folder of a build lacks.
func NoInput(file, template string) string {
	return "\n" + file + " is no input of template " + template +
		", so it is not in the folder in which the command runs"
}

// Outside returns a line about a file outside of the project that a command may not read.
func Outside(file, template string) string {
	return "\n" + file + " is outside of the project, and template " + template + " does not declare it"
}

// advice are the next steps for messages of tools, and for NoInput's and Outside's. $1 is the first part in brackets.
var advice = []struct {
	message *regexp.Regexp
	next    string
}{
	{
		regexp.MustCompile(`(?m) is no input of template (\S+), so `),
		"name it in inputs of template $1, or do not exclude it there",
	},
	{
		regexp.MustCompile(`(?m) is outside of the project, and template (\S+) does not declare it`),
		"put it into the project, or name it in template.json of template $1: in outside, so that its " +
			"contents count; in trees, so that its commit does; in reads, if it is of a tool",
	},
	{
		noWorkspace,
		"Zephyr's folder is not in a west workspace: run west init -l ZEPHYR_BASE there, or set ZEPHYR_BASE to the " +
			"zephyr folder of a workspace",
	},
	// of GNU ld for Arm
	{
		regexp.MustCompile(`uses 32-bit enums yet the output is to use `),
		"compile it with -fshort-enums, as the board's compiler does: enums in structs have another size otherwise",
	},
	{
		regexp.MustCompile(`uses variable-size enums yet the output is to use `),
		"compile it with -fno-short-enums, as the board's compiler does: enums in structs have another size otherwise",
	},
	// what templates define the macros of the date and the time as; that of the file's last change is set by nothing
	{regexp.MustCompile(`error: (__TIMESTAMP__) differs in each build`), "do not use $1"},
	{
		regexp.MustCompile(`error: (__[A-Z]+__) differs in each build`),
		"do not use $1, or set SOURCE_DATE_EPOCH to the time that it stands for, in seconds since 1970",
	},
	// of TVM's registry, which declares functions of another interface
	{
		regexp.MustCompile(`conflicting types for .tvmgen_`),
		`export it with Runtime("crt") without "system-lib", or with interface-api "packed" and unpacked-api 0`,
	},
	{
		regexp.MustCompile(`cannot find -l(a|t|l|ub)san\b|undefined reference to .__(a|t|ub)san_`),
		"only programs of this computer have the library of -fsanitize: build for host, or let the checks of " +
			"-fsanitize=undefined trap, with -fsanitize-undefined-trap-on-error",
	},
	{
		regexp.MustCompile(`not a git repository`),
		"the command runs in a copy of the inputs, no git work tree: let a file or a variable of env have what it asks git",
	},
}

// Advice returns the next step for a message of Explain; "" if the message has all.
func Advice(message string) string {
	for _, a := range advice {
		if at := a.message.FindStringSubmatchIndex(message); at != nil {
			return string(a.message.ExpandString(nil, a.next, message, at))
		}
	}
	return ""
}

// Warnings collects the warnings of configure steps, which may have several lines: of CMake and Kconfig; and those of
// dtc. The zero value is ready for use.
type Warnings struct{ open string }

var (
	configureWarning = regexp.MustCompile(`^(CMake Warning( at .*)?:?$|([^\s:]+:\d+: )?warning: |` +
		`[^\s:]+:\d+\.\d+[-.\d]*: Warning \()`)
	kconfigHint = regexp.MustCompile(` See https?://\S+ and/or look up .*`)
)

// Ended returns the warning that ends before this line, or "". One of CMake is indented, one of Kconfig ends at an
// empty line.
func (w *Warnings) Ended(line string) (text string) {
	isCMake := strings.HasPrefix(w.open, "CMake")
	goesOn := isCMake && (line == "" || strings.HasPrefix(line, "  ")) ||
		strings.Contains(w.open, "warning: ") && !isCMake && strings.TrimSpace(line) != ""

	begins := configureWarning.MatchString(line)
	if w.open != "" && goesOn && !begins {
		w.open += " " + line
		return ""
	}

	text = kconfigHint.ReplaceAllString(strings.Join(strings.Fields(w.open), " "), "")
	if w.open = ""; begins {
		w.open = line
	}
	return text
}

// others returns the lines that do not only say that another tool failed.
func others(text string) string {
	lines := slices.DeleteFunc(strings.SplitAfter(text, "\n"), onlyFailed.MatchString)
	return strings.Join(lines, "")
}

// failedSteps returns what ninja printed of each step that failed: the line FAILED, the command in one line, and the
// output. It ends where ninja goes on to another of as many steps, or stops.
func failedSteps(text string) (steps []string) {
	lines := strings.SplitAfter(text, "\n")
	total := ""
	for i := 0; i < len(lines); i++ {
		if step := NinjaStep.FindStringSubmatch(lines[i]); step != nil { // the last is the one that failed
			total = step[2]
		}
		if !strings.HasPrefix(lines[i], ninjaFailed) {
			continue
		}
		end := i + 1
		for end < len(lines) && !strings.HasPrefix(lines[end], ninjaFailed) && !strings.HasPrefix(lines[end], "ninja: ") {
			if step := NinjaStep.FindStringSubmatch(lines[end]); step != nil && (total == "" || step[2] == total) {
				break
			}
			end++
		}
		steps = append(steps, strings.Join(lines[i:end], ""))
		i = end - 1
	}
	return steps
}

// printed returns what a step printed, which comes behind its name and its command.
func printed(step string) string {
	lines := strings.SplitAfterN(step, "\n", 3)
	return strings.Join(lines[min(2, len(lines)):], "")
}

const ninjaFailed = "FAILED: "

// NinjaStep matches ninja's line before a command: its number and how many there are.
var NinjaStep = regexp.MustCompile(`^\[(\d{1,9})/(\d{1,9})\] `)

var (
	makeFailed = regexp.MustCompile(`(?m)^make: \*\*\*.*`)
	diagnostic = regexp.MustCompile(`: (warning|note): |: In function |^In file included from |^ +from `)
)

// lastWords returns the last lines of what a failed command printed in a form that is nobody's, without the warnings of
// compilers that ran at the same time.
func lastWords(text string) string {
	const most = 6
	words := slices.DeleteFunc(strings.Split(text, "\n"), func(l string) bool {
		return strings.TrimSpace(l) == "" || onlyFailed.MatchString(l) || diagnostic.MatchString(l) ||
			sourceLine.MatchString(l)
	})
	return strings.Join(words[max(0, len(words)-most):], "\n")
}

// onlyFailed matches messages of a tool about the failure of another one.
var onlyFailed = regexp.MustCompile(`command exited with status|^make(\[\d+\])?: \*\*\*`)

// configureError returns an error of CMake, with its indented message, and what the tools that CMake called had printed
// before, from the first line about an error; or "".
func configureError(stderr string) string {
	const before, without, after = 8, 3, 12 // lines; without, if no line tells of one
	lines := slices.DeleteFunc(strings.Split(stderr, "\n"), func(l string) bool {
		return strings.TrimSpace(l) == "" || configureStep.MatchString(l)
	})
	i := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, "CMake Error") })
	if i < 0 {
		return ""
	}

	end := i + 1
	for end < min(len(lines), i+1+after) && strings.HasPrefix(lines[end], "  ") {
		end++
	}

	first := slices.IndexFunc(lines[:i], configureCause.MatchString)
	if first < 0 {
		first = max(0, i-without)
	}

	cause := slices.Clone(lines[first:i])
	if len(cause) > before {
		cause = append(cause[:before], "…")
	}

	return strings.Join(append(cause, lines[i:end]...), "\n")
}

var (
	configureStep  = regexp.MustCompile(`^(-- |Loading Zephyr )`)
	configureCause = regexp.MustCompile(`(?i)\b(error|warning|failed|found|no such)\b`)
)

// FirstError is the first error a compiler, linker or make printed, with the source lines shown below it, and before it
// the files that include its file: an error may be at the end of another file that they include.
func FirstError(text string) string {
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		if !errorLine.MatchString(l) || sourceLine.MatchString(l) || compilerWarning.MatchString(l) {
			continue
		}
		// collect2's line says only that the linker has failed.
		if cause := linkersOwn(lines[:i]); cause != "" && linkerEnd.MatchString(l) {
			return cause
		}

		end := i + 1
		for end < len(lines) && end < i+6 && sourceLine.MatchString(lines[end]) {
			end++
		}
		words := append(includers(lines[:i]), lines[i:end]...)
		return strings.TrimRight(strings.Join(words, "\n"), " \n")
	}
	return ""
}

var (
	included   = regexp.MustCompile(`^In file included from |^ +from `)
	ofFunction = regexp.MustCompile(`^[^ ]+: In function `)
)

// includers returns those of the last lines before an error that name the files that include its file.
func includers(lines []string) []string {
	end := len(lines)
	// A line that names the function stands between the includers and the error.
	if end > 0 && ofFunction.MatchString(lines[end-1]) {
		end--
	}

	first := end
	for first > 0 && included.MatchString(lines[first-1]) {
		first--
	}
	return slices.Clone(lines[first:end])
}

// linkersOwn returns the linker's first message that is no warning, else its first warning, which may be fatal; or "".
func linkersOwn(lines []string) string {
	first := ""
	for _, l := range lines {
		switch {
		case warning.MatchString(l):
			first = cmp.Or(first, l)
		case linker.MatchString(l):
			return l
		}
	}
	return first
}

// assertion matches a broken _Static_assert and an #error, with the text in the source, as GCC and Clang print them,
// and an ASSERT of a linker script whose text begins with "error: ".
var assertion = regexp.MustCompile(
	`(?m)(?:error: (?:static(?: assertion|_assert) failed(?: due to requirement '.*?')?:? |#error )|\bld(?:\.\w+)?: error: )"?(.+?)"?$`)

// Assertion returns the text of the first broken _Static_assert, #error or ASSERT in messages of tools, or "".
func Assertion(message string) string {
	text, _ := find(assertion, message)
	return text
}

// find returns the first two parts in brackets of what an expression matches; "" without them.
func find(expression *regexp.Regexp, text string) (first, second string) {
	parts := append(expression.FindStringSubmatch(text), "", "", "")
	return parts[1], parts[2]
}

// InSource reports whether a message is about the content of sources, as a compiler, an assembler or a linker found it:
// an error in one of the files that isInput accepts by name, or symbols that are missing or defined twice.
func InSource(message string, isInput func(file string) bool) bool {
	if symbols.MatchString(message) {
		return true
	}
	file, _ := find(fileOfError, message)
	return file != "" && (isInput(file) || ofCompiler.MatchString(file))
}

var (
	symbols     = regexp.MustCompile(`undefined (reference|symbol)|multiple definition|duplicate symbol`)
	fileOfError = regexp.MustCompile(`(?m)^(.+?):\d+(?::\d+)?: (?:[Ff]atal )?[Ee]rror: `)
	ofCompiler  = regexp.MustCompile(`(^|/)cc\w{6}\.s$`) // what GCC gives to the assembler
)

var (
	missingHeader = regexp.MustCompile(`(?m)^(?:(.+?):\d+:\d+: )?fatal error: ` +
		`'?([^:' \n]+)'?(?:: No such file| file not found)`)
	missingSymbol = regexp.MustCompile("(?:in function " + quoted + `:?\s[^\n]*)?undefined reference to ` + quoted)
	twiceDefined  = regexp.MustCompile("(?m)^((?:.* in function .*\n)?.*(?:multiple definition of|duplicate symbol:?) " +
		quoted + ".*)$")
	noInstruction = regexp.MustCompile(`error: this builtin is not supported for this target|needs target feature`)
)

// MissingHeader returns a header that a compiler did not find, and the file that includes it; or "".
func MissingHeader(text string) (header, includer string) {
	includer, header = find(missingHeader, text)
	return header, strings.TrimPrefix(includer, "./")
}

// MissingSymbol returns a function or variable that a linker did not find, and the function of a library that needs it
// if the message has it; or "".
func MissingSymbol(text string) (symbol, function string) {
	function, symbol = find(missingSymbol, text)
	return symbol, function
}

// TwiceDefined returns a symbol of which a linker found two definitions, and the lines that name their files; or "".
func TwiceDefined(text string) (symbol, files string) {
	files, symbol = find(twiceDefined, text)
	return symbol, files
}

// LacksInstruction reports whether a compiler refused a function that stands for an instruction, which the processor
// does not have.
func LacksInstruction(message string) bool { return noInstruction.MatchString(message) }

// TooSmall returns the region that is too small by GNU ld's messages, the missing bytes, and the sections named; or "".
// Of several regions it is the one that lacks most.
func TooSmall(text string) (region string, over int64, sections string) {
	for _, found := range overflowed.FindAllStringSubmatch(text, -1) {
		if n, err := strconv.ParseInt(found[2], 10, 64); err == nil && n > over {
			region, over = found[1], n
		}
	}

	var names []string
	for _, found := range inNoRegion.FindAllStringSubmatch(text, -1) {
		if found[2] == region && !slices.Contains(names, found[1]) {
			names = append(names, found[1])
		}
	}
	return region, over, strings.Join(names, ", ")
}

// LibraryMissing matches the messages of a compiler that finds no C library.
var LibraryMissing = regexp.MustCompile(`\.h: No such file|cannot find -l(c|m|gcc|c_nano)\b|cannot read spec file|nano\.specs|picolibc\.specs`)

// LinkLibrary matches a library on the linker's command line as gcc -### prints it.
var LinkLibrary = regexp.MustCompile(`(?:^|\s)"?-l([\w+.-]+)"?`)

// LinkFolder matches a folder on the linker's command line as gcc -### prints it.
var LinkFolder = regexp.MustCompile(`(?:^|\s)(?:"-L([^"]+)"|-L(\S+))`)
