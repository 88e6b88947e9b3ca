// Package console is the command-line interface of one run of mage: its inputs (environment variables, the working
// folder) and its output (results, progress, JSON lines, errors and the exit status).
//
// All packages whose targets are in one magefile share the process's console.
package console

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/term"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/format"
	"github.com/boardsmith/boardsmith/targets/internal/jsonlines"
)

// A Console reads and prints for the targets of one run of mage. Results go to stdout; progress, errors and logs go to
// stderr. With JSON lines on stdout the results for people go to stderr too. Its methods may be called from many
// goroutines; its fields are changed by targets only, which run one after the other.
type Console struct {
	Dir     string // the working folder
	DryRun  bool   // the running target lists only what it would do
	Verbose bool

	stdout   io.Writer
	people   io.Writer           // results for people: stdout, or notes with JSON=1
	notes    io.Writer           // stderr
	mage     string              // the command that runs targets
	ofMage   bool                // mage has made this program for this run
	args     []string            // of this program
	json     io.Writer           // nil unless JSON=1
	terminal bool                // notes is a terminal
	step     string              // the running target's name
	env      func(string) string // a variable of the environment
	others   []string            // variables with values of other systems
	environ  func() []string     // all variables; nil: those of env only
	noted    []string            // variables of which a note has been printed

	size func() (columns, rows int) // of the terminal

	places map[string]string // of fetched folders: what boardsmith.json has in place of the path

	mu       sync.Mutex // guards notes, bar, left and writeErr
	bar      *Progress  // nil while nothing is in progress
	left     bool       // no bar is drawn any more, nor erased
	writeErr error      // of a result
}

// Current returns the console of this process. It is global because mage's targets are plain functions.
var Current = sync.OnceValue(func() *Console {
	c := New(os.Getenv, os.Stdout, os.Stderr)
	c.environ = os.Environ
	return c
})

// New returns a console in the process's working folder.
func New(env func(string) string, stdout, stderr io.Writer) *Console {
	dir, err := os.Getwd()
	if err != nil {
		dir = "." // relative paths then stay as given
	}

	c := &Console{
		env: env, Dir: dir, stdout: stdout, notes: stderr, mage: mageCommand(os.Args[0], dir), args: os.Args[1:],
		ofMage: magesOwn.MatchString(filepath.Base(os.Args[0])),
	}

	c.readJSON()

	if f, ok := stderr.(*os.File); ok {
		c.terminal = term.IsTerminal(int(f.Fd())) && env("TERM") != "dumb" // such a terminal cannot move its cursor
		c.size = func() (int, int) { return sizeOf(f) }
	}

	return c
}

// readJSON reads JSON, which decides what stdout takes.
func (c *Console) readJSON() {
	c.people, c.json = c.stdout, nil
	if IsOn(c.Env("JSON")) {
		c.people, c.json = c.notes, c.stdout
	}
}

// NamePlace makes Shown and errors show a place in a git repository instead of the path of its fetched folder.
func (c *Console) NamePlace(path, place string) {
	if c.places == nil {
		c.places = map[string]string{}
	}
	c.places[path] = place
}

// withPlaces replaces the paths of fetched folders in a text.
func (c *Console) withPlaces(text string) string {
	for path, place := range c.places {
		text = strings.ReplaceAll(text, path, place)
	}
	return text
}

// Shown returns a path for display: relative to the working folder if it is below.
func (c *Console) Shown(path string) string {
	if place := c.withPlaces(path); place != path {
		return place
	}

	abs, err := filepath.Abs(path)
	if err != nil {
		return path
	}

	rel, err := filepath.Rel(c.Dir, abs)
	if err != nil || rel == ".." || strings.HasPrefix(rel, ".."+string(os.PathSeparator)) {
		return path
	}
	return rel
}

// Abs returns the absolute path of one that the user typed.
func (c *Console) Abs(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(c.Dir, path)
}

// sizeOf returns a terminal's size; 80 by 24 if it has none, as some in tests.
func sizeOf(f *os.File) (columns, rows int) {
	columns, rows, err := term.GetSize(int(f.Fd()))
	if err != nil || columns < 1 || rows < 1 {
		return 80, 24
	}
	return columns, rows
}

// Step returns the name of the running target.
func (c *Console) Step() string { return c.step }

// JSON reports whether stdout takes JSON lines only.
func (c *Console) JSON() bool { return c.json != nil }

// Printf prints one or more lines of a step's result.
func (c *Console) Printf(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clearBar()
	_, err := fmt.Fprintf(c.people, format+"\n", args...)
	c.writeErr = cmp.Or(c.writeErr, err)
}

// Table prints rows, the first of which is the header. Cells of the columns in right are aligned to the right. On a
// terminal that is too narrow, each row is a list of its cells.
func (c *Console) Table(rows [][]string, right []int) {
	columns := math.MaxInt
	if f, ok := c.people.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		columns, _ = sizeOf(f)
	}

	for _, line := range tableLines(rows, right, columns) {
		c.Printf("%s", line)
	}
}

func tableLines(rows [][]string, right []int, columns int) []string {
	lines := format.Columns(rows, right)

	if !slices.ContainsFunc(lines, func(line string) bool { return widthOf(line) > columns }) {
		return lines
	}

	lines = nil
	for _, row := range rows[1:] {
		var cells [][]string
		for i, cell := range row {
			if cell != "" {
				cells = append(cells, []string{rows[0][i], cell})
			}
		}
		lines = append(append(lines, format.Columns(cells, nil)...), "")
	}

	return lines
}

// Notef prints a line on stderr, with the prefix "boardsmith: ".
func (c *Console) Notef(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clearBar()
	fmt.Fprintf(c.notes, "boardsmith: "+format+"\n", args...)
}

// Write writes log lines and the output of tools to stderr, around a progress bar.
func (c *Console) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clearBar()
	return c.notes.Write(p)
}

// JSONLine prints one JSON line if JSON=1: a struct of package jsonlines.
func (c *Console) JSONLine(line any) {
	if c.json == nil {
		return
	}

	text, err := jsonlines.Line(c.step, line)
	if err != nil {
		panic(err) // lines hold plain values only
	}

	c.mu.Lock()
	defer c.mu.Unlock()
	_, err = c.json.Write(append(text, '\n'))
	c.writeErr = cmp.Or(c.writeErr, err)
}

// written returns an error if a result could not be written.
func (c *Console) written() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.writeErr == nil {
		return nil
	}
	const how = "make room on the disk, or redirect the output"
	return failure.New(failure.Internal, how, "the result could not be written: %w", c.writeErr)
}

// clearBar erases the bar before a line is printed. The caller holds c.mu.
func (c *Console) clearBar() {
	if c.bar != nil && c.bar.drawnLines > 0 {
		_, _ = io.WriteString(c.notes, c.bar.erasure()) // ignore errors of drawing
		c.bar.drawnLines = 0
	}
}

// leaveBar leaves the bar where it is when a target is cancelled: mage and the terminal print below it.
func (c *Console) leaveBar() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left = true
	if c.bar != nil {
		c.bar.drawnLines = 0
	}
}

// Would prints what a step would do without DRYRUN. It returns nil, for the target to return.
func (c *Console) Would(format string, args ...any) error {
	text := fmt.Sprintf(format, args...)
	c.Printf("%s: would %s", c.step, text)
	c.JSONLine(jsonlines.DryRun{Status: jsonlines.StatusDryRun, Would: text})
	return nil
}
