// This file defines the errors about a device's choice, image, programmer, lease and wear.

package device

import (
	"fmt"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/desk"
	"github.com/boardsmith/boardsmith/internal/ledger"
)

// chooseProbe is the next step if an operation needs a probe and the device has none.
var chooseProbe = "choose a board with a probe, as in " + failure.Option("Spec.Board", "microbit") +
	", and another programmer than none"

// A WrongImageError reports a device that runs another image than the requested one.
type WrongImageError struct {
	Device string
	Want   string // build ids in hexadecimal
	Got    string // "" if the device has none; equal to Want if its flash has changed since
}

func (e *WrongImageError) Error() string {
	if e.Got == e.Want {
		return fmt.Sprintf("%s runs build %s, but its flash has changed since: its CRC-32 differs", e.Device, e.Want)
	}
	got := "a firmware without a build id"
	if e.Got != "" {
		got = "build " + e.Got
	}
	return fmt.Sprintf("%s runs %s, not build %s", e.Device, got, e.Want)
}

// FailureClass returns failure.Verify.
func (e *WrongImageError) FailureClass() failure.Class { return failure.Verify }

// NextStep returns the next step for the user.
func (e *WrongImageError) NextStep() string { return "build and flash again" }

// A NoProgrammerError is an image for a device that has no programmer, and that does not run it.
type NoProgrammerError struct {
	Board string
	Image string // path of its ELF file
	Err   error  // the error of its firmware's identity
}

func (e *NoProgrammerError) Error() string {
	return fmt.Sprintf("board %s has no programmer, and does not run the image: %v", e.Board, e.Err)
}

// Unwrap returns the error of its firmware's identity.
func (e *NoProgrammerError) Unwrap() error { return e.Err }

// FailureClass returns failure.Config: the user must write the image.
func (e *NoProgrammerError) FailureClass() failure.Class { return failure.Config }

// NextStep returns the next step for the user.
func (e *NoProgrammerError) NextStep() string {
	return "write " + e.Image + " to it with the board's own tool and try again, or name a programmer in its board file"
}

// A LeaseError reports a device that another process uses: Device, Holder and Waited.
type LeaseError = ledger.LeaseError

// A NoDeviceError reports a board that is not attached: Board, Which and USB.
type NoDeviceError = desk.NoDeviceError

// An AmbiguousError reports a choice that several attached devices match: Board, Which and Ports. A port has Name, USB,
// Serial, Path, Interface, and What, the product's name.
type AmbiguousError = desk.AmbiguousError

// A WrongBoardError reports a device that may not be the chosen board: Board and Evidence. Nothing was written.
type WrongBoardError = desk.WrongBoardError

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
		return "use " + failure.Option("Desk.Reflash", "true") +
			" if it is another chip, which its new firmware will identify"
	}
	return "use another board, or " + failure.Option("Desk.Reflash", "true") +
		" to write to a worn one (all data are verified)"
}

// errClosed is the error of a closed device, which others may use.
func errClosed(b *boards.Board) error {
	return failure.New(failure.Internal, "attach it again", "device of board %s: it was closed", b.Name)
}
