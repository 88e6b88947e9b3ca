// This file asks Linux what is on USB. Other systems have no such files, and then nothing is found.

package device

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// sysfs is where the kernel tells of devices.
var sysfs = "/sys"

// usbPath is the name that the kernel gives to a USB device: its bus and the ports on the way to it.
var usbPath = regexp.MustCompile(`^[0-9]+-[0-9]+(\.[0-9]+)*$`)

// usbInterface is the name of an interface of a device: its path, configuration and number.
var usbInterface = regexp.MustCompile(`^([0-9]+-[0-9]+(?:\.[0-9]+)*):[0-9]+\.([0-9]+)$`)

// usbPlaceOf is the USB path of the device that a serial port belongs to, and its interface's number, both "" if it is on no USB.
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

// A USBDevice is one that is plugged in.
type USBDevice struct {
	ID      string // vendor and product, as in "0483:374b"
	Serial  string
	Path    string // bus and ports
	What    string // manufacturer and product
	Release string // of the device, four digits, as its firmware says
	Node    string // the file through which programs reach it
}

// USBDevices lists what is plugged in.
func USBDevices() []USBDevice {
	dirs, _ := filepath.Glob(filepath.Join(sysfs, "bus", "usb", "devices", "*-*")) // the pattern is good
	var list []USBDevice
	for _, dir := range dirs {
		if !usbPath.MatchString(filepath.Base(dir)) {
			continue // an interface of one
		}
		of := func(name string) string {
			text, _ := os.ReadFile(filepath.Join(dir, name)) // not every device says everything
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
