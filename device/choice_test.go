package device

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/attached"
)

// plugged makes these the ports that are attached.
func plugged(t *testing.T, ports ...attached.Port) {
	t.Helper()
	old := attached.Ports
	attached.Ports = func() ([]attached.Port, error) { return ports, nil }
	t.Cleanup(func() { attached.Ports = old })
}

// pluggedUSB replaces the system's list of USB devices: "path vendor:product serial".
func pluggedUSB(t *testing.T, devices ...string) {
	t.Helper()
	old := attached.Sysfs
	attached.Sysfs = t.TempDir()
	t.Cleanup(func() { attached.Sysfs = old })
	for _, d := range devices {
		words := append(strings.Fields(d), "")
		dir := filepath.Join(attached.Sysfs, "bus", "usb", "devices", words[0])
		must(t, os.MkdirAll(dir, 0o755))
		vendor, product, _ := strings.Cut(words[1], ":")
		for name, text := range map[string]string{"idVendor": vendor, "idProduct": product, "serial": words[2]} {
			must(t, os.WriteFile(filepath.Join(dir, name), []byte(text+"\n"), 0o644))
		}
	}
}

// interfaceOf is a USB interface in a file.
func interfaceOf(n int) *int { return &n }

// attachable are the ports of two probes with two ports each and one serial, and of a third probe.
func attachable(usb string) []attached.Port {
	return []attached.Port{
		{Name: "a0", USB: usb, Serial: "S1", Path: "1-2", Interface: "1"},
		{Name: "a1", USB: usb, Serial: "S1", Path: "1-2", Interface: "3"},
		{Name: "b0", USB: usb, Serial: "S1", Path: "1-3", Interface: "1"},
		{Name: "b1", USB: usb, Serial: "S1", Path: "1-3", Interface: "3"},
		{Name: "c0", USB: usb, Serial: "S3", Path: "1-4", Interface: "1"},
		{Name: "c1", USB: usb, Serial: "S3", Path: "1-4", Interface: "3"},
	}
}

// A device is chosen by the property that distinguishes it from other attached ones, and is found again later.
func TestWhichIsMeant(t *testing.T) {
	shipped, err := boards.Find("nucleo_f746zg", nil)
	must(t, err)
	plain, second, external := *shipped, *shipped, *shipped
	second.Link.Interface = interfaceOf(3)
	external.Flash.USB, external.Link.USB = "0483:3748", "1a86:7523"
	two := attachable(plain.Link.USB)
	adapters := []attached.Port{
		{Name: "u0", USB: "1a86:7523", Path: "2-1", Interface: "0"},
		{Name: "u1", USB: "1a86:7523", Path: "2-2", Interface: "0"},
	}
	double := []attached.Port{
		{Name: "v0", USB: "1a86:7523", Path: "2-3", Interface: "0"},
		{Name: "v1", USB: "1a86:7523", Path: "2-3", Interface: "2"},
	}
	noted := &DeskFile{Devices: []DeskDevice{
		{Name: "left", Board: plain.Name, Probe: "S1", Link: DeskLink{Path: "1-3", Interface: interfaceOf(1)}},
		{Name: "wired", Board: plain.Name, Probe: "X2", Link: DeskLink{Path: "2-2", USB: "1a86:7523"}},
	}}
	for _, c := range []struct {
		board *boards.Board
		which string
		ports []attached.Port
		usb   []string
		port  string // that is found; else the class and what is said
		class failure.Class
		says  string
	}{
		{&plain, "", two, nil, "", failure.Config, "5 attached devices"},
		{
			&plain, "S3", two, nil, "", failure.Config,
			"which=c0, or name the interface of the board's UART as link.interface in its board file: 1 or 3",
		},
		{&plain, "S1", two, nil, "", failure.Config, "3 attached devices"},
		{&plain, "a1", two, nil, "a1", "", ""},
		{&plain, "1-3", two, nil, "b0", "", ""}, // by desk.json
		{&plain, "1-2", two, nil, "", failure.Config, "which=a0"},
		{&plain, "left", two, nil, "b0", "", ""},
		{&plain, "S9", two, nil, "", failure.ProbeMissing, `is called "S9"`},
		{&second, "", two, nil, "", failure.Config, "which=1-2"},
		{&second, "S3", two, nil, "c1", "", ""},
		{&second, "1-2", two, nil, "a1", "", ""},
		{&second, "a0", two, nil, "a0", "", ""}, // as asked
		{&second, "", two[4:], nil, "c1", "", ""},
		{&external, "", adapters[:1], []string{"1-7 0483:3748 X1"}, "u0", "", ""},
		{&external, "", adapters, []string{"1-7 0483:3748 X1"}, "", failure.Config, "which=2-1"},
		{&external, "2-2", adapters, []string{"1-7 0483:3748 X1"}, "u1", "", ""},
		{&external, "u1", adapters, []string{"1-7 0483:3748 X1"}, "u1", "", ""},
		{&external, "v1", double, []string{"1-7 0483:3748 X1"}, "v1", "", ""},
		{&external, "X1", adapters[:1], []string{"1-7 0483:3748 X1", "1-8 0483:3748 X2"}, "u0", "", ""},
		{&external, "", adapters[:1], []string{"1-7 0483:3748 X1", "1-8 0483:3748 X2"}, "", failure.Config, "which=X1"},
		{&external, "", adapters, nil, "", failure.ProbeMissing, "not attached"},
		{&plain, "wired", adapters, []string{"1-7 0483:3748 X1", "1-8 0483:3748 X2"}, "u1", "", ""},
		{&plain, "wired", adapters, nil, "u1", "", ""}, // where the system does not tell of probes
	} {
		name := c.board.Flash.USB + " " + c.which
		plugged(t, c.ports...)
		pluggedUSB(t, c.usb...)
		n := &attachment{}
		err := n.find(c.board, c.which, noted)
		if c.port == "" {
			if failure.Of(err) != c.class || !strings.Contains(err.Error()+" "+failure.Next(err), c.says) {
				t.Errorf("%s: class %v: %v (%s)", name, failure.Of(err), err, failure.Next(err))
			}
			continue
		}
		if err != nil || n.port != c.port {
			t.Errorf("%s: port %q, %v", name, n.port, err)
			continue
		}
		all, err := attached.Units(probeOf(c.board))
		must(t, err)
		again, err := n.found.again(c.board, all)
		if err != nil || again.uart.Name != c.port || again.probe.Path != n.found.probe.Path {
			t.Errorf("%s: found again at %q: %v", name, again.uart.Name, err)
		}
		checkLink(t, name, n.found.link(c.board), n.found.uart, c.ports)
	}
}

// checkLink checks that a link names the interface of its port if the USB device has several ports, and only then.
func checkLink(t *testing.T, name string, l DeskLink, of attached.Port, all []attached.Port) {
	t.Helper()
	ports, number := 0, ""
	for _, p := range all {
		if p.Path == of.Path {
			ports++
		}
	}
	if l.Interface != nil {
		number = strconv.Itoa(*l.Interface)
	}
	want := ""
	if ports > 1 {
		want = of.Interface
	}
	if l.Path != of.Path || number != want {
		t.Errorf("%s: link %+v with interface %q, want %q", name, l, number, want)
	}
}

// Of two probes with one serial, one that is taken away is not replaced by the other; one with a serial of its own is
// found wherever it comes back, with the port of the same interface.
func TestFoundAgain(t *testing.T) {
	b, err := boards.Find("nucleo_f746zg", nil)
	must(t, err)
	pluggedUSB(t)
	usb := b.Link.USB
	plugged(t, attachable(usb)...)
	desk := testDesk(t)
	desk.Programmer, desk.StateDir = "openocd", t.TempDir()
	shared, err := desk.Attach(t.Context(), b, "b1")
	must(t, err)
	defer shared.Close()
	own, err := desk.Attach(t.Context(), b, "c1")
	must(t, err)
	defer own.Close()
	if d, err := desk.Attach(t.Context(), b, "a0"); err != nil {
		t.Errorf("another probe with the serial of one that is leased: %v", err)
	} else {
		must(t, d.Close())
	}
	var taken interface{ FailureClass() failure.Class }
	if d, err := desk.Attach(t.Context(), b, "b0"); d != nil || !errors.As(err, &taken) ||
		!strings.Contains(err.Error(), "in use") {
		t.Errorf("the other port of a probe that is leased: %v", err)
	}
	plugged(t, attached.Port{Name: "x0", USB: usb, Serial: "S1", Path: "1-2", Interface: "3"},
		attached.Port{Name: "x1", USB: usb, Serial: "S3", Path: "3-1", Interface: "1"},
		attached.Port{Name: "x2", USB: usb, Serial: "S3", Path: "3-1", Interface: "3"})
	if err := shared.attachment.again(t.Context(), b); failure.Of(err) != failure.ProbeMissing {
		t.Errorf("found as %s: %v", shared.attachment.port, err)
	}
	if err := own.attachment.again(t.Context(), b); err != nil || own.attachment.port != "x2" ||
		own.attachment.probe.USBPath != "3-1" {
		t.Errorf("found as %s: %v", own.attachment.port, err)
	}
	if d, err := desk.Attach(t.Context(), b, "x1"); d != nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("where it is now: %v", err)
	}
}

// TestPortsUnknown checks that no error calls the board absent if the system cannot list its ports.
func TestPortsUnknown(t *testing.T) {
	b, err := boards.Find("nucleo_f746zg", nil)
	must(t, err)
	old, broken := attached.Ports, errors.New("no access to the bus")
	attached.Ports = func() ([]attached.Port, error) { return nil, broken }
	t.Cleanup(func() { attached.Ports = old })
	desk := testDesk(t)
	desk.Programmer, desk.StateDir = "openocd", t.TempDir()
	if d, err := desk.Attach(t.Context(), b, ""); d != nil || !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}
