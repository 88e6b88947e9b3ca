//go:build !windows

package device_test

import (
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
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
	flash := func(i *image.Image, writes bool, reason string) {
		t.Helper()
		r, err := dev.Flash(t.Context(), i)
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
	flash(standalone, true, "answered with build "+served.ID())
	s, err := dev.OpenStandalone(t.Context(), standalone)
	must(t, err)
	must(t, last(s.Run(t.Context(), 1)))
	must(t, s.Close())
	other := d.imageOf(model, boards.Options{App: boards.Standalone, OperatorOpt: "O0"})
	wantError(t, last(dev.OpenStandalone(t.Context(), other)), failure.Verify)
	wantError(t, last(dev.OpenStandalone(t.Context(), served)), failure.Config)
	wantError(t, last(dev.Open(t.Context(), standalone)), failure.Config)
}
