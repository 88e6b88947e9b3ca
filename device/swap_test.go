//go:build !windows

package device_test

import (
	"errors"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/device/internal/ledger"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/flasher"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/internal/testkit"
)

// onlyEntry returns the ledger's only entry.
func (d *desk) onlyEntry() (only ledger.Entry) {
	d.t.Helper()
	all := d.entries()
	wantEqual(d.t, len(all), 1, all)
	for _, only = range all {
	}
	return only
}

// entries returns the ledger's entries by device.
func (d *desk) entries() map[string]ledger.Entry {
	d.t.Helper()
	list, err := ledger.New(filepath.Join(d.state, "ledger")).List()
	must(d.t, err)
	all := map[string]ledger.Entry{}
	for _, e := range list {
		all[e.Device] = e
	}
	return all
}

// saveEntry writes an entry into the ledger.
func (d *desk) saveEntry(e ledger.Entry) {
	d.t.Helper()
	must(d.t, ledger.New(filepath.Join(d.state, "ledger")).Save(e))
}

// interruptedEntry returns the entry after a flash that was killed while it wrote those sectors.
func interruptedEntry(e ledger.Entry, sectors ...int) ledger.Entry {
	e.Dirty, e.Image, e.BuildID = true, "", ""
	for _, n := range sectors {
		e.Sectors[n].Erases++
		e.Sectors[n].Digest = ""
	}
	return e
}

// mustCount fails unless the entry counts the erases of the chip on the desk.
func (d *desk) mustCount(e ledger.Entry) {
	d.t.Helper()
	wantEqual(d.t, d.overcounted(e), 0, e.Device)
}

// overcounted returns how many erases more an entry counts than the chip on the desk.
func (d *desk) overcounted(e ledger.Entry) (n int) {
	d.t.Helper()
	for _, s := range e.Sectors {
		n += s.Erases
	}
	for _, erases := range d.status().State.Erases {
		n -= erases
	}
	return n
}

// TestSilentNewChipGetsOwnEntry: a flash of another chip, which did not answer before it, changes nothing in the first
// chip's entry, and is recorded for the new chip when it answers.
func TestSilentNewChipGetsOwnEntry(t *testing.T) {
	t.Parallel()
	d, i, _ := flashedMicrobit(t, "openocd")
	first := interruptedEntry(d.onlyEntry(), 3)
	d.saveEntry(first)
	d.request("swap", nil)
	r, err := d.attach().Flash(t.Context(), i)
	must(t, err)
	d.mustHold(i)
	d.mustRecordSwap(r, i, first)
}

// mustRecordSwap fails unless the ledger has the first chip as before, and an entry of the one that was flashed.
func (d *desk) mustRecordSwap(r device.FlashReport, i *image.Image, first ledger.Entry) {
	d.t.Helper()
	all := d.entries()
	second := all[r.Device]
	if len(all) != 2 || r.Device == first.Device || !strings.HasPrefix(r.Device, "chip:") || second.Dirty ||
		second.Image != i.Digest || second.Flashes != 1 {
		d.t.Fatalf("%+v; the ledger has %+v", r, all)
	}
	wantEqual(d.t, all[first.Device], first, "the first chip")
	d.mustCount(second)
}

// TestSilentSameChipKeepsCounts: a chip whose firmware is damaged does not answer: it is read back, its interrupted
// sectors are rewritten, and its erases are counted once, with those from before.
func TestSilentSameChipKeepsCounts(t *testing.T) {
	t.Parallel()
	d, i, _ := flashedMicrobit(t, "openocd")
	before := d.onlyEntry()
	for range 2 {
		d.saveEntry(interruptedEntry(d.onlyEntry(), 3))
		dev := d.attach()
		job := flasher.Job{Erase: []boards.Sector{d.sectors(i)[0].Sector}, Restart: true}
		must(t, dev.Programmer().Do(t.Context(), job))
		r, err := dev.Flash(t.Context(), i)
		must(t, err)
		must(t, dev.Close())
		if r.Device != before.Device || !strings.Contains(r.Reason, "did not answer") ||
			!strings.Contains(r.Reason, "were being written") {
			t.Errorf("%+v", r)
		}
	}
	after := d.onlyEntry()
	erased := func(n int) int { return after.Sectors[n].Erases - before.Sectors[n].Erases }
	if after.Dirty || erased(0) != 2 || erased(3) != 4 || after.Sectors[3].Digest == "" {
		t.Errorf("%+v, was %+v", after, before)
	}
	d.mustCount(after) // the first sector's erases by another tool are as many as the third's that never began
}

// TestSilentChipMayBeWorn: a chip that does not answer may be the worn one that was last behind its probe, so that the
// flash must be forced, until it has answered as another chip.
func TestSilentChipMayBeWorn(t *testing.T) {
	t.Parallel()
	d := newDesk(t, "microbit", "openocd")
	path := filepath.Join(d.env.Path[0], "boards", "microbit.json")
	testkit.EditFile(t, path, `"erase_cycles": 20000`, `"erase_cycles": 9`)
	one, two := d.image(""), d.image("O0")
	d.startFlashed(one)
	worn := d.onlyEntry()
	for n := range worn.Sectors {
		worn.Sectors[n].Erases = 9
	}
	d.saveEntry(worn)
	d.request("swap", nil)
	dev := d.attach()
	ctx := t.Context()
	_, err := dev.Flash(ctx, one)
	var w *device.WearError
	if !errors.As(err, &w) || w.PossibleChip != worn.Device || !strings.Contains(err.Error(), "may be "+worn.Device) {
		t.Fatalf("it may be worn: %v", err)
	}
	wantEqual(t, len(d.status().State.Erases), 0)
	dev.Desk().Reflash = true
	r, err := dev.Flash(ctx, one)
	must(t, err)
	dev.Desk().Reflash = false
	d.request("erase", nil) // it no longer answers
	must(t, last(dev.Flash(ctx, two)))
	if got := d.entries(); len(got) != 2 || !reflect.DeepEqual(got[worn.Device], worn) || got[r.Device].Flashes != 2 {
		t.Errorf("%+v", got)
	}
}

// TestSwappedErrorAfterFlash: if the chip in desk.json was swapped for one that did not answer before the flash, the
// error reports the flash, and the ledger records it for the new chip, which is then neither opened nor flashed.
func TestSwappedErrorAfterFlash(t *testing.T) {
	t.Parallel()
	d, i, _ := flashedMicrobit(t, "openocd")
	first := d.onlyEntry()
	expected := strings.TrimPrefix(first.Device, "chip:")
	d.env.File = &device.DeskFile{Devices: []device.DeskDevice{{Board: d.board, Probe: first.Probe, Chip: expected}}}
	d.request("swap", nil)
	dev := d.attach()
	ctx := t.Context()
	r, err := dev.Flash(ctx, i)
	chips := "from chip " + strings.TrimPrefix(r.Device, "chip:") + ", not " + expected
	wantError(t, err, failure.Verify, chips, "was flashed")
	if !r.Verified || r.Erased == 0 {
		t.Errorf("%+v", r)
	}
	d.mustRecordSwap(r, i, first)
	again, flashed := dev.Flash(ctx, i)
	for _, err := range []error{flashed, last(dev.Open(ctx, i))} {
		wantError(t, err, failure.Config, "may not be the chosen board")
	}
	wantEqual(t, again.Erased, 0, again)
}
