// This file lists attached and emulated devices, and identifies one and the image that it holds.

package device

import (
	"context"
	"os"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/device/internal/desk"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/image"
)

// An Attached is a debug probe or a serial port of this computer, a device of desk.json that is reached over TCP, or an
// emulated chip of this user: Boards that it may be, Probe, Port, USB, Path, Interface, Product, Emulated and Running.
type Attached = desk.Attached

// Devices lists what is attached, the devices of File that are reached over TCP, and, on a Desk with Probes, the
// emulated chips that have been used.
func (k *Desk) Devices(ctx context.Context) ([]Attached, error) {
	dir, err := k.stateDir()
	if err != nil {
		return nil, err
	}

	all := k.allBoards()
	list, err := desk.List(all)
	if err != nil {
		return nil, err
	}

	for _, b := range all {
		if b.Flash.Emulated && k.Probes != nil {
			list = append(list, k.emulatedChips(ctx, dir, b)...)
		}
	}

	if ctx.Err() != nil {
		return nil, failure.Stopped(ctx, "devices")
	}
	return append(list, desk.ListRemote(k.File)...), nil
}

// allBoards returns all boards that can be loaded.
func (k *Desk) allBoards() (list []*boards.Board) {
	for _, name := range boards.List(k.Path) {
		if b, err := boards.Find(name, k.Path); err == nil {
			list = append(list, b)
		}
	}
	return list
}

// emulatedChips returns the emulated chip of a board, or nothing if it was never used.
func (k *Desk) emulatedChips(ctx context.Context, stateDir string, b *boards.Board) []Attached {
	if _, err := os.Stat(emulatedDir(stateDir, b.Name)); err != nil {
		return nil
	}

	s := k.emulatedState(ctx, b)
	return []Attached{{
		Boards: []string{b.Name}, Probe: s.Probe, Port: s.Port, Product: "emulated " + b.Flash.Chip,
		Emulated: true, Running: s.Running,
	}}
}

// An Identity describes a device, from its probe and its firmware's answer.
type Identity struct {
	Probe    string    // serial of the probe; "" if it has none
	Port     string    // of its UART; the address of a link over TCP
	Link     desk.Link // how it is attached: Kind, Path, Interface, USB, Serial and Address
	Shared   bool      // another attached probe has the same serial
	Responds bool      // boardsmith firmware answered
	Chip     string    // id of the chip in hexadecimal; "" if it has none or did not answer
	BuildID  string
}

// Identify queries the device's identity. A device without a probe has no firmware before it is opened. No
// answer is not an error, unless another program may have read it. Errors: *LeaseError and class config if the
// device was plugged in elsewhere; transport.ErrSharedPort; those of ctx.
func (d *Device) Identify(ctx context.Context) (Identity, error) {
	var id Identity
	if d.attachment != nil {
		answer, err := d.probeRunning(ctx, nil)
		if err != nil {
			return Identity{}, err
		}

		a := d.attachment
		id.Probe, id.Port, id.Link, id.Shared = a.Probe.Serial, a.Port, a.Link(), a.Probe.Shared
		if answer != nil {
			id.Responds, id.Chip, id.BuildID = true, answer.Chip, (&image.Image{BuildID: answer.BuildID}).ID()
		}
	}

	if ctx.Err() != nil {
		return Identity{}, failure.Stopped(ctx, "identify")
	}
	return id, nil
}

// CurrentImage finds the image that the device holds: the one that its firmware reports or, without an answer, the
// ledger's. The image's file is the cache's. Errors: class config; class verify if the content is unknown; as of
// Identify.
func (d *Device) CurrentImage(ctx context.Context) (*image.Image, error) {
	if d.attachment == nil {
		return nil, failure.New(failure.Config, "use the project's build instead",
			"board %s holds no image before it is opened", d.board.Name)
	}

	answer, err := d.probeRunning(ctx, nil)
	if err != nil {
		return nil, err
	}

	if answer != nil {
		return d.imageOf(answer)
	}
	return d.recordedImage()
}

// recordedImage finds the image that the ledger records for the device: an error of class verify if there is none.
func (d *Device) recordedImage() (*image.Image, error) {
	entries, err := d.entriesBehindProbe()
	if err != nil {
		return nil, err
	}

	// Several chips may have been behind the probe: the latest counts.
	if len(entries) == 0 || entries[0].Image == "" {
		return nil, failure.New(failure.Verify, "flash it",
			"the ledger has no image for %s: its contents are unverified", d.attachment.LedgerName())
	}
	return d.desk.images().Find(entries[0].Image)
}
