// This file starts emulated chips. Each is kept by a program of its own, cmd/boardsmith-keeper: a program that uses this
// package is never started again.

package project

import (
	"context"
	"errors"
	"os/exec"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/virtualprobe"
)

// installKeeper installs the keeper of the boardsmith that a module requires, inside that module.
const installKeeper = "go install github.com/boardsmith/boardsmith/cmd/boardsmith-keeper"

// findKeeper returns the path of the keeper's executable: *MissingToolError.
func (e Env) findKeeper() (string, error) {
	if e.Tool != nil {
		return e.Tool(virtualprobe.Program)
	}
	path, err := virtualprobe.Find()
	if errors.Is(err, exec.ErrNotFound) {
		return "", &MissingToolError{Tool: virtualprobe.Program, Install: installKeeper}
	}
	return path, err
}

// virtualUp starts the board's emulated chip, or finds that it runs. Errors: *MissingToolError; of class probe-missing.
func (e Env) virtualUp(ctx context.Context, b *boards.Board) (virtualprobe.Answer, error) {
	dir, err := e.stateDir()
	if err != nil {
		return virtualprobe.Answer{}, err
	}
	up, err := virtualprobe.Up(ctx, e.findKeeper, VirtualDir(dir, b.Name), b.Flash.Target)
	if err != nil && ctx.Err() == nil && failure.Of(err) != failure.ToolMissing {
		err = failure.New(failure.ProbeMissing, "mage virtual:down, and try again", "emulated board %s: %w", b.Name, err)
	}
	return up, err
}
