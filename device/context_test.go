//go:build linux

package device_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/device/emulated"
	"github.com/boardsmith/boardsmith/device/internal/attachedtest"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/attached"
	"github.com/boardsmith/boardsmith/internal/testkit/failuretest"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
	"github.com/boardsmith/boardsmith/project"
)

// TestContexts ends the contexts of all that this package does before it begins. A closed device, which others may have
// leased since, refuses each use.
func TestContexts(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "p")
	spec := project.Spec{Board: "host", Model: mlftest.Tiny(t, nil)}
	p := generatedIn(t, dir, spec)
	i, host := built(t, p), attachedTo(t, p)
	spec.Options.App = boards.Standalone
	standalone := built(t, generated(t, spec))
	ctx, closed := t.Context(), false
	session, err := host.Open(ctx, i)
	must(t, err)

	b, probed := onUSB(t, func(name string) (string, error) {
		if closed {
			t.Errorf("%s was searched", name)
		}
		return name, nil
	})
	desk, chip, none := probed.Desk(), findBoard(t, "microbit"), &boards.Board{Name: "kiln"}
	probes, of := emulated.Probes(), failuretest.Of

	calls := failuretest.Calls{
		"Desk.MemoryMap":        of(new(device.Desk).MemoryMap, none),
		"Desk.ChipOf":           of(new(device.Desk).ChipOf, none),
		"MissingTools":          of(device.MissingTools, chip),
		"Desk.Attach":           of(desk.Attach, chip, ""),
		"Desk.Devices":          of(desk.Devices),
		"Desk.StartEmulated":    of(desk.StartEmulated, chip),
		"Desk.StopEmulated":     of(desk.StopEmulated, chip),
		"Desk.EraseEmulated":    of(desk.EraseEmulated, chip),
		"Desk.SwapEmulated":     of(desk.SwapEmulated, chip),
		"Desk.FlashCommands":    of(desk.FlashCommands, b, "", i),
		"Desk.EraseCommands":    of(desk.EraseCommands, b, ""),
		"Desk.DebugCommands":    of(desk.DebugCommands, b, "", device.Debugging{}),
		"Probes.Start":          of(probes.Start, t.TempDir(), "nrf51", nil),
		"Probes.Hold":           of(probes.Hold, t.TempDir()),
		"Probes.State":          of(probes.State, t.TempDir()),
		"Probes.Erase":          of(probes.Erase, t.TempDir()),
		"Probes.Swap":           of(probes.Swap, t.TempDir()),
		"Probes.Stop":           of(probes.Stop, t.TempDir()),
		"Device.Flash":          of(host.Flash, i),
		"Device.Open":           of(host.Open, i),
		"Device.OpenStandalone": of(host.OpenStandalone, standalone),
		"Device.Confirm":        of(host.Confirm, session, i),
		"Device.Link":           of(host.Link, i),
		"Device.Monitor":        of(host.Monitor, i, device.Monitoring{}),
		"Device.Reset":          probed.Reset,
		"Device.Erase":          of(probed.Erase),
		"Device.PowerCycle":     of(probed.PowerCycle),
		"Device.CurrentImage":   of(probed.CurrentImage),
		"Device.Identify":       of(probed.Identify),
		"Device.Debug":          of(probed.Debug, device.Debugging{}, func(context.Context, string) error { return nil }),
	}
	failuretest.Ended(t, calls)

	must(t, errors.Join(session.Close(ctx), host.Close(), probed.Close(), probed.Close()))
	closed = true
	other := *i
	other.Board = b.Name
	delete(calls, "Device.Confirm") // of a session
	calls["Device.Flash by a probe"], calls["Device.Open by a probe"] = of(probed.Flash, &other), of(probed.Open, &other)
	calls["Device.Link of a serial port"] = of(probed.Link, nil)
	for name, use := range calls {
		if strings.HasPrefix(name, "Device.") {
			wantError(t, use(ctx), failure.Internal, "was closed")
		}
	}
}

// onUSB attaches a board behind a probe that nothing uses, with a function that finds programs.
func onUSB(t *testing.T, find func(string) (string, error)) (*boards.Board, *device.Device) {
	t.Helper()
	attachedtest.SetPorts(t, attached.Port{Name: "/dev/ttyTEST", USB: "0483:374b", Serial: "0670FF"})
	env := testEnv()
	env.StateDir, env.Programmer, env.Tool = t.TempDir(), "openocd", find
	b := findBoard(t, "nucleo_f746zg")
	d, err := attach(t.Context(), b, "", env)
	must(t, err)
	return b, d
}
