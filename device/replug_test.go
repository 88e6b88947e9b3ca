//go:build linux

package device

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/device/internal/attachedtest"
	"github.com/boardsmith/boardsmith/device/internal/desk"
	"github.com/boardsmith/boardsmith/device/internal/ledger"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/flasher"
	"github.com/boardsmith/boardsmith/internal/attached"
	"github.com/boardsmith/boardsmith/internal/testkit/transporttest"
)

// realBoard is a board on USB, with a desk whose programmer is OpenOCD.
func realBoard(t *testing.T) (*boards.Board, *Desk) {
	t.Helper()
	b := findBoard(t, "nucleo_f746zg")
	k := testDesk(t)
	k.Programmer, k.Tool = "openocd", func(name string) (string, error) { return name, nil }
	return b, k
}

// TestReplugKeepsDevice: a board that was plugged in again is the same one at any USB port; while it is unplugged, its
// port's name may be another board's.
func TestReplugKeepsDevice(t *testing.T) {
	_, far := transporttest.Terminal(t)
	_, other := transporttest.Terminal(t)
	b, k := realBoard(t)
	port := attached.Port{Name: other.Name(), USB: b.Link.USB, Serial: "S1", Path: "1-2"}
	attachedtest.SetPorts(t, port)
	d, err := k.Attach(t.Context(), b, "")
	must(t, err)
	defer d.Close()
	missing, otherBoard := port, port
	missing.Name, otherBoard.Serial = filepath.Join(t.TempDir(), "ttyACM0"), "S2"
	for name, ports := range map[string][]attached.Port{
		"no port": nil, "a missing port": {missing}, "another board's port": {otherBoard},
	} {
		attachedtest.SetPorts(t, ports...)
		if _, err := d.openLink(t.Context(), nil); failure.Of(err) != failure.ProbeMissing {
			t.Errorf("%s: %v", name, err)
		}
	}
	port.Name, port.Path = far.Name(), "3-1"
	attachedtest.SetPorts(t, otherBoard, port)
	link, err := d.openLink(t.Context(), nil)
	must(t, err)
	must(t, link.Close())
	if c := d.attachment.Programmer.Commands(flasher.Job{})[0]; d.attachment.Port != far.Name() ||
		!strings.Contains(c, "adapter usb location 3-1") {
		t.Errorf("%+v: %s", d.attachment, c)
	}
}

// TestLeaseIsForAllUsers: a probe is leased for all users of a computer, whose error names the holder. The state
// folders remain empty.
func TestLeaseIsForAllUsers(t *testing.T) {
	b, k := realBoard(t)
	attachedtest.SetPorts(t, attached.Port{Name: "a", USB: b.Link.USB, Serial: "S1", Path: "1-2"})
	d, err := k.Attach(t.Context(), b, "")
	must(t, err)
	other := testDesk(t)
	other.Programmer, other.LeaseDir = k.Programmer, k.LeaseDir
	_, err = other.Attach(t.Context(), b, "")
	wantError(t, err, failure.ProbeMissing, "in use by process")
	must(t, d.Close())
	d, err = other.Attach(t.Context(), b, "")
	must(t, err)
	must(t, d.Close())
	for _, dir := range []string{k.StateDir, other.StateDir} {
		if files, _ := filepath.Glob(filepath.Join(dir, "*")); files != nil {
			t.Errorf("in the state folder: %v", files)
		}
	}
	k.LeaseDir = t.TempDir() // not for all users
	_, err = k.Attach(t.Context(), b, "")
	wantError(t, err, failure.Config)
}

// TestReplugIntoLease: if a board is plugged in where another process has a lease, or its probe alone is, each use is
// refused as long as the lease lasts, and neither the programmer nor the power command runs.
func TestReplugIntoLease(t *testing.T) {
	b, k := realBoard(t)
	dir, usb := t.TempDir(), b.Link.USB
	output, tool := filepath.Join(dir, "output"), filepath.Join(dir, "pyocd")
	must(t, os.WriteFile(tool, []byte("#!/bin/sh\necho tool >>"+output+"\nexit 1\n"), 0o755))
	b.Flash.Chip = "stm32f746zg"
	k.Programmer, k.Tool = "pyocd", func(string) (string, error) { return tool, nil }
	k.File = &DeskFile{Devices: []DeskDevice{{Name: "it", Board: b.Name, Probe: "S1", Power: "echo power >>" + output}}}
	attachedtest.SetUSB(t)
	attachedtest.SetPorts(t, attached.Port{Name: "a", USB: usb, Serial: "S1", Path: "11-2"})
	first, err := k.Attach(t.Context(), b, "")
	must(t, err)
	defer first.Close()

	attachedtest.SetPorts(t, attached.Port{Name: "b", USB: usb, Serial: "S1", Path: "13-1"})
	second, err := k.Attach(t.Context(), b, "")
	must(t, err)
	mustBeRefused(t, first, "leased by another device")
	must(t, second.Close())

	attachedtest.SetPorts(t)
	attachedtest.SetUSB(t, "14-1 "+usb+" S1")
	lease, err := ledger.Take(t.Context(), k.LeaseDir, "usb:14-1", 0)
	must(t, err)
	mustBeRefused(t, first, "probe without UART, leased by another device")
	lease.Release()
	if text, err := os.ReadFile(output); err == nil {
		t.Errorf("programs ran:\n%s", text)
	}
	if err := first.relocate(t.Context()); !errors.Is(err, desk.ErrMissing) || first.attachment.LeaseName() != "usb:14-1" {
		t.Errorf("the UART is missing: at %s: %v", first.attachment.LeaseName(), err)
	}
	if l, err := ledger.Take(t.Context(), k.LeaseDir, "usb:14-1", 0); err == nil {
		l.Release()
		t.Error("the new port is not leased")
	}
	l, err := ledger.Take(t.Context(), k.LeaseDir, "usb:11-2", 0)
	if err != nil {
		t.Errorf("the old port is still leased: %v", err)
	}
	l.Release()
}

// mustBeRefused tries each use of a device whose new USB port is leased: *LeaseError, and the device's lease stays.
func mustBeRefused(t *testing.T, d *Device, situation string) {
	t.Helper()
	for name, use := range map[string]func() error{
		"open":     func() error { _, err := d.openLink(t.Context(), nil); return err },
		"erase":    func() error { _, err := d.Erase(t.Context()); return err },
		"identify": func() error { _, err := d.Identify(t.Context()); return err },
		"debug":    func() error { return d.Debug(t.Context(), Debugging{}, nil) },
		"power": func() error {
			power := d.attachment.Power
			defer func() { d.attachment.Power = power }()
			d.attachment.Power = "true"
			return d.runPowerCommand(t.Context())
		},
	} {
		for attempt := range 2 {
			err := use()
			var inUse *ledger.LeaseError
			cycled := (&powerCycle{d: d}).cycle(t.Context(), err)
			if !errors.As(err, &inUse) || d.attachment.LeaseName() != "usb:11-2" || cycled {
				t.Errorf("%s: %s, attempt %d: at %s: %v", situation, name, attempt, d.attachment.LeaseName(), err)
			}
		}
	}
}
