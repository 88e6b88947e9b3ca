//go:build !windows

package device_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/transporttest"
	"github.com/boardsmith/boardsmith/project"
)

// gdb returns a use of Debug that runs gdb's commands on an image, and appends its output.
func gdb(t *testing.T, i *image.Image, output *string, commands ...string) func(context.Context, string) error {
	testkit.Need(t, "gdb-multiarch")
	return func(ctx context.Context, address string) error {
		args := []string{"--batch", "-nx", "-ex", "target extended-remote " + address}
		for _, c := range commands {
			args = append(args, "-ex", c)
		}
		text, err := exec.CommandContext(ctx, "gdb-multiarch", append(args, i.Path)...).CombinedOutput()
		*output += string(text)
		if err != nil {
			return fmt.Errorf("gdb: %w: %s", err, text)
		}
		return nil
	}
}

// checkTakenPort checks that Debug refuses a port on which another program listens.
func checkTakenPort(ctx context.Context, t *testing.T, d *device.Device, o device.Debugging) {
	t.Helper()
	o.Port = transporttest.Listen(t, "127.0.0.1:0").Addr().(*net.TCPAddr).Port
	err := d.Debug(ctx, o, func(context.Context, string) error { return errors.New("used") })
	wantError(t, err, failure.Config, fmt.Sprint(o.Port))
}

// TestDebugAttachKeepsSession: gdb attaches to a running board without a reset: its session continues afterwards.
func TestDebugAttachKeepsSession(t *testing.T) {
	t.Parallel()
	for _, programmer := range programmers() {
		t.Run(programmer, func(t *testing.T) {
			t.Parallel()
			d, i, _ := flashedMicrobit(t, programmer)
			dev := d.attach()
			ctx := testkit.Context(t)
			s, err := dev.Open(ctx, i)
			must(t, err)
			defer func() { must(t, s.Close(ctx)) }()
			checkTakenPort(ctx, t, dev, device.Debugging{Attach: true})
			unused := func(context.Context, string) error { return nil } // gdb does not connect
			must(t, dev.Debug(ctx, device.Debugging{Attach: true}, unused))
			must(t, dev.Confirm(ctx, s, i))
			var output string
			must(t, dev.Debug(ctx, device.Debugging{Attach: true}, gdb(t, i, &output, "backtrace", "detach")))
			if !strings.Contains(output, "main (") || strings.Contains(output, "Reset") {
				t.Errorf("gdb: %s", output)
			}
			must(t, dev.Confirm(ctx, s, i))
		})
	}
}

// TestDebugEmulator: a board without a probe is debugged with an image, on a free port. The story debug has the rest.
func TestDebugEmulator(t *testing.T) {
	t.Parallel()
	p := generated(t, project.Spec{Board: "mps2_an385"})
	i, d := built(t, p), attachedTo(t, p)
	ctx := testkit.Context(t)
	wantError(t, d.Debug(ctx, device.Debugging{}, nil), failure.Config)
	checkTakenPort(ctx, t, d, device.Debugging{Image: i})
}
