// Package attached lists the USB devices and serial ports that are attached to this computer.
//
// It has the USB ids of debug probes. Boards, desk.json and leases are the subject of package desk.
package attached

// Ports lists the attached serial ports. Tests replace it.
var Ports = systemPorts

// A Port is a serial port that is attached.
type Port struct {
	Name      string // its path, as in "/dev/ttyACM0"
	USB       string // vendor and product, as in "0483:374b"; "" if it is not on USB
	Serial    string // of the USB device
	Path      string // of the USB device: bus and ports, as in "1-2.3"; "" if unknown
	Interface string // number of the USB interface, as in "2"; "" if unknown
	Product   string // its product name
}
