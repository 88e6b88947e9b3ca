//go:build !windows

package device_test

import (
	"bytes"
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
	"github.com/boardsmith/boardsmith/internal/testkit/drawn"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
)

// TestFlashAfterForeignChanges: the next flash is right after any change of the board by others, and after any loss of
// the ledger.
func TestFlashAfterForeignChanges(t *testing.T) {
	t.Parallel()
	d, one, two := flashedMicrobit(t, "openocd")
	images := [2]*image.Image{one, two}
	dir := filepath.Join(d.state, "ledger")
	for n, c := range drawn.Of(t, "foreign changes", []struct {
		name string
		do   func()
	}{
		{"the ledger is truncated", func() {
			files, err := filepath.Glob(filepath.Join(dir, "*.json"))
			must(t, err)
			for _, f := range files {
				must(t, os.Truncate(f, 100))
			}
		}},
		{"the ledger was removed", func() { must(t, os.RemoveAll(dir)) }},
		{"the ledger has the image, the chip is blank", func() {
			d.request(chipkeeper.Request{Do: "erase"})
			for _, e := range d.entries() {
				e.Dirty, e.Image, e.BuildID = false, images[1].Digest, images[1].ID()
				for _, s := range d.sectors(images[1]) {
					e.Sector(s.Addr, s.Size).Digest = s.Digest
				}
				d.saveEntry(e)
			}
		}},
	}, 2) {
		t.Run(c.name, func(t *testing.T) {
			c.do()
			must(t, d.flashAndOpen(images[(n+1)%2]))
		})
	}
}

// TestFlashRepairsChangedByte: if another tool changed one byte, the firmware answers with its build id and another
// CRC: no session opens, and the next flash writes it.
func TestFlashRepairsChangedByte(t *testing.T) {
	t.Parallel()
	d, i, _ := flashedMicrobit(t, "openocd")
	dev := d.attach()
	d.changeLastByte(dev, i)
	wantError(t, last(dev.Open(t.Context(), i)), failure.Verify, "runs build "+i.ID()+", but its flash has")
	r, err := dev.Flash(t.Context(), i)
	must(t, err)
	d.mustHold(i)
	if !strings.Contains(r.Reason, "has changed since it was built") || r.Erased == 0 {
		t.Errorf("%+v", r)
	}
}

// TestEraseRepeatsInterruptedSector: a sector whose write was interrupted may read as blank once: it is erased again.
func TestEraseRepeatsInterruptedSector(t *testing.T) {
	t.Parallel()
	d, i, _ := flashedMicrobit(t, "openocd")
	d.request(chipkeeper.Request{Do: "erase"})
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
	err := last(d.attach().Flash(t.Context(), d.image(boards.Options{})))
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
	mustRefuse := func(want string) {
		t.Helper()
		dev := d.attach()
		for _, err := range []error{last(dev.Flash(t.Context(), i)), last(dev.Erase(t.Context()))} {
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
	d.request(chipkeeper.Request{Do: "erase"}) // now it is behind that board's probe only
	mustRefuse("a board nucleo_f401re was behind")
	if after := d.status().State.Erases; !slices.Equal(after, before) {
		t.Errorf("it was erased: %v, before %v", after, before)
	}
	dev := d.attach()
	dev.Desk().Reflash = true
	must(t, last(dev.Flash(t.Context(), i)))
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
			err := last(dev.Flash(t.Context(), two))
			if c := failure.Of(err); c != failure.Verify && c != failure.Flash {
				t.Errorf("class %v: %v", c, err)
			}
			if e := d.onlyEntry(); !e.Dirty || e.Failures == 0 {
				t.Errorf("the ledger has dirty %v, %d failures", e.Dirty, e.Failures)
			}
			if s, err := dev.Open(t.Context(), two); err == nil {
				s.Close(t.Context())
				t.Error("a session opened with a damaged image")
			}
			must(t, dev.Close())
			d.setFaults(chipkeeper.Faults{})
			d.mustFlash(two)
		})
	}
}

const nrfPages = 256 // of an nRF51822's flash

// TestConcurrentFlashesExclude: two processes that flash one board exclude each other: one waits or fails, and the
// board holds all of one image.
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
		if err := d.checkLedger(images); err != nil {
			t.Errorf("round %d: %v", round, err)
		}
	}
	dev := d.attach()
	cmd := d.job(images[0])
	cmd.Env = append(cmd.Env, "PROJECT_TEST_WAIT=0s")
	if output, err := cmd.CombinedOutput(); err == nil ||
		!bytes.Contains(output, fmt.Appendf(nil, "is in use by process %d", os.Getpid())) {
		t.Errorf("while this process leases it: %v\n%s", err, output)
	}
	must(t, dev.Close())
	d.mustFlash(images[1])
}

// TestAttachedChipRuns: from Attach to Close an emulated chip has a client, without which it ends by itself.
func TestAttachedChipRuns(t *testing.T) {
	t.Parallel()
	d := newDesk(t, "microbit", "openocd")
	clients := func() int64 { return d.status().Clients }
	dev := d.attach()
	if n := clients(); n != 1 {
		t.Errorf("%d clients while a device is attached", n)
	}
	must(t, dev.Close())
	for deadline := time.Now().Add(time.Minute); clients() != 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("a client after Close")
		}
	}
}

// TestOnlyBegunErasesAreCounted: erases that never began are not counted: if the tool is missing, the probe is
// unplugged, or the power fails before them. An entry stays clean if no erase began.
func TestOnlyBegunErasesAreCounted(t *testing.T) {
	t.Parallel()
	for _, tool := range programmers() {
		t.Run(tool, func(t *testing.T) {
			d, one, _ := flashedMicrobit(t, tool)
			two := d.image(boards.Options{RuntimeOpt: "O2"}) // many sectors differ
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
				if err == nil {
					t.Errorf("it succeeded: %+v", r)
				}
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

// TestFlashesEraseLittle: many flashes of ten images of one model, of three in a plain run, erase less than half of
// what a flasher of complete images would.
func TestFlashesEraseLittle(t *testing.T) {
	t.Parallel()
	requests, different := drawn.Count(5, 1000), drawn.Count(3, 10)
	d := newDesk(t, "microbit", "openocd")
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
		if err != nil {
			t.Fatalf("request %d: %v", n, err)
		}
		whole += r.Sectors
	}
	d.mustHold(images[(requests-1)*7%different])
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
