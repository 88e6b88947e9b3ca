//go:build !windows

package device_test

import (
	"bytes"
	"context"
	"slices"
	"testing"
	"time"

	"github.com/boardsmith/boardsmith/failure"
)

// TestEraseSkipsBlankAndReserved: Erase erases the sectors that are not blank, leaves reserved ones, and records the
// result.
func TestEraseSkipsBlankAndReserved(t *testing.T) {
	t.Parallel()
	for _, tool := range programmers() {
		t.Run(tool, func(t *testing.T) {
			d, i, _ := flashedMicrobit(t, tool)
			written := d.status().State.Erases
			written = slices.DeleteFunc(written, func(n int) bool { return n == 0 })
			dev := d.attach()
			r, err := dev.Erase(t.Context())
			must(t, err)
			if r.Erased != len(written) || r.Sectors != reservedPage {
				t.Errorf("%+v, of %d", r, len(written))
			}
			soon, cancel := context.WithTimeout(t.Context(), time.Second)
			wantError(t, last(dev.Open(soon, i)), "", "does not answer: it was erased: ", "flash it: mage flash")
			cancel()
			for page, n := range d.status().State.Erases {
				if n > 2 || page >= reservedPage {
					t.Errorf("page %d was erased %d times", page, n)
				}
			}
			flash := d.flash()[:reservedPage*1024]
			if !bytes.Equal(flash, bytes.Repeat([]byte{0xff}, len(flash))) {
				t.Error("the flash is not blank")
			}
			if second, err := dev.Erase(t.Context()); err != nil || second.Erased != 0 {
				t.Errorf("a second erase: %+v, %v", second, err)
			}
			list, err := d.env.desk().Wear()
			if err != nil || len(list) != 2 || list[1].Flashes != 0 { // the blank chip is unidentified
				t.Fatalf("the ledger: %+v, %v", list, err)
			}
			for _, w := range list {
				if w.Dirty || w.BuildID != "" || len(w.Sectors) != reservedPage {
					t.Errorf("the ledger: %+v", w)
				}
			}
			must(t, last(dev.Flash(t.Context(), i)))
			d.mustHold(i)
			d.mustCount(d.onlyEntry())
		})
	}
	dev, err := attach(t.Context(), findBoard(t, "host"), "", testEnv())
	must(t, err)
	wantError(t, last(dev.Erase(t.Context())), failure.Config)
}
