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

	"github.com/magefile/mage/mg"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/cli/console"
	"github.com/boardsmith/boardsmith/internal/cli/jsonlines"
	"github.com/boardsmith/boardsmith/internal/command"
	"github.com/boardsmith/boardsmith/internal/virtualprobe"
)

// Emulated holds the targets about boards whose chip and probe are emulated.
type Emulated mg.Namespace

// Up starts the emulated chip of BOARD, which otherwise starts when it is used.
func (Emulated) Up(ctx context.Context) error { return doEmulated(ctx, "emulated:up") }

// Down ends the emulated chip of BOARD; what its flash holds is kept.
func (Emulated) Down(ctx context.Context) error { return doEmulated(ctx, "emulated:down") }

// Erase erases the whole flash of the emulated chip of BOARD, as another tool would.
func (Emulated) Erase(ctx context.Context) error { return doEmulated(ctx, "emulated:erase") }

// Swap puts another, new chip on the emulated BOARD, behind the same probe.
func (Emulated) Swap(ctx context.Context) error { return doEmulated(ctx, "emulated:swap") }

// emulatedActions are what these targets do.
var emulatedActions = map[string]struct {
	do     func(*device.Desk, context.Context, *boards.Board) (device.EmulatedState, error)
	keeper bool   // it starts the chip
	done   string // printed after the chip's state
}{
	"emulated:up":    {(*device.Desk).StartEmulated, true, ""},
	"emulated:down":  {(*device.Desk).StopEmulated, false, ""},
	"emulated:erase": {(*device.Desk).EraseEmulated, true, ", its flash was erased"},
	"emulated:swap":  {(*device.Desk).SwapEmulated, true, ", a new chip is on it"},
}

func doEmulated(ctx context.Context, step string) error { return doJob(ctx, step, changeEmulated) }

func changeEmulated(ctx context.Context, j *job) error {
	b, err := j.board()
	if err != nil {
		return err
	}
	action := emulatedActions[j.Step()]
	if action.keeper {
		if err := needKeeper(ctx, j.Console, b); err != nil {
			return err
		}
	}
	chip, err := action.do(j.desk(), ctx, b)
	if err != nil {
		return err
	}
	state := "is not running; its flash is kept"
	if chip.Runs {
		state = "runs, port " + chip.Port
	}
	j.Printf("emulated: board %s, probe %s, %s%s", b.Name, chip.Probe, state, action.done)
	j.JSONLine(jsonlines.Emulated{
		Board: b.Name, Probe: chip.Probe, Port: chip.Port, Runs: chip.Runs, Chips: chip.Chip,
	})
	return nil
}

const (
	programs       = "github.com/boardsmith/boardsmith/cmd/" // packages of boardsmith's programs
	programTimeout = 5 * time.Minute                         // limit for compiling one, on a slow computer
)

// attach builds the keeper of an emulated board if necessary, then calls Desk.Attach.
func attach(ctx context.Context, c *console.Console, b *boards.Board, which string, desk *device.Desk) (*device.Device,
	error,
) {
	if desk.Programmer != boards.NoProgrammer {
		if err := needKeeper(ctx, c, b); err != nil {
			return nil, err
		}
	}
	return desk.Attach(ctx, b, which)
}

// needKeeper builds the keeper of an emulated board, unless one is installed or setup's is up to date.
func needKeeper(ctx context.Context, c *console.Console, b *boards.Board) error {
	var missing *device.MissingToolError
	if _, err := virtualprobe.Find(""); !errors.As(err, &missing) || !b.Flash.Emulated {
		return nil // its use reports an invalid BOARDSMITH_KEEPER
	}
	return buildKeeper(ctx, c)
}

// buildKeeper runs Go to build setup's keeper, which is quick if it is up to date.
func buildKeeper(ctx context.Context, c *console.Console) error {
	path, err := ownKeeper()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return failure.Errorf(failure.Config, "tools: %w", err)
	}
	return buildProgram(ctx, c, virtualprobe.Program, path, virtualprobe.Install)
}

// buildProgram runs Go to build one of boardsmith's programs at a path. install is the advice if that fails.
func buildProgram(ctx context.Context, c *console.Console, name, path, install string) error {
	compiler, err := exec.LookPath("go")
	if err != nil {
		return failure.New(failure.ToolMissing, install,
			"%s is not installed, and Go, which could build it, is not either", name)
	}
	bar := c.Start("building "+name, 0)
	defer bar.End()
	err = command.Command{
		Path: compiler, Args: []string{"build", "-o", path, programs + name}, Dir: c.Dir, Timeout: programTimeout,
		// Go builds it without a C compiler; renaming it from GOTMPDIR is atomic.
		Env: append(console.ToolEnv(), "CGO_ENABLED=0", "GOTMPDIR="+filepath.Dir(path)),
	}.Run(ctx)
	if err != nil && ctx.Err() == nil {
		return failure.New(failure.ToolMissing, install, "%s is not installed and could not be built: %w", name, err)
	}
	return err
}
