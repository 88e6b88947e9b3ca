// Package device uses the devices on a desk: it attaches one, flashes and erases it, opens sessions with its firmware,
// and monitors and debugs it.
//
// It does not build images: that is package project. Packages transport and flasher implement links and programmers.
package device

import (
	"context"
	"errors"
	"io"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/device/internal/desk"
	"github.com/boardsmith/boardsmith/device/internal/ledger"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/rpc"
	"github.com/boardsmith/boardsmith/transport"
)

// A Device is one board on the desk, one emulator or one process of a kind of board. It is in use until Close. Only
// one goroutine at a time may use a Device; different devices, and open sessions, may be used from any goroutines.
type Device struct {
	board      *boards.Board
	desk       *Desk
	verified   verifiedClock
	emulator   string           // its path, after its version was checked
	attachment *desk.Attachment // of a device that keeps its image; nil where the image is loaded when the link opens
	ledger     *ledger.Ledger   // of a device that keeps its image
	chip       string           // the expected chip's id, from desk.json or the last flash; "" if unknown
	held       io.Closer        // of an emulated chip, which runs while it is held; nil: it has none
	remote     *remote          // of another computer's device; nil: it is on the desk
	closed     bool
}

// A verifiedClock is the clock with which the timer of an image was compared; "": with none.
type verifiedClock struct {
	image string // digest
	clock rpc.Clock
}

// A remote is a device whose firmware another computer starts.
type remote struct {
	open       func(context.Context) (transport.Link, error)
	keepsImage bool
}

// KeepsImage reports whether the device keeps its image while it is not used. A process or an emulator gets one each
// time that it is opened.
func (d *Device) KeepsImage() bool {
	return d.attachment != nil || d.remote != nil && d.remote.keepsImage
}

// Close releases the device for others. Its sessions must be closed by whoever opened them. All other methods of a
// closed device return an error of class internal.
func (d *Device) Close() error {
	d.closed = true
	if d.attachment != nil {
		d.attachment.Close()
	}
	return d.release()
}

// release lets the emulated chip end.
func (d *Device) release() (err error) {
	if d.held != nil {
		err = d.held.Close()
		d.held = nil
	}
	return err
}

// accept returns an error for an image of another board, and for a closed device. If a later build replaced the
// image's file, it finds the image in the cache.
func (d *Device) accept(i *image.Image) (*image.Image, error) {
	if d.closed {
		return nil, errClosed(d.board)
	}

	if i.Board != d.board.Name {
		return nil, failure.New(failure.Config, "build for this board", "%v cannot run on board %s", i, d.board.Name)
	}
	return d.desk.images().Intact(i)
}

// relocate finds the device again, which may have been plugged in elsewhere. Errors: those of desk.Attachment.Relocate.
func (d *Device) relocate(ctx context.Context) error {
	if d.closed {
		return errClosed(d.board)
	}
	return d.attachment.Relocate(ctx)
}

// relocateProbe is relocate for a use of the probe alone: its UART may be missing.
func (d *Device) relocateProbe(ctx context.Context) error {
	if err := d.relocate(ctx); !errors.Is(err, desk.ErrMissing) {
		return err
	}
	return nil
}
