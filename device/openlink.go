// This file opens a device's link, and starts what has no link before.

package device

import (
	"bytes"
	"context"
	"errors"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/internal/command"
	"github.com/boardsmith/boardsmith/internal/nextstep"
	"github.com/boardsmith/boardsmith/transport"
)

// Link opens the raw link below a session, for gateways, without checking the firmware. i is what an emulator or a
// process runs; nil for a device that keeps its image. The caller closes the link, which ends a process. Errors: those
// of transport; class config for an image of another board.
func (d *Device) Link(ctx context.Context, i *image.Image) (transport.Link, error) {
	if ctx.Err() != nil {
		return nil, failure.Stopped(ctx, "link")
	}
	if d.attachment == nil && i == nil {
		return nil, failure.New(failure.Config, "name the image to start", "board %s starts each time its link is opened",
			d.board.Name)
	}

	if d.attachment == nil {
		var err error
		if i, err = d.accept(i); err != nil {
			return nil, err
		}
	}
	return d.openLink(ctx, i)
}

// openLink opens the link to the firmware, and starts a process or an emulator. i is the image that runs; nil: any.
func (d *Device) openLink(ctx context.Context, i *image.Image) (transport.Link, error) {
	if d.remote != nil {
		return d.traced(d.remote.open(ctx))
	}
	if d.attachment == nil {
		return d.startLink(ctx, i)
	}
	return d.relocateAndOpen(ctx, d.board.Link, i)
}

// relocateAndOpen relocates a device that keeps its image and opens its link with these settings: its port's name may
// have become another device's.
func (d *Device) relocateAndOpen(ctx context.Context, settings boards.Link, i *image.Image) (transport.Link, error) {
	if err := d.relocate(ctx); err != nil {
		return nil, err
	}
	return d.openRelocated(ctx, settings, expected{i, i != nil})
}

// openRelocated opens the link of a device that keeps its image and that was just relocated.
func (d *Device) openRelocated(ctx context.Context, settings boards.Link, e expected) (transport.Link, error) {
	if through := linkers[settings.Kind].through; through != nil {
		return d.traced(through(ctx, d.attachment.Programmer, e, d.board))
	}
	return d.traced(linkers[settings.Kind].open(ctx, d.attachment.Port, settings))
}

// traced returns a link that Desk.Trace records.
func (d *Device) traced(link transport.Link, err error) (transport.Link, error) {
	if err != nil || d.desk.Trace == nil {
		return link, err
	}
	return transport.Record(link, d.desk.Trace), nil
}

// startLink starts a process, or an emulator with further options, whose link is open as long as it runs.
func (d *Device) startLink(ctx context.Context, i *image.Image, options ...string) (transport.Link, error) {
	// Its version is checked once for all starts.
	l := d.board.Link
	if d.emulator == "" && l.Program != "" {
		path, err := findEmulator(ctx, l)
		if err != nil {
			return nil, err
		}
		d.emulator = path
	}

	return d.traced(linkers[l.Kind].start(ctx, launch{
		link: l, emulator: d.emulator, image: i.Path, options: options, log: d.desk.log(),
	}))
}

// emulatorError returns an error with the output of an emulator that ended before the firmware responded, and the
// command that repeats it. It returns any other error unchanged.
func (d *Device) emulatorError(err error, i *image.Image) error {
	var ended *transport.ProcessError

	l := d.board.Link
	if l.Program == "" || !errors.As(err, &ended) || ended.State == nil || len(bytes.TrimSpace(ended.Tail)) == 0 ||
		failure.Of(err) == failure.Host {
		return err
	}

	next := "check args of the board's link"
	if ended.GaveUp() {
		next = "the core faulted while it handled a fault, as after an overflow of the stack before main: " +
			nextstep.Target("debug") + " shows where"
	}

	return failure.New(failure.Boot, next+"; to see it again: "+
		command.Command{Path: l.Program, Args: emulatorArgs(l, i.Path), Dir: "/"}.Typed(),
		"%s of board %s: %s: %s", l.Program, d.board.Name, ended.State, bytes.TrimSpace(ended.Tail))
}
