// Package toolwords recognises the messages of compilers, linkers and build tools.
package toolwords

import (
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
	linkerEnd  = regexp.MustCompile(`^collect2: error: ld returned`) // also where a warning was fatal
	warning    = regexp.MustCompile(`\bld(\.\w+)?: warning: `)
	sourceLine = regexp.MustCompile(`^\s*(\d+ )?\s*\|`)
)

// Classify returns the failed step, by a tool's messages.
func Classify(text string) failure.Class {
	switch {
	case noRoom.MatchString(text):
		return failure.DoesNotFit
	case linkFailed.MatchString(text):
		return failure.Link
	default:
		return failure.Compile
	}
}

// Explain returns the class and the message of a failure by what a tool printed, on standard error and on both streams:
// a build tool such as ninja copies compilers' errors to its standard output, and others only report that it failed,
// anywhere between these lines. The text is the one of the two that has the message.
func Explain(stderr, both string) (class failure.Class, message, text string) {
	if message := configureError(stderr); message != "" {
		return failure.Config, message, stderr
	}
	message = FirstError(stderr)
	if message != "" && !onlyFailed.MatchString(message) {
		return Classify(stderr), message, stderr
	}
	lines := slices.DeleteFunc(strings.SplitAfter(both, "\n"), onlyFailed.MatchString)
	if other := FirstError(strings.Join(lines, "")); other != "" {
		message = other
	} else if said := lastWords(stderr, both); said != "" {
		message = said
	}
	return Classify(both), message, both
}

// lastWords returns the last lines that a failed command printed, in a form that is nobody's: behind the command that
// ninja shows, or on standard error, where make shows no commands, before what make says.
func lastWords(stderr, both string) string {
	const most = 6
	lines := strings.Split(both, "\n")
	failed := slices.IndexFunc(lines, ninjaFailed.MatchString)
	if failed >= 0 {
		lines = lines[min(failed+2, len(lines)):] // the command is one line
		if end := slices.IndexFunc(lines, ninjaGoesOn.MatchString); end >= 0 {
			lines = lines[:end]
		}
	} else {
		lines = strings.Split(stderr, "\n")
		lines = lines[:max(0, slices.IndexFunc(lines, onlyFailed.MatchString))]
	}
	said := slices.DeleteFunc(lines, func(l string) bool {
		return strings.TrimSpace(l) == "" || onlyFailed.MatchString(l)
	})
	return strings.Join(said[max(0, len(said)-most):], "\n")
}

var (
	ninjaFailed = regexp.MustCompile(`^FAILED: `)
	ninjaGoesOn = regexp.MustCompile(`^\[\d+/\d+\] |^ninja: |^FAILED: `)
)

// onlyFailed matches messages of a tool that only says that another one failed.
var onlyFailed = regexp.MustCompile(`command exited with status|^make: \*\*\*`)

// configureError returns an error of CMake, with its indented message, and a few lines of what the tools that CMake
// called had printed before; or "".
func configureError(stderr string) string {
	const before, after = 3, 5
	lines := slices.DeleteFunc(strings.Split(stderr, "\n"), func(l string) bool { return strings.TrimSpace(l) == "" })
	i := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, "CMake Error") })
	if i < 0 {
		return ""
	}
	end := i + 1
	for end < min(len(lines), i+1+after) && strings.HasPrefix(lines[end], "  ") {
		end++
	}
	return strings.Join(lines[max(0, i-before):end], "\n")
}

// FirstError is the first error a compiler, linker or make printed, with the source lines shown below it.
func FirstError(text string) string {
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		if !errorLine.MatchString(l) {
			continue
		}
		if w := slices.IndexFunc(lines[:i], warning.MatchString); w >= 0 && linkerEnd.MatchString(l) {
			return lines[w]
		}
		end := i + 1
		for end < len(lines) && end < i+6 && sourceLine.MatchString(lines[end]) {
			end++
		}
		return strings.TrimRight(strings.Join(lines[i:end], "\n"), " \n")
	}
	return ""
}

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
