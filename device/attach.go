// This file attaches a device: it finds the device, leases it and makes its programmer.

package device

import (
	"context"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/device/internal/desk"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/flasher"
	"github.com/boardsmith/boardsmith/internal/nextstep"
)

// Attach opens a device of the board for exclusive use. which selects one of several: a name in Desk.File, a probe's
// serial, a USB path, a port's name, or the address of a board that is reached over TCP without a probe; it must be ""
// for a process or an emulator. All other devices are leased until Close. Errors: *LeaseError; class
// probe-missing if none is attached; class config if several may be it, and for an emulated probe on a Desk without
// Probes.
func (k *Desk) Attach(ctx context.Context, b *boards.Board, which string) (*Device, error) {
	if ctx.Err() != nil {
		return nil, failure.Stopped(ctx, "attach")
	}
	if err := k.check(b); err != nil {
		return nil, err
	}

	d := &Device{board: b, desk: k}
	programmer, link := k.programmerOf(b), linkers[b.Link.Kind]

	// A board behind a bridge keeps its image, too, although nothing programs it from here.
	switch keepsImage := programmer != boards.NoProgrammer || b.Link.Remote(); {
	case keepsImage && !link.keepsImage():
		return nil, failure.New(failure.Config, "leave the programmer out",
			"board %s starts each time it is opened: %s cannot program it", b.Name, programmer)
	case keepsImage:
		if err := d.attach(ctx, programmer, which); err != nil {
			return nil, err
		}
		return d, nil
	case link.start == nil:
		return nil, failure.New(failure.Config, "choose a programmer, as in "+nextstep.Option("Desk.Programmer", "openocd"),
			"board %s, with link %s, needs a programmer", b.Name, b.Link.Kind)
	case which != "":
		return nil, failure.New(failure.Config, "leave it out",
			"board %s starts each time it is opened: there is no device %q", b.Name, which)
	}
	return d, nil
}

// attach finds a device that keeps its image, leases it, and makes its programmer.
func (d *Device) attach(ctx context.Context, programmer, which string) (err error) {
	if d.ledger, err = d.desk.ledger(); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = d.release() // err is more important
		}
	}()

	a, err := d.find(ctx, programmer, which)
	if err != nil {
		return err
	}

	leases, err := d.desk.leaseDir(d.board)
	if err != nil {
		return err
	}

	err = a.Lease(ctx, leases, d.desk.Wait, flasher.Config{
		AnyChip: d.desk.Reflash, Find: d.desk.tool, Log: d.desk.log(),
		Step: func(s string) { d.desk.Report(ProgressEvent{Step: "flash", Detail: s}) },
	})
	if err != nil {
		return err
	}

	d.attachment, d.chip = a, a.Entry().Chip
	return nil
}

// find finds a device that keeps its image. It starts the board's emulated chip unless that runs.
func (d *Device) find(ctx context.Context, programmer, which string) (*desk.Attachment, error) {
	if !d.board.Flash.Emulated {
		return desk.Find(d.board, programmer, which, d.desk.File)
	}

	chip, err := d.desk.StartEmulated(ctx, d.board)
	if err != nil {
		return nil, err
	}

	// Held before it is used: a chip without clients ends after a minute.
	if d.held, err = d.desk.holdEmulated(ctx, d.board); err != nil {
		return nil, err
	}

	probe := flasher.Probe{Serial: chip.Probe, Emulated: &chip.Server}
	return desk.FindEmulated(d.board, programmer, which, d.desk.File, probe, chip.Port)
}
