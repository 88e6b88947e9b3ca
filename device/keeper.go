// This file starts emulated chips. Each is kept by a program of its own, cmd/boardsmith-keeper: a program that uses this
// package is never started again.

package device

import (
	"context"
	"errors"
	"os/exec"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/command"
	"github.com/boardsmith/boardsmith/internal/virtualprobe"
)

// installKeeper installs the keeper of the boardsmith that a module requires, inside that module.
const installKeeper = "go install github.com/boardsmith/boardsmith/cmd/boardsmith-keeper"

// findKeeper returns the path of the keeper's executable: *MissingToolError.
func (k *Desk) findKeeper() (string, error) {
	if k.Tool != nil {
		return k.Tool(virtualprobe.Program)
	}
	path, err := virtualprobe.Find()
	if errors.Is(err, exec.ErrNotFound) {
		return "", &command.MissingToolError{Tool: virtualprobe.Program, Install: installKeeper}
	}
	return path, err
}

// emulatedUp starts the board's emulated chip, or finds that it runs. Errors: *MissingToolError; of class probe-missing.
func (k *Desk) emulatedUp(ctx context.Context, b *boards.Board) (virtualprobe.Answer, error) {
	dir, err := k.stateDir()
	if err != nil {
		return virtualprobe.Answer{}, err
	}
	up, err := virtualprobe.Up(ctx, k.findKeeper, EmulatedDir(dir, b.Name), b.Flash.Chip)
	if err != nil && ctx.Err() == nil && failure.Of(err) != failure.ToolMissing {
		err = failure.New(failure.ProbeMissing, "stop it, and try again: "+failure.Mage+" emulated:down", "emulated board %s: %w", b.Name, err)
	}
	return up, err
}
