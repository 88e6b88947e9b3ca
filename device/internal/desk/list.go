// This file lists what is attached.

package desk

import (
	"slices"
	"strings"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/internal/attached"
)

// An Attached is a debug probe or a serial port of this computer, a device of desk.json that is reached over TCP, or an
// emulated chip of this user.
type Attached struct {
	Boards    []string `json:"boards"`    // kinds of board that it may be; none: unknown
	Probe     string   `json:"probe"`     // serial of its probe
	Port      string   `json:"port"`      // of its UART, or its address; "" if it has none, or does not run
	USB       string   `json:"usb"`       // vendor and product
	Path      string   `json:"path"`      // USB path
	Interface string   `json:"interface"` // number of the port's USB interface; "" if unknown
	Product   string   `json:"what"`      // its product name
	Emulated  bool     `json:"emulated"`  // its chip and probe are emulated
	Running   bool     `json:"runs"`      // emulated: its keeper runs; else: it is plugged in, or has an address
}

// List lists the serial ports and the debug probes of this computer, with those of the boards that each may be.
func List(all []*boards.Board) ([]Attached, error) {
	ports, err := attached.Ports()
	if err != nil {
		return nil, err
	}

	var list []Attached
	listed := map[string]bool{} // USB paths
	for _, p := range ports {
		listed[p.Path] = true
		list = append(list, Attached{
			Boards: candidates(all, p.USB), Probe: p.Serial, Port: p.Name, USB: p.USB, Path: p.Path,
			Interface: p.Interface, Product: p.Product, Running: true,
		})
	}

	// A probe with a serial port is in the list already.
	for _, u := range attached.USBDevices() {
		if kind := attached.ProbeKind(u.ID); kind != "" && !listed[u.Path] {
			list = append(list, Attached{
				Boards: candidates(all, u.ID), Probe: u.Serial, USB: u.ID, Path: u.Path,
				Product: strings.TrimSpace(u.Product + " (" + kind + ")"), Running: true,
			})
		}
	}
	return list, nil
}

// candidates returns the names of the boards that have a USB device as their probe or UART.
func candidates(all []*boards.Board, usb string) (names []string) {
	for _, b := range all {
		if usb != "" && strings.EqualFold(probeID(b), usb) {
			names = append(names, b.Name)
		}
	}
	slices.Sort(names)
	return names
}

// ListRemote lists a file's devices without a probe that are reached over TCP, whether they respond or not.
func ListRemote(f *File) (list []Attached) {
	if f == nil {
		return nil
	}
	for _, d := range f.Devices {
		if d.Probe == "" && d.Link.Address != "" {
			list = append(list, Attached{
				Boards: []string{d.Board}, Port: d.Link.Address, Product: "reached over TCP", Running: true,
			})
		}
	}
	return list
}
