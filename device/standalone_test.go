//go:build !windows

package device_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
)

// TestFlashStandalone: standalone firmware is flashed by the same rules: what its answer proves is not written, a
// changed byte is, and firmware with an RPC server before or after it is recognised, whose changed byte opens no
// session.
func TestFlashStandalone(t *testing.T) {
	t.Parallel()
	d := newDesk(t, "microbit", "openocd")
	model := mlftest.Tiny(t, nil)
	standalone := d.imageOf(model, boards.Options{App: boards.Standalone})
	served := d.imageOf(model, boards.Options{})
	dev := d.attach()
	ctx := t.Context()
	flash := func(i *image.Image, writes bool, reason string) {
		t.Helper()
		r, err := dev.Flash(ctx, i)
		must(t, err)
		d.mustHold(i)
		if r.Erased > 0 != writes || !strings.Contains(r.Reason, reason) || !strings.HasPrefix(r.Device, "chip:") {
			t.Errorf("%+v, want %s", r, reason)
		}
	}
	flash(standalone, true, "")
	flash(standalone, false, "answered with build "+standalone.ID())
	d.changeLastByte(dev, standalone)
	flash(standalone, true, "has changed since it was built")
	flash(served, true, "answered with build "+standalone.ID())
	d.changeLastByte(dev, served)
	wantError(t, last(dev.Open(ctx, served)), failure.Verify, "runs build "+served.ID()+", but its flash has")
	flash(served, true, "has changed since it was built")
	flash(standalone, true, "answered with build "+served.ID())
	s, err := dev.OpenStandalone(ctx, standalone)
	must(t, err)
	must(t, last(s.Run(ctx, 1)))
	must(t, s.Close())
	other := d.imageOf(model, boards.Options{App: boards.Standalone, OperatorOpt: "O0"})
	wantError(t, last(dev.OpenStandalone(ctx, other)), failure.Verify)
	wantError(t, last(dev.OpenStandalone(ctx, served)), failure.Config)
	wantError(t, last(dev.Open(ctx, standalone)), failure.Config)
}

// TestMonitorShowsStandaloneLines: Monitor of standalone firmware on a board that keeps its image shows the firmware's
// lines unchanged after a reset, sends only the caller's line, and shows the answer.
func TestMonitorShowsStandaloneLines(t *testing.T) {
	t.Parallel()
	d := newDesk(t, "microbit", "openocd")
	standalone := d.imageOf(mlftest.Tiny(t, nil), boards.Options{App: boards.Standalone})
	dev := d.attach()
	must(t, last(dev.Flash(t.Context(), standalone)))
	ctx, cancel := context.WithCancel(testkit.Context(t))
	defer cancel()
	var shown []string
	var record bytes.Buffer
	send := make(chan string, 1)
	wantError(t, dev.Monitor(ctx, nil, device.Monitoring{
		Record: &record, Send: send, Baud: 115200, Reset: true,
		Show: func(line string) {
			shown = append(shown, line)
			switch {
			case strings.HasPrefix(line, "!0000 start ") && send != nil: // twice, as the programmer resets the board twice
				send <- "?0001 id 00000000"
				send = nil
			case strings.HasPrefix(line, "="):
				cancel()
			}
		},
	}), failure.Interrupted)
	line := hex.EncodeToString([]byte("?0001 id 00000000\n"))
	if got := record.String(); strings.Count(got, `"to":"device","hex"`) != 1 || !strings.Contains(got, line) {
		t.Errorf("recorded %s, shown %q", got, shown)
	}
	wantError(t, dev.Monitor(t.Context(), nil, device.Monitoring{Baud: -1}), failure.Config)
}
