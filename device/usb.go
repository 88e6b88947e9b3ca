// This file lists USB devices from Linux's sysfs. On other systems it finds none.

package device

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// sysfs is the mount point of the kernel's device files.
var sysfs = "/sys"

// usbPath matches the kernel's name of a USB device: its bus and the ports that lead to it.
var usbPath = regexp.MustCompile(`^[0-9]+-[0-9]+(\.[0-9]+)*$`)

// usbInterface matches the kernel's name of a device's interface: path, configuration and number.
var usbInterface = regexp.MustCompile(`^([0-9]+-[0-9]+(?:\.[0-9]+)*):[0-9]+\.([0-9]+)$`)

// usbPlaceOf returns the USB path of a serial port's device and the number of its interface, both "" if it is not
// on USB.
func usbPlaceOf(port string) (path, number string) {
	dir, err := filepath.EvalSymlinks(filepath.Join(sysfs, "class", "tty", filepath.Base(port), "device"))
	if err != nil {
		return "", ""
	}
	for _, name := range strings.Split(filepath.ToSlash(dir), "/") {
		if usbPath.MatchString(name) {
			path, number = name, "" // the last is the device, those before it are hubs
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
	What    string // manufacturer and product
	Release string // device release number, four digits
	Node    string // the file through which programs reach it
}

// USBDevices lists the attached USB devices.
func USBDevices() []USBDevice {
	dirs, _ := filepath.Glob(filepath.Join(sysfs, "bus", "usb", "devices", "*-*")) // the pattern is valid
	var list []USBDevice
	for _, dir := range dirs {
		if !usbPath.MatchString(filepath.Base(dir)) {
			continue // an interface of one
		}
		of := func(name string) string {
			text, _ := os.ReadFile(filepath.Join(dir, name)) // attributes may be missing
			return strings.TrimSpace(string(text))
		}
		d := USBDevice{
			ID: strings.ToLower(of("idVendor") + ":" + of("idProduct")), Serial: of("serial"), Path: filepath.Base(dir),
			What: strings.TrimSpace(of("manufacturer") + " " + of("product")), Release: of("bcdDevice"),
		}
		if bus, dev := of("busnum"), of("devnum"); bus != "" && dev != "" {
			d.Node = filepath.Join("/dev/bus/usb", pad3(bus), pad3(dev))
		}
		list = append(list, d)
	}
	return list
}

func pad3(n string) string { return strings.Repeat("0", max(0, 3-len(n))) + n }
