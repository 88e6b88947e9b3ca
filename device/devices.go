// This file lists attached and emulated devices, and identifies one and the image that it holds.

package device

import (
	"context"
	"os"
	"slices"
	"strings"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/internal/attached"
)

// An Attached is a debug probe or a serial port of this computer, a device of desk.json that is reached over TCP, or an
// emulated chip of this user.
type Attached struct {
	Boards []string // kinds of board that it may be; none: unknown
	Probe  string   // serial of its probe
	Port   string   // of its UART, or its address; "" if it has none, or does not run
	USB    string   // vendor and product
	Path   string   // USB path
	// Interface is the number of the port's USB interface; "" if unknown.
	Interface string
	What      string // its product name
	Emulated  bool   // its chip and probe are emulated
	Runs      bool   // emulated: its keeper runs; else: it is plugged in, or has an address
}

// Devices lists what is attached, the devices of File that are reached over TCP, and, on a Desk with Probes, the
// emulated chips that have been used.
func (k *Desk) Devices(ctx context.Context) ([]Attached, error) {
	dir, err := k.stateDir()
	if err != nil {
		return nil, err
	}
	ports, err := attached.Ports()
	if err != nil {
		return nil, err
	}
	kinds := k.kinds()
	var list []Attached
	seen := map[string]bool{} // USB paths
	for _, p := range ports {
		seen[p.Path] = true
		list = append(list, Attached{
			Boards: couldBe(kinds, p.USB), Probe: p.Serial, Port: p.Name, USB: p.USB, Path: p.Path,
			Interface: p.Interface, What: p.What, Runs: true,
		})
	}
	for _, u := range attached.USBDevices() {
		if kind := attached.ProbeKind(u.ID); kind != "" && !seen[u.Path] {
			list = append(list, Attached{
				Boards: couldBe(kinds, u.ID), Probe: u.Serial, USB: u.ID, Path: u.Path,
				What: strings.TrimSpace(u.What + " (" + kind + ")"), Runs: true,
			})
		}
	}
	for _, b := range kinds {
		if b.Flash.Emulated && k.Probes != nil {
			list = append(list, k.emulatedChips(ctx, dir, b)...)
		}
	}
	if ctx.Err() != nil {
		return nil, failure.Stopped(ctx, "devices")
	}
	return append(list, k.File.remote()...), nil
}

// remote are the devices without a probe that are reached over TCP, whether they answer or not.
func (b *DeskFile) remote() (list []Attached) {
	if b == nil {
		return nil
	}
	for _, d := range b.Devices {
		if d.Probe == "" && d.Link.Address != "" {
			list = append(list, Attached{Boards: []string{d.Board}, Port: d.Link.Address, What: "reached over TCP", Runs: true})
		}
	}
	return list
}

// kinds returns all boards that can be loaded.
func (k *Desk) kinds() (list []*boards.Board) {
	for _, name := range boards.List(k.Path) {
		if b, err := boards.Find(name, k.Path); err == nil {
			list = append(list, b)
		}
	}
	return list
}

func couldBe(kinds []*boards.Board, usb string) (names []string) {
	for _, b := range kinds {
		if usb != "" && strings.EqualFold(probeOf(b), usb) {
			names = append(names, b.Name)
		}
	}
	slices.Sort(names)
	return names
}

// emulatedChips returns the emulated chip of a board, or nothing if it was never used.
func (k *Desk) emulatedChips(ctx context.Context, stateDir string, b *boards.Board) []Attached {
	if _, err := os.Stat(emulatedDir(stateDir, b.Name)); err != nil {
		return nil
	}
	s := k.emulatedState(ctx, b)
	return []Attached{{
		Boards: []string{b.Name}, Probe: s.Probe, Port: s.Port, What: "emulated " + b.Flash.Chip,
		Emulated: true, Runs: s.Runs,
	}}
}

// An Identity describes a device, from its probe and its firmware's answer.
type Identity struct {
	Probe   string // serial of the probe; "" if it has none
	Port    string // of its UART; the address of a link over TCP
	Link    DeskLink
	Shared  bool   // another attached probe has the same serial
	Answers bool   // boardsmith firmware answered
	Chip    string // id of the chip in hexadecimal; "" if it has none or did not answer
	BuildID string
}

// KeepsImage reports whether the device keeps its image while it is not used. A process or an emulator gets one each
// time that it is opened.
func (d *Device) KeepsImage() bool { return d.attachment != nil }

// Identify asks the device for its identity. A device without a probe has no firmware before it is opened. No
// answer is not an error, unless another program may have read it. Errors: *LeaseError and *AmbiguousError if the
// device was plugged in elsewhere; *transport.SharedPortError; those of ctx.
func (d *Device) Identify(ctx context.Context) (Identity, error) {
	var is Identity
	if d.attachment != nil {
		a, err := d.ask(ctx, nil)
		if err != nil {
			return Identity{}, err
		}
		is.Probe, is.Port = d.attachment.probe.Serial, d.attachment.port
		is.Link, is.Shared = d.attachment.found.link(d.board), d.attachment.probe.Shared
		if a != nil {
			is.Answers, is.Chip, is.BuildID = true, a.Chip, (&image.Image{BuildID: a.BuildID}).ID()
		}
	}
	if ctx.Err() != nil {
		return Identity{}, failure.Stopped(ctx, "identify")
	}
	return is, nil
}

// Holds finds the image that the device holds: the one that its firmware reports or, without an answer, the
// ledger's. The image's file is the cache's. Errors: class config; class verify if the content is unknown; as of
// Identify.
func (d *Device) Holds(ctx context.Context) (*image.Image, error) {
	if d.attachment == nil {
		return nil, failure.New(failure.Config, "leave IMAGE out", "board %s holds no image before it is opened",
			d.board.Name)
	}
	a, err := d.ask(ctx, nil)
	if err != nil {
		return nil, err
	}
	if a != nil {
		return d.answering(a)
	}
	return d.recorded()
}

// recorded finds the image that the ledger records for the device: an error of class verify if there is none.
func (d *Device) recorded() (*image.Image, error) {
	seen, err := d.attachment.behind(d.board.Name)
	if err != nil {
		return nil, err
	}
	if len(seen) == 0 || seen[0].Image == "" {
		return nil, failure.New(failure.Verify, "flash it",
			"the ledger has no image for %s: its contents are unverified", d.attachment.probeEntry())
	}
	return d.desk.images().Find(seen[0].Image)
}
