// This file finds the chosen device among those attached: a probe and its board's UART. Serial, USB path and
// interface identify them: a probe may have several ports, and several probes may have the same serial.

package device

import (
	"cmp"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/flasher"
	"github.com/boardsmith/boardsmith/internal/attached"
)

// A PortInfo is a serial port that is attached.
type PortInfo = attached.Port

// An AmbiguousError reports a choice that several attached devices match.
type AmbiguousError struct {
	Board string
	Which string
	Ports []PortInfo // several may belong to one USB device; or the Names are addresses
}

func (e *AmbiguousError) Error() string {
	var names []string
	for _, p := range e.Ports {
		names = append(names, describe(p))
	}
	return fmt.Sprintf("%d attached devices may be board %s: %s", len(e.Ports), e.Board, strings.Join(names, ", "))
}

// describe names the port with what is known of its USB device.
func describe(p attached.Port) string {
	var words []string
	for _, w := range []struct{ name, value string }{
		{"serial ", p.Serial},
		{"USB path ", p.Path},
		{"interface ", p.Interface},
	} {
		if w.value != "" {
			words = append(words, w.name+w.value)
		}
	}
	switch {
	case len(words) == 0:
		return p.Name
	case p.Name == "":
		return strings.Join(words, ", ")
	}
	return p.Name + " (" + strings.Join(words, ", ") + ")"
}

// FailureClass returns failure.Config.
func (e *AmbiguousError) FailureClass() failure.Class { return failure.Config }

// NextStep returns how to choose: by the first of serial, path and name that is unique.
func (e *AmbiguousError) NextStep() string {
	for _, of := range []func(attached.Port) string{
		func(p attached.Port) string { return p.Serial },
		func(p attached.Port) string { return p.Path },
		func(p attached.Port) string { return p.Name },
	} {
		mine := of(e.Ports[0])
		if mine != "" && !slices.ContainsFunc(e.Ports[1:], func(o attached.Port) bool { return of(o) == mine }) {
			return "choose one, as in " + failure.Option("which", mine) + e.interfaces()
		}
	}
	return "name the probe and its UART in desk.json (docs/devices.md)"
}

// interfaces returns further advice if all are ports of one USB device.
func (e *AmbiguousError) interfaces() string {
	var list []string
	for _, p := range e.Ports {
		if p.Interface == "" || p.Path != e.Ports[0].Path {
			return ""
		}
		list = append(list, p.Interface)
	}
	return ", or name the interface of the board's UART as link.interface in its board file: " + strings.Join(list, " or ")
}

// A NoDeviceError reports a board that is not attached.
type NoDeviceError struct {
	Board, Which, USB string
}

func (e *NoDeviceError) Error() string {
	if e.Which != "" {
		return fmt.Sprintf("no attached device of board %s is called %q", e.Board, e.Which)
	}
	return fmt.Sprintf("board %s is not attached: no probe or serial port of USB device %s", e.Board, e.USB)
}

// FailureClass returns failure.ProbeMissing.
func (e *NoDeviceError) FailureClass() failure.Class { return failure.ProbeMissing }

// NextStep returns what to check.
func (e *NoDeviceError) NextStep() string {
	return failure.Target("devices") + " lists what is attached"
}

// probeAt returns a USB device as a programmer's probe.
func probeAt(u attached.Unit) flasher.Probe {
	return flasher.Probe{Serial: u.Serial, USBPath: u.Path, Shared: u.Shared}
}

// usbOf is the USB device without which a board cannot be reached.
func usbOf(b *boards.Board) string { return cmp.Or(b.Link.USB, b.Flash.USB) }

// probeOf returns the USB device of a board's probe, which usually has the UART too.
func probeOf(b *boards.Board) string { return cmp.Or(b.Flash.USB, b.Link.USB) }

// A place is a device that was found.
type place struct {
	probe   attached.Unit
	adapter *attached.Unit // the USB device with the UART; nil: the probe
	uart    attached.Port
	address string // of a link over TCP; "": the link is the UART
}

// link returns it as in desk.json.
func (p place) link(b *boards.Board) DeskLink {
	if p.address != "" {
		return DeskLink{Kind: b.Link.Kind, Path: p.probe.Path, Address: p.address}
	}
	if b.Link.ThroughProbe() {
		return DeskLink{Kind: b.Link.Kind, Path: p.probe.Path}
	}
	l := DeskLink{Kind: b.Link.Kind, Path: p.uart.Path}
	if n, err := strconv.Atoi(p.uart.Interface); err == nil && len(p.owner().Ports) > 1 {
		l.Interface = &n
	}
	if p.adapter != nil {
		l.USB, l.Serial = p.adapter.ID, p.adapter.Serial
	}
	return l
}

// owner returns the USB device with the UART.
func (p place) owner() attached.Unit {
	if p.adapter != nil {
		return *p.adapter
	}
	return p.probe
}

// again finds a place among the devices attached now. With *NoDeviceError it returns p, with the probe's new place
// if only the UART is missing.
func (p place) again(b *boards.Board, all []attached.Unit) (place, error) {
	none := &NoDeviceError{b.Name, cmp.Or(p.probe.Serial, p.probe.Path, p.uart.Name), usbOf(b)}
	probes := p.probe.Again(all)
	var found []place
	for _, probe := range probes {
		if p.address != "" || b.Link.ThroughProbe() {
			found = append(found, place{probe: probe, address: p.address})
			continue
		}
		owners := []attached.Unit{probe}
		if p.adapter != nil {
			owners = p.adapter.Again(all)
		}
		for _, owner := range owners {
			now := place{probe: probe}
			if p.adapter != nil {
				now.adapter = &owner
			}
			for _, now.uart = range owner.Ports {
				if now.uart.Interface == p.uart.Interface &&
					(now.uart.Interface != "" || len(owner.Ports) == 1 || now.uart.Name == p.uart.Name) {
					found = append(found, now)
				}
			}
		}
	}
	if len(found) == 0 {
		if len(probes) == 1 {
			p.probe = probes[0]
		}
		return p, none
	}
	return onlyPlace(found, b, none)
}

// onlyPlace returns the only place. Errors: *NoDeviceError, *AmbiguousError.
func onlyPlace(found []place, b *boards.Board, none *NoDeviceError) (place, error) {
	switch len(found) {
	case 0:
		return place{}, none
	case 1:
		return found[0], nil
	}
	e := &AmbiguousError{Board: b.Name, Which: none.Which}
	probes := slices.ContainsFunc(found, func(p place) bool { return !p.probe.Same(found[0].probe) })
	for _, p := range found {
		port := p.uart
		if probes { // the user chooses one of them, not an adapter
			port.Serial, port.Path = p.probe.Serial, p.probe.Path
		}
		e.Ports = append(e.Ports, port)
	}
	return place{}, e
}

// A choice describes which device to use.
type choice struct {
	board *boards.Board
	which string // a name in desk.json, a probe's serial, a USB path, a port; "": any device of the board
	file  *DeskFile
	all   []attached.Unit
}

// only returns the chosen device.
func (c *choice) only() (place, error) {
	var found []place
	for _, probe := range c.probes() {
		if c.board.Link.Remote() || c.board.Link.ThroughProbe() {
			found = append(found, place{probe: probe})
			continue
		}
		noted := c.noted(probe)
		adapter := adapterOf(c.board, noted)
		for _, owner := range c.owners(probe, adapter, noted) {
			for _, port := range c.ports(owner, noted) {
				p := place{probe: probe, uart: port}
				if adapter != "" {
					p.adapter = &owner
				}
				found = append(found, p)
			}
		}
	}
	return onlyPlace(found, c.board, &NoDeviceError{c.board.Name, c.which, usbOf(c.board)})
}

// onlyAddress is that of the device that is meant, where it has no probe; "" where nothing names one. Addresses in
// desk.json come before the one in the board file.
func (c *choice) onlyAddress() (string, error) {
	if d := c.named(); d != nil {
		return d.Link.Address, nil
	}
	if _, _, err := net.SplitHostPort(c.which); c.which != "" && err != nil {
		return "", &NoDeviceError{Board: c.board.Name, Which: c.which}
	}
	if c.which != "" {
		return c.which, nil
	}
	var noted []attached.Port
	for _, address := range c.file.addresses(c.board.Name) {
		noted = append(noted, attached.Port{Name: address})
	}
	switch len(noted) {
	case 0:
		return c.board.Link.Address, nil
	case 1:
		return noted[0].Name, nil
	}
	return "", &AmbiguousError{Board: c.board.Name, Ports: noted}
}

// noted returns desk.json's entry of the device behind a probe, or of the one that was named.
func (c *choice) noted(probe attached.Unit) DeskDevice {
	if d := c.named(); d != nil {
		return *d
	}
	return c.file.noted(c.board.Name, "", probeAt(probe))
}

// named returns the device in desk.json whose name is which, or nil.
func (c *choice) named() *DeskDevice {
	if c.file == nil || c.which == "" {
		return nil
	}
	return c.file.Find(c.which)
}

// adapterOf returns the USB device of a UART that is not on the probe, else "".
func adapterOf(b *boards.Board, noted DeskDevice) string {
	if noted.Link.USB != "" {
		return noted.Link.USB
	}
	if b.Flash.USB != "" && !strings.EqualFold(b.Flash.USB, b.Link.USB) {
		return b.Link.USB
	}
	return ""
}

// probes lists the probes that match the choice.
func (c *choice) probes() (fit []attached.Unit) {
	byKind := c.which == ""
	if adapter := adapterOf(c.board, DeskDevice{}); adapter != "" && c.named() == nil {
		byKind = byKind || slices.ContainsFunc(c.all,
			func(u attached.Unit) bool { return strings.EqualFold(u.ID, adapter) && u.Called(c.which) })
	}
	for _, u := range c.all {
		named := c.named()
		switch {
		case named != nil && c.isNoted(u, *named), named == nil && !byKind && u.Called(c.which), byKind && u.ID != "" &&
			strings.EqualFold(u.ID, probeOf(c.board)):
			fit = append(fit, u)
		}
	}
	if d := c.named(); len(fit) == 0 && d != nil && d.Probe != "" && adapterOf(c.board, *d) != "" &&
		len(attached.USBDevices()) == 0 {
		return []attached.Unit{{Serial: d.Probe, Told: true}}
	}
	return fit
}

// isNoted reports whether a probe belongs to a device in desk.json.
func (c *choice) isNoted(u attached.Unit, d DeskDevice) bool {
	separate := adapterOf(c.board, d) != ""
	switch {
	case d.Probe != "":
		return u.Serial == d.Probe && (!u.Shared || separate || u.Path == d.Link.Path)
	case separate:
		return strings.EqualFold(u.ID, probeOf(c.board))
	}
	return d.Link.Path != "" && u.Path == d.Link.Path
}

// owners lists the USB devices that may have the UART.
func (c *choice) owners(probe attached.Unit, adapter string, noted DeskDevice) (fit []attached.Unit) {
	if adapter == "" {
		return []attached.Unit{probe}
	}
	for _, u := range c.all {
		if strings.EqualFold(u.ID, adapter) && !u.Same(probe) && (noted.Link.Serial == "" || u.Serial == noted.Link.Serial) {
			fit = append(fit, u)
		}
	}
	for _, narrower := range []func(attached.Unit) bool{
		func(u attached.Unit) bool { return c.which != "" && u.Called(c.which) },
		func(u attached.Unit) bool { return noted.Link.Path != "" && u.Path == noted.Link.Path },
	} {
		if i := slices.IndexFunc(fit, narrower); i >= 0 {
			return fit[i : i+1]
		}
	}
	return fit
}

// ports lists the ports of a USB device that may be the UART.
func (c *choice) ports(owner attached.Unit, noted DeskDevice) (fit []attached.Port) {
	want := c.board.Link.Interface
	if noted.Link.Interface != nil {
		want = noted.Link.Interface
	}
	for _, p := range owner.Ports {
		if p.Name == c.which {
			return []attached.Port{p}
		}
		if want == nil || p.Interface == "" || p.Interface == strconv.Itoa(*want) {
			fit = append(fit, p)
		}
	}
	return fit
}
