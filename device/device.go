// This file defines Device: one process, emulator or board on the desk.

package device

import (
	"bytes"
	"cmp"
	"context"
	"errors"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/internal/command"
	"github.com/boardsmith/boardsmith/rpc"
	"github.com/boardsmith/boardsmith/transport"
)

// A Device is one board on the desk, one emulator or one process of a kind of board. It is in use until Close. Only
// one goroutine at a time may use a Device; different devices, and open sessions, may be used from any goroutines.
type Device struct {
	board        *boards.Board
	desk         *Desk
	clockChecked bool        // compared with the host's
	emulator     string      // its path, after its version was checked
	attachment   *attachment // of a device that keeps its image; nil where the image is loaded when the link opens
	closed       bool
}

// Attach opens a device of the board for exclusive use. which selects one of several: a name in Desk.File, a probe's
// serial, a USB path, a port's name, or the address of a board that is reached over TCP without a probe; it must be ""
// for a process or an emulator. All other devices are leased until Close. Errors: *LeaseError, *AmbiguousError,
// *NoDeviceError; class config for an emulated probe on a Desk without Probes.
func (k *Desk) Attach(ctx context.Context, b *boards.Board, which string) (*Device, error) {
	if ctx.Err() != nil {
		return nil, failure.Stopped(ctx, "attach")
	}
	if err := isReachable(b); err != nil {
		return nil, err
	}
	d := &Device{board: b, desk: k}
	programmer, link := k.programmerOf(b), linkers[b.Link.Kind]
	switch keeps := programmer != boards.NoProgrammer || b.Link.Remote(); {
	case keeps && !link.keeps():
		return nil, failure.New(failure.Config, "leave the programmer out",
			"board %s starts each time it is opened: %s cannot program it", b.Name, programmer)
	case keeps:
		if err := d.attach(ctx, programmer, which); err != nil {
			return nil, err
		}
		return d, nil
	case link.start == nil:
		return nil, failure.New(failure.Config, "choose a programmer, as in "+failure.Option("Desk.Programmer", "openocd"),
			"board %s, with link %s, needs a programmer", b.Name, b.Link.Kind)
	case which != "":
		return nil, failure.New(failure.Config, "leave it out",
			"board %s starts each time it is opened: there is no device %q", b.Name, which)
	}
	return d, nil
}

// isReachable returns an error for a board of which only a build finds out how it is reached.
func isReachable(b *boards.Board) error {
	if b.Partial {
		return failure.New(failure.Config,
			"build a project for it first: for mage, BOARD and MODEL or PROJECT choose it; Project.Board returns its board",
			"only a build finds out how board %s is reached", b.Name)
	}
	return nil
}

// programmerOf returns the programmer to use, boards.NoProgrammer if nothing is programmed.
func (k *Desk) programmerOf(b *boards.Board) string {
	if b.Flash.Programmer == boards.NoProgrammer && b.Flash.Chip == "" && len(b.Flash.Scripts) == 0 {
		return boards.NoProgrammer // there is nothing to program
	}
	return cmp.Or(k.Programmer, b.Flash.Programmer)
}

// Close releases the device for others. Its sessions must be closed by whoever opened them. All other methods of a
// closed device return an error of class internal.
func (d *Device) Close() error {
	d.closed = true
	if d.attachment != nil {
		d.attachment.closed = true
		d.attachment.lease.Release()
	}
	return nil
}

// Flash writes the image to the device as far as necessary. When it returns nil, the flash was verified and the new
// firmware has answered. A board without a programmer must hold the image already: *NoProgrammerError. Further errors:
// *WrongBoardError and *WearError, before any write; *SwappedError; *BootError; *WrongImageError if another firmware
// answers; those of flasher; if the board was plugged in elsewhere, *AmbiguousError and, if another process leases that
// place, *LeaseError.
func (d *Device) Flash(ctx context.Context, i *image.Image) (FlashReport, error) {
	if ctx.Err() != nil {
		return FlashReport{}, failure.Stopped(ctx, "flash")
	}
	i, err := d.accepts(i)
	if err != nil {
		return FlashReport{}, err
	}
	d.desk.Progress.Report(ProgressEvent{Step: "flash", Detail: d.board.Name})
	if d.attachment != nil {
		d.desk.images().Keep(i) // the board will report it
		return d.program(ctx, i)
	}
	return FlashReport{Why: "nothing to write: the image is loaded when the link opens"}, nil
}

// accepts returns an error for an image of another board, and for a closed device. If a later build replaced the
// image's file, it finds the image in the cache.
func (d *Device) accepts(i *image.Image) (*image.Image, error) {
	if d.closed {
		return nil, errClosed(d.board)
	}
	if i.Board != d.board.Name {
		return nil, failure.New(failure.Config, "build for this board", "%v cannot run on board %s", i, d.board.Name)
	}
	return d.desk.images().Whole(i)
}

// Open starts a session with the firmware. The caller closes the session, which ends a process. Open checks that
// the firmware is exactly this build, by build id and CRC-32 (*WrongImageError), on the chip of desk.json or the
// last Flash (*WrongBoardError), and that the device matches its board file (class config, *ClockError). It logs
// a fault from before the session, which is also its PriorFault. If a board does not respond and Desk.File has a
// power command, Open cycles the power once. Further errors: those of transport and rpc.
func (d *Device) Open(ctx context.Context, i *image.Image) (*rpc.Session, error) {
	i, err := d.accepts(i)
	if err != nil {
		return nil, err
	}
	if speaksLines(i) {
		return nil, failure.New(failure.Config, "use OpenStandalone, or build with "+
			failure.Option("Spec.Options", "app="+boards.RPC), "%v has no RPC server: it is standalone firmware", i)
	}
	d.desk.Progress.Report(ProgressEvent{Step: "open", Detail: d.board.Name})
	power := powerCycle{d: d}
	for {
		s, err := d.open(ctx, i)
		if err == nil || !power.helps(ctx, err) {
			return s, err
		}
	}
}

func (d *Device) open(ctx context.Context, i *image.Image) (*rpc.Session, error) {
	link := func(ctx context.Context) (transport.Link, error) { return d.openLink(ctx, i) }
	t, err := begin(ctx, link, transport.SessionOptions{Log: d.desk.log()})
	if err != nil {
		return nil, d.emulatorEnded(err, i)
	}
	s, err := d.checked(ctx, t, i)
	if err != nil {
		return nil, errors.Join(d.emulatorEnded(err, i), t.Close())
	}
	return s, nil
}

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
		if i, err = d.accepts(i); err != nil {
			return nil, err
		}
	}
	return d.openLink(ctx, i)
}

// openLink opens the link to the firmware, and starts a process or an emulator.
func (d *Device) openLink(ctx context.Context, i *image.Image) (transport.Link, error) {
	if d.attachment != nil {
		return d.attachment.open(ctx, d.board, i)
	}
	return d.startLink(ctx, i)
}

// startLink starts a process, or an emulator with further options, whose link is open as long as it runs.
func (d *Device) startLink(ctx context.Context, i *image.Image, options ...string) (transport.Link, error) {
	l := d.board.Link
	if d.emulator == "" && l.Program != "" {
		path, err := findEmulator(ctx, l)
		if err != nil {
			return nil, err
		}
		d.emulator = path
	}
	return linkers[l.Kind].start(ctx, starting{
		link: l, emulator: d.emulator, image: i.Path, options: options, log: d.desk.log(),
	})
}

// emulatorEnded returns an error with the output of an emulator that ended before the firmware responded, and the
// command that repeats it.
func (d *Device) emulatorEnded(err error, i *image.Image) error {
	var ended *transport.ProcessError
	l := d.board.Link
	if l.Program == "" || !errors.As(err, &ended) || ended.State == nil || len(bytes.TrimSpace(ended.Tail)) == 0 {
		return err
	}
	return failure.New(failure.Boot, "check args of the board's link; to see it again: "+
		command.Command{Path: l.Program, Args: emulatorArgs(l, i.Path), Dir: "/"}.Typed(),
		"%s of board %s: %s: %s", l.Program, d.board.Name, ended.State, bytes.TrimSpace(ended.Tail))
}

// checked asks the firmware of a session all that Open says.
func (d *Device) checked(ctx context.Context, t *transport.Session, i *image.Image) (*rpc.Session, error) {
	s := rpc.New(t, rpc.Options{Log: d.desk.log(), Explain: d.explain(i), Locate: locate})
	answer, err := d.confirm(ctx, s, i)
	if err != nil {
		return nil, err
	}
	if err := d.sameChip(answer.Chip); err != nil {
		return nil, err
	}
	if _, err := s.PriorFault(ctx); err != nil {
		return nil, err
	}
	if err := d.verify(ctx, s); err != nil {
		return nil, err
	}
	return s, nil
}
