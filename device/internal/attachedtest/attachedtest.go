// Package attachedtest replaces what is attached to this computer, for tests.
package attachedtest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/internal/attached"
)

// SetPorts makes these the attached serial ports until the test ends.
func SetPorts(t *testing.T, ports ...attached.Port) {
	t.Helper()
	old := attached.Ports
	attached.Ports = func() ([]attached.Port, error) { return ports, nil }
	t.Cleanup(func() { attached.Ports = old })
}

// SetUSB makes these the attached USB devices until the test ends: "path vendor:product serial", the serial optional.
func SetUSB(t *testing.T, devices ...string) {
	t.Helper()
	old := attached.Sysfs
	attached.Sysfs = t.TempDir()
	t.Cleanup(func() { attached.Sysfs = old })

	for _, d := range devices {
		words := append(strings.Fields(d), "")
		dir := filepath.Join(attached.Sysfs, "bus", "usb", "devices", words[0])
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}

		vendor, product, _ := strings.Cut(words[1], ":")
		for name, text := range map[string]string{"idVendor": vendor, "idProduct": product, "serial": words[2]} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text+"\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}
