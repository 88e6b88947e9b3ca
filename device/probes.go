// This file declares emulated debug probes, which a program passes in Desk.Probes, so that other programs do not link
// them.

package device

import (
	"context"
	"io"

	"github.com/boardsmith/boardsmith/flasher"
)

// Probes are debug probes in software with emulated chips behind them, for boards with flash.emulated in their
// file. Package emulated implements them. Each chip has its own folder, with its flash; the caller
// passes it to every call. Several goroutines and processes may use one folder at once. Each method ends with its
// context, with an error of failure.Stopped.
type Probes interface {
	// Start starts the chip unless it runs, and creates the folder if necessary. model is the chip's name in the
	// board file. The chip continues after this process has ended. find returns the path of a program that Start
	// needs; if nil, Start finds it itself. A chip without clients ends after a minute. Errors: find's;
	// *failure.MissingToolError; others have no class.
	Start(ctx context.Context, folder, model string, find func(program string) (path string, err error)) (EmulatedState,
		error)
	// Hold keeps a running chip from ending by itself until the Closer is closed, or this process ends.
	Hold(ctx context.Context, folder string) (io.Closer, error)
	// State returns the chip's state. If the chip does not run, or does not respond before ctx ends, the state
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
	Running bool             `json:"runs"`
	Probe   string           `json:"probe"` // its serial
	Server  flasher.Emulated `json:"-"`     // addresses of the probe while it runs
	Port    string           `json:"port"`  // of its UART
	Chip    int              `json:"chips"` // number of the chip, of those that have been on the board
	Erases  []int            `json:"-"`     // erases of this chip, by sector
}
