//go:build !windows

package device_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/chipkeeper"
)

// TestEraseSkipsBlankAndReserved: Erase erases the sectors that are not blank, leaves reserved ones, and records the
// result.
func TestEraseSkipsBlankAndReserved(t *testing.T) {
	t.Parallel()
	for _, tool := range programmers() {
		t.Run(tool, func(t *testing.T) {
			d := newDesk(t, "microbit", tool)
			i := d.image(boards.Options{})
			d.startFlashed(i)
			written := d.request(chipkeeper.Request{Do: "status"}).State.Erases
			written = slices.DeleteFunc(written, func(n int) bool { return n == 0 })
			dev := d.attach()
			r, err := dev.Erase(t.Context())
			must(t, err)
			if r.Erased != len(written) || r.Sectors != reservedPage {
				t.Errorf("%+v, of %d", r, len(written))
			}
			soon, cancel := context.WithTimeout(t.Context(), time.Second)
			_, err = dev.Open(soon, i)
			cancel()
			if !strings.Contains(fmt.Sprint(err), "does not answer: it was erased: ") ||
				failure.Next(err) != "flash it: mage flash" {
				t.Errorf("open after an erase: %v; %s", err, failure.Next(err))
			}
			for page, n := range d.request(chipkeeper.Request{Do: "status"}).State.Erases {
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
			_, err = dev.Flash(t.Context(), i)
			must(t, err)
			d.mustHold(i)
			d.mustCount(d.onlyEntry())
			plan, err := d.env.desk().EraseCommands(t.Context(), dev.Board(), "")
			if err != nil || len(plan.Flash) != 1 || (len(plan.Files) > 0) != (tool == "openocd") { // pyocd compares here
				t.Errorf("%+v, %v", plan, err)
			}
		})
	}
	b := findBoard(t, "host")
	dev, err := attach(t.Context(), b, "", testEnv())
	must(t, err)
	_, err = dev.Erase(t.Context())
	wantError(t, err, failure.Config)
}
