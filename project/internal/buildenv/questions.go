// This file runs a template's tools to check that its needs are installed, and to list the boards that they support.

package buildenv

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/command"
	"github.com/boardsmith/boardsmith/internal/diagnostics"
)

// A Need is a folder, a program or something else that the builds of a template, or for a board, need.
type Need struct {
	Template string
	Board    string // of a program that the board's post_link runs; then there is no Template
	Name     string // of a variable with the folder's path, of a program or of a check
	Result   string // the folder, the program's version, or the last line of what the check printed
	Err      error  // why it is missing; nil if it is there
	Install  string // how to get it
}

// Needs looks for what the template's builds need besides compilers of boards.
func (e Env) Needs(ctx context.Context) (all []Need, err error) {
	t := e.Template
	for _, s := range t.Find {
		all = append(all, Need{
			Name: s.Name, Result: e.Variable(s.Name), Install: s.Install, Err: e.Check(s.Name),
		})
	}

	for _, tool := range t.Tools {
		n := Need{Name: tool.Name, Install: tool.Install}
		path, err := e.Tool(tool)
		if n.Err = err; err == nil {
			n.Result, _ = command.Ask(ctx, path, "--version") // it need not have this flag
		}
		all = append(all, n)
	}

	for _, c := range t.Checks {
		n := Need{Name: c.Name, Install: c.Install}
		n.Result, n.Err = e.Ask(ctx, c.Command)
		n.Result = lastLine(n.Result)
		all = append(all, n)
	}

	if ctx.Err() != nil {
		return nil, failure.Stopped(ctx, "template")
	}
	return all, nil
}

func lastLine(text string) string {
	text = strings.TrimSpace(text)
	return strings.TrimSpace(text[strings.LastIndex(text, "\n")+1:])
}

const setupTimeout = time.Minute

// Ask runs a command of the template's in the environment of the build command, and returns what it printed.
func (e Env) Ask(ctx context.Context, words []string) (string, error) {
	path, err := e.Program(words[0], "")
	if err != nil {
		return "", err
	}

	c := command.Command{Path: path, Dir: os.TempDir(), Timeout: setupTimeout}
	for _, word := range words[1:] {
		if first, below, _ := strings.Cut(word, "/"); strings.HasPrefix(first, "$") {
			if err := e.Check(first[1:]); err != nil {
				return "", err
			}
			word = filepath.Join(e.Variable(first[1:]), filepath.FromSlash(below))
		}
		c.Args = append(c.Args, word)
	}

	if c.Env, _, err = e.Environ(""); err != nil {
		c.Env = e.Path() // a variable that no word begins with is not needed here
	}

	out, _, err := c.Capture(ctx)
	if failed := (*command.Error)(nil); errors.As(err, &failed) {
		class, message, _ := diagnostics.Explain(failed.Stderr, failed.Text)
		message = cmp.Or(message, failed.LastLine())
		return "", failure.New(class, "to see it again: "+failed.Command, "%s: %w: %s", failed.Tool, failed.Err,
			strings.Join(strings.Fields(message), " "))
	}
	return out, err
}

// Boards returns the first words of the lines that the template's command for it prints.
func (e Env) Boards(ctx context.Context) (names []string, err error) {
	if len(e.Template.Boards) == 0 {
		return nil, errors.New("the template names no command that lists them")
	}

	// The error of a missing folder tells how to install it, unlike the command's.
	for _, s := range e.Template.Find {
		if err := e.Check(s.Name); err != nil {
			return nil, err
		}
	}

	out, err := e.Ask(ctx, e.Template.Boards)
	for line := range strings.Lines(out) {
		if words := strings.Fields(line); len(words) > 0 {
			names = append(names, words[0])
		}
	}
	return names, err
}
