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
	"github.com/boardsmith/boardsmith/internal/testkit"
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
	ctx := t.Context()
	d, err := k.Attach(ctx, b, "")
	must(t, err)
	defer d.Close()
	missing, otherBoard := port, port
	missing.Name, otherBoard.Serial = filepath.Join(t.TempDir(), "ttyACM0"), "S2"
	for _, ports := range [][]attached.Port{nil, {missing}, {otherBoard}} {
		attachedtest.SetPorts(t, ports...)
		wantError(t, last(d.openLink(ctx, nil)), failure.ProbeMissing)
	}
	port.Name, port.Path = far.Name(), "3-1"
	attachedtest.SetPorts(t, otherBoard, port)
	link, err := d.openLink(ctx, nil)
	must(t, err)
	must(t, link.Close())
	if c := d.attachment.Programmer.Commands(flasher.Job{})[0]; d.attachment.Port != far.Name() ||
		!strings.Contains(c, "'adapter serial S1'") || !strings.Contains(c, "'adapter usb location 3-1'") {
		t.Errorf("%+v: %s", d.attachment, c)
	}
}

// TestLeaseIsForAllUsers: a probe is leased for all users of a computer, whose error names the holder. Close releases
// the lease of its device, and a second one not that of a later device. The state folders remain empty.
func TestLeaseIsForAllUsers(t *testing.T) {
	ctx := t.Context()
	b, k := realBoard(t)
	attachedtest.SetPorts(t, attached.Port{Name: "a", USB: b.Link.USB, Serial: "S1", Path: "1-2"})
	d, err := k.Attach(ctx, b, "")
	must(t, err)
	other := testDesk(t)
	other.Programmer, other.LeaseDir = k.Programmer, k.LeaseDir
	wantError(t, last(other.Attach(ctx, b, "")), failure.ProbeMissing, "in use by process")
	must(t, d.Close())
	later, err := other.Attach(ctx, b, "")
	must(t, err)
	must(t, d.Close())
	wantError(t, last(k.Attach(ctx, b, "")), failure.ProbeMissing, "in use by process")
	must(t, later.Close())
	for _, dir := range []string{k.StateDir, other.StateDir} {
		wantLen(t, 0)(filepath.Glob(filepath.Join(dir, "*")))
	}
	k.LeaseDir = t.TempDir() // not for all users
	wantError(t, last(k.Attach(ctx, b, "")), failure.Config)
}

// TestReplugIntoLease: if a board is plugged in where another process has a lease, or its probe alone is, each use is
// refused as long as the lease lasts, and neither the programmer nor the power command runs.
func TestReplugIntoLease(t *testing.T) {
	b, k := realBoard(t)
	dir, usb := t.TempDir(), b.Link.USB
	output, tool := filepath.Join(dir, "output"), filepath.Join(dir, "pyocd")
	testkit.WriteProgram(t, tool, "#!/bin/sh\necho tool >>"+output+"\nexit 1\n")
	b.Flash.Chip = "stm32f746zg"
	k.Programmer, k.Tool = "pyocd", func(string) (string, error) { return tool, nil }
	k.File = &DeskFile{Devices: []DeskDevice{{Name: "it", Board: b.Name, Probe: "S1", Power: "echo power >>" + output}}}
	attachedtest.SetUSB(t)
	attachedtest.SetPorts(t, attached.Port{Name: "a", USB: usb, Serial: "S1", Path: "11-2"})
	ctx := t.Context()
	first, err := k.Attach(ctx, b, "")
	must(t, err)
	defer first.Close()

	attachedtest.SetPorts(t, attached.Port{Name: "b", USB: usb, Serial: "S1", Path: "13-1"})
	second, err := k.Attach(ctx, b, "")
	must(t, err)
	mustBeRefused(t, first, "leased by another device")
	must(t, second.Close())

	attachedtest.SetPorts(t)
	attachedtest.SetUSB(t, "14-1 "+usb+" S1")
	lease, err := ledger.Take(ctx, k.LeaseDir, "usb:14-1", 0)
	must(t, err)
	mustBeRefused(t, first, "probe without UART, leased by another device")
	lease.Release()
	wantError(t, last(os.ReadFile(output)), "")
	if err := first.relocate(ctx); !errors.Is(err, desk.ErrMissing) || first.attachment.LeaseName() != "usb:14-1" {
		t.Errorf("the UART is missing: at %s: %v", first.attachment.LeaseName(), err)
	}
	if l, err := ledger.Take(ctx, k.LeaseDir, "usb:14-1", 0); err == nil {
		l.Release()
		t.Error("the new port is not leased")
	}
	l, err := ledger.Take(ctx, k.LeaseDir, "usb:11-2", 0)
	if err != nil {
		t.Errorf("the old port is still leased: %v", err)
	}
	l.Release()
}

// mustBeRefused tries each use of a device whose new USB port is leased: *LeaseError, and the device's lease stays.
func mustBeRefused(t *testing.T, d *Device, situation string) {
	t.Helper()
	ctx := t.Context()
	for name, use := range map[string]func() error{
		"open":     func() error { _, err := d.openLink(ctx, nil); return err },
		"erase":    func() error { _, err := d.Erase(ctx); return err },
		"identify": func() error { _, err := d.Identify(ctx); return err },
		"debug":    func() error { return d.Debug(ctx, Debugging{}, nil) },
		"power": func() error {
			power := d.attachment.Power
			defer func() { d.attachment.Power = power }()
			d.attachment.Power = "true"
			return d.runPowerCommand(ctx)
		},
	} {
		for attempt := range 2 {
			err := use()
			var inUse *ledger.LeaseError
			cycled := (&powerCycle{d: d}).cycle(ctx, err)
			if !errors.As(err, &inUse) || d.attachment.LeaseName() != "usb:11-2" || cycled {
				t.Errorf("%s: %s, attempt %d: at %s: %v", situation, name, attempt, d.attachment.LeaseName(), err)
			}
		}
	}
}
