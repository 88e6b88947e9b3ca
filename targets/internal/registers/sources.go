// This file finds registers in a board's C: macros that stand for numbers, and accesses to fixed addresses.

package registers

import (
	"bufio"
	"bytes"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/internal/boardfile"
	"github.com/boardsmith/boardsmith/project"
)

// A use is a number in the board's C that may stand for something in the chip.
type use struct {
	name  string // of the macro, or the expression of an address
	file  string // as the board file names it
	line  int    // from 1
	value value
}

// A value is the number that an expression stands for.
type value struct {
	number uint64
	access bool // the expression is the object at that address, as in *(volatile uint32_t*)0x40000000U
	bits   bool // it is composed by shifts or complements, as masks are, and addresses are not
}

// configFile is the file of a project with the settings of its board file.
const configFile = "crt_config/crt_config.h"

// A definition is a macro without parameters.
type definition struct {
	file string // of the project
	line int
}

// isChips reports whether a board's source drives a chip or board: those that a CPU's file names drive the core, whose
// registers are the architecture's.
func isChips(s boards.Source) bool {
	return path.Base(path.Dir(strings.ReplaceAll(s.At.File, `\`, "/"))) != "cpu"
}

// A reader collects the uses in the sources of one board.
type reader struct {
	project *project.Project
	board   *boards.Board
	mask    uint64            // the bits of an address
	chips   map[string]string // a file of the project: its name in the board file
	uses    []use
	known   map[use]bool
}

func newReader(p *project.Project, b *boards.Board) *reader {
	r := &reader{project: p, board: b, mask: 1<<32 - 1, chips: map[string]string{}, known: map[use]bool{}}
	if b.ELF.Class == 64 {
		r.mask = 1<<64 - 1
	}

	for _, s := range b.Sources {
		if isChips(s) {
			r.chips[boardfile.InProject(s.Name)] = s.Name
		}
	}

	if b.Startup.Name != "" {
		r.chips[boardfile.InProject(b.Startup.Name)] = b.Startup.Name
	}

	return r
}

// ownName returns the name in the board file of a file of the project that the chip or the board brings: a source, or a
// header in its folders.
func (r *reader) ownName(file string) (name string, ok bool) {
	if name, ok = r.chips[file]; ok {
		return name, true
	}

	for _, folder := range r.board.Include {
		if below, ok := strings.CutPrefix(file, boardfile.InProject(folder.Name)+"/"); ok {
			return path.Join(folder.Name, below), true
		}
	}

	return "", false
}

// all reads each C and assembler source of the chip and the board, with the headers that it includes.
func (r *reader) all(ctx context.Context) error {
	sources := r.board.Sources
	if r.board.Startup.Name != "" {
		// Clip: append must not write into the array of the board's sources.
		sources = append(slices.Clip(sources), r.board.Startup)
	}

	for _, s := range sources {
		if extension := path.Ext(s.Name); !isChips(s) || extension != ".c" && extension != ".S" {
			continue
		}

		if err := r.source(ctx, s.Name); err != nil {
			return fmt.Errorf("source %s: %w", s.Name, err)
		}
	}
	return nil
}

// source reads one source. The preprocessor states which macros are defined where, which of these this board's code
// uses, and what they expand to.
func (r *reader) source(ctx context.Context, name string) error {
	text, err := r.project.Preprocess(ctx, name, "", "-dD")
	if err != nil {
		return err
	}

	// A vendor's header has thousands of macros: only those that this code uses are asked for.
	used, err := r.project.Preprocess(ctx, name, "", "-dU")
	if err != nil {
		return err
	}

	expanded := map[string]bool{}
	for line := range strings.Lines(used) {
		if m := objectMacro.FindStringSubmatch(line); m != nil {
			expanded[m[1]] = true
		}
	}

	defined, accesses, err := r.text(text)
	if err != nil {
		return err
	}

	var ask strings.Builder
	for _, macro := range slices.Sorted(maps.Keys(defined)) {
		if expanded[macro] {
			fmt.Fprintf(&ask, "\n%s%s %s %s\n", mark, macro, mark, macro)
		}
	}

	if ask.Len() > 0 {
		answers, err := r.project.Preprocess(ctx, name, ask.String())
		if err != nil {
			return err
		}
		accesses = append(accesses, r.expansions(answers, defined)...)
	}

	return r.evaluate(ctx, name, accesses)
}

// mark is before the name of a macro and before its expansion; it is no name of C's libraries or compilers.
const mark = "boardsmith_macro_"

// expansions returns the expressions in the lines "mark+NAME mark expansion": of an initializer, as in a table of
// UARTs, each element.
func (r *reader) expansions(text string, defined map[string]definition) (list []expression) {
	parts := strings.Split(text, mark)
	for i := 1; i+1 < len(parts); i += 2 {
		name, text := strings.TrimSpace(parts[i]), strings.TrimSpace(parts[i+1])

		file, line := r.place(name, defined[name])
		elements, isList := strings.CutPrefix(text, "{")
		if !isList {
			list = append(list, expression{use{name: name, file: file, line: line}, text})
			continue
		}

		for i, element := range strings.Split(strings.TrimSuffix(elements, "}"), ",") {
			list = append(list, expression{use{name: fmt.Sprintf("%s[%d]", name, i), file: file, line: line}, element})
		}
	}

	return list
}

// An expression is C that may have a constant value.
type expression struct {
	use
	text string
}

var (
	rejected = regexp.MustCompile(`behind\.c:(\d+):.*error: `)

	// no number of its own: code, a text, a fraction, a member of a variable
	noNumber = regexp.MustCompile(`[;{}".]|->`)
)

// evaluate adds the expressions that are a constant number, or the object at a constant address: the compiler of the
// source has their values.
func (r *reader) evaluate(ctx context.Context, source string, list []expression) error {
	list = slices.DeleteFunc(list, func(e expression) bool { return noNumber.MatchString(e.text) })

	// Of the two lines of an object, the compiler accepts that with its address, of a number's the other one, and of the
	// complement of a variable's address none.
	var lines []string
	for i, e := range list {
		for access, operator := range []string{"", "&"} {
			lines = append(lines, fmt.Sprintf("const unsigned long long boardsmith_%d_%d = ~(unsigned long long)%s(%s);", i,
				access, operator, e.text))
		}
	}
	var object []byte
	for accepted := false; !accepted; {
		var err error
		object, err = r.project.CompileBehind(ctx, source, lines)
		accepted = err == nil

		// The error has the compiler's last messages: the next one has others.
		var tool *project.ToolError
		if errors.As(err, &tool) {
			for _, m := range rejected.FindAllSubmatch(tool.Tail, -1) {
				if n, _ := strconv.Atoi(string(m[1])); n > 0 && n <= len(lines) && lines[n-1] != "" {
					lines[n-1], err = "", nil
				}
			}
		}
		if err != nil {
			return err
		}
	}

	f, err := elf.NewFile(bytes.NewReader(object))
	if err != nil {
		return err
	}

	symbols, err := f.Symbols()
	for _, s := range symbols {
		// The object has other symbols, too.
		i, access := 0, 0
		if n, _ := fmt.Sscanf(s.Name, "boardsmith_%d_%d", &i, &access); n < 2 {
			continue
		}

		data, err := f.Sections[s.Section].Data()
		if err != nil {
			return err
		}

		// The object has the complement of the number.
		u := list[i].use
		u.value = value{^f.ByteOrder.Uint64(data[s.Value:]) & r.mask, access == 1, isBits(list[i].text)}
		r.add(u)
	}

	return err
}

// isBits reports whether an expression is composed as masks are, and addresses are not.
func isBits(text string) bool {
	return strings.Contains(text, "~") || strings.Contains(text, "<<") && !strings.Contains(text, "+")
}

func (r *reader) add(u use) {
	if !r.known[u] {
		r.known[u] = true
		r.uses = append(r.uses, u)
	}
}

// place returns where a macro was written: a setting, in a board file.
func (r *reader) place(name string, d definition) (file string, line int) {
	if d.file == configFile {
		origin := r.board.Origin["defines."+name]
		return origin.File, origin.Line
	}

	file, _ = r.ownName(d.file)
	return file, d.line
}

var (
	objectMacro = regexp.MustCompile(`^#define (\w+)(?: |$)`)
	lineMarker  = regexp.MustCompile(`^# (\d+) "((?:[^"\\]|\\.)*)"`)
)

// text reads the preprocessor's output: the definitions in the chip's and board's files and in the settings, and the
// accesses in the code of these files.
func (r *reader) text(text string) (map[string]definition, []expression, error) {
	defined, accesses := map[string]definition{}, []expression(nil)

	var code enumerators
	file, line := "", 0

	// A line may be longer than the scanner's own limit.
	lines := bufio.NewScanner(strings.NewReader(text))
	lines.Buffer(nil, len(text)+1)
	for ; lines.Scan(); line++ {
		s := lines.Text()
		if m := lineMarker.FindStringSubmatch(s); m != nil {
			n, err := strconv.Atoi(m[1])
			if err != nil {
				return nil, nil, errors.New("the preprocessor's line number " + m[1])
			}
			// The marker has the number of the next line, and the loop adds one.
			file, line = path.Clean(m[2]), n-1
			continue
		}

		name, own := r.ownName(file)
		if m := objectMacro.FindStringSubmatch(s); m != nil {
			// crt_config.h has other settings, too.
			_, set := r.board.Defines[m[1]]
			if own || file == configFile && set {
				defined[m[1]] = definition{file, line}
			}
			continue
		}

		if own && !strings.HasPrefix(s, "#") {
			code.line(s, name, line)

			for _, access := range dereference.FindAllString(s, -1) {
				if number := addressOf(access); number != "" {
					accesses = append(accesses, expression{use{name: number, file: name, line: line}, access})
				}
			}
		}
	}

	// Which interrupts the code uses is known after all of it was read.
	for _, u := range code.interrupts() {
		r.add(u)
	}

	return defined, accesses, lines.Err()
}

// enumerator matches the numbers of interrupts as vendors' headers define them.
var enumerator = regexp.MustCompile(`(\w+_IRQn)\s*=\s*(\d+)`)

// An enumerators value collects the interrupts in enumerations, of which a vendor's header has all of the chip's.
type enumerators struct {
	defined []use
	words   map[string]bool // names in other lines of code
}

func (e *enumerators) line(code, file string, line int) {
	constants := enumerator.FindAllStringSubmatch(code, -1)

	for _, m := range constants {
		if n, err := strconv.ParseUint(m[2], 10, 16); err == nil {
			e.defined = append(e.defined, use{m[1], file, line, value{number: n}})
		}
	}

	// A line that defines constants uses none.
	if len(constants) > 0 || !strings.Contains(code, "_IRQn") {
		return
	}

	if e.words == nil {
		e.words = map[string]bool{}
	}
	for _, word := range anyName.FindAllString(code, -1) {
		e.words[word] = true
	}
}

var anyName = regexp.MustCompile(`\w+`)

// interrupts returns those that the code uses.
func (e *enumerators) interrupts() (list []use) {
	for _, u := range e.defined {
		if e.words[u.name] {
			list = append(list, u)
		}
	}
	return list
}

// dereference matches the object at the address that a cast or several make of a word or of what is in parentheses.
var dereference = regexp.MustCompile(`\*\s*\([^()]*\*[^()]*\)(?:\s*` + strings.Repeat(`\((?:[^()]|`, 8) + `\(\)` +
	strings.Repeat(`)*\)`, 8) + `)*(?:\s*\w+)?`)

var (
	firstNumber = regexp.MustCompile(`\b\d.*`)
	parentheses = strings.NewReplacer("(", " ", ")", " ")
)

// addressOf returns the source text of an access from its first number on, "" if it has none.
func addressOf(access string) string {
	return strings.Join(strings.Fields(parentheses.Replace(firstNumber.FindString(access))), " ")
}
