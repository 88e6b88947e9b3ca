// This file locates a device on USB: its probe and its UART, which may be on another USB device. Serial, USB path and
// interface identify them: a probe may have several ports, and several probes may have the same serial.

package desk

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/flasher"
	"github.com/boardsmith/boardsmith/internal/attached"
)

// A location is where a device is attached.
type location struct {
	probe   attached.Unit
	adapter *attached.Unit // the USB device with the UART; nil: the probe
	uart    attached.Port
	address string // of a link over TCP; "": the link is the UART
}

// usbID returns the USB device without which a board cannot be reached.
func usbID(b *boards.Board) string { return cmp.Or(b.Link.USB, b.Flash.USB) }

// probeID returns the USB device of a board's probe, which usually has the UART too.
func probeID(b *boards.Board) string { return cmp.Or(b.Flash.USB, b.Link.USB) }

// programmerProbe returns a USB device as a programmer's probe.
func programmerProbe(u attached.Unit) flasher.Probe {
	return flasher.Probe{Serial: u.Serial, USBPath: u.Path, Shared: u.Shared}
}

// link returns the location as in desk.json.
func (l location) link(b *boards.Board) Link {
	if l.address != "" {
		return Link{Kind: b.Link.Kind, Path: l.probe.Path, Address: l.address}
	}
	if b.Link.ThroughProbe() {
		return Link{Kind: b.Link.Kind, Path: l.probe.Path}
	}

	link := Link{Kind: b.Link.Kind, Path: l.uart.Path}
	// The interface matters only where there are several.
	if n, err := strconv.Atoi(l.uart.Interface); err == nil && len(l.uartUnit().Ports) > 1 {
		link.Interface = &n
	}

	if l.adapter != nil {
		link.USB, link.Serial = l.adapter.ID, l.adapter.Serial
	}
	return link
}

// uartUnit returns the USB device with the UART.
func (l location) uartUnit() attached.Unit {
	if l.adapter != nil {
		return *l.adapter
	}
	return l.probe
}

// relocate returns the device's location in a new listing. With ErrMissing it returns l, with the probe's new path
// if only the UART is missing. Other errors: class config if several match.
func (l location) relocate(b *boards.Board, all []attached.Unit) (location, error) {
	probes := l.probe.Candidates(all)
	var list []location
	for _, probe := range probes {
		if l.address != "" || b.Link.ThroughProbe() {
			list = append(list, location{probe: probe, address: l.address})
			continue
		}

		if l.adapter == nil {
			list = append(list, l.uartsOf(probe, location{probe: probe})...)
			continue
		}
		for _, adapter := range l.adapter.Candidates(all) {
			list = append(list, l.uartsOf(adapter, location{probe: probe, adapter: &adapter})...)
		}
	}

	if len(list) == 0 {
		// The lease follows the probe, even without its UART.
		if len(probes) == 1 {
			l.probe = probes[0]
		}
		return l, missing(b, cmp.Or(l.probe.Serial, l.probe.Path, l.uart.Name))
	}
	return onlyLocation(list, b)
}

// uartsOf returns to with each port of a USB device that may be the UART of l.
func (l location) uartsOf(u attached.Unit, to location) (list []location) {
	for _, to.uart = range u.Ports {
		if to.uart.Interface == l.uart.Interface &&
			(to.uart.Interface != "" || len(u.Ports) == 1 || to.uart.Name == l.uart.Name) {
			list = append(list, to)
		}
	}
	return list
}

// onlyLocation returns the only one of a list that is not empty; class config if there are several.
func onlyLocation(list []location, b *boards.Board) (location, error) {
	if len(list) == 1 {
		return list[0], nil
	}

	var ports []attached.Port
	probes := slices.ContainsFunc(list, func(l location) bool { return !l.probe.Same(list[0].probe) })

	for _, l := range list {
		port := l.uart
		if probes { // the user chooses one of them, not an adapter
			port.Serial, port.Path = l.probe.Serial, l.probe.Path
		}
		ports = append(ports, port)
	}
	return location{}, ambiguous(b.Name, ports)
}
