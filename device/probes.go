// This file uses emulated debug probes, which a program passes in Desk.Probes, so that other programs do not link
// them.

package device

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/flasher"
)

// Probes are debug probes in software with emulated chips behind them, for boards with flash.emulated in their
// file. Package emulated implements them. Each chip has its own folder (EmulatedDir), with its flash; the caller
// passes it to every call. Several goroutines and processes may use one folder at once. Each method ends with its
// context, with an error of failure.Stopped.
type Probes interface {
	// Start starts the chip unless it runs, and creates the folder if necessary. model is the chip's name in the
	// board file. The chip continues after this process has ended. find returns the path of a program that Start
	// needs; if nil, Start finds it itself. Errors: find's; *MissingToolError; others have no class.
	Start(ctx context.Context, folder, model string, find FindTool) (EmulatedState, error)
	// State asks the chip for its state. If the chip does not run, or does not respond before ctx ends, the state
	// has only its probe's serial.
	State(ctx context.Context, folder string) (EmulatedState, error)
	// Change erases the whole flash of a running chip without a programmer ("erase"), or replaces it by a new chip
	// ("swap").
	Change(ctx context.Context, folder, change string) (EmulatedState, error)
	// Stop ends a running chip. Its folder stays.
	Stop(ctx context.Context, folder string) error
}

// A FindTool returns the path of a program by its name: *MissingToolError.
type FindTool = func(program string) (path string, err error)

// An EmulatedState is the state of an emulated board.
type EmulatedState struct {
	Runs   bool
	Probe  string           // its serial
	Server flasher.Emulated // addresses of the probe while it runs
	Port   string           // of its UART
	Chip   int              // number of the chip, of those that have been on the board
	Erases []int            // erases of this chip, by sector
}

// A NoProbesError reports a board with an emulated probe on a Desk without Probes.
type NoProbesError struct {
	Board string
}

func (e *NoProbesError) Error() string {
	return fmt.Sprintf("board %s needs an emulated debug probe, but Desk.Probes is nil", e.Board)
}

// FailureClass returns failure.Config.
func (e *NoProbesError) FailureClass() failure.Class { return failure.Config }

// NextStep returns the package and the field.
func (e *NoProbesError) NextStep() string {
	return "import github.com/boardsmith/boardsmith/emulated, and set device.Desk{Probes: emulated.Probes()}"
}

// probesFor returns the emulated probes and the folder of a board's chip: *NoProbesError.
func (k *Desk) probesFor(b *boards.Board) (Probes, string, error) {
	if k.Probes == nil {
		return nil, "", &NoProbesError{b.Name}
	}
	dir, err := k.stateDir()
	return k.Probes, EmulatedDir(dir, b.Name), err
}

// emulatedUp starts the board's emulated chip unless it runs. Errors: *MissingToolError, *NoProbesError; class
// probe-missing.
func (k *Desk) emulatedUp(ctx context.Context, b *boards.Board) (EmulatedState, error) {
	probes, folder, err := k.probesFor(b)
	if err != nil {
		return EmulatedState{}, err
	}
	up, err := probes.Start(ctx, folder, b.Flash.Chip, k.Tool)
	if err != nil && ctx.Err() == nil && failure.Of(err) != failure.ToolMissing {
		err = failure.New(failure.ProbeMissing, "stop it, and try again: "+failure.Target("emulated:down"),
			"emulated board %s: %w", b.Name, err)
	}
	return up, err
}

// Emulated controls an emulated board: action is up, down, erase (its whole flash, without a programmer) or swap (a
// new chip). Errors: class config for another action or a board that is not emulated; *NoProbesError.
func (k *Desk) Emulated(ctx context.Context, b *boards.Board, do string) (EmulatedState, error) {
	if ctx.Err() != nil {
		return EmulatedState{}, failure.Stopped(ctx, "emulated board")
	}
	if !b.Flash.Emulated {
		return EmulatedState{}, failure.New(failure.Config,
			"choose one whose chip is emulated behind a probe, as in "+failure.Option("Spec.Board", "microbit"),
			"board %s has no emulated chip", b.Name)
	}
	switch do {
	case "up":
		return k.emulatedUp(ctx, b)
	case "down":
		return k.emulatedDown(ctx, b)
	case "erase", "swap":
		return k.changeEmulated(ctx, b, do)
	}
	return EmulatedState{}, failure.New(failure.Config, "use up, down, erase or swap",
		"an emulated board does not support %q", do)
}

func (k *Desk) emulatedDown(ctx context.Context, b *boards.Board) (EmulatedState, error) {
	probes, folder, err := k.probesFor(b)
	if err != nil {
		return EmulatedState{}, err
	}
	s, err := probes.State(ctx, folder)
	if err != nil || !s.Runs {
		return s, err
	}
	if err := probes.Stop(ctx, folder); err != nil {
		return EmulatedState{}, failure.New(failure.ProbeMissing, "", "emulated board %s: %w", b.Name, err)
	}
	s.Runs, s.Port, s.Server = false, "", flasher.Emulated{}
	return s, nil
}

func (k *Desk) changeEmulated(ctx context.Context, b *boards.Board, change string) (EmulatedState, error) {
	if _, err := k.emulatedUp(ctx, b); err != nil {
		return EmulatedState{}, err
	}
	probes, folder, err := k.probesFor(b)
	if err != nil {
		return EmulatedState{}, err
	}
	s, err := probes.Change(ctx, folder, change)
	if err != nil {
		return EmulatedState{}, failure.New(failure.ProbeMissing, "", "emulated board %s: %w", b.Name, err)
	}
	return s, nil
}

// statusWithin limits the wait for a chip's state.
const statusWithin = 2 * time.Second

// emulatedState returns the state of a board's emulated chip, or the zero value on a Desk without Probes.
func (k *Desk) emulatedState(ctx context.Context, b *boards.Board) EmulatedState {
	probes, folder, err := k.probesFor(b)
	if err != nil {
		return EmulatedState{}
	}
	ctx, cancel := context.WithTimeout(ctx, statusWithin)
	defer cancel()
	s, _ := probes.State(ctx, folder)
	return s
}

// EmulatedDir returns the folder of a board's emulated chip, below the state folder.
func EmulatedDir(stateDir, board string) string { return filepath.Join(stateDir, "virtual", board) }
