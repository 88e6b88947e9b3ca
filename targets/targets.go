// Package targets holds the mage targets for users. A magefile imports them all with one line,
//
//	//mage:import
//	_ "github.com/boardsmith/boardsmith/targets"
//
// as boardsmith's own magefile does, which also imports those that check boardsmith itself. Inputs come from the
// environment, from PROJECT's project.json and from a boardsmith.json; docs/command-line.md lists them.
//
// A target parses inputs, calls project, device, boards or executor, and prints. Package targets/internal/console
// prints, and converts errors to text, JSON lines and exit codes.
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
	"github.com/boardsmith/boardsmith/targets/internal/console"
	"github.com/boardsmith/boardsmith/targets/internal/inputs"
)

// do runs a target that reads the variables V.
func do[V any](ctx context.Context, step string, f func(context.Context, *console.Console, V) error) error {
	c := console.Current()
	return c.Do(ctx, step, func(ctx context.Context) error {
		var v V
		if err := c.Read(&v); err != nil {
			return err
		}
		return f(ctx, c, v)
	})
}

// target returns what mage calls for a target that reads the variables V.
func target[V any](step string, f func(context.Context, *console.Console, V) error) func(context.Context) error {
	console.Declare(step, *new(V))
	return func(ctx context.Context) error { return do(ctx, step, f) }
}

// namedTarget is target with an argument: the name or the folder of what it is about.
func namedTarget[V any](
	step string, f func(ctx context.Context, c *console.Console, v V, arg string) error,
) func(ctx context.Context, arg string) error {
	console.Declare(step, *new(V))
	return func(ctx context.Context, arg string) error {
		return do(ctx, step, func(ctx context.Context, c *console.Console, v V) error { return f(ctx, c, v, arg) })
	}
}

// current is the job of this process. Its targets share it, so that "mage build flash run" holds the project's lock
// from the first step to the last, builds once, and attaches the device once. It is global because mage's targets are
// plain functions.
var current = &job{}

// sharedTarget is target with the job of the process, which it opens itself.
func sharedTarget[V any](step string, f func(context.Context, *job, V) error) func(context.Context) error {
	return target(step, func(ctx context.Context, c *console.Console, v V) error {
		current.Console = c
		return f(ctx, current, v)
	})
}

// jobTarget is target with a project or a device. app is the APP of its new projects, unless the user chose one; "":
// none.
func jobTarget[V any](step, app string, f func(context.Context, *job, V) error) func(context.Context) error {
	return sharedTarget(step, func(ctx context.Context, j *job, v V) error {
		return forBoards(ctx, j, func(shared inputs.Variables) error {
			if err := j.open(ctx, app, shared); err != nil {
				return err
			}
			return f(ctx, j, v)
		})
	})
}

// ofSeveral are the targets that use several boards at once.
var ofSeveral = []string{"reproduce", "serve", "tune"}

// boardNames returns the boards of BOARD; one without a name if it is not set. Of several, each must be known: a wrong
// name is an error before the work for the others.
func boardNames(ctx context.Context, c *console.Console, text string) ([]string, error) {
	names := strings.Split(text, ",")
	if len(names) == 1 {
		return names, nil
	}

	builder, err := searchBuilder(ctx, c)
	if err != nil {
		return nil, err
	}
	// All wrong names are reported at once.
	var unknown []error
	seen := map[string]string{}
	for i, name := range names {
		if names[i] = strings.TrimSpace(name); names[i] == "" {
			return nil, failure.New(failure.Config, "write one comma between two boards", "BOARD=%s has an empty name", text)
		}
		board := names[i]
		if slices.Contains(ofSeveral, c.Step()) {
			board, _, _ = strings.Cut(board, "=") // NAME=DEVICE
		}

		b, err := boards.Find(board, builder.Path)
		unknown = append(unknown, err)
		if err != nil {
			continue
		}

		// Results and folders are told apart by the board's name.
		if other, ok := seen[b.Name]; ok && other != board {
			return nil, failure.New(failure.Config, "leave one out, or rename it",
				"BOARD: %s and %s are both board %s", other, board, b.Name)
		}
		seen[b.Name] = board
	}

	return names, errors.Join(unknown...)
}

// forBoards runs a target for each of the boards of BOARD, one after the other, also after a failure. It returns the
// errors of all.
func forBoards(ctx context.Context, j *job, f func(inputs.Variables) error) error {
	c := j.Console
	var v inputs.Variables
	if err := c.Read(&v); err != nil {
		return err
	}

	names, err := boardNames(ctx, c, v.Board)
	if err != nil {
		return err
	}

	// These targets use the boards together, so they get the list.
	if len(names) == 1 || slices.Contains(ofSeveral, c.Step()) {
		v.Board = strings.Join(names, ",")
		return f(v)
	}

	if err := cmp.Or(checkList("BOARD", names, strings.Clone), checkShared(c, v, len(names))); err != nil {
		return err
	}

	var failed []error
	for _, name := range names {
		v.Board = name
		c.Notef("%s: board %s", c.Step(), name)
		// The next board's job has another project and device.
		err := errors.Join(f(v), j.close())
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
func checkShared(c *console.Console, v inputs.Variables, boards int) error {
	for _, x := range [][2]string{{"OUTPUT", v.Output}, {"TRACE", v.Trace}} {
		if x[1] == "" || c.Step() == "build" && v.App != inputs.Library {
			continue
		}
		return failure.New(failure.Config, "leave it out, or name one board", "%s=%s is for one of %d boards", x[0], x[1],
			boards)
	}
	return nil
}
