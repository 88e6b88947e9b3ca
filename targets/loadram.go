// This file loads a model into a board's RAM instead of its flash.

package targets

import (
	"context"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/executor"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/internal/cli/console"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/project"
)

// loadsIntoRAM reports whether LOAD is ram.
func loadsIntoRAM(c *console.Console) (bool, error) {
	switch load := c.Env("LOAD"); load {
	case "", "flash":
		return false, nil
	case "ram":
		return true, nil
	default:
		return false, failure.New(failure.Config, "LOAD=ram loads the model into RAM, LOAD=flash does not",
			"LOAD=%s: unknown",
			load)
	}
}

// prepare builds the firmware, and for LOAD=ram the firmware that stays and the operators. It returns how the model
// gets onto the board. The caller closes it.
func prepare(ctx context.Context, j *job) (modelLoad, error) {
	ram, err := loadsIntoRAM(j.Console)
	if err != nil {
		return modelLoad{}, err
	}
	if !ram {
		i, err := j.built(ctx)
		return modelLoad{image: i}, err
	}
	if err := j.ready(ctx); err != nil {
		return modelLoad{}, err
	}
	if j.project.Options().App == boards.Standalone {
		return modelLoad{}, failure.New(failure.Config, "leave LOAD=ram or APP=standalone out",
			"standalone firmware has its model in flash")
	}
	operators, err := j.project.ModelOperators()
	if err != nil {
		return modelLoad{}, err
	}
	bar := j.Start("build: firmware that stays", 0)
	r, err := j.project.Resident(ctx, j.project.Dir()+".ram", project.Spec{
		Board: j.in.Board.Value, Template: j.in.Template.Value,
	})
	bar.End()
	if err != nil {
		return modelLoad{}, err
	}
	i, err := r.Built()
	return modelLoad{i, r, operators}, err
}

// A modelLoad is the way in which a model comes onto a board: with its firmware, or into RAM beside a resident one.
type modelLoad struct {
	image     *image.Image     // to run
	resident  *project.Project // nil: with its firmware
	operators project.Operators
}

// open prepares the model in the firmware of a session.
func (l modelLoad) open(ctx context.Context, c *connection, m *mlf.Model) (executor.Executor, error) {
	switch {
	case c.standalone != nil:
		return executor.OpenStandalone(ctx, c.standalone, m)
	case l.resident == nil:
		return executor.Open(ctx, c.rpc, m)
	}
	lib, err := l.resident.LoadRAM(ctx, c.rpc, l.operators)
	if err != nil {
		return nil, err
	}
	return executor.OpenLoaded(ctx, c.rpc, lib, m)
}

func (l modelLoad) Close() error {
	if l.resident == nil {
		return nil
	}
	return l.resident.Close()
}
