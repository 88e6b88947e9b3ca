// This file leases a device, and finds it again after it was plugged in elsewhere.

package device

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/flasher"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/internal/attached"
	"github.com/boardsmith/boardsmith/internal/ledger"
	"github.com/boardsmith/boardsmith/transport"
)

// An attachment is one attached board: its probe, its port and its ledger.
type attachment struct {
	closed         bool // the lease was released
	programmer     flasher.Programmer
	conf           flasher.Config // the programmer's configuration
	programmerName string         // boards.NoProgrammer: there is none, and no probe
	probe          flasher.Probe
	port           string // of its UART; the address of a link over TCP
	found          place  // where both are; of emulated ones only the address, if they have one
	power          string // desk.json's command that cycles the board's power; "" if there is none
	chip           string // its chip's id, from desk.json or the last flash; "" if unknown
	ledger         *ledger.Ledger
	leases         string // folder of the lease
	lease          *ledger.Lease
}

// attach finds a device that keeps its image, leases it, and makes its programmer.
func (d *Device) attach(ctx context.Context, programmer, which string) (err error) {
	n := &attachment{programmerName: programmer}
	if n.ledger, err = d.desk.ledger(); err != nil {
		return err
	}
	if d.board.Flash.Emulated {
		err = n.findEmulated(ctx, d.desk, d.board, which)
	} else {
		err = n.find(d.board, which, d.desk.File)
	}
	if err != nil {
		return err
	}
	noted := d.desk.File.noted(d.board.Name, n.address(), n.probe)
	n.power, n.chip = noted.Power, noted.Chip
	if d.board.Link.Remote() && n.found.address == "" {
		if err := n.reachAt(d.board, cmp.Or(noted.Link.Address, d.board.Link.Address)); err != nil {
			return err
		}
	}
	if n.leases, err = d.desk.leaseDir(d.board); err != nil {
		return err
	}
	if n.lease, err = n.takeLease(ctx, d.desk.Wait); err != nil {
		return err
	}
	n.conf = flasher.Config{
		Flash: d.board.Flash, Chip: d.board.Identification, AnyChip: d.desk.Reflash, Probe: n.probe,
		Reserved: reserved(d.board),
		Find:     d.desk.tool, Log: d.desk.log(), Held: n.lease.File(),
		Step: func(s string) { d.desk.Progress.Report(ProgressEvent{Step: "flash", Detail: s}) },
	}
	if err := n.take(nil); err != nil {
		n.lease.Release()
		return err
	}
	d.attachment = n
	return nil
}

// takeLease leases the place where the device is attached, because serials need not be unique and ports are
// renamed.
func (n *attachment) takeLease(ctx context.Context, wait time.Duration) (*ledger.Lease, error) {
	l, err := ledger.Take(ctx, n.leases, n.at(), wait)
	var taken *ledger.LeaseError
	if errors.As(err, &taken) {
		taken.Device = n.probeEntry()
	}
	return l, err
}

// at returns where the device is attached.
func (n *attachment) at() string {
	switch {
	case !n.hasProbe():
		return "tcp:" + strings.ToLower(n.port)
	case n.probe.USBPath != "":
		return "usb:" + n.probe.USBPath
	case n.probe.Serial != "":
		return "probe:" + n.probe.Serial
	}
	return "port:" + n.port
}

// which returns what identifies the device, also after it was plugged in again: its probe's serial if that is
// unique, else its place.
func (n *attachment) which() string {
	if n.probe.Serial != "" && !n.probe.Shared {
		return n.probe.Serial
	}
	return cmp.Or(n.probe.USBPath, n.port)
}

// address returns the address of a device without a probe, else "".
func (n *attachment) address() string {
	if n.hasProbe() {
		return ""
	}
	return n.port
}

// hasProbe reports whether the device is programmed through a probe.
func (n *attachment) hasProbe() bool { return n.programmerName != boards.NoProgrammer }

// take makes the programmer, for an image unless that is nil.
func (n *attachment) take(i *image.Image) (err error) {
	if !n.hasProbe() {
		return nil
	}
	if i != nil {
		n.conf.Build, n.conf.Image = i.BuildDir, i.Path
	}
	n.programmer, err = flasher.New(n.programmerName, n.conf)
	return err
}

// find finds the device among those attached.
func (n *attachment) find(b *boards.Board, which string, noted *DeskFile) error {
	if !n.hasProbe() {
		address, err := (&choice{board: b, which: which, file: noted}).onlyAddress()
		if err != nil {
			return err
		}
		return n.reachAt(b, address)
	}
	all, err := attached.Units(probeOf(b))
	if err != nil {
		return err
	}
	p, err := (&choice{b, which, noted, all}).only()
	if err != nil {
		return err
	}
	n.settle(p)
	return nil
}

// reachAt notes the address of the device's link.
func (n *attachment) reachAt(b *boards.Board, address string) error {
	if address == "" {
		return failure.New(failure.Config,
			"name it: link.address in the board file, or for one device in desk.json (of one without a probe, "+
				failure.Option("which", "host:port")+")",
			"board %s is reached over TCP, but its address is not configured", b.Name)
	}
	n.found.address, n.port = address, address
	return nil
}

// findEmulated starts the emulated board unless it runs.
func (n *attachment) findEmulated(ctx context.Context, k *Desk, b *boards.Board, which string) error {
	up, err := k.StartEmulated(ctx, b)
	if err != nil {
		return err
	}
	if noted := (&choice{which: which, file: k.File}).named(); noted != nil {
		which = noted.Probe
	}
	if which != "" && which != up.Probe && which != up.Port {
		return &NoDeviceError{Board: b.Name, Which: which}
	}
	n.probe = flasher.Probe{Serial: up.Probe, Emulated: &up.Server}
	n.port = up.Port
	return nil
}

// again finds the device again: after it was plugged in again, its place and its port's name may differ. The lease
// follows the probe, even if the UART is missing (*NoDeviceError). After any other error, such as *LeaseError if
// another process leases the new place, n is unchanged and the device must not be used.
func (n *attachment) again(ctx context.Context, b *boards.Board) error {
	if n.closed {
		return errClosed(b)
	}
	if n.probe.Emulated != nil || !n.hasProbe() {
		return nil // it is not on USB
	}
	all, err := attached.Units(probeOf(b))
	if err != nil {
		return err
	}
	found, missing := n.found.again(b, all)
	if missing != nil && !notAttached(missing) {
		return missing
	}
	return cmp.Or(n.move(ctx, found), missing)
}

// notAttached reports whether an error is a *NoDeviceError.
func notAttached(err error) bool {
	var none *NoDeviceError
	return errors.As(err, &none)
}

// move leases a new place and moves the device to it: *LeaseError. After an error nothing has changed.
func (n *attachment) move(ctx context.Context, to place) (err error) {
	moved := *n
	moved.settle(to)
	if moved.at() != n.at() {
		if moved.lease, err = moved.takeLease(ctx, 0); err != nil {
			return err
		}
	}
	unused := moved.lease
	moved.conf.Probe, moved.conf.Held = moved.probe, moved.lease.File()
	if err = moved.take(nil); err == nil {
		unused, *n = n.lease, moved
	}
	if unused != n.lease {
		unused.Release()
	}
	return err
}

// settle sets the device's place.
func (n *attachment) settle(p place) {
	n.found, n.port = p, cmp.Or(p.address, p.uart.Name)
	n.probe = probeAt(p.probe)
}

// open opens the link. It finds the device first, because the board may have been plugged in elsewhere and its
// port's name may now be another board's.
// i is the image that runs; nil: any.
func (n *attachment) open(ctx context.Context, b *boards.Board, i *image.Image) (transport.Link, error) {
	if err := n.again(ctx, b); err != nil {
		return nil, err
	}
	return n.openFound(ctx, b, expected{i, i != nil})
}

// openFound opens the link that again has just found.
func (n *attachment) openFound(ctx context.Context, b *boards.Board, e expected) (transport.Link, error) {
	if through := linkers[b.Link.Kind].through; through != nil {
		return through(ctx, n.programmer, e, b)
	}
	return linkers[b.Link.Kind].open(ctx, n.port, b.Link)
}

// reserved returns the board's regions that programmers must not touch.
func reserved(b *boards.Board) (list []flasher.Range) {
	for _, r := range b.Memory {
		if r.Reserved {
			list = append(list, flasher.Range{Addr: uint64(r.Origin), Size: uint64(r.Size)})
		}
	}
	return list
}

// probeEntry returns the name of the ledger's entry for unidentified chips. A device without a probe has none in
// the ledger: there it is only a name.
func (n *attachment) probeEntry() string {
	if !n.hasProbe() {
		return n.at()
	}
	return "probe:" + n.which()
}

// errClosed is for a device that others may have by now.
func errClosed(b *boards.Board) error {
	return failure.New(failure.Internal, "attach it again", "device of board %s: it was closed", b.Name)
}
