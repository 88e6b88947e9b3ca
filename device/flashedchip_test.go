package device

import (
	"encoding/hex"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/device/internal/desk"
	"github.com/boardsmith/boardsmith/device/internal/flashplan"
	"github.com/boardsmith/boardsmith/device/internal/ledger"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/flasher"
	"github.com/boardsmith/boardsmith/image"
)

// deviceBehind is a device with a ledger, behind the probe with a serial.
func deviceBehind(l *ledger.Ledger, serial string) *Device {
	return &Device{
		board: &boards.Board{Name: "microbit"}, ledger: l,
		attachment: &desk.Attachment{Probe: flasher.Probe{Serial: serial}},
	}
}

// TestProbeEntryStaysIfAmbiguous: the record under the probe is moved to the chip that answers. It also stays under the
// probe if the chip's own entry already has its build, because the silent chip may then have been another one.
func TestProbeEntryStaysIfAmbiguous(t *testing.T) {
	l := ledger.New(t.TempDir())
	answer := &flashplan.Answer{BuildID: [16]byte{1}, Chip: "c1"}
	chip := ledger.Entry{Device: "chip:c1", Probe: "P", Board: "microbit", Seen: time.Unix(1, 0)}
	chip.BuildID = hex.EncodeToString(answer.BuildID[:])
	*chip.Sector(0, 1024) = ledger.SectorEntry{Size: 1024, Erases: 10, Digest: "d"}
	must(t, l.Save(chip))
	silent := ledger.Entry{Device: "probe:P", Probe: "P", Board: "microbit", Dirty: true, Seen: time.Unix(2, 0).UTC()}
	silent.Sector(0, 1024).Erases = 7
	must(t, l.Save(silent))
	d := deviceBehind(l, "P")
	for range 2 {
		f := flashing{d: d, facts: flashplan.Facts{Answer: answer}}
		e, err := f.loadEntry()
		if err != nil || !e.Dirty || e.Sectors[0].Erases != 17 || len(flashplan.Interrupted(e)) != 1 {
			t.Errorf("%+v, %v", e, err)
		}
	}
	if kept, err := l.Load("probe:P"); err != nil || !reflect.DeepEqual(kept.Sectors, silent.Sectors) || !kept.Dirty {
		t.Errorf("%+v, %v", kept, err)
	}
}

// TestProbeEntryMovesToChip: the record under the probe becomes that of a chip that answers, and does not stay.
func TestProbeEntryMovesToChip(t *testing.T) {
	l := ledger.New(t.TempDir())
	silent := ledger.Entry{Device: "probe:P", Probe: "P", Board: "microbit", Dirty: true}
	silent.Sector(0, 1024).Erases = 7
	must(t, l.Save(silent))
	f := flashing{d: deviceBehind(l, "P"), facts: flashplan.Facts{Answer: &flashplan.Answer{Chip: "c1"}}}
	e, err := f.loadEntry()
	must(t, err)
	if all, err := l.List(); err != nil || len(all) != 1 || all[0].Device != "chip:c1" || e.Sectors[0].Erases != 7 {
		t.Errorf("%+v; the ledger has %+v, %v", e, all, err)
	}
}

// TestSwapInvalidatesFirstChip: if one chip answered before a flash and another one after it, the first one's sectors
// are unverified.
func TestSwapInvalidatesFirstChip(t *testing.T) {
	l := ledger.New(t.TempDir())
	img := &flashplan.Content{Image: &image.Image{BuildID: [16]byte{1}}}
	entry := ledger.Entry{Device: "chip:c1", Image: "x", BuildID: img.ID()}
	for _, addr := range []uint64{0, 64, 128} {
		img.Sectors = append(img.Sectors, flashplan.Sector{Sector: boards.Sector{Addr: addr, Size: 64}})
		*entry.Sector(addr, 64) = ledger.SectorEntry{Addr: addr, Size: 64, Erases: 1, Digest: "d"}
	}
	f := flashing{
		d:      deviceBehind(l, "P"),
		facts:  flashplan.Facts{Image: img, Entry: entry},
		report: FlashReport{Device: "chip:c1", Erased: 3, Verified: true},
	}
	err := f.assignChip(&flashplan.Answer{BuildID: img.BuildID, Chip: "c2"})
	if failure.Of(err) != failure.Verify || !strings.Contains(err.Error(), "chip c2, not c1") || f.report.Verified {
		t.Errorf("%v, %+v", err, f.report)
	}
	first, err := l.Load("chip:c1")
	if err != nil || !first.Dirty || first.Image != "" || !flashplan.Interrupted(first)[64] {
		t.Errorf("%+v, %v", first, err)
	}
}

// TestWearLists: Wear lists each entry's sectors, with index and rated erases where the board file has them.
func TestWearLists(t *testing.T) {
	dir := t.TempDir()
	l := ledger.New(dir)
	e := ledger.Entry{Device: "chip:1", Probe: "P", Board: "netduinoplus2", Flashes: 3, Dirty: true}
	e.Sector(0x08000000, 0x4000).Erases = 3
	e.Sector(0x08020000, 0x20000).Erases = 2
	e.Sector(0x90000000, 0x1000).Erases = 1 // of an earlier board file
	must(t, l.Save(e))
	must(t, l.Save(ledger.Entry{Device: "probe:Q", Board: "removed"}))
	got, err := (&Desk{StateDir: t.TempDir(), Ledger: dir}).Wear()
	must(t, err)
	want := []SectorWear{
		{"flash", 0, 0x08000000, 0x4000, 3, 10000},
		{"flash", 5, 0x08020000, 0x20000, 2, 10000},
		{"", 0, 0x90000000, 0x1000, 1, 0},
	}
	if len(got) != 2 || !got[0].Dirty || got[0].Flashes != 3 || !reflect.DeepEqual(got[0].Sectors, want) ||
		got[1].Board != "removed" {
		t.Errorf("%+v", got)
	}
}

// TestOneLedger: a desk without folders of its own uses the ledger that the targets use, from its first use on.
func TestOneLedger(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	t.Setenv("BOARDSMITH_LEDGER", "the ledger")
	must(t, ledger.New("the ledger").Save(ledger.Entry{Device: "chip:1", Board: "microbit"}))
	elsewhere := t.TempDir()
	k := new(Desk)
	for _, folder := range []string{dir, elsewhere} {
		t.Chdir(folder)
		wantLen(t, 1, folder)(k.Wear())
	}
	wantLen(t, 0, "of a desk with a folder of its own")((&Desk{StateDir: t.TempDir()}).Wear())
}
