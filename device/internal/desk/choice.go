// This file selects a device among those attached, by the user's choice, desk.json and the board file.

package desk

import (
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/internal/attached"
)

// A choice describes which device to use.
type choice struct {
	board *boards.Board
	which string // a name in desk.json, a probe's serial, a USB path, a port; "": any device of the board
	file  *File
	all   []attached.Unit
}

// location returns that of the only device that matches the choice. Errors: ErrMissing; class config if several match.
func (c *choice) location() (location, error) {
	var list []location
	for _, probe := range c.probes() {
		if c.board.Link.Remote() || c.board.Link.ThroughProbe() {
			list = append(list, location{probe: probe})
			continue
		}

		entry := c.entry(probe)
		adapter := adapterID(c.board, entry)
		for _, owner := range c.uartUnits(probe, adapter, entry) {
			for _, port := range c.ports(owner, entry) {
				l := location{probe: probe, uart: port}
				if adapter != "" {
					l.adapter = &owner
				}
				list = append(list, l)
			}
		}
	}

	if len(list) == 0 {
		return location{}, missing(c.board, c.which)
	}
	return onlyLocation(list, c.board)
}

// address returns that of the chosen device, which has no probe; "" if none is configured. Addresses in desk.json
// come before the one in the board file. Errors: ErrMissing; class config if several match.
func (c *choice) address() (string, error) {
	if d := c.named(); d != nil {
		return d.Link.Address, nil
	}

	// A choice that is no address would be a name, and desk.json has no device of that name.
	if _, _, err := net.SplitHostPort(c.which); c.which != "" && err != nil {
		return "", missing(c.board, c.which)
	}
	if c.which != "" {
		return c.which, nil
	}

	switch list := c.file.addresses(c.board.Name); len(list) {
	case 0:
		return c.board.Link.Address, nil
	case 1:
		return list[0], nil
	default:
		var ports []attached.Port
		for _, address := range list {
			ports = append(ports, attached.Port{Name: address})
		}
		return "", ambiguous(c.board.Name, ports)
	}
}

// entry returns desk.json's entry of the named device, else of the one behind a probe.
func (c *choice) entry(probe attached.Unit) Entry {
	if d := c.named(); d != nil {
		return *d
	}
	return c.file.entry(c.board.Name, "", programmerProbe(probe))
}

// named returns the device in desk.json whose name is which, or nil.
func (c *choice) named() *Entry {
	if c.file == nil || c.which == "" {
		return nil
	}
	return c.file.Find(c.which)
}

// adapterID returns the USB device of a UART that is not on the probe, else "".
func adapterID(b *boards.Board, entry Entry) string {
	if entry.Link.USB != "" {
		return entry.Link.USB
	}
	if b.Flash.USB != "" && !strings.EqualFold(b.Flash.USB, b.Link.USB) {
		return b.Link.USB
	}
	return ""
}

// probes lists the probes that match the choice.
func (c *choice) probes() (list []attached.Unit) {
	named := c.named()
	anyOfBoard := c.which == "" || named == nil && c.matchesAdapter()
	for _, u := range c.all {
		var match bool
		switch {
		case named != nil:
			match = c.isProbeOf(u, *named)
		case anyOfBoard:
			match = u.ID != "" && strings.EqualFold(u.ID, probeID(c.board))
		default:
			match = u.Matches(c.which)
		}

		if match {
			list = append(list, u)
		}
	}

	// On a system that does not list USB devices, the probe cannot be seen, but its serial is known.
	if len(list) == 0 && named != nil && named.Probe != "" && adapterID(c.board, *named) != "" &&
		len(attached.USBDevices()) == 0 {
		return []attached.Unit{{Serial: named.Probe, Unlisted: true}}
	}
	return list
}

// matchesAdapter reports whether which is an adapter with the board's UART, so that it does not select the probe.
func (c *choice) matchesAdapter() bool {
	adapter := adapterID(c.board, Entry{})
	return adapter != "" && slices.ContainsFunc(c.all,
		func(u attached.Unit) bool { return strings.EqualFold(u.ID, adapter) && u.Matches(c.which) })
}

// isProbeOf reports whether a probe belongs to a device in desk.json.
func (c *choice) isProbeOf(u attached.Unit, d Entry) bool {
	separate := adapterID(c.board, d) != ""
	switch {
	case d.Probe != "":
		return u.Serial == d.Probe && (!u.Shared || separate || u.Path == d.Link.Path)
	case separate:
		return strings.EqualFold(u.ID, probeID(c.board))
	}
	return d.Link.Path != "" && u.Path == d.Link.Path
}

// uartUnits lists the USB devices that may have the UART.
func (c *choice) uartUnits(probe attached.Unit, adapter string, entry Entry) (list []attached.Unit) {
	if adapter == "" {
		return []attached.Unit{probe}
	}

	for _, u := range c.all {
		if strings.EqualFold(u.ID, adapter) && !u.Same(probe) && (entry.Link.Serial == "" || u.Serial == entry.Link.Serial) {
			list = append(list, u)
		}
	}

	// A choice of the user counts before desk.json.
	for _, narrower := range []func(attached.Unit) bool{
		func(u attached.Unit) bool { return c.which != "" && u.Matches(c.which) },
		func(u attached.Unit) bool { return entry.Link.Path != "" && u.Path == entry.Link.Path },
	} {
		if i := slices.IndexFunc(list, narrower); i >= 0 {
			return list[i : i+1]
		}
	}
	return list
}

// ports lists the ports of a USB device that may be the UART.
func (c *choice) ports(u attached.Unit, entry Entry) (list []attached.Port) {
	want := c.board.Link.Interface
	if entry.Link.Interface != nil {
		want = entry.Link.Interface
	}

	for _, p := range u.Ports {
		// A port's name counts before the interface.
		if p.Name == c.which {
			return []attached.Port{p}
		}
		if want == nil || p.Interface == "" || p.Interface == strconv.Itoa(*want) {
			list = append(list, p)
		}
	}
	return list
}
