// This file starts, stops and changes the emulated chip of a board, by the probes in Desk.Probes.

package device

import (
	"context"
	"io"
	"path/filepath"
	"time"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/flasher"
	"github.com/boardsmith/boardsmith/internal/boardfile"
	"github.com/boardsmith/boardsmith/internal/nextstep"
)

// probesFor returns the emulated probes and the folder of a board's chip: class config for a board that is not
// emulated, and for a Desk without Probes.
func (k *Desk) probesFor(b *boards.Board) (Probes, string, error) {
	if err := checkComplete(b); err != nil {
		return nil, "", err
	}
	if !b.Flash.Emulated {
		return nil, "", failure.New(failure.Config,
			"choose one whose chip is emulated behind a probe, as in "+nextstep.Option("Spec.Board", "microbit"),
			"board %s has no emulated chip", b.Name)
	}
	if k.Probes == nil {
		return nil, "", failure.New(failure.Config,
			"import github.com/boardsmith/boardsmith/device/emulated, and set device.Desk{Probes: emulated.Probes()}",
			"board %s needs an emulated debug probe, but Desk.Probes is nil", b.Name)
	}

	dir, err := k.stateDir()
	if err != nil {
		return nil, "", err
	}
	return k.Probes, emulatedDir(dir, b.Name), nil
}

// StartEmulated starts the board's emulated chip unless it runs. Errors: *failure.MissingToolError; class config for a
// board that is not emulated, and for a Desk without Probes; class probe-missing.
func (k *Desk) StartEmulated(ctx context.Context, b *boards.Board) (EmulatedState, error) {
	probes, folder, err := k.probesFor(b)
	if err != nil {
		return EmulatedState{}, err
	}

	state, err := probes.Start(ctx, folder, b.Flash.Chip, k.Tool)
	if err != nil && ctx.Err() == nil && failure.Of(err) != failure.ToolMissing {
		err = failure.New(failure.ProbeMissing, "stop it, and try again: "+nextstep.Target("emulated:down"),
			"emulated board %s: %w", b.Name, err)
	}

	return state, err
}

// holdEmulated keeps the board's emulated chip, which runs, from ending. Errors: as of StartEmulated.
func (k *Desk) holdEmulated(ctx context.Context, b *boards.Board) (io.Closer, error) {
	probes, folder, err := k.probesFor(b)
	if err != nil {
		return nil, err
	}

	held, err := probes.Hold(ctx, folder)
	if err != nil && ctx.Err() == nil {
		err = failure.Errorf(failure.ProbeMissing, "emulated board %s: %w", b.Name, err)
	}
	return held, err
}

// StopEmulated ends the board's emulated chip; its flash is kept. Errors: as of StartEmulated.
func (k *Desk) StopEmulated(ctx context.Context, b *boards.Board) (EmulatedState, error) {
	probes, folder, err := k.probesFor(b)
	if err != nil {
		return EmulatedState{}, err
	}

	// Asked first: after the stop only the probe's serial is known.
	s, err := probes.State(ctx, folder)
	if err != nil || !s.Running {
		return s, err
	}

	if err := probes.Stop(ctx, folder); err != nil {
		return EmulatedState{}, failure.Errorf(failure.ProbeMissing, "emulated board %s: %w", b.Name, err)
	}
	s.Running, s.Port, s.Server = false, "", flasher.Emulated{}
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
	return filepath.Join(stateDir, "emulated", boardfile.FileName(board))
}
