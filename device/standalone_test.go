//go:build !windows

package device_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
	"github.com/boardsmith/boardsmith/project"
)

// TestFlashStandalone: standalone firmware is flashed by the same rules: what its answer proves is not written, a
// changed byte is, and firmware with an RPC server before or after it is recognised.
func TestFlashStandalone(t *testing.T) {
	t.Parallel()
	d := newDesk(t, "microbit", "openocd")
	model := mlftest.Tiny(t, nil)
	standalone := d.imageOf(model, boards.Options{App: boards.Standalone})
	served := d.imageOf(model, boards.Options{})
	dev := d.attach()
	flash := func() device.FlashReport {
		t.Helper()
		r, err := dev.Flash(t.Context(), standalone)
		must(t, err)
		d.mustHold(standalone)
		return r
	}
	if r := flash(); r.Erased == 0 || !strings.HasPrefix(r.Device, "chip:") {
		t.Errorf("first: %+v", r)
	}
	if r := flash(); r.Wrote != 0 || r.Erased != 0 || !strings.Contains(r.Reason, "answered with build "+standalone.ID()) {
		t.Errorf("again: %+v", r)
	}
	changeLastByte(t, dev, standalone)
	if r := flash(); r.Erased == 0 || !strings.Contains(r.Reason, "has changed since it was built") {
		t.Errorf("after a changed byte: %+v", r)
	}
	r, err := dev.Flash(t.Context(), served)
	must(t, err)
	if !strings.Contains(r.Reason, "answered with build "+standalone.ID()) || r.Erased == 0 {
		t.Errorf("an RPC server after it: %+v", r)
	}
	if r := flash(); !strings.Contains(r.Reason, "answered with build "+served.ID()) || r.Erased == 0 {
		t.Errorf("after an RPC server: %+v", r)
	}
	s, err := dev.OpenStandalone(t.Context(), standalone)
	must(t, err)
	if _, err := s.Run(t.Context(), 1); err != nil {
		t.Error(err)
	}
	must(t, s.Close())
	other := d.imageOf(model, boards.Options{App: boards.Standalone, OperatorOpt: "O0"})
	_, err = dev.OpenStandalone(t.Context(), other)
	wantError(t, err, failure.Verify)
	if _, err := dev.OpenStandalone(t.Context(), served); failure.Of(err) != failure.Config || failure.Next(err) == "" {
		t.Errorf("an image with an RPC server: %v", err)
	}
	_, err = dev.Open(t.Context(), standalone)
	wantError(t, err, failure.Config)
}

// TestMonitorSendsNothingToStandalone: Monitor shows the lines of standalone firmware, and sends it nothing.
func TestMonitorSendsNothingToStandalone(t *testing.T) {
	t.Parallel()
	spec := project.Spec{Board: "host", Model: mlftest.Tiny(t, nil), Options: boards.Options{App: boards.Standalone}}
	p := generated(t, spec)
	i, d := built(t, p), attachedTo(t, p)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	var shown []string
	err := d.Monitor(ctx, i, device.Monitoring{Show: func(line string) {
		shown = append(shown, line)
		if strings.Contains(line, "!0000 start ") {
			cancel()
		}
	}})
	all := strings.Join(shown, "\n")
	if failure.Of(err) != failure.Interrupted || !strings.Contains(all, "!0000 start ") || strings.Contains(all, ">") {
		t.Errorf("%v\n%s", err, all)
	}
}
