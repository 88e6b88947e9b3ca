package ledger

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit"
)

var (
	must       = testkit.Must
	wantError  = testkit.WantError
	wantEqual  = testkit.WantEqual
	wantResult = testkit.WantResult
	wantLen    = testkit.WantLen
	wantIs     = testkit.WantIs
	last       = testkit.Last
	writeFile  = testkit.WriteFile
	readFile   = testkit.ReadFile
)

func sample() Entry {
	e := Entry{Device: "probe:SN/1 %", Board: "b", Image: "aa", Verified: time.Unix(1e9, 0).UTC(), Flashes: 3}
	for _, a := range []uint64{4096, 0, 2048} {
		s := e.Sector(a, 1024)
		s.Erases++
	}
	e.Sector(0, 1024).Erases++
	return e
}

// TestLedger: an entry is read as it was written. The ledger's folder may have any name.
func TestLedger(t *testing.T) {
	for _, name := range []string{"not/there", "[", "a[b]c", "*", "?\\"} {
		if runtime.GOOS == "windows" && strings.ContainsAny(name, "*?") {
			continue // Windows does not allow such names
		}
		l, e := New(filepath.Join(t.TempDir(), name)), sample()
		unknown := Entry{Format: ledgerFormat, Device: e.Device}
		wantResult(t, unknown, "of an unknown device")(l.Load(e.Device))
		must(t, l.Save(e))
		e.Format = ledgerFormat
		wantResult(t, []Entry{e}, name, e)(l.List())
	}
}

// List returns an error if a file cannot be read, and skips only damaged files.
func TestUnreadableLedger(t *testing.T) {
	dir := t.TempDir()
	l := New(dir)
	must(t, l.Save(sample()))
	writeFile(t, filepath.Join(dir, "damaged.json"), "{")
	wantLen(t, 1, "beside a damaged file")(l.List())
	wantError(t, last(New(filepath.Join(dir, "damaged.json")).List()), "")
	err := New(filepath.Join(dir, "damaged.json")).Save(sample())
	if failure.Of(err) != failure.Config || failure.Next(err) == "" {
		t.Errorf("to a file in the folder's place: %v; %s", err, failure.Next(err))
	}
	must(t, os.Mkdir(filepath.Join(dir, "folder.json"), 0o755))
	wantLen(t, 1, "beside a folder")(l.List())
	loop := filepath.Join(dir, "loop.json")
	if err := os.Symlink(loop, loop); err != nil {
		t.Skipf("a file that cannot be read cannot be made here: %v", err)
	}
	wantError(t, last(l.List()), "", loop)
}

// Any damaged file is read as a whole or put aside.
func TestDamagedLedger(t *testing.T) {
	dir := t.TempDir()
	l := New(dir)
	e := sample()
	must(t, l.Save(e))
	good := readFile(t, l.path(e.Device))
	for n := range len(good) - 2 { // all but the last brace and line end
		writeFile(t, l.path(e.Device), string(good[:n]))
		got, err := l.Load(e.Device)
		if err != nil || got.Lost == "" || got.Image != "" {
			t.Fatalf("cut at %d: %+v, %v", n, got, err)
		}
		must(t, last(os.Stat(got.Lost)))
	}
	for _, swap := range [][2]string{
		{`"format": 1`, `"format": 2`},
		{`"addr": 2048`, `"addr": 18446744073709551615`},
		{`"erases": 2`, `"erases": -2`},
		{`"size": 1024`, `"size": 0`},
		{`SN/1`, `SN/2`},
		{`"dirty"`, `"dusty"`},
	} {
		writeFile(t, l.path(e.Device), strings.Replace(string(good), swap[0], swap[1], 1))
		if got, err := l.Load(e.Device); err != nil || got.Lost == "" {
			t.Errorf("%s was accepted: %+v, %v", swap[1], got, err)
		}
	}
}

// counts returns the entry's erase count of each byte up to end; sectors must be sorted and disjoint.
func counts(t *testing.T, e Entry, end uint64) []int {
	t.Helper()
	list := make([]int, end)
	at := uint64(0)
	for _, s := range e.Sectors {
		if s.Addr < at || s.Size == 0 {
			t.Fatalf("sectors %+v", e.Sectors)
		}
		for at = s.Addr; at < s.End(); at++ {
			list[at] = s.Erases
		}
	}
	return list
}

// Whatever sector sizes are used over time, a byte's count is never lower than its erases, and never decreases.
func TestCountsOutlastSectorSizes(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		e := Entry{Device: "chip:1"}
		erased := make([]int, 64)
		for step := range 40 {
			size := uint64(1) << random.IntN(6)
			addr := size * random.Uint64N(64/size)
			before := counts(t, e, 64)
			e.Sector(addr, size).Erases++
			for i := addr; i < addr+size; i++ {
				erased[i]++
			}
			for i, n := range counts(t, e, 64) {
				if n < erased[i] || n < before[i] || n > step+1 {
					t.Fatalf("byte %d: %d erases, before %d, in truth %d: %+v", i, n, before[i], erased[i], e.Sectors)
				}
			}
		}
		l := New(t.TempDir())
		must(t, l.Save(e))
		if got, err := l.Load(e.Device); err != nil || got.Lost != "" || !reflect.DeepEqual(got.Sectors, e.Sectors) {
			t.Fatalf("read back: %+v, %v", got, err)
		}
	}
}

// Old files with overlapping sectors keep their counts.
func TestOverlappingSectors(t *testing.T) {
	l := New(t.TempDir())
	e := Entry{Device: "chip:1", Sectors: []SectorEntry{
		{0, 4096, "aa", 40000},
		{1024, 1024, "bb", 7},
		{4096, 4096, "cc", 2},
	}}
	must(t, l.Save(e))
	got, err := l.Load("chip:1")
	want := []SectorEntry{{0, 1024, "", 40000}, {1024, 1024, "", 40000}, {2048, 2048, "", 40000}, {4096, 4096, "cc", 2}}
	if err != nil || got.Lost != "" || !reflect.DeepEqual(got.Sectors, want) {
		t.Errorf("%+v, %v", got, err)
	}
}

// Counts of the probe's entry are added to the chip's, once; the content comes from the later entry.
func TestAdopt(t *testing.T) {
	sooner, later := time.Unix(1e9, 0).UTC(), time.Unix(2e9, 0).UTC()
	sectors := func(digest string, erases ...int) (list []SectorEntry) {
		for i, n := range erases {
			list = append(list, SectorEntry{uint64(i) * 1024, 1024, digest, n})
		}
		return list
	}
	chip := Entry{Device: "chip:1", Image: "i1", BuildID: "b1", Seen: sooner, Flashes: 3, Sectors: sectors("d1", 10, 4)}
	probe := Entry{
		Device: "probe:1", Image: "i2", BuildID: "b2", Dirty: true, Seen: later, Flashes: 2, Failures: 1,
		Sectors: sectors("d2", 7, 0, 5),
	}
	got := chip
	got.Sectors = slices.Clone(chip.Sectors)
	got.Adopt(probe)
	got.Adopt(probe) // after a crash before the other entry was removed
	want := Entry{
		Device: "chip:1", Image: "i2", BuildID: "b2", Dirty: true, Seen: sooner, Adopted: later, Flashes: 5, Failures: 1,
		Sectors: sectors("d2", 17, 4, 5),
	}
	wantEqual(t, got, want)
	got = chip
	got.Sectors = sectors("", 10, 4)
	got.Adopt(probe)
	want.Sectors = []SectorEntry{{0, 1024, "d2", 17}, {1024, 1024, "", 4}, {2048, 1024, "d2", 5}}
	wantEqual(t, got.Sectors, want.Sectors, "a sector being changed that was not erased since")
	got = probe
	got.Sectors = slices.Clone(probe.Sectors[:2])
	got.Adopt(chip)
	if got.Image != "i2" || !got.Dirty || !reflect.DeepEqual(got.Sectors, sectors("d2", 17, 4)) {
		t.Errorf("the older one adopted: %+v", got)
	}
}

// When Save or Remove returns, names are synced to the disk, also those of new folders.
func TestLedgerSyncsFolder(t *testing.T) {
	home := t.TempDir()
	dir := filepath.Join(home, "state", "boardsmith", "ledger")
	l := New(dir)
	broken := errors.New("broken disk")
	var synced []string
	l.sync = func(d string) error {
		files, _ := filepath.Glob(filepath.Join(dir, "*.json"))
		synced = append(synced, fmt.Sprint(filepath.Base(d), len(files)))
		return syncDir(d)
	}
	must(t, l.Save(sample()))
	must(t, l.Remove(sample().Device))
	wantEqual(t, synced, []string{filepath.Base(home) + "0", "state0", "boardsmith0", "ledger1", "ledger0"}, "synced")
	l.sync = func(string) error { return broken }
	deeper := &Ledger{filepath.Join(dir, "new"), l.sync}
	wantIs(t, deeper.Save(sample()), broken, "save into a new folder")
	wantIs(t, l.Save(sample()), broken, "save")
	wantIs(t, l.Remove(sample().Device), broken, "remove")
}

// The longest file that is read is as long as the limit; one byte more is damage.
func TestLongestLedger(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger")
	for _, c := range []struct {
		size int64
		err  error
	}{{maxLedgerBytes, nil}, {maxLedgerBytes + 1, errDamaged}} {
		must(t, errors.Join(os.WriteFile(path, nil, 0o644), os.Truncate(path, c.size)))
		if data, err := readBounded(path); !errors.Is(err, c.err) || err == nil && int64(len(data)) != c.size {
			t.Errorf("%d bytes: %d were read, %v", c.size, len(data), err)
		}
	}
}
