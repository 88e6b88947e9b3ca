// Package targets holds the mage targets for users. A magefile imports them all with one line,
//
//	//mage:import
//	_ "github.com/boardsmith/boardsmith/targets"
//
// as boardsmith's own magefile does, which also imports those that check boardsmith itself. Inputs come from the
// environment, from PROJECT's project.json and from a boardsmith.json; docs/command-line.md lists them.
//
// A target parses inputs, calls project, device, boards or executor, and prints. Package internal/cli/console prints,
// and converts errors to text, JSON lines and exit codes.
//
//mage:multiline
package targets

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/cli/console"
	"github.com/boardsmith/boardsmith/internal/cli/inputs"
)

// do runs a target that needs the environment only.
func do(ctx context.Context, step string, target func(context.Context, *console.Console) error) error {
	c := console.Current()
	return c.Do(ctx, step, func(ctx context.Context) error { return target(ctx, c) })
}

// doNamed runs a target with an argument: the name or the folder of what it is about.
func doNamed(ctx context.Context, step, arg string, f func(context.Context, *console.Console, string) error) error {
	return do(ctx, step, func(ctx context.Context, c *console.Console) error { return f(ctx, c, arg) })
}

// doJob runs a target that uses a project or a device.
func doJob(ctx context.Context, step string, target func(context.Context, *job) error) error {
	return doJobOf(ctx, step, "", target)
}

// doJobOf is doJob for a target whose new projects are of app, unless the user chose one: a value of APP.
func doJobOf(ctx context.Context, step, app string, target func(context.Context, *job) error) error {
	return do(ctx, step, func(ctx context.Context, c *console.Console) error {
		return forBoards(ctx, c, func() error {
			j, err := openJob(ctx, c, app)
			if err != nil {
				return err
			}
			return target(ctx, j)
		})
	})
}

// ofSeveral are the targets that use several boards at once.
var ofSeveral = []string{"reproduce", "serve", "tune"}

// boardNames returns the boards of BOARD; one without a name if it is not set. Of several, each must be known: a wrong
// name is an error before the work for the others.
func boardNames(ctx context.Context, c *console.Console) ([]string, error) {
	names := strings.Split(c.Env("BOARD"), ",")
	if len(names) == 1 {
		return names, nil
	}
	builder, err := searchBuilder(ctx, c)
	if err != nil {
		return nil, err
	}
	var unknown []error
	for i, name := range names {
		if names[i] = strings.TrimSpace(name); names[i] == "" {
			return nil, failure.New(failure.Config, "write one comma between two boards", "BOARD=%s has an empty name",
				c.Env("BOARD"))
		}
		board := names[i]
		if slices.Contains(ofSeveral, c.Step()) {
			board, _, _ = strings.Cut(board, "=") // NAME=DEVICE
		}
		_, err := boards.Find(board, builder.Path)
		unknown = append(unknown, err)
	}
	return names, errors.Join(unknown...)
}

// forBoards runs a target for each of the boards of BOARD, one after the other, also after a failure. It returns the
// errors of all.
func forBoards(ctx context.Context, c *console.Console, target func() error) error {
	env := c.Env
	names, err := boardNames(ctx, c)
	if err != nil {
		return err
	}
	defer func() { c.Env = env }()
	setBoard := func(text string) {
		c.Env = func(variable string) string {
			if variable == "BOARD" {
				return text
			}
			return env(variable)
		}
	}
	if len(names) == 1 {
		return target()
	}
	if slices.Contains(ofSeveral, c.Step()) {
		setBoard(strings.Join(names, ","))
		return target()
	}
	if err := cmp.Or(checkList("BOARD", names, strings.Clone), checkShared(c, len(names))); err != nil {
		return err
	}
	var failed []error
	for _, name := range names {
		setBoard(name)
		c.Notef("%s: board %s", c.Step(), name)
		err := target()
		if ctx.Err() != nil {
			return err
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("board %s: %w", name, err))
		}
	}
	return errors.Join(failed...)
}

// checkShared returns an error for a file that the target would write for each of the boards: only the last would stay.
func checkShared(c *console.Console, boards int) error {
	for _, name := range []string{"OUTPUT", "TRACE"} {
		text := c.Env(name)
		if text == "" || c.Step() == "build" && c.Env("APP") != inputs.Library {
			continue
		}
		return failure.New(failure.Config, "leave it out, or name one board", "%s=%s is for one of %d boards", name, text,
			boards)
	}
	return nil
}
