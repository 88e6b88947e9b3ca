// This file starts, stops and changes the emulated chip of a board, and provides its keeper: if none is installed, Go
// builds that of the boardsmith version in the user's module.

package targets

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/cli/console"
	"github.com/boardsmith/boardsmith/internal/cli/jsonlines"
	"github.com/boardsmith/boardsmith/internal/command"
	"github.com/boardsmith/boardsmith/internal/virtualprobe"
)

// An emulatedAction is what a target does to an emulated chip.
type emulatedAction struct {
	do   func(*device.Desk, context.Context, *boards.Board) (device.EmulatedState, error)
	done string // after the chip's state
}

var (
	emulatedUp    = emulatedAction{(*device.Desk).StartEmulated, ""}
	emulatedErase = emulatedAction{(*device.Desk).EraseEmulated, ", its flash was erased"}
	emulatedSwap  = emulatedAction{(*device.Desk).SwapEmulated, ", a new chip is on it"}
)

// emulated runs an action that needs BOARD's emulated chip.
func (v *invocation) emulated(ctx context.Context, a emulatedAction) error {
	in, b, err := v.boardOf(ctx)
	if err != nil {
		return err
	}
	if err := v.needKeeper(ctx, b); err != nil {
		return err
	}
	chip, err := a.do(v.desk(in), ctx, b)
	if err != nil {
		return err
	}
	v.printEmulated(b, chip, a.done)
	return nil
}

// emulatedDown ends BOARD's emulated chip.
func (v *invocation) emulatedDown(ctx context.Context) error {
	in, b, err := v.boardOf(ctx)
	if err != nil {
		return err
	}
	chip, err := v.desk(in).StopEmulated(ctx, b)
	if err != nil {
		return err
	}
	v.printEmulated(b, chip, "")
	return nil
}

func (v *invocation) printEmulated(b *boards.Board, chip device.EmulatedState, done string) {
	state := "is not running; its flash is kept"
	if chip.Runs {
		state = "runs, port " + chip.Port
	}
	v.Printf("emulated: board %s, probe %s, %s%s", b.Name, chip.Probe, state, done)
	v.JSONLine(jsonlines.Emulated{
		Board: b.Name, Probe: chip.Probe, Port: chip.Port, Runs: chip.Runs, Chips: chip.Chip,
	})
}

const (
	programs       = "github.com/boardsmith/boardsmith/cmd/" // packages of boardsmith's programs
	programTimeout = 5 * time.Minute                         // limit for compiling one, on a slow computer
)

// attach builds the keeper of an emulated board if necessary, then calls Desk.Attach.
func (v *invocation) attach(ctx context.Context, b *boards.Board, which string, desk *device.Desk) (*device.Device,
	error,
) {
	if desk.Programmer != boards.NoProgrammer {
		if err := v.needKeeper(ctx, b); err != nil {
			return nil, err
		}
	}
	return desk.Attach(ctx, b, which)
}

// needKeeper builds the keeper of an emulated board, unless one is installed or setup's is up to date.
func (v *invocation) needKeeper(ctx context.Context, b *boards.Board) error {
	var missing *device.MissingToolError
	if _, err := virtualprobe.Find(""); !errors.As(err, &missing) || !b.Flash.Emulated {
		return nil // its use reports an invalid BOARDSMITH_KEEPER
	}
	return v.buildKeeper(ctx)
}

// buildKeeper runs Go to build setup's keeper, which is quick if it is up to date.
func (v *invocation) buildKeeper(ctx context.Context) error {
	path, err := ownKeeper()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return failure.Errorf(failure.Config, "tools: %w", err)
	}
	return v.buildProgram(ctx, virtualprobe.Program, path, virtualprobe.Install)
}

// buildProgram runs Go to build one of boardsmith's programs at a path. install is the advice if that fails.
func (v *invocation) buildProgram(ctx context.Context, name, path, install string) error {
	compiler, err := exec.LookPath("go")
	if err != nil {
		return failure.New(failure.ToolMissing, install,
			"%s is not installed, and Go, which could build it, is not either", name)
	}
	bar := v.Start("building "+name, 0)
	defer bar.End()
	err = command.Command{
		Path: compiler, Args: []string{"build", "-o", path, programs + name}, Dir: v.Dir, Timeout: programTimeout,
		// Go builds it without a C compiler; renaming it from GOTMPDIR is atomic.
		Env: append(console.ToolEnv(), "CGO_ENABLED=0", "GOTMPDIR="+filepath.Dir(path)),
	}.Run(ctx)
	if err != nil && ctx.Err() == nil {
		return failure.New(failure.ToolMissing, install, "%s is not installed and could not be built: %w", name, err)
	}
	return err
}
