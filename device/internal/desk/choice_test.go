package desk

import (
	"errors"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/device/internal/attachedtest"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/flasher"
	"github.com/boardsmith/boardsmith/internal/attached"
)

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

// attach finds a device and leases it in a folder.
func attach(
	t *testing.T, b *boards.Board, programmer, which string, file *File, leases string,
) (*Attachment, error) {
	t.Helper()
	a, err := Find(b, programmer, which, file)
	if err != nil {
		return nil, err
	}
	find := func(name string) (string, error) { return name, nil }
	if err := a.Lease(t.Context(), leases, 0, flasher.Config{Find: find}); err != nil {
		return nil, err
	}
	return a, nil
}

// TestChoice: a device is chosen by the property that distinguishes it from other attached ones, and relocated by it.
func TestChoice(t *testing.T) {
	shipped, err := boards.Find("nucleo_f746zg", nil)
	must(t, err)
	plain, second, external := *shipped, *shipped, *shipped
	second.Link.Interface = interfaceOf(3)
	external.Flash.USB, external.Link.USB = "0483:3748", "1a86:7523"
	ports := attachable(plain.Link.USB)
	adapters := []attached.Port{
		{Name: "u0", USB: "1a86:7523", Path: "2-1", Interface: "0"},
		{Name: "u1", USB: "1a86:7523", Path: "2-2", Interface: "0"},
	}
	double := []attached.Port{
		{Name: "v0", USB: "1a86:7523", Path: "2-3", Interface: "0"},
		{Name: "v1", USB: "1a86:7523", Path: "2-3", Interface: "2"},
	}
	one, two := []string{"1-7 0483:3748 X1"}, []string{"1-7 0483:3748 X1", "1-8 0483:3748 X2"}
	file := &File{Devices: []Entry{
		{Name: "left", Board: plain.Name, Probe: "S1", Link: Link{Path: "1-3", Interface: interfaceOf(1)}},
		{Name: "wired", Board: plain.Name, Probe: "X2", Link: Link{Path: "2-2", USB: "1a86:7523"}},
	}}
	for _, c := range []struct {
		name  string
		board *boards.Board
		which string
		ports []attached.Port
		usb   []string
		want  string // the chosen port, or the text of an error
		class failure.Class
	}{
		{"any of several", &plain, "", ports, nil, "5 attached devices", failure.Config},
		{
			"serial of a probe with two ports", &plain, "S3", ports, nil,
			"which=c0, or name the interface of the board's UART as link.interface in its board file: 1 or 3",
			failure.Config,
		},
		{"port", &plain, "a1", ports, nil, "a1", ""},
		{"path, interface in desk.json", &plain, "1-3", ports, nil, "b0", ""},
		{"name in desk.json", &plain, "left", ports, nil, "b0", ""},
		{"unknown serial", &plain, "S9", ports, nil, `device "S9"`, failure.ProbeMissing},
		{"interface, any of several", &second, "", ports, nil, "which=1-2", failure.Config},
		{"interface, path", &second, "1-2", ports, nil, "a1", ""},
		{"interface, port of another one", &second, "a0", ports, nil, "a0", ""},
		{"interface, the only probe", &second, "", ports[4:], nil, "c1", ""},
		{"adapter, the only one", &external, "", adapters[:1], one, "u0", ""},
		{"adapter, one of two", &external, "", adapters, one, "which=2-1", failure.Config},
		{"adapter's path", &external, "2-2", adapters, one, "u1", ""},
		{"second port of an adapter", &external, "v1", double, one, "v1", ""},
		{"adapter, serial of one of two probes", &external, "X1", adapters[:1], two, "u0", ""},
		{"adapter, any of two probes", &external, "", adapters[:1], two, "which=X1", failure.Config},
		{"adapter, no probe", &external, "", adapters, nil, "not attached", failure.ProbeMissing},
		{"adapter in desk.json", &plain, "wired", adapters, two, "u1", ""},
		{"adapter in desk.json, USB not listed", &plain, "wired", adapters, nil, "u1", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			attachedtest.SetPorts(t, c.ports...)
			attachedtest.SetUSB(t, c.usb...)
			l, err := locate(c.board, c.which, file)
			if c.class != "" {
				wantError(t, err, c.class, c.want)
				return
			}
			if err != nil || l.uart.Name != c.want {
				t.Fatalf("port %q, %v", l.uart.Name, err)
			}
			all, err := attached.Units(probeID(c.board))
			must(t, err)
			next, err := l.relocate(c.board, all)
			if err != nil || next.uart.Name != c.want || next.probe.Path != l.probe.Path {
				t.Errorf("relocated to %q: %v", next.uart.Name, err)
			}
			checkLink(t, l.link(c.board), l.uart, c.ports)
		})
	}
}

// checkLink checks that a link has the interface of its port if the USB device has several ports, and only then.
func checkLink(t *testing.T, l Link, of attached.Port, all []attached.Port) {
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
		t.Errorf("link %+v with interface %q, want %q", l, number, want)
	}
}

// TestRelocateKeepsDevice: of two probes with one serial, one that is removed is not replaced by the other; one with a
// unique serial is found wherever it is plugged in, with the port of the same interface, and its lease moves with it.
func TestRelocateKeepsDevice(t *testing.T) {
	b, err := boards.Find("nucleo_f746zg", nil)
	must(t, err)
	attachedtest.SetUSB(t)
	usb, leases := b.Link.USB, filepath.Join(t.TempDir(), "lease")
	attachedtest.SetPorts(t, attachable(usb)...)
	shared, err := attach(t, b, "openocd", "b1", nil, leases)
	must(t, err)
	defer shared.Close()
	unique, err := attach(t, b, "openocd", "c1", nil, leases)
	must(t, err)
	defer unique.Close()
	a, err := attach(t, b, "openocd", "a0", nil, leases)
	must(t, err) // another probe with the serial of a leased one
	a.Close()
	wantError(t, last(attach(t, b, "openocd", "b0", nil, leases)), failure.ProbeMissing, "in use") // the other port
	attachedtest.SetPorts(t, attached.Port{Name: "x0", USB: usb, Serial: "S1", Path: "1-2", Interface: "3"},
		attached.Port{Name: "x1", USB: usb, Serial: "S3", Path: "3-1", Interface: "1"},
		attached.Port{Name: "x2", USB: usb, Serial: "S3", Path: "3-1", Interface: "3"})
	wantError(t, shared.Relocate(t.Context()), failure.ProbeMissing)
	if err := unique.Relocate(t.Context()); err != nil || unique.Port != "x2" || unique.Probe.USBPath != "3-1" {
		t.Errorf("the moved probe: relocated to %s: %v", unique.Port, err)
	}
	wantError(t, last(attach(t, b, "openocd", "x1", nil, leases)), "", "in use")
}

// TestPortsUnlisted: if the system cannot list its ports, that is the error, and not that the board is absent.
func TestPortsUnlisted(t *testing.T) {
	b, err := boards.Find("nucleo_f746zg", nil)
	must(t, err)
	old, broken := attached.Ports, errors.New("no access to the bus")
	attached.Ports = func() ([]attached.Port, error) { return nil, broken }
	t.Cleanup(func() { attached.Ports = old })
	wantIs(t, last(Find(b, "openocd", "", nil)), broken)
}
