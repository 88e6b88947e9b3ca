// This file starts, stops and changes the emulated chip of a board.

package targets

import (
	"context"

	"github.com/magefile/mage/mg"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/targets/internal/inputs"
	"github.com/boardsmith/boardsmith/targets/internal/jsonlines"
)

// Emulated holds the targets about boards whose chip and probe are emulated.
type Emulated mg.Namespace

// Up starts the emulated chip of BOARD, which otherwise starts when it is used.
//
// Variables:
//
//	BOARD        a board's name: mage boards lists them [host]
//	TARGET       a named target of boardsmith.json
//	DEVICE       which device of that board: its name in desk.json or its probe's serial [the only attached one]
func (Emulated) Up(ctx context.Context) error { return doUp(ctx) }

// Down ends the emulated chip of BOARD; what its flash holds is kept.
//
// Variables:
//
//	BOARD        a board's name: mage boards lists them [host]
//	TARGET       a named target of boardsmith.json
//	DEVICE       which device of that board: its name in desk.json or its probe's serial [the only attached one]
func (Emulated) Down(ctx context.Context) error { return doDown(ctx) }

// Erase erases the whole flash of the emulated chip of BOARD, as another tool would.
//
// Variables:
//
//	BOARD        a board's name: mage boards lists them [host]
//	TARGET       a named target of boardsmith.json
//	DEVICE       which device of that board: its name in desk.json or its probe's serial [the only attached one]
func (Emulated) Erase(ctx context.Context) error { return doEraseChip(ctx) }

// Swap puts another, new chip on the emulated BOARD, behind the same probe.
//
// Variables:
//
//	BOARD        a board's name: mage boards lists them [host]
//	TARGET       a named target of boardsmith.json
//	DEVICE       which device of that board: its name in desk.json or its probe's serial [the only attached one]
func (Emulated) Swap(ctx context.Context) error { return doSwap(ctx) }

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

var (
	doUp        = jobTarget("emulated:up", "", changeEmulated)
	doDown      = jobTarget("emulated:down", "", changeEmulated)
	doEraseChip = jobTarget("emulated:erase", "", changeEmulated)
	doSwap      = jobTarget("emulated:swap", "", changeEmulated)
)

func changeEmulated(ctx context.Context, j *job, _ inputs.OnBoard) error {
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
	if chip.Running {
		state = "runs, port " + chip.Port
	}

	j.Printf("emulated: board %s, probe %s, %s%s", b.Name, chip.Probe, state, action.done)
	j.JSONLine(jsonlines.Emulated{Board: b.Name, EmulatedState: chip})
	return nil
}
