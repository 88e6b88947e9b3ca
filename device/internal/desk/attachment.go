// This file leases a device and makes its programmer, and follows the device to another USB port.

package desk

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/device/internal/ledger"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/flasher"
	"github.com/boardsmith/boardsmith/internal/attached"
	"github.com/boardsmith/boardsmith/internal/nextstep"
)

// An Attachment is one attached device that keeps its image: its probe, its port and its programmer. Only one goroutine
// at a time may use it.
type Attachment struct {
	Programmer     flasher.Programmer // nil without a probe
	ProgrammerName string             // boards.NoProgrammer: there is none, and no probe
	Config         flasher.Config     // the programmer's
	Probe          flasher.Probe
	Port           string // of its UART; the address of a link over TCP
	Power          string // desk.json's command that cycles the board's power; "" if there is none

	board    *boards.Board
	file     *File    // nil: none
	location location // of an emulated chip only the address, if its link has one
	leaseDir string
	lease    *ledger.Lease
}

// Find finds the device of a board that which selects. It changes nothing; call Lease before using the device. Without
// a programmer it is an address. Errors: ErrMissing; class config if several match, or for a link over TCP without an
// address.
func Find(b *boards.Board, programmer, which string, file *File) (*Attachment, error) {
	a := &Attachment{ProgrammerName: programmer, board: b, file: file}
	if a.HasProbe() {
		l, err := locate(b, which, file)
		if err != nil {
			return nil, err
		}
		a.setLocation(l)
		return a, a.resolve()
	}

	address, err := (&choice{board: b, which: which, file: file}).address()
	if err != nil {
		return nil, err
	}

	if err := a.setAddress(address); err != nil {
		return nil, err
	}
	return a, a.resolve()
}

// FindProbe returns the probe of the device that which selects. Errors: ErrMissing; class config if several match.
func FindProbe(b *boards.Board, which string, file *File) (flasher.Probe, error) {
	l, err := locate(b, which, file)
	return programmerProbe(l.probe), err
}

// locate finds the location of the device that which selects.
func locate(b *boards.Board, which string, file *File) (location, error) {
	all, err := attached.Units(probeID(b))
	if err != nil {
		return location{}, err
	}
	return (&choice{b, which, file, all}).location()
}

// FindEmulated is Find for the emulated chip of a board, which runs, with its probe and the port of its UART.
func FindEmulated(
	b *boards.Board, programmer, which string, file *File, probe flasher.Probe, port string,
) (*Attachment, error) {
	// A name in desk.json stands for its probe.
	if entry := (&choice{which: which, file: file}).named(); entry != nil {
		which = entry.Probe
	}

	if which != "" && which != probe.Serial && which != port {
		return nil, missing(b, which)
	}

	a := &Attachment{ProgrammerName: programmer, Probe: probe, Port: port, board: b, file: file}
	return a, a.resolve()
}

// resolve sets what desk.json configures for the device: its power command, and the address of its link over TCP.
func (a *Attachment) resolve() error {
	entry := a.Entry()
	a.Power = entry.Power
	if a.board.Link.Remote() && a.location.address == "" {
		return a.setAddress(cmp.Or(entry.Link.Address, a.board.Link.Address))
	}
	return nil
}

// setAddress sets the address of the device's link.
func (a *Attachment) setAddress(address string) error {
	if address == "" {
		return failure.New(failure.Config,
			"name it: link.address in the board file, or for one device in desk.json (of one without a probe, "+
				nextstep.Option("which", "host:port")+")",
			"board %s is reached at an address, which is not configured", a.board.Name)
	}
	a.location.address, a.Port = address, address
	return nil
}

// setLocation sets where the device is attached.
func (a *Attachment) setLocation(l location) {
	a.location, a.Port = l, cmp.Or(l.address, l.uart.Name)
	a.Probe = programmerProbe(l.probe)
}

// Lease leases the device, waiting at most wait for another process, and makes its programmer. Close ends the lease.
// dir is the folder of leases; Lease completes the configuration. Errors: *ledger.LeaseError; those of flasher.New.
func (a *Attachment) Lease(ctx context.Context, dir string, wait time.Duration, config flasher.Config) (err error) {
	a.leaseDir = dir
	if a.lease, err = a.takeLease(ctx, wait); err != nil {
		return err
	}

	a.Config = config
	a.Config.Flash, a.Config.Chip, a.Config.Reserved = a.board.Flash, a.board.Identification, reserved(a.board)
	a.Config.Probe, a.Config.Held = a.Probe, a.lease.File()

	if err := a.makeProgrammer(); err != nil {
		a.lease.Release()
		return err
	}
	return nil
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

// Close releases the device for others.
func (a *Attachment) Close() { a.lease.Release() }

// takeLease leases the place where the device is attached, because serials need not be unique and ports are
// renamed.
func (a *Attachment) takeLease(ctx context.Context, wait time.Duration) (*ledger.Lease, error) {
	l, err := ledger.Take(ctx, a.leaseDir, a.LeaseName(), wait)
	var inUse *ledger.LeaseError
	if errors.As(err, &inUse) {
		inUse.Device = a.LedgerName()
	}
	return l, err
}

// makeProgrammer makes the programmer anew from its configuration.
func (a *Attachment) makeProgrammer() (err error) {
	if a.HasProbe() {
		a.Programmer, err = flasher.New(a.ProgrammerName, a.Config)
	}
	return err
}

// SetImage makes the programmer for an image: its path, and the folder of its build.
func (a *Attachment) SetImage(path, buildDir string) error {
	a.Config.Image, a.Config.Build = path, buildDir
	return a.makeProgrammer()
}

// Relocate finds the device again: after it was plugged in again, its USB path and its port's name may differ. The
// lease follows the probe, even if the UART is missing (ErrMissing). After any other error, such as
// *ledger.LeaseError if another process leases the new place, the attachment is unchanged and the device must not be
// used.
func (a *Attachment) Relocate(ctx context.Context) error {
	if a.Probe.Emulated != nil || !a.HasProbe() {
		return nil // it is not on USB
	}

	all, err := attached.Units(probeID(a.board))
	if err != nil {
		return err
	}

	l, err := a.location.relocate(a.board, all)
	if err != nil && !errors.Is(err, ErrMissing) {
		return err
	}

	// If only the UART is missing, the lease still follows the probe.
	return cmp.Or(a.moveLease(ctx, l), err)
}

// moveLease leases a new location and sets it: *ledger.LeaseError. After an error nothing has changed.
func (a *Attachment) moveLease(ctx context.Context, to location) (err error) {
	moved := *a
	moved.setLocation(to)

	if moved.LeaseName() != a.LeaseName() {
		if moved.lease, err = moved.takeLease(ctx, 0); err != nil {
			return err
		}
	}

	// Whichever lease is not in use in the end is released: the new one after an error, else the old one.
	unused := moved.lease
	moved.Config.Probe, moved.Config.Held = moved.Probe, moved.lease.File()
	if err = moved.makeProgrammer(); err == nil {
		unused, *a = a.lease, moved
	}

	// They are the same if the device has not moved.
	if unused != a.lease {
		unused.Release()
	}
	return err
}

// HasProbe reports whether the device is programmed through a probe.
func (a *Attachment) HasProbe() bool { return a.ProgrammerName != boards.NoProgrammer }

// Which returns what identifies the device, also after it was plugged in again: its probe's serial if that is
// unique, else its USB path or its port.
func (a *Attachment) Which() string {
	if a.Probe.Serial != "" && !a.Probe.Shared {
		return a.Probe.Serial
	}
	return cmp.Or(a.Probe.USBPath, a.Port)
}

// LeaseName returns the name of the device's lease, which is where the device is attached.
func (a *Attachment) LeaseName() string {
	switch {
	case !a.HasProbe():
		return "tcp:" + strings.ToLower(a.Port)
	case a.Probe.USBPath != "":
		return "usb:" + a.Probe.USBPath
	case a.Probe.Serial != "":
		return "probe:" + a.Probe.Serial
	}
	return "port:" + a.Port
}

// LedgerName returns the name of the ledger's entry for unidentified chips. A device without a probe has none in
// the ledger: there it is only a name.
func (a *Attachment) LedgerName() string {
	if !a.HasProbe() {
		return a.LeaseName()
	}
	return "probe:" + a.Which()
}

// Link returns how the device is attached, as in desk.json.
func (a *Attachment) Link() Link { return a.location.link(a.board) }

// Entry returns desk.json's entry of the device as one of its board, or the zero value.
func (a *Attachment) Entry() Entry { return a.file.entry(a.board.Name, a.tcpAddress(), a.Probe) }

// Entries lists desk.json's entries of the device, as one of any board.
func (a *Attachment) Entries() []Entry { return a.file.behind(a.tcpAddress(), a.Probe) }

// tcpAddress returns the address of a device without a probe, else "".
func (a *Attachment) tcpAddress() string {
	if a.HasProbe() {
		return ""
	}
	return a.Port
}
