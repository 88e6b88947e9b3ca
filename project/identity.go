// This file holds a device against what bench.json, the ledger, its chip's id and its firmware say of it: several kinds of
// board are the same on USB, and a cable is soon in another board.

package project

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/boardsmith/boardsmith/failure"
)

// A WrongBoardError is a device that something names otherwise than its user does. Nothing was written.
type WrongBoardError struct {
	Board    string   // that was asked for
	Evidence []string // against it, in words
}

func (e *WrongBoardError) Error() string {
	return fmt.Sprintf("the device may not be the board %s that is meant: %s", e.Board, strings.Join(e.Evidence, "; "))
}

// FailureClass says that the choice of the device is at fault.
func (e *WrongBoardError) FailureClass() failure.Class { return failure.Config }

// NextStep says how to go on.
func (e *WrongBoardError) NextStep() string {
	return "choose the right BOARD and DEVICE, or note the change with SAVE=1 mage devices; FORCE=1 flashes all the same"
}

// sameChip refuses firmware that answers from another chip than the one that is meant.
func (d *Device) sameChip(chip string) error {
	if d.bench == nil || d.bench.chip == "" || d.bench.chip == chip || d.env.Reflash {
		return nil
	}
	return &WrongBoardError{d.board.Name, []string{fmt.Sprintf("the firmware answers from chip %s, not %s", cmp.Or(chip, "without an id"), d.bench.chip)}}
}
