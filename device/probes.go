// This file uses emulated debug probes, which a program passes in Desk.Probes, so that other programs do not link
// them.

package device

import (
	"context"
	"path/filepath"
	"time"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/flasher"
)

// Probes are debug probes in software with emulated chips behind them, for boards with flash.emulated in their
// file. Package emulated implements them. Each chip has its own folder, with its flash; the caller
// passes it to every call. Several goroutines and processes may use one folder at once. Each method ends with its
// context, with an error of failure.Stopped.
type Probes interface {
	// Start starts the chip unless it runs, and creates the folder if necessary. model is the chip's name in the
	// board file. The chip continues after this process has ended. find returns the path of a program that Start
	// needs; if nil, Start finds it itself. Errors: find's; *MissingToolError; others have no class.
	Start(ctx context.Context, folder, model string, find func(program string) (path string, err error)) (EmulatedState,
		error)
	// State asks the chip for its state. If the chip does not run, or does not respond before ctx ends, the state
	// has only its probe's serial.
	State(ctx context.Context, folder string) (EmulatedState, error)
	// Erase erases the whole flash of a running chip without a programmer.
	Erase(ctx context.Context, folder string) (EmulatedState, error)
	// Swap replaces a running chip by a new one.
	Swap(ctx context.Context, folder string) (EmulatedState, error)
	// Stop ends a running chip. Its folder stays.
	Stop(ctx context.Context, folder string) error
}

// An EmulatedState is the state of an emulated board.
type EmulatedState struct {
	Runs   bool
	Probe  string           // its serial
	Server flasher.Emulated // addresses of the probe while it runs
	Port   string           // of its UART
	Chip   int              // number of the chip, of those that have been on the board
	Erases []int            // erases of this chip, by sector
}

// probesFor returns the emulated probes and the folder of a board's chip: class config for a board that is not
// emulated, and for a Desk without Probes.
func (k *Desk) probesFor(b *boards.Board) (Probes, string, error) {
	if err := isReachable(b); err != nil {
		return nil, "", err
	}
	if !b.Flash.Emulated {
		return nil, "", failure.New(failure.Config,
			"choose one whose chip is emulated behind a probe, as in "+failure.Option("Spec.Board", "microbit"),
			"board %s has no emulated chip", b.Name)
	}
	if k.Probes == nil {
		return nil, "", failure.New(failure.Config,
			"import github.com/boardsmith/boardsmith/emulated, and set device.Desk{Probes: emulated.Probes()}",
			"board %s needs an emulated debug probe, but Desk.Probes is nil", b.Name)
	}
	dir, err := k.stateDir()
	if err != nil {
		return nil, "", err
	}
	return k.Probes, emulatedDir(dir, b.Name), nil
}

// StartEmulated starts the board's emulated chip unless it runs. Errors: *MissingToolError; class config for a
// board that is not emulated, and for a Desk without Probes; class probe-missing.
func (k *Desk) StartEmulated(ctx context.Context, b *boards.Board) (EmulatedState, error) {
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

// StopEmulated ends the board's emulated chip; its flash is kept. Errors: as of StartEmulated.
func (k *Desk) StopEmulated(ctx context.Context, b *boards.Board) (EmulatedState, error) {
	probes, folder, err := k.probesFor(b)
	if err != nil {
		return EmulatedState{}, err
	}
	s, err := probes.State(ctx, folder)
	if err != nil || !s.Runs {
		return s, err
	}
	if err := probes.Stop(ctx, folder); err != nil {
		return EmulatedState{}, failure.Errorf(failure.ProbeMissing, "emulated board %s: %w", b.Name, err)
	}
	s.Runs, s.Port, s.Server = false, "", flasher.Emulated{}
	return s, nil
}

// EraseEmulated starts the board's emulated chip and erases its whole flash, without a programmer. Errors: as of
// StartEmulated.
func (k *Desk) EraseEmulated(ctx context.Context, b *boards.Board) (EmulatedState, error) {
	return k.changeEmulated(ctx, b, Probes.Erase)
}

// SwapEmulated starts the board's emulated chip and replaces it by a new one. Errors: as of StartEmulated.
func (k *Desk) SwapEmulated(ctx context.Context, b *boards.Board) (EmulatedState, error) {
	return k.changeEmulated(ctx, b, Probes.Swap)
}

func (k *Desk) changeEmulated(
	ctx context.Context, b *boards.Board, change func(Probes, context.Context, string) (EmulatedState, error),
) (EmulatedState, error) {
	if _, err := k.StartEmulated(ctx, b); err != nil {
		return EmulatedState{}, err
	}
	probes, folder, err := k.probesFor(b)
	if err != nil {
		return EmulatedState{}, err
	}
	s, err := change(probes, ctx, folder)
	if err != nil {
		return EmulatedState{}, failure.Errorf(failure.ProbeMissing, "emulated board %s: %w", b.Name, err)
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

// emulatedDir returns the folder of a board's emulated chip, below the state folder.
func emulatedDir(stateDir, board string) string {
	return filepath.Join(stateDir, "emulated", boards.FileName(board))
}
