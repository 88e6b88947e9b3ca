//go:build linux

package device_test

import (
	"testing"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/device/internal/attachedtest"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/attached"
	"github.com/boardsmith/boardsmith/project"
)

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

// TestClosedDeviceRefusesUse: a closed device, which others may have leased since, refuses each use.
func TestClosedDeviceRefusesUse(t *testing.T) {
	p := generated(t, project.Spec{})
	i, host := built(t, p), attachedTo(t, p)
	b, probed := onUSB(t, func(name string) (string, error) {
		t.Errorf("%s was searched", name)
		return name, nil
	})
	must(t, host.Close())
	must(t, probed.Close())
	must(t, probed.Close())

	other := *i
	other.Board = b.Name
	for name, err := range map[string]error{
		"Open of a process": last(host.Open(t.Context(), i)),
		"Link of a process": last(host.Link(t.Context(), i)),
		"Flash":             last(probed.Flash(t.Context(), &other)),
		"Open":              last(probed.Open(t.Context(), &other)),
		"Link":              last(probed.Link(t.Context(), nil)),
		"Erase":             last(probed.Erase(t.Context())),
		"Identify":          last(probed.Identify(t.Context())),
		"CurrentImage":      last(probed.CurrentImage(t.Context())),
		"PowerCycle":        last(probed.PowerCycle(t.Context())),
		"Debug":             probed.Debug(t.Context(), device.Debugging{}, nil),
		"Reset":             probed.Reset(t.Context()),
		"Monitor":           probed.Monitor(t.Context(), nil, device.Monitoring{}),
	} {
		t.Run(name, func(t *testing.T) { wantError(t, err, failure.Internal, "was closed") })
	}
}
