package attached

import (
	"os"
	"path/filepath"
	"testing"
)

// TestUSB looks at a tree as Linux shows it: a probe behind a hub, with its port, and a keyboard.
func TestUSB(t *testing.T) {
	old := Sysfs
	defer func() { Sysfs = old }()
	Sysfs = t.TempDir()
	bus := filepath.Join(Sysfs, "bus", "usb", "devices")
	for dir, files := range map[string]map[string]string{
		"1-2.3": {
			"idVendor": "0483", "idProduct": "374B", "serial": "066D", "manufacturer": "ST",
			"product": "STM32 STLink", "bcdDevice": "0100", "busnum": "1", "devnum": "12",
		},
		"1-4": {"idVendor": "046d", "idProduct": "c31c", "product": "Keyboard"},
	} {
		must(t, os.MkdirAll(filepath.Join(bus, dir), 0o755))
		for name, text := range files {
			must(t, os.WriteFile(filepath.Join(bus, dir, name), []byte(text+"\n"), 0o644))
		}
	}
	must(t, os.MkdirAll(filepath.Join(bus, "1-2.3:1.2"), 0o755)) // an interface
	port := filepath.Join(Sysfs, "devices", "pci0000:00", "usb1", "1-2", "1-2.3", "1-2.3:1.2")
	must(t, os.MkdirAll(port, 0o755))
	tty := filepath.Join(Sysfs, "class", "tty", "ttyACM0")
	must(t, os.MkdirAll(tty, 0o755))
	must(t, os.Symlink(port, filepath.Join(tty, "device")))
	if path, number := usbLocation("/dev/ttyACM0"); path != "1-2.3" || number != "2" {
		t.Errorf("path %q, interface %q", path, number)
	}
	if path, number := usbLocation("/dev/ttyS0"); path != "" || number != "" {
		t.Errorf("path %q, interface %q of none", path, number)
	}
	want := USBDevice{"0483:374b", "066D", "1-2.3", "ST STM32 STLink", "0100", "/dev/bus/usb/001/012"}
	all := USBDevices()
	if len(all) != 2 || all[0] != want || ProbeKind(all[0].ID) != "ST-Link/V2-1" || ProbeKind(all[1].ID) != "" ||
		ProbeKind("1366:1015") != "J-Link" {
		t.Errorf("%+v", all)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
