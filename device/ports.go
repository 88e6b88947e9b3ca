// This file describes serial ports.

package device

import "strings"

// A PortInfo is a serial port that is attached.
type PortInfo struct {
	Name      string // its path, as in "/dev/ttyACM0"
	USB       string // vendor and product, as in "0483:374b"; "" if it is not on USB
	Serial    string // of the USB device
	Path      string // of the USB device: bus and ports, as in "1-2.3"; "" if unknown
	Interface string // number of the USB interface, as in "2"; "" if unknown
	What      string // its product name
}

// describe names the port with what is known of its USB device.
func (p PortInfo) describe() string {
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
