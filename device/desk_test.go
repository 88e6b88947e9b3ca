//go:build !windows

package device_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/bits"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/device/internal/flashplan"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/flasher"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/internal/chipkeeper"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/boardstest"
	"github.com/boardsmith/boardsmith/internal/testkit/drawn"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
)

// TestFlashAfterLossOfLedger: the next flash is right after any loss of the ledger.
func TestFlashAfterLossOfLedger(t *testing.T) {
	t.Parallel()
	d, one, two := flashedMicrobit(t, "openocd")
	dir := filepath.Join(d.state, "ledger")
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	must(t, err)
	for _, f := range files {
		must(t, os.Truncate(f, 100))
	}
	d.mustFlash(two)
	must(t, os.RemoveAll(dir))
	d.mustFlash(one)
}

// TestEraseRepeatsInterruptedSector: a sector whose write was interrupted may read as blank once: it is erased again.
func TestEraseRepeatsInterruptedSector(t *testing.T) {
	t.Parallel()
	d, i, _ := flashedMicrobit(t, "openocd")
	d.request("erase", nil)
	d.saveEntry(interruptedEntry(d.onlyEntry(), 3))
	erases := func() int { return d.status().State.Erases[3] }
	before := erases()
	dev := d.attach()
	r, err := dev.Erase(t.Context())
	must(t, dev.Close())
	if err != nil || erases() != before+1 {
		t.Errorf("%d erases of the sector, want 1: %+v, %v", erases()-before, r, err)
	}
	d.mustFlash(i) // a blank chip is unidentified: its entry is updated when it answers
	if after := d.onlyEntry(); after.Dirty || after.Sectors[3].Digest == "" {
		t.Errorf("the ledger still has it as interrupted: %+v", after)
	}
}

// sectors returns what an image writes.
func (d *desk) sectors(i *image.Image) []flashplan.Sector {
	d.t.Helper()
	b, err := boards.Find(d.board, d.env.Path)
	must(d.t, err)
	img, err := flashplan.ContentOf(b, i)
	must(d.t, err)
	return img.Sectors
}

// changeLastByte changes the image's last byte in flash, without the ledger.
func (d *desk) changeLastByte(dev *device.Device, i *image.Image) {
	d.t.Helper()
	all := d.sectors(i)
	s := all[len(all)-1] // of the model
	data := bytes.Clone(s.Data)
	data[len(bytes.TrimRight(data, string([]byte{flashplan.Erased})))-1] ^= 0x10
	must(d.t, dev.Programmer().Do(d.t.Context(),
		flasher.Job{Erase: []boards.Sector{s.Sector}, Write: []flasher.Segment{{Addr: s.Addr, Data: data}}, Restart: true}))
}

// TestFlashRefusesOtherKindOfChip: a chip of another kind than in the board file is not erased, and no flash of it has
// failed.
func TestFlashRefusesOtherKindOfChip(t *testing.T) {
	t.Parallel()
	d := newDesk(t, "netduinoplus2", "openocd")
	testkit.EditFile(t, filepath.Join(d.env.Path[0], "boards", d.board+".json"), `"0x441"`, `"0x411"`)
	err := last(d.attach().Flash(t.Context(), d.image("")))
	wantError(t, err, failure.Flash, "masked value 0x441")
	if !errors.Is(err, flasher.ErrOtherChip) || len(d.status().State.Erases) != 0 {
		t.Errorf("it was erased: %v", err)
	}
	if e := d.onlyEntry(); e.Dirty || len(e.Sectors) > 0 || e.Failures > 0 {
		t.Errorf("the ledger has %+v", e)
	}
}

// TestFlashRefusesOtherBoard: a device that is another board by desk.json, the ledger or its firmware is neither
// flashed nor erased, unless that is forced; nothing is written to it.
func TestFlashRefusesOtherBoard(t *testing.T) {
	t.Parallel()
	d, i, _ := flashedMicrobit(t, "openocd")
	before := d.status().State.Erases
	ctx := t.Context()
	mustRefuse := func(want string) {
		t.Helper()
		dev := d.attach()
		for _, err := range []error{last(dev.Flash(ctx, i)), last(dev.Erase(ctx))} {
			wantError(t, err, failure.Config, "may not be the chosen board", want)
		}
		must(t, dev.Close())
	}
	entry := d.onlyEntry()
	d.env.File = &device.DeskFile{Devices: []device.DeskDevice{{Name: "n1", Board: "nucleo_f401re", Probe: entry.Probe}}}
	mustRefuse("n1, a board nucleo_f401re")
	d.env.File = nil

	entry.Board = "nucleo_f401re"
	d.saveEntry(entry)
	mustRefuse("board nucleo_f401re")
	d.request("erase", nil) // now it is behind that board's probe only
	mustRefuse("a board nucleo_f401re was behind")
	wantEqual(t, d.status().State.Erases, before, "it was erased")
	dev := d.attach()
	dev.Desk().Reflash = true
	must(t, last(dev.Flash(ctx, i)))
}

// TestFlashWithTwoLedgers: two computers with a ledger each share a board: each flash is right after one of the other,
// also after one that was killed.
func TestFlashWithTwoLedgers(t *testing.T) {
	t.Parallel()
	first, one, two := flashedMicrobit(t, "openocd")
	second := *first
	second.state = t.TempDir()
	second.env.StateDir = second.state
	must(t, os.Symlink(filepath.Join(first.state, "emulated"), filepath.Join(second.state, "emulated")))
	second.mustFlash(two)
	first.mustFlash(one)
	second.mustFlash(two)
	for _, after := range drawn.Of(t, "kills beside another ledger", []int{400, 900, 1400}, 1) {
		first.disturbFlash(killPoint{hostKilled, after}, one)
		first.setFaults(chipkeeper.Faults{})
		second.mustFlash(two) // its ledger has the image two, clean
	}
}

// TestFlashReportsDamagedChip: cells that cannot be programmed or erased are an error of class verify or flash, the
// ledger is dirty, and no session opens.
func TestFlashReportsDamagedChip(t *testing.T) {
	t.Parallel()
	for name, faultsOf := range map[string]func(last flashplan.Sector) chipkeeper.Faults{
		"weak": func(s flashplan.Sector) chipkeeper.Faults {
			at := slices.IndexFunc(s.Data, func(v byte) bool { return v != flashplan.Erased })
			stays := byte(1) << bits.TrailingZeros8(^s.Data[at]) // a zero that stays one
			return chipkeeper.Faults{Weak: map[uint32]byte{uint32(s.Addr) + uint32(at): stays}}
		},
		"stuck": func(flashplan.Sector) chipkeeper.Faults {
			stuck := map[int]bool{}
			for page := range nrfPages {
				stuck[page] = true
			}
			return chipkeeper.Faults{Stuck: stuck}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, _, two := flashedMicrobit(t, "openocd")
			all := d.sectors(two)
			faults := faultsOf(all[len(all)-1])
			d.setFaults(faults)
			dev := d.attach()
			ctx := t.Context()
			err := last(dev.Flash(ctx, two))
			if c := failure.Of(err); c != failure.Verify && c != failure.Flash {
				t.Errorf("class %v: %v", c, err)
			}
			if e := d.onlyEntry(); !e.Dirty || e.Failures == 0 {
				t.Errorf("the ledger has dirty %v, %d failures", e.Dirty, e.Failures)
			}
			if s, err := dev.Open(ctx, two); err == nil {
				s.Close(ctx)
				t.Error("a session opened with a damaged image")
			}
			must(t, dev.Close())
			d.setFaults(chipkeeper.Faults{})
			d.mustFlash(two)
		})
	}
}

const nrfPages = 256 // of an nRF51822's flash

// TestConcurrentFlashesExclude: two processes that flash one board exclude each other: one waits, and the board
// holds all of one image.
func TestConcurrentFlashesExclude(t *testing.T) {
	t.Parallel()
	d, one, two := flashedMicrobit(t, "openocd")
	images := [2]*image.Image{one, two}
	for round := range drawn.Count(1, 3) {
		var all sync.WaitGroup
		for _, i := range images {
			cmd := d.job(i)
			all.Go(func() {
				if output, err := cmd.CombinedOutput(); err != nil {
					t.Errorf("round %d: %v\n%s", round, err, output)
				}
			})
		}
		all.Wait()
		if d.holds(images[0]) != nil && d.holds(images[1]) != nil {
			t.Errorf("round %d: it holds neither", round)
		}
		must(t, d.checkLedger(images))
	}
}

// TestAttachedChipRuns: from Attach to Close an emulated chip has a client, without which it ends by itself.
func TestAttachedChipRuns(t *testing.T) {
	t.Parallel()
	d := newDesk(t, "microbit", "openocd")
	clients := func() int64 { return d.status().Clients }
	dev := d.attach()
	wantEqual(t, clients(), 1)
	must(t, dev.Close())
	testkit.Await(t, "the end of the last client", func() bool { return clients() == 0 })
}

// TestOnlyBegunErasesAreCounted: erases that never began are not counted: if the tool is missing, the probe is
// unplugged, or the power fails before them. An entry stays clean if no erase began.
func TestOnlyBegunErasesAreCounted(t *testing.T) {
	t.Parallel()
	for _, tool := range programmers() {
		t.Run(tool, func(t *testing.T) {
			d, one, _ := flashedMicrobit(t, tool)
			two := d.imageOf(mlftest.Tiny(t, nil), boards.Options{RuntimeOpt: "O2"}) // many sectors differ
			clean, find := d.onlyEntry(), d.env.Tool
			d.env.Tool = func(name string) (string, error) {
				if name == tool {
					return "", &failure.MissingToolError{Tool: name, Install: "apt"}
				}
				return find(name)
			}
			dev := d.attach()
			fails := func() device.FlashReport {
				t.Helper()
				r, err := dev.Flash(t.Context(), two)
				wantError(t, err, "")
				return r
			}
			r := fails()
			d.env.Tool, dev.Desk().Tool, dev.ProgrammerConfig().Find = find, find, find
			d.setFaults(chipkeeper.Faults{UnplugAfter: 1})
			fails()
			got := d.onlyEntry()
			if got.Dirty || got.Image != one.Digest || got.Flashes != clean.Flashes || got.Failures != clean.Failures+2 ||
				!slices.Equal(got.Sectors, clean.Sectors) || r.Erased != 0 || r.Wrote != 0 {
				t.Errorf("%+v, was %+v; %+v", got, clean, r)
			}
			d.setFaults(chipkeeper.Faults{Cut: &chipkeeper.Cut{Erase: true, After: 5, Seed: 1}})
			r = fails()
			e := d.onlyEntry()
			if over := d.overcounted(e); over < 0 || over > 1 || r.Erased >= r.Sectors || !e.Dirty {
				t.Errorf("%d erases too many are counted; %+v", over, r)
			}
		})
	}
}

// TestFlashesEraseLittle: many flashes of ten images of one model, of three in a plain run, are right, and erase less
// than half of what a flasher of complete images would.
func TestFlashesEraseLittle(t *testing.T) {
	t.Parallel()
	requests, different := drawn.Count(5, 1000), drawn.Count(3, 10)
	d := newDesk(t, "microbit", "pyocd")
	d.env.Log = nil
	var images []*image.Image
	for n := range different {
		operator := strings.Replace(mlftest.TinyOperator, "in[i] * 2", fmt.Sprintf("in[i] * %d", 3+n), 1)
		images = append(images, d.imageOf(mlftest.Operator(t, operator), boards.Options{}))
	}
	dev := d.attach()
	whole := 0
	for n := range requests {
		r, err := dev.Flash(t.Context(), images[n*7%different])
		must(t, err)
		whole += r.Sectors
		d.mustHold(images[n*7%different])
	}
	erases := 0
	for _, n := range d.status().State.Erases {
		erases += n
	}
	t.Logf("%d requests over %d images: %d sector erases, of a whole-image flasher %d", requests, different, erases, whole)
	if erases*2 > whole {
		t.Errorf("%d erases, more than half of a whole-image flasher's %d", erases, whole)
	}
	d.mustCount(d.onlyEntry())
}

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
			ctx := t.Context()
			r, err := dev.Erase(ctx)
			must(t, err)
			if r.Erased != len(written) || r.Sectors != reservedPage {
				t.Errorf("%+v, of %d", r, len(written))
			}
			soon, cancel := context.WithTimeout(ctx, time.Second)
			wantError(t, last(dev.Open(soon, i)), "", "does not answer: it was erased: ", "flash it: mage flash")
			cancel()
			for page, n := range d.status().State.Erases {
				if n > 2 || page >= reservedPage {
					t.Errorf("page %d was erased %d times", page, n)
				}
			}
			flash := d.flash()[:reservedPage*1024]
			wantEqual(t, flash, bytes.Repeat([]byte{0xff}, len(flash)))
			if second, err := dev.Erase(ctx); err != nil || second.Erased != 0 {
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
			must(t, last(dev.Flash(ctx, i)))
			d.mustHold(i)
			d.mustCount(d.onlyEntry())
		})
	}
	dev, err := attach(t.Context(), findBoard(t, "host"), "", testEnv())
	must(t, err)
	wantError(t, last(dev.Erase(t.Context())), failure.Config)
}

// otherFlash begins at this address of the emulated chip's flash, which a board file takes for two memories.
const otherFlash = 0x30000

const twoFlashes = `"replaces": true, "inherits": "chip/nrf51822", "memory": [
  {"name": "flash", "origin": 0, "size": "0x30000", "exec": true, "nonvolatile": true, "erase_cycles": 20000,
    "sectors": [{"count": 192, "size": 1024}]},
  {"name": "outer", "origin": "0x30000", "size": "0x10000", "nonvolatile": true, "erase_cycles": 20000,
    "sectors": [{"count": 64, "size": 1024}], "verify": "firmware", "programmer": "openocd"},
  {"name": "ram", "origin": "0x20000000", "size": "0x00004000", "exec": true}],
"place": {"code": "flash", "data": "ram", "parameters": "outer"},`

// otherFlashShelf is a search path with a microbit of two flashes.
func otherFlashShelf(t *testing.T, memory string) string {
	t.Helper()
	text := readFile(t, filepath.Join("..", "boards", "microbit.json"))
	board := strings.Replace(string(text), `"inherits": "chip/nrf51822",`, memory, 1)
	return boardstest.Shelf(t, map[string]string{"microbit.json": board})
}

// TestChecksumDecidesUnreadableFlash: if no programmer can read back the flash of an image's parameters, the firmware's
// checksum decides what is written there.
func TestChecksumDecidesUnreadableFlash(t *testing.T) {
	if !drawn.InFull() {
		t.Skip("only in a full run: it flashes an emulated chip four times; package flashplan tests the decisions")
	}
	t.Parallel()
	d := deskWith(t, otherFlashShelf(t, twoFlashes), "microbit", "openocd")
	i := d.imageOf(mlftest.Path(t, "sine.aot_packed"), boards.Options{})
	dev := d.attach()
	ctx := t.Context()
	r, err := dev.Flash(ctx, i)
	must(t, err)
	if flash := d.flash(); len(bytes.Trim(flash[otherFlash:], "\xff")) == 0 || r.Sectors < 3 || !r.Verified {
		t.Errorf("nothing is in the other flash: %+v", r)
	}
	if r, err = dev.Flash(ctx, i); err != nil || r.Erased != 0 {
		t.Errorf("again: %+v, %v", r, err)
	}
	dev.Close()
	d.damage(otherFlash + 8)
	dev = d.attach()
	r, err = dev.Flash(ctx, i)
	must(t, err)
	if !strings.Contains(r.Reason, "flash has changed since it was built") || r.Erased == 0 || !r.Verified {
		t.Errorf("after damage: %+v", r)
	}
	d.mustHold(i)
	before := d.flash()[otherFlash:]
	must(t, last(dev.Erase(ctx)))
	if after := d.flash(); len(bytes.Trim(after[:otherFlash], "\xff")) > 0 || !bytes.Equal(after[otherFlash:], before) {
		t.Error("erasing left the first flash, or erased the one whose contents it cannot check")
	}
}

// damage stops the emulated chip and inverts a byte of its flash.
func (d *desk) damage(at int) {
	d.t.Helper()
	data, dir := d.flash(), device.EmulatedDir(d.state, d.board)
	must(d.t, chipkeeper.Down(context.Background(), dir))
	name := filepath.Join(dir, "flash.bin")
	data[at] ^= 0xFF
	writeFile(d.t, name, string(data))
}

// TestRegionNamesProgrammer: a region is written only by a programmer that it names, which a dry run, too, checks.
func TestRegionNamesProgrammer(t *testing.T) {
	t.Parallel()
	const named = `, "verify": "firmware", "programmer": "openocd"`
	d := deskWith(t, otherFlashShelf(t, strings.Replace(twoFlashes, named, "", 1)), "microbit", "openocd")
	i, dev := d.imageOf(mlftest.Path(t, "sine.aot_packed"), boards.Options{}), d.attach()
	for _, err := range []error{
		last(dev.Flash(t.Context(), i)), last(d.env.desk().FlashCommands(t.Context(), dev.Board(), "", i)),
	} {
		wantError(t, err, failure.Config, "names no programmer")
	}
}
