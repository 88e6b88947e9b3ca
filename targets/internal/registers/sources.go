// This file finds registers in a board's C: macros that stand for numbers, and accesses to fixed addresses.

package registers

import (
	"bufio"
	"context"
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
	"github.com/boardsmith/boardsmith/internal/cmacro"
	"github.com/boardsmith/boardsmith/project"
)

// A use is a number in the board's C that may stand for something in the chip.
type use struct {
	name  string // of the macro, or the expression of an address
	file  string // as the board file names it
	line  int    // from 1
	value cmacro.Value
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
	width   int
	chips   map[string]string // a file of the project: its name in the board file
	uses    []use
	known   map[use]bool
}

func newReader(p *project.Project, b *boards.Board) *reader {
	r := &reader{project: p, board: b, width: 32, chips: map[string]string{}, known: map[use]bool{}}
	if b.ELF.Class == 64 {
		r.width = 64
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
	defined, err := r.text(text)
	if err != nil {
		return err
	}
	var ask strings.Builder
	for _, macro := range slices.Sorted(maps.Keys(defined)) {
		if expanded[macro] {
			fmt.Fprintf(&ask, "\n%s%s %s %s\n", mark, macro, mark, macro)
		}
	}
	if ask.Len() == 0 {
		return nil
	}
	answers, err := r.project.Preprocess(ctx, name, ask.String())
	if err != nil {
		return err
	}
	return r.expansions(answers, defined)
}

// mark is before the name of a macro and before its expansion; it is no name of C's libraries or compilers.
const mark = "boardsmith_macro_"

// expansions reads the lines "mark+NAME mark expansion".
func (r *reader) expansions(text string, defined map[string]definition) error {
	tokens, err := cmacro.Tokens(text)
	if err != nil {
		return err
	}
	name, start := "", 0
	for i := 0; i <= len(tokens); i++ {
		if i < len(tokens) && !strings.HasPrefix(tokens[i].Text, mark) {
			continue
		}
		if name != "" {
			r.macro(name, defined[name], tokens[start:i])
		}
		if i+1 < len(tokens) {
			name, start = strings.TrimPrefix(tokens[i].Text, mark), i+2
			i++
		}
	}
	return nil
}

// macro adds what a macro expands to: a number, a register, or numbers in braces.
func (r *reader) macro(name string, d definition, tokens []cmacro.Token) {
	e := cmacro.Evaluator{Width: r.width}
	if len(tokens) == 0 {
		return
	}
	if tokens[0].Text == "{" {
		r.list(name, d, tokens[1:])
		return
	}
	if v, n, err := e.Prefix(tokens); err == nil && n == len(tokens) {
		file, line := r.place(name, d)
		r.add(use{name, file, line, v})
	}
}

// list adds the numbers of an initializer, as in a table of UARTs.
func (r *reader) list(name string, d definition, tokens []cmacro.Token) {
	e := cmacro.Evaluator{Width: r.width}
	for i := 0; len(tokens) > 0; i++ {
		v, n, err := e.Prefix(tokens)
		if err == nil && n < len(tokens) && (tokens[n].Text == "," || tokens[n].Text == "}") {
			file, line := r.place(name, d)
			r.add(use{fmt.Sprintf("%s[%d]", name, i), file, line, v})
		}
		for len(tokens) > 0 && tokens[0].Text != "," {
			tokens = tokens[1:]
		}
		tokens = tokens[min(1, len(tokens)):]
	}
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
func (r *reader) text(text string) (map[string]definition, error) {
	defined := map[string]definition{}
	var code enumerators
	file, line := "", 0
	lines := bufio.NewScanner(strings.NewReader(text))
	lines.Buffer(nil, len(text)+1)
	for ; lines.Scan(); line++ {
		s := lines.Text()
		if m := lineMarker.FindStringSubmatch(s); m != nil {
			n, err := strconv.Atoi(m[1])
			if err != nil {
				return nil, errors.New("the preprocessor's line number " + m[1])
			}
			file, line = path.Clean(m[2]), n-1
			continue
		}
		name, own := r.ownName(file)
		if m := objectMacro.FindStringSubmatch(s); m != nil {
			_, set := r.board.Defines[m[1]]
			if own || file == configFile && set {
				defined[m[1]] = definition{file, line}
			}
			continue
		}
		if own && !strings.HasPrefix(s, "#") {
			code.line(s, name, line)
			r.accesses(s, name, line)
		}
	}
	for _, u := range code.interrupts() {
		r.add(u)
	}
	return defined, lines.Err()
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
			e.defined = append(e.defined, use{m[1], file, line, cmacro.Value{Number: n}})
		}
	}
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

// accesses adds the objects at fixed addresses in a line of code, whose macros are expanded.
func (r *reader) accesses(code, file string, line int) {
	tokens, err := cmacro.Tokens(code)
	if err != nil || !strings.Contains(code, "*") {
		return // an error is of assembler, whose apostrophes are comments
	}
	for i := range tokens {
		if !cmacro.IsAccess(tokens[i:]) {
			continue
		}
		v, n, err := cmacro.Evaluator{Width: r.width}.Object(tokens[i:])
		if err == nil && v.Access {
			r.add(use{addressOf(tokens[i : i+n]), file, line, v})
		}
	}
}

// addressOf returns the source text of an access without the casts before the address.
func addressOf(tokens []cmacro.Token) string {
	from := 0
	for i, t := range tokens {
		if t.Kind == cmacro.Number {
			from = i
			break
		}
	}
	var words []string
	for _, t := range tokens[from:] {
		if t.Text != "(" && t.Text != ")" {
			words = append(words, t.Text)
		}
	}
	return strings.Join(words, " ")
}
