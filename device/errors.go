// This file defines the errors about a device's choice, image, programmer, lease and wear.

package device

import (
	"fmt"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/device/internal/ledger"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/nextstep"
)

// chooseProbe is the next step if an operation needs a probe and the device has none.
var chooseProbe = "choose a board with a probe, as in " + nextstep.Option("Spec.Board", "microbit") +
	", and another programmer than none"

// wrongImage returns the error, of class verify, of a device that runs another image than the requested one. want and
// got are build ids in hexadecimal; got is "" without one, and equal to want if the flash has changed since.
func wrongImage(device, want, got string) error {
	const next = "build and flash again"
	switch got {
	case want:
		return failure.New(failure.Verify, next, "%s runs build %s, but its flash has changed since: its CRC-32 differs",
			device, want)
	case "":
		return failure.New(failure.Verify, next, "%s runs a firmware without a build id, not build %s", device, want)
	}
	return failure.New(failure.Verify, next, "%s runs build %s, not build %s", device, got, want)
}

// A LeaseError reports a device that another process uses: Device, Holder and Waited.
type LeaseError = ledger.LeaseError

// A WearError reports a sector that has reached its rated number of erases.
type WearError struct {
	Device       string
	PossibleChip string // the chip that Device may be, because it was last behind its probe; "" if it answers
	Sector       boards.Sector
	Erases       int // erases, including those of PossibleChip
	Rated        int
}

func (e *WearError) Error() string {
	device := e.Device
	if e.PossibleChip != "" {
		device += ", which does not respond and may be " + e.PossibleChip
	}
	return fmt.Sprintf("%s: %v was erased %d times and is rated for %d", device, e.Sector, e.Erases, e.Rated)
}

// FailureClass returns failure.Flash.
func (e *WearError) FailureClass() failure.Class { return failure.Flash }

// NextStep returns how to go on.
func (e *WearError) NextStep() string {
	if e.PossibleChip != "" {
		return "use " + nextstep.Option("Desk.Reflash", "true") +
			" if it is another chip, which its new firmware will identify"
	}
	return "use another board, or " + nextstep.Option("Desk.Reflash", "true") +
		" to write to a worn one (all data are verified)"
}

// errClosed is the error of a closed device, which others may use.
func errClosed(b *boards.Board) error {
	return failure.New(failure.Internal, "attach it again", "device of board %s: it was closed", b.Name)
}
