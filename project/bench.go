// This file finds the one device that is meant, among those that are attached, and leases it.

package project

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/cache"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/flasher"
	"github.com/boardsmith/boardsmith/transport"
)

// A bench is one attached board: its probe, its port, and what is remembered of it.
type bench struct {
	programmer flasher.Programmer
	conf       flasher.Config // the programmer's
	tool       string         // its name
	probe      flasher.Probe
	port       string // of its UART
	path       string // USB path of that; "" if it is on no USB, or the system does not say
	power      string // bench.json's command that takes the board's power away and gives it again; "" if there is none
	chip       string // its chip's id: by bench.json, or that the last flash found; "" if that is not known
	ledger     *cache.Ledger
	lease      *cache.Lease
}

// A PortInfo is a serial port that is attached.
type PortInfo struct {
	Name   string // its path, as in "/dev/ttyACM0"
	USB    string // vendor and product, as in "0483:374b"; "" if it is not on USB
	Serial string // of the USB device, which is the probe's
	Path   string // of the USB device: bus and ports, as in "1-2.3"; "" where the system does not say
	What   string // its product name
}

// An AmbiguousError is a choice that several attached devices meet: none is guessed.
type AmbiguousError struct {
	Board string
	Which string
	Ports []PortInfo
}

func (e *AmbiguousError) Error() string {
	var names []string
	for _, p := range e.Ports {
		names = append(names, fmt.Sprintf("%s (serial %s, USB path %s)", p.Name, p.Serial, p.Path))
	}
	return fmt.Sprintf("%d attached devices could be board %s: %s", len(e.Ports), e.Board, strings.Join(names, ", "))
}

// FailureClass says that the choice is the user's.
func (e *AmbiguousError) FailureClass() failure.Class { return failure.Config }

// NextStep says how to choose.
func (e *AmbiguousError) NextStep() string {
	p := e.Ports[0]
	same := slices.ContainsFunc(e.Ports[1:], func(o PortInfo) bool { return o.Serial == p.Serial })
	if p.Serial != "" && !same {
		return "choose one, as in DEVICE=" + p.Serial
	}
	return "choose one, as in DEVICE=" + cmp.Or(p.Path, p.Name)
}

// A NoDeviceError is a board that is not attached.
type NoDeviceError struct {
	Board, Which, USB string
}

func (e *NoDeviceError) Error() string {
	if e.Which != "" {
		return fmt.Sprintf("no attached device of board %s is %q", e.Board, e.Which)
	}
	return fmt.Sprintf("board %s is not attached: no serial port of USB device %s", e.Board, e.USB)
}

// FailureClass says that the board is not there.
func (e *NoDeviceError) FailureClass() failure.Class { return failure.ProbeMissing }

// NextStep says where to look.
func (e *NoDeviceError) NextStep() string { return "mage devices lists what is attached" }

// stateDir is the folder of what must outlast the cache.
func (e Env) stateDir() (string, error) {
	if e.StateDir != "" {
		return e.StateDir, nil
	}
	return cache.StateDir()
}

// ledger is what is remembered of devices.
func (e Env) ledger() (*cache.Ledger, error) {
	if e.Ledger != "" {
		return cache.NewLedger(e.Ledger), nil
	}
	dir, err := e.stateDir()
	if err != nil {
		return nil, err
	}
	return cache.NewLedger(filepath.Join(dir, "ledger")), nil
}

// leaseDir is the folder of the leases: one for all users where the probe is a real one, this user's where it is emulated.
func (e Env) leaseDir(b *boards.Board) (string, error) {
	if b.Flash.Virtual {
		dir, err := e.stateDir()
		return filepath.Join(dir, "lease"), err
	}
	dir := e.LeaseDir
	if dir == "" {
		var err error
		if dir, err = cache.LeaseDir(); err != nil {
			return "", err
		}
	}
	return dir, cache.ShareLeases(dir)
}

// attachProbe finds the device, leases it, and makes its programmer.
func (d *Device) attachProbe(ctx context.Context, runner, which string) (err error) {
	n := &bench{tool: runner}
	if n.ledger, err = d.env.ledger(); err != nil {
		return err
	}
	if d.board.Flash.Virtual {
		err = n.findVirtual(ctx, d.board, which, d.env)
	} else {
		err = n.find(d.board, which)
	}
	if err != nil {
		return err
	}
	noted := d.env.Bench.noted(d.board.Name, n)
	n.power, n.chip = noted.Power, noted.Chip
	leases, err := d.env.leaseDir(d.board)
	if err != nil {
		return err
	}
	if n.lease, err = cache.Take(ctx, leases, "probe:"+n.which(), d.env.Wait); err != nil {
		return err
	}
	n.conf = flasher.Config{
		Flash: d.board.Flash, Probe: n.probe, Reserved: reserved(d.board), Find: d.env.tool, Log: d.env.log(), Held: n.lease.File(),
		Step: func(s string) { d.env.progress(Event{Step: "flash", Detail: s}) },
	}
	if err := n.take(nil); err != nil {
		n.lease.Release()
		return err
	}
	d.bench = n
	return nil
}

// take makes the programmer for an image; nil: for none.
func (n *bench) take(i *Image) (err error) {
	if i != nil {
		n.conf.Build = i.build
	}
	n.programmer, err = flasher.New(n.tool, n.conf)
	return err
}

// findVirtual starts the emulated board, or finds that it runs.
func (n *bench) findVirtual(ctx context.Context, b *boards.Board, which string, e Env) error {
	up, err := e.virtualUp(ctx, b)
	if err != nil {
		return err
	}
	if which != "" && which != up.State.Serial && which != up.Address.UART {
		return &NoDeviceError{Board: b.Name, Which: which}
	}
	n.probe = flasher.Probe{Serial: up.State.Serial, Virtual: &flasher.Virtual{Bitbang: up.Address.Bitbang, Remote: up.Address.Remote}}
	n.port = up.Address.UART
	return nil
}

// VirtualDir is the folder of a board's emulated chip, below the state folder.
func VirtualDir(stateDir, board string) string { return filepath.Join(stateDir, "virtual", board) }

// listPorts is Ports, but in tests.
var listPorts = Ports

// find looks through the attached ports.
func (n *bench) find(b *boards.Board, which string) error {
	ports, err := listPorts()
	if err != nil {
		return err
	}
	var fit []PortInfo
	for _, p := range ports {
		chosen := which != "" && (p.Serial == which || p.Name == which || p.Path == which)
		if chosen || which == "" && p.USB != "" && strings.EqualFold(p.USB, b.Link.USB) {
			fit = append(fit, p)
		}
	}
	switch len(fit) {
	case 0:
		return &NoDeviceError{b.Name, which, b.Link.USB}
	case 1:
		n.probe, n.port, n.path = flasher.Probe{Serial: fit[0].Serial, USBPath: fit[0].Path}, fit[0].Name, fit[0].Path
		return nil
	default:
		return &AmbiguousError{b.Name, which, fit}
	}
}

// again finds the device once more: since it was plugged in again it may be elsewhere, and its port may be called otherwise.
func (n *bench) again(b *boards.Board) error {
	if err := n.find(b, n.which()); err != nil {
		return err
	}
	n.conf.Probe = n.probe
	return n.take(nil)
}

// open opens the board's UART. Since it was last used, the board may have been plugged in elsewhere, and its port's name be that
// of another board.
func (n *bench) open(b *boards.Board) (transport.Link, error) {
	if n.probe.Virtual == nil {
		if err := n.again(b); err != nil {
			return nil, err
		}
	}
	s, err := transport.OpenSerial(transport.SerialConfig{Port: n.port, Baud: b.Link.Baud})
	if err != nil {
		return nil, err
	}
	return s, nil
}
