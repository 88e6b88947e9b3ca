// This file compiles the models that embed wrote, for BOARD.

package targets

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/cmodel"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/command"
)

// embedTimeout limits one run of a compiler.
const embedTimeout = 10 * time.Minute

// A library compiles models for a board.
type library struct {
	board  *boards.Board
	cc, ar string
	flags  []string
}

// library returns the compiler of BOARD, nil if it is not given, and what it compiles for.
func (v *invocation) library(ctx context.Context) (*library, *cmodel.Target, error) {
	name := v.Env("BOARD")
	if name == "" {
		return nil, nil, nil
	}
	builder, err := v.search(ctx)
	if err != nil {
		return nil, nil, err
	}
	b, err := boards.Find(name, builder.Path)
	if err != nil {
		return nil, nil, err
	}
	if b.Toolchain.CC == "" {
		return nil, nil, failure.New(failure.Config, "use the sources", "board %s names no compiler", b.Name)
	}
	l := &library{board: b, flags: slices.Concat(b.CFlags, []string{"-" + b.OperatorOpt})}
	for _, tool := range []struct {
		name string
		to   *string
	}{{b.Toolchain.CC, &l.cc}, {b.Toolchain.AR, &l.ar}} {
		if *tool.to, err = command.Find(tool.name, b.Toolchain.Install); err != nil {
			return nil, nil, err
		}
	}
	version, err := command.Ask(ctx, l.cc, "--version")
	if err != nil {
		return nil, nil, err
	}
	args := slices.Concat(l.flags, []string{"-dM", "-E", "-x", "c", os.DevNull})
	predefined, _, err := command.Command{Path: l.cc, Args: args, Timeout: embedTimeout}.Capture(ctx)
	if err != nil {
		return nil, nil, err
	}
	return l, cmodel.NewTarget(b.Name, version, l.flags, predefined), nil
}

// build makes lib/libmodels.a of the sources and objects in a folder. Equal sources give equal bytes.
func (l *library) build(ctx context.Context, dir string) error {
	sources, err := filepath.Glob(filepath.Join(dir, "src", "*.c"))
	if err != nil {
		return err
	}
	objects, err := filepath.Glob(filepath.Join(dir, "lib", "*.o"))
	if err != nil {
		return err
	}
	made, err := os.MkdirTemp(dir, ".objects-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(made)
	for _, f := range sources {
		object := filepath.Join(made, filepath.Base(f)+".o")
		args := slices.Concat(l.flags, []string{
			"-std=gnu11", "-w", "-ffunction-sections", "-fdata-sections", "-Iinclude",
			"-c", filepath.Join("src", filepath.Base(f)), "-o", object,
		})
		if err := (command.Command{Path: l.cc, Args: args, Dir: dir, Timeout: embedTimeout}).Run(ctx); err != nil {
			if ctx.Err() != nil {
				return err
			}
			return failure.New(failure.Compile, "", "board %s: %s: %w", l.board.Name, filepath.Base(f), err)
		}
		objects = append(objects, object)
	}
	if err := os.MkdirAll(filepath.Join(dir, "lib"), 0o755); err != nil {
		return err
	}
	args := append([]string{"rcsD", filepath.Join(dir, "lib", "libmodels.a")}, objects...)
	return command.Command{Path: l.ar, Args: args, Dir: dir, Timeout: embedTimeout}.Run(ctx)
}
