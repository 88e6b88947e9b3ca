//go:build !windows

package device_test

import (
	"bytes"
	"errors"
	"fmt"
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
	"github.com/boardsmith/boardsmith/device/internal/ledger"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/flasher"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/internal/chipkeeper"
	"github.com/boardsmith/boardsmith/internal/testkit/drawn"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
)

// TestFlashAfterForeignChanges: the next flash is right after any change of the board by others, and after any loss of
// the ledger.
func TestFlashAfterForeignChanges(t *testing.T) {
	t.Parallel()
	d := newDesk(t, "microbit", "openocd")
	images := [2]*image.Image{
		d.image(boards.Options{}),
		d.image(boards.Options{OperatorOpt: "O0"}),
	}
	d.startFlashed(images[0])
	dir := filepath.Join(d.state, "ledger")
	files := func() []string {
		list, err := filepath.Glob(filepath.Join(dir, "*.json"))
		must(t, err)
		return list
	}
	for n, c := range drawn.Of(t, "foreign changes", []struct {
		name string
		do   func()
	}{
		{"another tool erased it", func() { d.request(chipkeeper.Request{Do: "erase"}) }},
		{"another chip is on the same port", func() { d.request(chipkeeper.Request{Do: "swap"}) }},
		{"the ledger is truncated", func() {
			for _, f := range files() {
				must(t, os.Truncate(f, 100))
			}
		}},
		{"the ledger is invalid", func() {
			for _, f := range files() {
				writeFile(t, f, "{\"format\":1,\"device\":7}")
			}
		}},
		{"the ledger was removed", func() { must(t, os.RemoveAll(dir)) }},
		{"the ledger has the image, the chip is blank", func() {
			d.request(chipkeeper.Request{Do: "erase"})
			l := ledger.New(dir)
			all, err := l.List()
			must(t, err)
			b, err := boards.Find(d.board, d.env.Path)
			must(t, err)
			img, err := flashplan.ContentOf(b, images[1])
			must(t, err)
			for _, e := range all {
				e.Dirty, e.Image, e.BuildID = false, images[1].Digest, images[1].ID()
				for _, s := range img.Sectors {
					e.Sector(s.Addr, s.Size).Digest = s.Digest
				}
				must(t, l.Save(e))
			}
		}},
		{"the chip was without power", func() {
			must(t, chipkeeper.Down(t.Context(), device.EmulatedDir(d.state, d.board)))
		}},
	}, 2) {
		t.Run(c.name, func(t *testing.T) {
			c.do()
			if err := d.flashAndOpen(images[(n+1)%2]); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestFlashRepairsChangedByte: if another tool changed one byte, the firmware answers with its build id and another
// CRC, and the next flash writes it.
func TestFlashRepairsChangedByte(t *testing.T) {
	t.Parallel()
	d := newDesk(t, "microbit", "openocd")
	i := d.image(boards.Options{})
	d.startFlashed(i)
	dev := d.attach()
	changeLastByte(t, dev, i)
	r, err := dev.Flash(t.Context(), i)
	must(t, err)
	d.mustHold(i)
	if !strings.Contains(r.Reason, "has changed since it was built") || r.Erased == 0 {
		t.Errorf("%+v", r)
	}
}

// TestInterruptedSectorIsRewritten: a sector whose write was interrupted may read right once: it is erased and written
// again.
func TestInterruptedSectorIsRewritten(t *testing.T) {
	t.Parallel()
	d := newDesk(t, "microbit", "openocd")
	i := d.image(boards.Options{})
	d.startFlashed(i)
	book := ledger.New(filepath.Join(d.state, "ledger"))
	begin := func(n int) {
		all, err := book.List()
		must(t, err)
		all[0].Dirty, all[0].Image, all[0].BuildID = true, "", ""
		all[0].Sectors[n].Erases++
		all[0].Sectors[n].Digest = ""
		must(t, book.Save(all[0]))
	}
	erases := func(n int) int { return d.request(chipkeeper.Request{Do: "status"}).State.Erases[n] }
	for _, c := range []struct {
		name string
		do   func(*device.Device) (device.FlashReport, error)
	}{
		{"flash", func(dev *device.Device) (device.FlashReport, error) { return dev.Flash(t.Context(), i) }},
		{"erase", func(dev *device.Device) (device.FlashReport, error) { return dev.Erase(t.Context()) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.name == "erase" {
				d.request(chipkeeper.Request{Do: "erase"})
			}
			begin(3)
			before := erases(3)
			dev := d.attach()
			r, err := c.do(dev)
			must(t, dev.Close())
			if err != nil || erases(3) != before+1 {
				t.Errorf("%d erases of the sector, want 1: %+v, %v", erases(3)-before, r, err)
			}
			if c.name == "erase" { // a blank chip is unidentified: its entry is updated when it answers
				if err := d.flashAndOpen(i); err != nil {
					t.Error(err)
				}
			}
			if after := d.onlyEntry(); after.Dirty || after.Sectors[3].Digest == "" {
				t.Errorf("the ledger still has it as interrupted: %+v", after)
			}
		})
	}
}

// TestOpenRefusesChangedFlash: no session opens with a build whose bytes in flash have changed.
func TestOpenRefusesChangedFlash(t *testing.T) {
	t.Parallel()
	d := newDesk(t, "microbit", "openocd")
	i := d.image(boards.Options{})
	d.startFlashed(i)
	dev := d.attach()
	changeLastByte(t, dev, i)
	_, err := dev.Open(t.Context(), i)
	wantError(t, err, failure.Verify, "runs build "+i.ID()+", but its flash has")
}

// TestOpenRefusesOtherChip: no session opens with another chip than the one that was flashed.
func TestOpenRefusesOtherChip(t *testing.T) {
	t.Parallel()
	d := newDesk(t, "microbit", "openocd")
	i := d.image(boards.Options{})
	d.startFlashed(i)
	dev := d.attach()
	*dev.Chip() = "0123" // the id of the flashed chip
	if _, err := dev.Open(t.Context(), i); !isWrongBoard(err) || !strings.Contains(err.Error(), "not 0123") {
		t.Errorf("a session opened: %v", err)
	}
}

// changeLastByte changes the image's last byte in flash, without the ledger.
func changeLastByte(t *testing.T, dev *device.Device, i *image.Image) {
	t.Helper()
	img, err := flashplan.ContentOf(dev.Board(), i)
	must(t, err)
	s := img.Sectors[len(img.Sectors)-1] // of the model
	data := bytes.Clone(s.Data)
	last := len(bytes.TrimRight(data, string([]byte{flashplan.Erased}))) - 1
	data[last] ^= 0x10
	must(t, dev.Programmer().Do(t.Context(),
		flasher.Job{Erase: []boards.Sector{s.Sector}, Write: []flasher.Segment{{Addr: s.Addr, Data: data}}, Restart: true}))
}

// TestFlashRefusesOtherKindOfChip: a chip of another kind than in the board file is not erased, unless that is forced.
func TestFlashRefusesOtherKindOfChip(t *testing.T) {
	t.Parallel()
	for _, tool := range programmers() {
		d := newDesk(t, "netduinoplus2", tool)
		i := d.image(boards.Options{})
		dev := d.attach()
		chip := dev.Board().Identification
		dev.Board().Identification.Values = []boards.Number{0x413, 0x411} // not of the board's chip
		dev.ProgrammerConfig().Chip = dev.Board().Identification
		_, err := dev.Flash(t.Context(), i)
		if !errors.Is(err, flasher.ErrOtherChip) || !strings.Contains(err.Error(), "masked value 0x441") ||
			failure.Of(err) != failure.Flash {
			t.Errorf("%s: %v", tool, err)
		}
		if n := len(d.request(chipkeeper.Request{Do: "status"}).State.Erases); n != 0 {
			t.Errorf("%s: it was erased", tool)
		}
		wear, err := d.env.desk().Wear()
		if err != nil || len(wear) != 1 || wear[0].Dirty || len(wear[0].Sectors) > 0 {
			t.Errorf("%s: the ledger has %+v, %v", tool, wear, err)
		}
		dev.ProgrammerConfig().Chip = chip
		if _, err := dev.Flash(t.Context(), i); err != nil {
			t.Errorf("%s: the right one: %v", tool, err)
		}
	}
}

// TestFlashAcceptsSwappedChip: if a chip is swapped between two flashes, the new one is flashed, unless desk.json names
// the expected chip.
func TestFlashAcceptsSwappedChip(t *testing.T) {
	t.Parallel()
	d := newDesk(t, "microbit", "openocd")
	i := d.image(boards.Options{})
	dev := d.attach()
	for range 2 {
		if _, err := dev.Flash(t.Context(), i); err != nil {
			t.Error(err)
		}
		d.mustHold(i)
		d.request(chipkeeper.Request{Do: "swap"})
	}
}

// TestFlashRefusesOtherBoard: a device that is another board by desk.json, the ledger or its firmware is neither
// flashed nor erased, unless that is forced; nothing is written to it.
func TestFlashRefusesOtherBoard(t *testing.T) {
	t.Parallel()
	d := newDesk(t, "microbit", "openocd")
	i := d.image(boards.Options{})
	d.startFlashed(i)
	before := d.request(chipkeeper.Request{Do: "status"}).State.Erases
	probe := chipkeeper.SerialOf(device.EmulatedDir(d.state, d.board))
	mustRefuse := func(name, want string) {
		t.Helper()
		dev := d.attach()
		_, err := dev.Flash(t.Context(), i)
		_, erased := dev.Erase(t.Context())
		must(t, dev.Close())
		for _, err := range []error{err, erased} {
			if !isWrongBoard(err) || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	d.env.File = &device.DeskFile{Devices: []device.DeskDevice{{Name: "n1", Board: "nucleo_f401re", Probe: probe}}}
	mustRefuse("desk.json", "n1, a board nucleo_f401re")
	d.env.File = nil

	book := ledger.New(filepath.Join(d.state, "ledger"))
	all, err := book.List()
	must(t, err)
	saved := all[0]
	all[0].Board = "nucleo_f401re"
	must(t, book.Save(all[0]))
	mustRefuse("the ledger", "board nucleo_f401re")
	d.request(chipkeeper.Request{Do: "erase"})
	mustRefuse("the ledger, by its probe", "a board nucleo_f401re was behind")
	if after := d.request(chipkeeper.Request{Do: "status"}).State.Erases; !slices.Equal(after, before) {
		t.Errorf("it was erased: %v, before %v", after, before)
	}
	dev := d.attach()
	dev.Desk().Reflash = true
	if _, err := dev.Flash(t.Context(), i); err != nil {
		t.Errorf("forced: %v", err)
	}
	must(t, dev.Close())
	must(t, book.Save(saved))
	d.mustFlash(i) // the ledger has the board again
}

// TestFlashWithTwoLedgers: two computers with a ledger each share a board: each flash is right after one of the other,
// also after one that was killed.
func TestFlashWithTwoLedgers(t *testing.T) {
	t.Parallel()
	first := newDesk(t, "microbit", "openocd")
	second := *first
	second.state = t.TempDir()
	second.env.StateDir = second.state
	must(t, os.Symlink(filepath.Join(first.state, "emulated"), filepath.Join(second.state, "emulated")))
	one, two := first.image(boards.Options{}),
		first.image(boards.Options{OperatorOpt: "O0"})
	first.startFlashed(one)
	second.mustFlash(two)
	first.mustFlash(one)
	second.mustFlash(two)
	for _, after := range drawn.Of(t, "kills beside another ledger", []int{400, 900, 1400}, 1) {
		first.disturbFlash(killPoint{hostKilled, after}, one)
		first.request(chipkeeper.Request{Do: "faults", Faults: &chipkeeper.Faults{}})
		second.mustFlash(two) // its ledger has the image two, clean
	}
}

// TestFlashReportsWeakCell: a cell that cannot be programmed is an error of class verify or flash, the ledger is dirty,
// and no session opens.
func TestFlashReportsWeakCell(t *testing.T) {
	t.Parallel()
	d := newDesk(t, "microbit", "openocd")
	one, two := d.image(boards.Options{}),
		d.image(boards.Options{OperatorOpt: "O0"})
	d.startFlashed(one)
	b, err := boards.Find(d.board, d.env.Path)
	must(t, err)
	img, err := flashplan.ContentOf(b, two)
	must(t, err)
	last := img.Sectors[len(img.Sectors)-1]
	weak := map[uint32]byte{}
	for i, v := range last.Data {
		if v != flashplan.Erased {
			weak[uint32(last.Addr)+uint32(i)] = 1 << trailingOnes(v) // a zero that stays one
			break
		}
	}
	d.request(chipkeeper.Request{Do: "faults", Faults: &chipkeeper.Faults{Weak: weak}})
	dev := d.attach()
	_, err = dev.Flash(t.Context(), two)
	if c := failure.Of(err); c != failure.Verify && c != failure.Flash {
		t.Errorf("class %v: %v", c, err)
	}
	all, err := ledger.New(filepath.Join(d.state, "ledger")).List()
	must(t, err)
	dirty, failures := false, 0
	for _, e := range all {
		dirty = dirty || e.Dirty
		failures += e.Failures
	}
	if !dirty || failures == 0 {
		t.Errorf("the ledger has dirty %v, %d failures", dirty, failures)
	}
	if s, err := dev.Open(t.Context(), two); err == nil {
		s.Close(t.Context())
		t.Error("a session opened with a damaged image")
	}
}

// TestFlashReportsStuckErase: a sector that no longer erases is an error, and the ledger does not mark the board as
// clean.
func TestFlashReportsStuckErase(t *testing.T) {
	t.Parallel()
	for _, tool := range programmers() {
		t.Run(tool, func(t *testing.T) {
			d := newDesk(t, "microbit", tool)
			one, two := d.image(boards.Options{}),
				d.image(boards.Options{OperatorOpt: "O0"})
			d.startFlashed(one)
			stuck := map[int]bool{}
			for page := range nrfPages {
				stuck[page] = true
			}
			d.request(chipkeeper.Request{Do: "faults", Faults: &chipkeeper.Faults{Stuck: stuck}})
			err := d.flashAndOpen(two)
			if c := failure.Of(err); c != failure.Verify && c != failure.Flash {
				t.Errorf("class %v: %v", c, err)
			}
			if err := d.checkLedger([2]*image.Image{one, two}); err != nil {
				t.Error(err)
			}
			d.request(chipkeeper.Request{Do: "faults", Faults: &chipkeeper.Faults{}})
			d.mustFlash(two)
		})
	}
}

const nrfPages = 256 // of an nRF51822's flash

// TestConcurrentFlashesExclude: two processes that flash one board exclude each other: one waits or fails, and the
// board holds all of one image.
func TestConcurrentFlashesExclude(t *testing.T) {
	t.Parallel()
	d := newDesk(t, "microbit", "openocd")
	images := [2]*image.Image{
		d.image(boards.Options{}),
		d.image(boards.Options{OperatorOpt: "O0"}),
	}
	d.startFlashed(images[0])
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
	clients := func() int64 {
		a, err := chipkeeper.Ask(t.Context(), device.EmulatedDir(d.state, d.board), chipkeeper.Request{Do: "status"})
		must(t, err)
		return a.Clients
	}
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

func trailingOnes(v byte) (n int) {
	for v&1 == 1 {
		v >>= 1
		n++
	}
	return n
}

// TestFlashRespectsWearBudget: wear is counted. Near the rated life there is a warning, and at its end an error, unless
// the flash is forced.
func TestFlashRespectsWearBudget(t *testing.T) {
	t.Parallel()
	d := newDesk(t, "microbit", "openocd")
	text := readFile(t, filepath.Join(d.env.Path[0], "boards", "microbit.json"))
	writeFile(t, filepath.Join(d.env.Path[0], "boards", "microbit.json"), strings.Replace(string(text), `"erase_cycles": 20000`, `"erase_cycles": 3`, 1))
	images := [2]*image.Image{
		d.image(boards.Options{}),
		d.image(boards.Options{OperatorOpt: "O0"}),
	}
	d.startFlashed(images[0])
	dev := d.attach()
	for n := 1; n < 3; n++ {
		r, err := dev.Flash(t.Context(), images[n%2])
		must(t, err)
		if warned := len(r.Warnings) > 0; warned != (n == 2) {
			t.Errorf("flash %d warned: %q", n, r.Warnings)
		}
	}
	_, err := dev.Flash(t.Context(), images[1])
	if w := (*device.WearError)(nil); !errors.As(err, &w) {
		t.Fatalf("a worn sector: %v", err)
	}
	d.mustHold(images[0]) // no erase was begun
	dev.Desk().Reflash = true
	if _, err := dev.Flash(t.Context(), images[1]); err != nil {
		t.Error(err)
	}
}

// TestOnlyBegunErasesAreCounted: erases that never began are not counted: if the tool is missing, the probe is
// unplugged, or the power fails before them. An entry stays clean if no erase began.
func TestOnlyBegunErasesAreCounted(t *testing.T) {
	t.Parallel()
	for _, tool := range programmers() {
		t.Run(tool, func(t *testing.T) {
			d := newDesk(t, "microbit", tool)
			one, two := d.image(boards.Options{}),
				d.image(boards.Options{RuntimeOpt: "O2"})
			d.startFlashed(one)
			entry := func() ledger.Entry {
				all, err := ledger.New(filepath.Join(d.state, "ledger")).List()
				must(t, err)
				return all[0]
			}
			counted := func(list []ledger.SectorEntry) (n int) {
				for _, s := range list {
					n += s.Erases
				}
				return n
			}
			actual := func() (n int) {
				for _, e := range d.request(chipkeeper.Request{Do: "status"}).State.Erases {
					n += e
				}
				return n
			}
			clean := entry()
			find := d.env.Tool
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
			d.request(chipkeeper.Request{Do: "faults", Faults: &chipkeeper.Faults{UnplugAfter: 1}})
			fails()
			got := entry()
			if got.Dirty || got.Image != one.Digest || got.Flashes != clean.Flashes ||
				!slices.Equal(got.Sectors, clean.Sectors) || r.Erased != 0 || r.Wrote != 0 {
				t.Errorf("%+v, was %+v; %+v", got, clean, r)
			}
			if got.Failures != clean.Failures+2 {
				t.Errorf("%d failures", got.Failures)
			}
			d.request(chipkeeper.Request{Do: "faults", Faults: &chipkeeper.Faults{
				Cut: &chipkeeper.Cut{Erase: true, After: 5, Seed: 1},
			}})
			r = fails()
			if n, erased := counted(entry().Sectors), actual(); n < erased || n > erased+1 || r.Erased >= r.Sectors ||
				!entry().Dirty {
				t.Errorf("%d erases are counted, %d were made; %+v", n, erased, r)
			}
			must(t, dev.Close())
			d.mustFlash(two)
			if n, erased := counted(entry().Sectors), actual(); n < erased || n > erased+1 {
				t.Errorf("%d erases are counted, %d were made", n, erased)
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
	start := time.Now()
	var images []*image.Image
	for n := range different {
		operator := strings.Replace(mlftest.TinyOperator, "in[i] * 2", fmt.Sprintf("in[i] * %d", 3+n), 1)
		images = append(images, d.imageOf(mlftest.Operator(t, operator),
			boards.Options{}))
	}
	dev := d.attach()
	whole := 0
	for n := range requests {
		i := images[n*7%different]
		r, err := dev.Flash(t.Context(), i)
		if err != nil {
			t.Fatalf("request %d: %v", n, err)
		}
		whole += r.Sectors
		if n == 0 {
			d.request(chipkeeper.Request{Do: "status"})
		}
	}
	d.mustHold(images[(requests-1)*7%different])
	erases, worst := 0, 0
	for _, n := range d.request(chipkeeper.Request{Do: "status"}).State.Erases {
		erases += n
		worst = max(worst, n)
	}
	t.Logf("%d requests over %d images in %v: %d sector erases, %d of the most worn sector; a whole-image flasher: %d, %d",
		requests, different, time.Since(start).Round(time.Second), erases, worst, whole, requests)
	if erases*2 > whole {
		t.Errorf("%d erases, more than half of a whole-image flasher's %d", erases, whole)
	}
	all, err := ledger.New(filepath.Join(d.state, "ledger")).List()
	must(t, err)
	counted := 0
	for _, e := range all {
		for _, s := range e.Sectors {
			counted += s.Erases
		}
	}
	if counted != erases {
		t.Errorf("the ledger counts %d erases, the chip %d", counted, erases)
	}
}
