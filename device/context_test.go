//go:build linux

package device_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/device/emulated"
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

	b, probed := onUSB(t, func(name string) (string, error) { return name, nil })
	t.Cleanup(func() { must(t, probed.Close()) })
	desk, chip, none := probed.Desk(), findBoard(t, "microbit"), &boards.Board{Name: "kiln"}
	probes := emulated.Probes()

	failuretest.Ended(t, failuretest.Calls{
		"Desk.MemoryMap": failuretest.With(new(device.Desk).MemoryMap, none),
		"Desk.ChipOf": func(ctx context.Context) error {
			_, _, err := new(device.Desk).ChipOf(ctx, none)
			return err
		},
		"MissingTools": func(ctx context.Context) error {
			_, _, err := device.MissingTools(ctx, chip)
			return err
		},
		"Desk.Attach":        func(ctx context.Context) error { return last(desk.Attach(ctx, chip, "")) },
		"Desk.Devices":       failuretest.Of(desk.Devices),
		"Desk.StartEmulated": failuretest.With(desk.StartEmulated, chip),
		"Desk.StopEmulated":  failuretest.With(desk.StopEmulated, chip),
		"Desk.EraseEmulated": failuretest.With(desk.EraseEmulated, chip),
		"Desk.SwapEmulated":  failuretest.With(desk.SwapEmulated, chip),
		"Desk.FlashCommands": func(ctx context.Context) error { return last(desk.FlashCommands(ctx, b, "", i)) },
		"Desk.EraseCommands": func(ctx context.Context) error { return last(desk.EraseCommands(ctx, b, "")) },
		"Desk.DebugCommands": func(ctx context.Context) error {
			return last(desk.DebugCommands(ctx, b, "", device.Debugging{}))
		},
		"Probes.Start": func(ctx context.Context) error {
			return last(probes.Start(ctx, t.TempDir(), "nrf51", nil))
		},
		"Probes.Hold":           failuretest.With(probes.Hold, t.TempDir()),
		"Probes.State":          failuretest.With(probes.State, t.TempDir()),
		"Probes.Erase":          failuretest.With(probes.Erase, t.TempDir()),
		"Probes.Swap":           failuretest.With(probes.Swap, t.TempDir()),
		"Probes.Stop":           func(ctx context.Context) error { return probes.Stop(ctx, t.TempDir()) },
		"Device.Flash":          failuretest.With(host.Flash, i),
		"Device.Open":           failuretest.With(host.Open, i),
		"Device.OpenStandalone": failuretest.With(host.OpenStandalone, standalone),
		"Device.Confirm":        func(ctx context.Context) error { return host.Confirm(ctx, session, i) },
		"Device.Link":           failuretest.With(host.Link, i),
		"Device.Monitor":        func(ctx context.Context) error { return host.Monitor(ctx, i, device.Monitoring{}) },
		"Device.Reset":          probed.Reset,
		"Device.Erase":          failuretest.Of(probed.Erase),
		"Device.PowerCycle":     failuretest.Of(probed.PowerCycle),
		"Device.CurrentImage":   failuretest.Of(probed.CurrentImage),
		"Device.Identify":       failuretest.Of(probed.Identify),
		"Device.Debug": func(ctx context.Context) error {
			return probed.Debug(ctx, device.Debugging{}, func(context.Context, string) error { return nil })
		},
	})
}
