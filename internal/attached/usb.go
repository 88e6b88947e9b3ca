// This file lists USB devices from Linux's sysfs. On other systems it finds none.

package attached

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// Sysfs is the mount point of the kernel's device files. Tests replace it.
var Sysfs = "/sys"

// usbPath matches the kernel's name of a USB device: its bus and the ports that lead to it.
var usbPath = regexp.MustCompile(`^[0-9]+-[0-9]+(\.[0-9]+)*$`)

// usbInterface matches the kernel's name of a device's interface: path, configuration and number.
var usbInterface = regexp.MustCompile(`^([0-9]+-[0-9]+(?:\.[0-9]+)*):[0-9]+\.([0-9]+)$`)

// usbLocation returns the USB path of a serial port's device and the number of its interface, both "" if it is not
// on USB.
func usbLocation(port string) (path, number string) {
	dir, err := filepath.EvalSymlinks(filepath.Join(Sysfs, "class", "tty", filepath.Base(port), "device"))
	if err != nil {
		return "", ""
	}

	for _, name := range strings.Split(filepath.ToSlash(dir), "/") {
		if usbPath.MatchString(name) {
			path, number = name, "" // the last one is the device, those before it are hubs
		}
		if m := usbInterface.FindStringSubmatch(name); m != nil && m[1] == path {
			number = m[2]
		}
	}
	return path, number
}

// A USBDevice is an attached USB device.
type USBDevice struct {
	ID      string // vendor and product, as in "0483:374b"
	Serial  string
	Path    string // bus and ports
	Product string // manufacturer and product
	Release string // device release number, four digits
	Node    string // the file through which programs reach it
}

// USBDevices lists the attached USB devices.
func USBDevices() []USBDevice {
	dirs, _ := filepath.Glob(filepath.Join(Sysfs, "bus", "usb", "devices", "*-*")) // the pattern is valid
	var list []USBDevice
	for _, dir := range dirs {
		if !usbPath.MatchString(filepath.Base(dir)) {
			continue // an interface of one
		}

		attribute := func(name string) string {
			text, _ := os.ReadFile(filepath.Join(dir, name)) // attributes may be missing
			return strings.TrimSpace(string(text))
		}
		d := USBDevice{
			ID:     strings.ToLower(attribute("idVendor") + ":" + attribute("idProduct")),
			Serial: attribute("serial"), Path: filepath.Base(dir), Release: attribute("bcdDevice"),
			Product: strings.TrimSpace(attribute("manufacturer") + " " + attribute("product")),
		}

		if bus, dev := attribute("busnum"), attribute("devnum"); bus != "" && dev != "" {
			d.Node = filepath.Join("/dev/bus/usb", pad3(bus), pad3(dev))
		}
		list = append(list, d)
	}
	return list
}

func pad3(n string) string { return strings.Repeat("0", max(0, 3-len(n))) + n }

// probeIDs lists debug probes by USB vendor and product; product "" matches any.
var probeIDs = []struct{ id, kind string }{
	{"0483:3744", "ST-Link"},
	{"0483:3748", "ST-Link/V2"},
	{"0483:374a", "ST-Link/V2-1"},
	{"0483:374b", "ST-Link/V2-1"},
	{"0483:374d", "STLINK-V3"},
	{"0483:374e", "STLINK-V3"},
	{"0483:374f", "STLINK-V3"},
	{"0483:3752", "ST-Link/V2-1"},
	{"0483:3753", "STLINK-V3"},
	{"0483:3754", "STLINK-V3"},
	{"0483:3757", "STLINK-V3"},
	{"0d28:0204", "CMSIS-DAP (DAPLink)"},
	{"1366:", "J-Link"},
	{"03eb:2111", "EDBG"},
	{"2e8a:000c", "Raspberry Pi Debug Probe"},
	{"1fc9:0090", "LPC-Link2"},
	{"1fc9:0132", "LPC-Link2"},
	{"1fc9:0143", "MCU-Link"},
	{"0403:6010", "FTDI"},
	{"0403:6014", "FTDI"},
	{"15ba:002a", "Olimex ARM-USB-TINY-H"},
}

// ProbeKind returns the kind of debug probe with a USB vendor and product, or "".
func ProbeKind(usb string) string {
	for _, p := range probeIDs {
		if p.id == usb || strings.HasSuffix(p.id, ":") && strings.HasPrefix(usb, p.id) {
			return p.kind
		}
	}
	return ""
}
