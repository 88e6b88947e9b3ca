//go:build linux

package device

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/flasher"
	"github.com/boardsmith/boardsmith/internal/attached"
	"github.com/boardsmith/boardsmith/internal/ledger"
	"github.com/boardsmith/boardsmith/internal/testkit/transporttest"
)

// A board that was plugged in again is the same one, wherever it is now; while it is out, its port's name may be
// another's.
func TestReplug(t *testing.T) {
	_, far := transporttest.Terminal(t)
	b, err := boards.Find("nucleo_f746zg", nil)
	must(t, err)
	_, taken := transporttest.Terminal(t)
	out := attached.Port{Name: filepath.Join(t.TempDir(), "ttyACM0"), USB: b.Link.USB, Serial: "S1", Path: "1-2"}
	plugged(t, attached.Port{Name: taken.Name(), USB: b.Link.USB, Serial: "S1", Path: "1-2"})
	desk := testDesk(t)
	desk.Programmer, desk.StateDir, desk.Log = "openocd", t.TempDir(), hclog.NewNullLogger()
	desk.Tool = func(name string) (string, error) { return name, nil }
	d, err := desk.Attach(t.Context(), b, "")
	must(t, err)
	defer d.Close()
	for _, now := range [][]attached.Port{nil, {out}, {{Name: taken.Name(), USB: b.Link.USB, Serial: "S2", Path: "1-2"}}} {
		plugged(t, now...)
		if _, err := d.attachment.open(t.Context(), b, nil); failure.Of(err) != failure.ProbeMissing {
			t.Errorf("with %v: %v", now, err)
		}
	}
	plugged(t, attached.Port{Name: taken.Name(), USB: b.Link.USB, Serial: "S2", Path: "1-2"},
		attached.Port{Name: far.Name(), USB: b.Link.USB, Serial: "S1", Path: "3-1"})
	link, err := d.attachment.open(t.Context(), b, nil)
	must(t, err)
	must(t, link.Close())
	if d.attachment.port != far.Name() || d.attachment.probe.USBPath != "3-1" {
		t.Errorf("%+v", d.attachment)
	}
	if c := d.attachment.programmer.Commands(flasher.Job{})[0]; !strings.Contains(c, "adapter usb location 3-1") {
		t.Error(c)
	}
}

// If several boards match, none is chosen. The hint distinguishes them.
func TestAmbiguousPorts(t *testing.T) {
	b, err := boards.Find("nucleo_f746zg", nil)
	must(t, err)
	desk := testDesk(t)
	desk.Programmer, desk.StateDir = "openocd", t.TempDir()
	for serial, want := range map[string]string{"S2": "which=S1", "S1": "which=1-2"} {
		plugged(t, attached.Port{Name: "a", USB: b.Link.USB, Serial: "S1", Path: "1-2"},
			attached.Port{Name: "b", USB: b.Link.USB, Serial: serial, Path: "1-3"})
		d, err := desk.Attach(t.Context(), b, "")
		if d != nil || failure.Of(err) != failure.Config || !strings.Contains(failure.Next(err), want) {
			t.Errorf("%v, %v: %s", d, err, failure.Next(err))
		}
		d, err = desk.Attach(t.Context(), b, "1-3")
		must(t, err)
		if d.attachment.port != "b" {
			t.Errorf("attached to %s", d.attachment.port)
		}
		if other, err := desk.Attach(t.Context(), b, "1-3"); other != nil || err == nil { // its lease is taken
			t.Errorf("%v, %v", other, err)
		}
		must(t, d.Close())
	}
}

// A probe is leased for all users of a computer: a user with another home gets the name of the holder. The ledger may
// be anywhere.
func TestOneLeaseForAllHomes(t *testing.T) {
	b, err := boards.Find("nucleo_f746zg", nil)
	must(t, err)
	plugged(t, attached.Port{Name: "a", USB: b.Link.USB, Serial: "S1", Path: "1-2"})
	desk := testDesk(t)
	desk.Programmer, desk.StateDir = "openocd", t.TempDir()
	desk.LeaseDir = filepath.Join(t.TempDir(), "shared")
	d, err := desk.Attach(t.Context(), b, "")
	must(t, err)
	other := testDesk(t)
	other.Programmer, other.LeaseDir = desk.Programmer, desk.LeaseDir
	if second, err := other.Attach(t.Context(), b, ""); second != nil || failure.Of(err) != failure.ProbeMissing ||
		!strings.Contains(err.Error(), "in use by process") {
		t.Errorf("%v, %v", second, err)
	}
	must(t, d.Close())
	d, err = other.Attach(t.Context(), b, "")
	must(t, err)
	must(t, d.Close())
	for _, dir := range []string{desk.StateDir, other.StateDir} {
		if left, _ := filepath.Glob(filepath.Join(dir, "*")); left != nil {
			t.Errorf("in the homes: %v", left)
		}
	}
	desk.LeaseDir = t.TempDir() // not for all users
	if d, err := desk.Attach(t.Context(), b, ""); d != nil || failure.Of(err) != failure.Config {
		t.Errorf("%v, %v", d, err)
	}
}

// A board is plugged in where another process leases it, or has leased the place of its probe alone: as long as that
// lasts, each use is refused, and neither the programmer nor the power command runs.
func TestReplugIntoALease(t *testing.T) {
	b, err := boards.Find("nucleo_f746zg", nil)
	must(t, err)
	dir, usb := t.TempDir(), b.Link.USB
	ran, tool := filepath.Join(dir, "ran"), filepath.Join(dir, "pyocd")
	must(t, os.WriteFile(tool, []byte("#!/bin/sh\necho tool >>"+ran+"\nexit 1\n"), 0o755))
	desk := testDesk(t)
	desk.Programmer, desk.StateDir, desk.Tool = "pyocd", t.TempDir(), func(string) (string, error) { return tool, nil }
	desk.File = &DeskFile{Devices: []DeskDevice{{Name: "it", Board: b.Name, Probe: "S1", Power: "echo power >>" + ran}}}
	pluggedUSB(t)
	plugged(t, attached.Port{Name: "a", USB: usb, Serial: "S1", Path: "11-2"})
	first, err := desk.Attach(t.Context(), b, "")
	must(t, err)
	defer first.Close()

	plugged(t, attached.Port{Name: "b", USB: usb, Serial: "S1", Path: "13-1"})
	second, err := desk.Attach(t.Context(), b, "")
	must(t, err)
	refused := func(place string) {
		t.Helper()
		for name, use := range map[string]func() error{
			"open":     func() error { _, err := first.attachment.open(t.Context(), b, nil); return err },
			"erase":    func() error { _, err := first.Erase(t.Context()); return err },
			"identify": func() error { _, err := first.Identify(t.Context()); return err },
			"debug":    func() error { return first.Debug(t.Context(), Debugging{}, nil) },
			"power": func() error {
				n := *first.attachment
				n.power = "true"
				return n.cyclePower(t.Context(), b)
			},
		} {
			for try := range 2 {
				err := use()
				var taken *ledger.LeaseError
				cycled := (&powerCycle{d: first}).helps(t.Context(), err)
				if !errors.As(err, &taken) || first.attachment.at() != "usb:11-2" || cycled {
					t.Errorf("%s: %s, try %d: at %s: %v", place, name, try, first.attachment.at(), err)
				}
			}
		}
	}
	refused("where another has it")
	must(t, second.Close())

	plugged(t)
	pluggedUSB(t, "14-1 "+usb+" S1")
	lease, err := ledger.Take(t.Context(), first.attachment.leases, "usb:14-1", 0)
	must(t, err)
	refused("where another has its probe's place")
	lease.Release()
	if text, err := os.ReadFile(ran); err == nil {
		t.Errorf("ran:\n%s", text)
	}
	if err := first.attachment.again(t.Context(), b); !notAttached(err) || first.attachment.at() != "usb:14-1" {
		t.Errorf("its UART is missing: at %s: %v", first.attachment.at(), err)
	}
	if l, err := ledger.Take(t.Context(), first.attachment.leases, "usb:14-1", 0); err == nil {
		l.Release()
		t.Error("its new place is not leased")
	}
	l, err := ledger.Take(t.Context(), first.attachment.leases, "usb:11-2", 0)
	must(t, err) // its old one no longer is
	l.Release()
}
