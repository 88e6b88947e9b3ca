package attached

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/boardsmith/boardsmith/internal/testkit"
)

// TestUSB looks at a tree as Linux shows it: a probe behind a hub, with its port, and a keyboard.
func TestUSB(t *testing.T) {
	old := Sysfs
	defer func() { Sysfs = old }()
	Sysfs = t.TempDir()
	bus := filepath.Join(Sysfs, "bus", "usb", "devices")
	testkit.WriteFiles(t, bus, map[string]string{
		"1-2.3/idVendor": "0483\n", "1-2.3/idProduct": "374B\n", "1-2.3/serial": "066D\n", "1-2.3/manufacturer": "ST\n",
		"1-2.3/product": "STM32 STLink\n", "1-2.3/bcdDevice": "0100\n", "1-2.3/busnum": "1\n", "1-2.3/devnum": "12\n",
		"1-4/idVendor": "046d\n", "1-4/idProduct": "c31c\n", "1-4/product": "Keyboard\n",
		"1-2.3:1.2/driver": "", // an interface
	})
	port := filepath.Join(Sysfs, "devices", "pci0000:00", "usb1", "1-2", "1-2.3", "1-2.3:1.2")
	testkit.Must(t, os.MkdirAll(port, 0o755))
	tty := filepath.Join(Sysfs, "class", "tty", "ttyACM0")
	testkit.Must(t, os.MkdirAll(tty, 0o755))
	testkit.Must(t, os.Symlink(port, filepath.Join(tty, "device")))
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
