//go:build linux

package device_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/device/emulated"
	"github.com/boardsmith/boardsmith/device/internal/attachedtest"
	"github.com/boardsmith/boardsmith/internal/attached"
	"github.com/boardsmith/boardsmith/internal/testkit/failuretest"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
	"github.com/boardsmith/boardsmith/project"
)

// TestContexts ends the contexts of all that this package does before it begins.
func TestContexts(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "p")
	spec := project.Spec{Board: "host", Model: mlftest.Tiny(t, nil)}
	p := generatedIn(t, dir, spec)
	i, host := built(t, p), attachedTo(t, p)
	spec.Options.App = boards.Standalone
	standalone := built(t, generated(t, spec))
	session, err := host.Open(t.Context(), i)
	must(t, err)
	t.Cleanup(func() { must(t, session.Close(context.Background())) })

	attachedtest.SetPorts(t, attached.Port{Name: "/dev/ttyTEST", USB: "0483:374b", Serial: "0670FF"})
	b := findBoard(t, "nucleo_f746zg")
	env := testEnv()
	env.StateDir, env.Programmer = t.TempDir(), "openocd"
	env.Tool = func(name string) (string, error) { return name, nil }
	probed, err := attach(t.Context(), b, "", env)
	must(t, err)
	t.Cleanup(func() { must(t, probed.Close()) })
	chip := findBoard(t, "microbit")

	emulate := func(_ device.EmulatedState, err error) error { return err }

	failuretest.Ended(t, failuretest.Calls{
		"Desk.MemoryMap": func(ctx context.Context) error {
			_, err := new(device.Desk).MemoryMap(ctx, &boards.Board{Name: "kiln"})
			return err
		},
		"Desk.ChipOf": func(ctx context.Context) error {
			_, _, err := new(device.Desk).ChipOf(ctx, &boards.Board{Name: "kiln"})
			return err
		},
		"MissingTools": func(ctx context.Context) error {
			_, _, err := device.MissingTools(ctx, chip)
			return err
		},
		"Desk.Attach":        func(ctx context.Context) error { _, err := attach(ctx, chip, "", env); return err },
		"Desk.Devices":       func(ctx context.Context) error { _, err := env.desk().Devices(ctx); return err },
		"Desk.StartEmulated": func(ctx context.Context) error { return emulate(env.desk().StartEmulated(ctx, chip)) },
		"Desk.StopEmulated":  func(ctx context.Context) error { return emulate(env.desk().StopEmulated(ctx, chip)) },
		"Desk.EraseEmulated": func(ctx context.Context) error { return emulate(env.desk().EraseEmulated(ctx, chip)) },
		"Desk.SwapEmulated":  func(ctx context.Context) error { return emulate(env.desk().SwapEmulated(ctx, chip)) },
		"Desk.FlashCommands": func(ctx context.Context) error {
			_, err := env.desk().FlashCommands(ctx, b, "", i)
			return err
		},
		"Desk.EraseCommands": func(ctx context.Context) error { _, err := env.desk().EraseCommands(ctx, b, ""); return err },
		"Probes.Start": func(ctx context.Context) error {
			_, err := emulated.Probes().Start(ctx, t.TempDir(), "nrf51", nil)
			return err
		},
		"Probes.Hold":  func(ctx context.Context) error { _, err := emulated.Probes().Hold(ctx, t.TempDir()); return err },
		"Probes.State": func(ctx context.Context) error { _, err := emulated.Probes().State(ctx, t.TempDir()); return err },
		"Probes.Erase": func(ctx context.Context) error { return emulate(emulated.Probes().Erase(ctx, t.TempDir())) },
		"Probes.Swap":  func(ctx context.Context) error { return emulate(emulated.Probes().Swap(ctx, t.TempDir())) },
		"Probes.Stop":  func(ctx context.Context) error { return emulated.Probes().Stop(ctx, t.TempDir()) },
		"Device.Flash": func(ctx context.Context) error { _, err := host.Flash(ctx, i); return err },
		"Device.Open":  func(ctx context.Context) error { _, err := host.Open(ctx, i); return err },
		"Device.OpenStandalone": func(ctx context.Context) error {
			_, err := host.OpenStandalone(ctx, standalone)
			return err
		},
		"Device.Confirm": func(ctx context.Context) error { return host.Confirm(ctx, session, i) },
		"Device.Link":    func(ctx context.Context) error { _, err := host.Link(ctx, i); return err },
		"Device.Monitor": func(ctx context.Context) error {
			return host.Monitor(ctx, i, device.Monitoring{Show: func(string) {}})
		},
		"Device.Reset": func(ctx context.Context) error { return probed.Reset(ctx) },
		"Desk.DebugCommands": func(ctx context.Context) error {
			_, err := env.desk().DebugCommands(ctx, b, "", device.Debugging{})
			return err
		},
		"Device.Erase":        func(ctx context.Context) error { _, err := probed.Erase(ctx); return err },
		"Device.PowerCycle":   func(ctx context.Context) error { _, err := probed.PowerCycle(ctx); return err },
		"Device.CurrentImage": func(ctx context.Context) error { _, err := probed.CurrentImage(ctx); return err },
		"Device.Identify":     func(ctx context.Context) error { _, err := probed.Identify(ctx); return err },
		"Device.Debug": func(ctx context.Context) error {
			return probed.Debug(ctx, device.Debugging{}, func(context.Context, string) error { return nil })
		},
	})
}
