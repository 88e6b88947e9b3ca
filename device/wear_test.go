package device

import (
	"reflect"
	"testing"

	"github.com/boardsmith/boardsmith/device/internal/ledger"
)

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
		if got, err := k.Wear(); err != nil || len(got) != 1 {
			t.Errorf("in %s: %+v, %v", folder, got, err)
		}
	}
	if got, err := (&Desk{StateDir: t.TempDir()}).Wear(); err != nil || len(got) != 0 {
		t.Errorf("of a desk with a folder of its own: %+v, %v", got, err)
	}
}
