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
)

// An AmbiguousError reports a choice that several attached devices match.
type AmbiguousError struct {
	Board string
	Which string
	Ports []PortInfo // several may belong to one USB device; or the Names are addresses
}

func (e *AmbiguousError) Error() string {
	var names []string
	for _, p := range e.Ports {
		names = append(names, p.describe())
	}
	return fmt.Sprintf("%d attached devices may be board %s: %s", len(e.Ports), e.Board, strings.Join(names, ", "))
}

// FailureClass returns failure.Config.
func (e *AmbiguousError) FailureClass() failure.Class { return failure.Config }

// NextStep returns how to choose: by the first of serial, path and name that is unique.
func (e *AmbiguousError) NextStep() string {
	for _, of := range []func(PortInfo) string{
		func(p PortInfo) string { return p.Serial },
		func(p PortInfo) string { return p.Path },
		func(p PortInfo) string { return p.Name },
	} {
		mine := of(e.Ports[0])
		if mine != "" && !slices.ContainsFunc(e.Ports[1:], func(o PortInfo) bool { return of(o) == mine }) {
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

// A usbUnit is one USB device (a probe, an adapter, or both), or one port that is not on USB.
type usbUnit struct {
	id     string // vendor and product
	serial string
	path   string
	shared bool // another one has the same serial, or no serial either
	told   bool // not seen: from desk.json's serial, on a system that does not list USB devices
	ports  []PortInfo
}

// is reports whether two are the same USB device.
func (u usbUnit) is(o usbUnit) bool {
	return u.path == o.path && u.serial == o.serial && (u.path != "" || u.serial != "" || u.portNames() == o.portNames())
}

func (u usbUnit) portNames() string {
	var names []string
	for _, p := range u.ports {
		names = append(names, p.Name)
	}
	return strings.Join(names, " ")
}

// probe returns the unit as a programmer's probe.
func (u usbUnit) probe() flasher.Probe {
	return flasher.Probe{Serial: u.serial, USBPath: u.path, Shared: u.shared}
}

// called reports whether a user's name is that of the unit or of one of its ports.
func (u usbUnit) called(which string) bool {
	return u.serial == which || u.path == which ||
		slices.ContainsFunc(u.ports, func(p PortInfo) bool { return p.Name == which })
}

// again lists the units that may be the one found before: by its serial if that was unique, else by its place.
func (u usbUnit) again(all []usbUnit) (fit []usbUnit) {
	if u.told {
		return []usbUnit{u}
	}
	for _, o := range all {
		same := false
		switch {
		case u.serial != "" && !u.shared:
			same = o.serial == u.serial
		case u.path != "":
			same = o.path == u.path && o.serial == u.serial && o.id == u.id
		case len(u.ports) > 0:
			same = o.called(u.ports[0].Name)
		}
		if same {
			fit = append(fit, o)
		}
	}
	if there := slices.IndexFunc(fit, func(o usbUnit) bool { return u.path != "" && o.path == u.path }); len(fit) > 1 &&
		there >= 0 {
		return fit[there : there+1] // another one with its serial was plugged in
	}
	return fit
}

// listPorts is systemPorts, except in tests.
var listPorts = systemPorts

// attachedUnits lists the USB devices that are probes or have ports, and other ports.
func attachedUnits(b *boards.Board) (all []usbUnit, err error) {
	ports, err := listPorts()
	if err != nil {
		return nil, err
	}
	for _, p := range ports {
		i := slices.IndexFunc(all, func(u usbUnit) bool {
			return p.Path != "" && u.path == p.Path || p.Path == "" && p.Serial != "" && u.id == p.USB && u.serial == p.Serial
		})
		if i < 0 {
			all, i = append(all, usbUnit{id: p.USB, serial: p.Serial, path: p.Path}), len(all)
		}
		all[i].ports = append(all[i].ports, p)
	}
	for _, d := range USBDevices() {
		probe := ProbeKind(d.ID) != "" || strings.EqualFold(d.ID, probeOf(b))
		if probe && !slices.ContainsFunc(all, func(u usbUnit) bool { return u.path == d.Path }) {
			all = append(all, usbUnit{id: d.ID, serial: d.Serial, path: d.Path})
		}
	}
	for i := range all {
		for j, o := range all {
			same := o.serial == all[i].serial && (o.serial != "" || o.id == all[i].id)
			all[i].shared = all[i].shared || i != j && same
		}
	}
	return all, nil
}

// usbOf is the USB device without which a board cannot be reached.
func usbOf(b *boards.Board) string { return cmp.Or(b.Link.USB, b.Flash.USB) }

// probeOf returns the USB device of a board's probe, which usually has the UART too.
func probeOf(b *boards.Board) string { return cmp.Or(b.Flash.USB, b.Link.USB) }

// A place is a device that was found.
type place struct {
	probe   usbUnit
	adapter *usbUnit // the USB device with the UART; nil: the probe
	uart    PortInfo
	address string // of a link over TCP; "": the link is the UART
}

// link returns it as in desk.json.
func (p place) link(b *boards.Board) DeskLink {
	if p.address != "" {
		return DeskLink{Kind: b.Link.Kind, Path: p.probe.path, Address: p.address}
	}
	l := DeskLink{Kind: b.Link.Kind, Path: p.uart.Path}
	if n, err := strconv.Atoi(p.uart.Interface); err == nil && len(p.owner().ports) > 1 {
		l.Interface = &n
	}
	if p.adapter != nil {
		l.USB, l.Serial = p.adapter.id, p.adapter.serial
	}
	return l
}

// owner returns the USB device with the UART.
func (p place) owner() usbUnit {
	if p.adapter != nil {
		return *p.adapter
	}
	return p.probe
}

// again finds a place among the devices attached now. With *NoDeviceError it returns p, with the probe's new place
// if only the UART is missing.
func (p place) again(b *boards.Board, all []usbUnit) (place, error) {
	none := &NoDeviceError{b.Name, cmp.Or(p.probe.serial, p.probe.path, p.uart.Name), usbOf(b)}
	probes := p.probe.again(all)
	var found []place
	for _, probe := range probes {
		if p.address != "" {
			found = append(found, place{probe: probe, address: p.address})
			continue
		}
		owners := []usbUnit{probe}
		if p.adapter != nil {
			owners = p.adapter.again(all)
		}
		for _, owner := range owners {
			now := place{probe: probe}
			if p.adapter != nil {
				now.adapter = &owner
			}
			for _, now.uart = range owner.ports {
				if now.uart.Interface == p.uart.Interface &&
					(now.uart.Interface != "" || len(owner.ports) == 1 || now.uart.Name == p.uart.Name) {
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
	probes := slices.ContainsFunc(found, func(p place) bool { return !p.probe.is(found[0].probe) })
	for _, p := range found {
		port := p.uart
		if probes { // the user chooses one of them, not an adapter
			port.Serial, port.Path = p.probe.serial, p.probe.path
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
	all   []usbUnit
}

// only returns the chosen device.
func (c *choice) only() (place, error) {
	var found []place
	for _, probe := range c.probes() {
		if c.board.Link.Remote() {
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
	var noted []PortInfo
	for _, address := range c.file.addresses(c.board.Name) {
		noted = append(noted, PortInfo{Name: address})
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
func (c *choice) noted(probe usbUnit) DeskDevice {
	if d := c.named(); d != nil {
		return *d
	}
	return c.file.noted(c.board.Name, "", probe.probe())
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
func (c *choice) probes() (fit []usbUnit) {
	byKind := c.which == ""
	if adapter := adapterOf(c.board, DeskDevice{}); adapter != "" && c.named() == nil {
		byKind = byKind || slices.ContainsFunc(c.all,
			func(u usbUnit) bool { return strings.EqualFold(u.id, adapter) && u.called(c.which) })
	}
	for _, u := range c.all {
		named := c.named()
		switch {
		case named != nil && c.isNoted(u, *named), named == nil && !byKind && u.called(c.which), byKind && u.id != "" &&
			strings.EqualFold(u.id, probeOf(c.board)):
			fit = append(fit, u)
		}
	}
	if d := c.named(); len(fit) == 0 && d != nil && d.Probe != "" && adapterOf(c.board, *d) != "" &&
		len(USBDevices()) == 0 {
		return []usbUnit{{serial: d.Probe, told: true}}
	}
	return fit
}

// isNoted reports whether a probe belongs to a device in desk.json.
func (c *choice) isNoted(u usbUnit, d DeskDevice) bool {
	separate := adapterOf(c.board, d) != ""
	switch {
	case d.Probe != "":
		return u.serial == d.Probe && (!u.shared || separate || u.path == d.Link.Path)
	case separate:
		return strings.EqualFold(u.id, probeOf(c.board))
	}
	return d.Link.Path != "" && u.path == d.Link.Path
}

// owners lists the USB devices that may have the UART.
func (c *choice) owners(probe usbUnit, adapter string, noted DeskDevice) (fit []usbUnit) {
	if adapter == "" {
		return []usbUnit{probe}
	}
	for _, u := range c.all {
		if strings.EqualFold(u.id, adapter) && !u.is(probe) && (noted.Link.Serial == "" || u.serial == noted.Link.Serial) {
			fit = append(fit, u)
		}
	}
	for _, narrower := range []func(usbUnit) bool{
		func(u usbUnit) bool { return c.which != "" && u.called(c.which) },
		func(u usbUnit) bool { return noted.Link.Path != "" && u.path == noted.Link.Path },
	} {
		if i := slices.IndexFunc(fit, narrower); i >= 0 {
			return fit[i : i+1]
		}
	}
	return fit
}

// ports lists the ports of a USB device that may be the UART.
func (c *choice) ports(owner usbUnit, noted DeskDevice) (fit []PortInfo) {
	want := c.board.Link.Interface
	if noted.Link.Interface != nil {
		want = noted.Link.Interface
	}
	for _, p := range owner.ports {
		if p.Name == c.which {
			return []PortInfo{p}
		}
		if want == nil || p.Interface == "" || p.Interface == strconv.Itoa(*want) {
			fit = append(fit, p)
		}
	}
	return fit
}
