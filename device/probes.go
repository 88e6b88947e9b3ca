// This file uses emulated debug probes, which a program hands in: one that needs none does not link them.

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

// Probes are debug probes in software with emulated chips behind them, for boards whose file says "emulated".
// Package emulated has them. A chip has a folder of its own (EmulatedDir), which keeps its flash; the caller names the
// folder in every call. Many goroutines, and several processes, may use one folder at once. Each method ends with its
// context, by failure.Stopped.
type Probes interface {
	// Start starts the chip, or finds that it runs. model is the chip's name in the board file. The folder is made if
	// need be. The chip runs on after this process has ended. find returns the path of a program that Start needs, by
	// its name; nil: Start looks for it itself. Errors: find's; *MissingToolError; others have no class.
	Start(ctx context.Context, folder, model string, find FindTool) (EmulatedState, error)
	// State asks the chip for its state. Of one that does not run, or does not answer before ctx ends, it is only the
	// serial of its probe.
	State(ctx context.Context, folder string) (EmulatedState, error)
	// Change erases all of the flash of a chip that runs ("erase"), past any programmer, or puts a new chip in its
	// place ("swap").
	Change(ctx context.Context, folder, change string) (EmulatedState, error)
	// Stop ends a chip that runs. Its folder stays.
	Stop(ctx context.Context, folder string) error
}

// A FindTool returns the path of a program by its name: *MissingToolError.
type FindTool = func(program string) (path string, err error)

// An EmulatedState is what an emulated board says of itself.
type EmulatedState struct {
	Runs   bool
	Probe  string           // its serial
	Server flasher.Emulated // where programmers reach the probe while it runs
	Port   string           // of its UART
	Chip   int              // counts the chips that have been on the board
	Erases []int            // by sector, of this chip
}

// A NoProbesError is a board behind an emulated probe on a Desk without Probes.
type NoProbesError struct {
	Board string
}

func (e *NoProbesError) Error() string {
	return fmt.Sprintf("board %s has an emulated debug probe, and this program has none: Desk.Probes is nil", e.Board)
}

// FailureClass says that the program has to be changed.
func (e *NoProbesError) FailureClass() failure.Class { return failure.Config }

// NextStep names the package and the field.
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

// emulatedUp starts the board's emulated chip, or finds that it runs. Errors: *MissingToolError, *NoProbesError; of
// class probe-missing.
func (k *Desk) emulatedUp(ctx context.Context, b *boards.Board) (EmulatedState, error) {
	probes, folder, err := k.probesFor(b)
	if err != nil {
		return EmulatedState{}, err
	}
	up, err := probes.Start(ctx, folder, b.Flash.Chip, k.Tool)
	if err != nil && ctx.Err() == nil && failure.Of(err) != failure.ToolMissing {
		err = failure.New(failure.ProbeMissing, "stop it, and try again: "+failure.Mage+" emulated:down",
			"emulated board %s: %w", b.Name, err)
	}
	return up, err
}

// Emulated tells the emulated board to do something: up, down, erase (all of its flash, past any programmer), swap
// (another, new chip). A board that is not emulated, or another word, is an error of class config; *NoProbesError.
func (k *Desk) Emulated(ctx context.Context, b *boards.Board, do string) (EmulatedState, error) {
	if ctx.Err() != nil {
		return EmulatedState{}, failure.Stopped(ctx, "emulated board")
	}
	if !b.Flash.Emulated {
		return EmulatedState{}, failure.New(failure.Config,
			"choose one whose chip is emulated behind a probe, as in BOARD=microbit", "board %s has no emulated chip", b.Name)
	}
	switch do {
	case "up":
		return k.emulatedUp(ctx, b)
	case "down":
		return k.emulatedDown(ctx, b)
	case "erase", "swap":
		return k.changeEmulated(ctx, b, do)
	}
	return EmulatedState{}, failure.New(failure.Config, "say up, down, erase or swap", "an emulated board cannot %q", do)
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

// statusWithin is for a chip to say that it runs.
const statusWithin = 2 * time.Second

// emulatedState is the state of a board's emulated chip; the zero value on a Desk without Probes.
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

// EmulatedDir is the folder of a board's emulated chip, below the state folder.
func EmulatedDir(stateDir, board string) string { return filepath.Join(stateDir, "virtual", board) }
