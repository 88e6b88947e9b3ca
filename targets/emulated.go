// This file starts, stops and changes the emulated chip of a board.

package targets

import (
	"context"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/device"
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
	in, b, err := v.boardOf()
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
	in, b, err := v.boardOf()
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
	v.JSONLine(fields{
		"status": "done", "board": b.Name, "probe": chip.Probe, "port": chip.Port, "runs": chip.Runs,
		"chips": chip.Chip,
	})
}
