//go:build linux

package project

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure/failuretest"
)

// TestContexts ends the contexts of all that this package does before it begins.
func TestContexts(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "p")
	spec := Spec{Board: "host", Model: tiny(t, nil), Env: testEnv()}
	p := generated(t, dir, spec)
	i, host := built(t, p), attached(t, p)

	plugged(t, PortInfo{Name: "/dev/ttyTEST", USB: "0483:374b", Serial: "0670FF"})
	b, err := boards.Find("nucleo_f746zg", nil)
	must(t, err)
	env := testEnv()
	env.StateDir, env.Flasher = t.TempDir(), "openocd"
	env.Tool = func(name string) (string, error) { return name, nil }
	probed, err := Attach(t.Context(), b, "", env)
	must(t, err)
	t.Cleanup(func() { must(t, probed.Close()) })
	virtual, err := boards.Find("microbit", nil)
	must(t, err)

	failuretest.Ended(t, failuretest.Calls{
		"Generate": func(ctx context.Context) error {
			_, err := Generate(ctx, filepath.Join(t.TempDir(), "q"), spec)
			return err
		},
		"Project.Generate": func(ctx context.Context) error { return p.Generate(ctx, spec) },
		"Project.Build":    func(ctx context.Context) error { _, err := p.Build(ctx); return err },
		"Project.Run":      func(ctx context.Context) error { _, err := p.Run(ctx, ""); return err },
		"MissingTools": func(ctx context.Context) error {
			_, _, err := MissingTools(ctx, virtual)
			return err
		},
		"Clean":        func(ctx context.Context) error { return Clean(ctx, dir, true, env) },
		"Attach":       func(ctx context.Context) error { _, err := Attach(ctx, virtual, "", env); return err },
		"Devices":      func(ctx context.Context) error { _, err := Devices(ctx, env); return err },
		"Virtual":      func(ctx context.Context) error { _, err := Virtual(ctx, virtual, "down", env); return err },
		"PlanFor":      func(ctx context.Context) error { _, err := PlanFor(ctx, b, "", env, i); return err },
		"PlanErase":    func(ctx context.Context) error { _, err := PlanErase(ctx, b, "", env); return err },
		"Device.Flash": func(ctx context.Context) error { _, err := host.Flash(ctx, i); return err },
		"Device.Open":  func(ctx context.Context) error { _, err := host.Open(ctx, i); return err },
		"Device.Monitor": func(ctx context.Context) error {
			return host.Monitor(ctx, i, Monitoring{Show: func(string) {}})
		},
		"Device.Erase":    func(ctx context.Context) error { _, err := probed.Erase(ctx); return err },
		"Device.Holds":    func(ctx context.Context) error { _, err := probed.Holds(ctx); return err },
		"Device.Identify": func(ctx context.Context) error { _, err := probed.Identify(ctx); return err },
		"Device.Debug": func(ctx context.Context) error {
			return probed.Debug(ctx, func(context.Context, string) error { return nil })
		},
	})
	if !Exists(dir) {
		t.Error("a Clean whose context had ended has cleaned")
	}
}
