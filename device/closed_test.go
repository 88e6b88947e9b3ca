//go:build linux

package device_test

import (
	"context"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/device/internal/attachedtest"
	"github.com/boardsmith/boardsmith/internal/attached"
	"github.com/boardsmith/boardsmith/project"
)

// TestClosedDeviceRefusesUse: a closed device, which others may have leased since, refuses each use.
func TestClosedDeviceRefusesUse(t *testing.T) {
	p := generated(t, project.Spec{})
	i, host := built(t, p), attachedTo(t, p)

	attachedtest.SetPorts(t, attached.Port{Name: "/dev/ttyTEST", USB: "0483:374b", Serial: "0670FF"})
	b := findBoard(t, "nucleo_f746zg")
	env := testEnv()
	env.StateDir, env.Programmer = t.TempDir(), "openocd"
	env.Tool = func(name string) (string, error) {
		t.Errorf("%s was searched", name)
		return name, nil
	}
	probed, err := attach(t.Context(), b, "", env)
	must(t, err)
	must(t, host.Close())
	must(t, probed.Close())
	must(t, probed.Close())

	other := *i
	other.Board = b.Name
	debug := func(context.Context, string) error { return nil }
	for name, err := range map[string]error{
		"Open of a process": last(host.Open(t.Context(), i)),
		"Link of a process": last(host.Link(t.Context(), i)),
		"Flash":             last(probed.Flash(t.Context(), &other)),
		"Open":              last(probed.Open(t.Context(), &other)),
		"Link":              last(probed.Link(t.Context(), nil)),
		"Erase":             last(probed.Erase(t.Context())),
		"Identify":          last(probed.Identify(t.Context())),
		"CurrentImage":      last(probed.CurrentImage(t.Context())),
		"Debug":             probed.Debug(t.Context(), device.Debugging{}, debug),
		"Reset":             probed.Reset(t.Context()),
		"Monitor":           probed.Monitor(t.Context(), nil, device.Monitoring{}),
	} {
		if err == nil || !strings.Contains(err.Error(), "was closed") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func last[T any](_ T, err error) error { return err }
