// Package console is one run of mage: what the user gave it (environment variables, the working folder) and what it
// prints: results, progress, JSON lines, errors and the exit status.
//
// It does not know what targets do. Packages whose targets stand in one magefile share the one console of the process.
package console

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sync"

	"golang.org/x/term"

	"github.com/boardsmith/boardsmith/failure"
)

// A Console reads and prints for the targets of one run of mage. Results go to stdout; progress, errors and logs go to
// stderr. With JSON lines on stdout the results for people go to stderr too. Its methods may be called from many
// goroutines; its fields are changed by targets only, which run one after the other.
type Console struct {
	Env Environ
	Dir string // the working folder

	people   io.Writer // results for people
	notes    io.Writer // stderr
	mage     string    // the command that runs targets
	json     io.Writer // nil unless JSON=1
	terminal bool      // notes is a terminal
	step     string    // the running target's name

	mu   sync.Mutex // guards notes, bar and lost
	bar  *Progress  // nil while nothing is in progress
	lost error      // why a result could not be written
}

// Current is the console of this process. mage's targets are plain functions, so it has no other place.
var Current = sync.OnceValue(func() *Console { return New(os.Getenv, os.Stdout, os.Stderr) })

// New returns a console in the process's working folder.
func New(env Environ, stdout, stderr io.Writer) *Console {
	dir, err := os.Getwd()
	if err != nil {
		dir = "." // every path given is then used as it is
	}
	c := &Console{Env: env, Dir: dir, people: stdout, notes: stderr, mage: mageCommand(os.Args[0], dir)}
	if env.On("JSON") {
		c.people, c.json = stderr, stdout
	}
	if f, ok := stderr.(*os.File); ok {
		c.terminal = term.IsTerminal(int(f.Fd()))
	}
	return c
}

// Step is the name of the running target.
func (c *Console) Step() string { return c.step }

// JSON says whether stdout takes JSON lines, and nothing else.
func (c *Console) JSON() bool { return c.json != nil }

// Printf prints a line, or lines, of a step's result.
func (c *Console) Printf(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clearBar()
	_, err := fmt.Fprintf(c.people, format+"\n", args...)
	c.lost = cmp.Or(c.lost, err)
}

// Notef prints a line on stderr, beginning with the tool's name.
func (c *Console) Notef(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clearBar()
	fmt.Fprintf(c.notes, "boardsmith: "+format+"\n", args...)
}

// Write passes log lines and the output of tools to stderr, past a progress bar.
func (c *Console) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clearBar()
	return c.notes.Write(p)
}

// Fields are those of one JSON line; docs/json-lines.md has them all. JSONLine adds v and step.
type Fields map[string]any

// JSONLine prints one JSON line, if they are asked for. Empty texts are left out.
func (c *Console) JSONLine(f Fields) {
	if c.json == nil {
		return
	}
	full := Fields{"v": 1, "step": c.step}
	for k, v := range f {
		if v != "" {
			full[k] = v
		}
	}
	text, err := json.Marshal(full)
	if err != nil {
		panic(err) // Fields hold plain values only
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	_, err = c.json.Write(append(text, '\n'))
	c.lost = cmp.Or(c.lost, err)
}

// written is the error of a result that did not reach its reader.
func (c *Console) written() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lost == nil {
		return nil
	}
	const how = "send the output where there is room for it"
	return failure.New(failure.Internal, how, "the result was not written: %w", c.lost)
}

// clearBar takes the bar off the line that is about to be printed on. c.mu is held.
func (c *Console) clearBar() {
	if c.bar != nil && c.bar.drawn != nil {
		_ = c.bar.drawn.Clear()
	}
}

// Would tells of a step that DRYRUN keeps from happening. It returns nil, for the target to return.
func (c *Console) Would(format string, args ...any) error {
	text := fmt.Sprintf(format, args...)
	c.Printf("%s: would %s", c.step, text)
	c.JSONLine(Fields{"status": "dry-run", "would": text})
	return nil
}
