package project

import (
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/cache"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/flasher"
)

// The history has the last flashes, also after another load; doing nothing again is no news.
func TestFlashHistory(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "p")
	p := generated(t, dir, Spec{Model: tiny(t, nil), Env: testEnv()})
	i := &Image{Digest: "d1", BuildID: [16]byte{1}}
	record := func(r FlashReport, err error) {
		t.Helper()
		must(t, p.RecordFlash(i, r, err))
	}
	record(FlashReport{Why: "no probe"}, nil) // nothing to remember
	for n := range 25 {
		record(FlashReport{Device: "chip:1", Tool: "openocd", Erased: n + 1, Wrote: 100, Why: "differs"}, nil)
	}
	for range 3 {
		record(FlashReport{Device: "chip:1", Tool: "openocd", Why: "it answered"}, nil)
	}
	record(FlashReport{Device: "chip:2", Erased: 7}, failure.New(failure.Verify, "", "worn"))
	must(t, p.Close())
	p, err := Load(dir, testEnv())
	must(t, err)
	defer p.Close()
	got := p.Flashes()
	if len(got) != maxFlashes || got[0].Sectors != 8 || got[17].Sectors != 25 || got[18].Why != "it answered" || got[19].Class != failure.Verify {
		t.Errorf("%+v", got)
	}
	if got[19].Device != "chip:2" || time.Since(got[19].Time) > time.Hour || got[19].BuildID != i.ID() {
		t.Errorf("%+v", got[19])
	}
	must(t, p.Generate(t.Context(), Spec{Board: "host", Model: tiny(t, nil), Options: boards.Options{ArenaKiB: 512}, Env: testEnv()}))
	if len(p.Flashes()) != maxFlashes {
		t.Error("generating again forgets what was flashed")
	}
}

func TestBenchFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "bench.json")
	b, err := ReadBench(path)
	if err != nil || len(b.Devices) != 0 {
		t.Fatalf("of no file: %+v, %v", b, err)
	}
	first := b.Note(BenchDevice{Board: "nucleo_f746zg", Probe: "P1", Chip: "c1", Link: BenchLink{Kind: "serial", Path: "1-2"}})
	if first.Name != "nucleo-f746zg-1" {
		t.Errorf("it is called %q", first.Name)
	}
	b.Find(first.Name).Power, b.Find(first.Name).Notes = "relay 3", "antenna removed"
	if n := b.Note(BenchDevice{Board: "nucleo_f746zg", Probe: "P2"}); n.Name != "nucleo-f746zg-2" {
		t.Errorf("the second is called %q", n.Name)
	}
	moved := b.Note(BenchDevice{Board: "nucleo_f746zg", Probe: "P9", Chip: "c1", Link: BenchLink{Kind: "serial", Path: "3-1"}}) // by its chip
	want := BenchDevice{"nucleo-f746zg-1", "nucleo_f746zg", "P9", "c1", BenchLink{Kind: "serial", Path: "3-1"}, "relay 3", "antenna removed", false}
	if moved != want {
		t.Errorf("moved: %+v", moved)
	}
	if n := b.Note(BenchDevice{Name: "left", Board: "nucleo_f746zg", Probe: "P2", Chip: "c2"}); n.Name != "left" || len(b.Devices) != 2 {
		t.Errorf("renamed: %+v of %d", n, len(b.Devices))
	}
	one := 1
	for range 2 { // two probes of one serial, by where they are
		b.Note(BenchDevice{Board: "nucleo_f401re", Probe: "P3", Link: BenchLink{Kind: "serial", Path: "1-3", Interface: &one}, Shared: true})
		b.Note(BenchDevice{Board: "nucleo_f401re", Probe: "P3", Link: BenchLink{Kind: "serial", Path: "1-4", USB: "1a86:7523", Serial: "A"}, Shared: true})
	}
	if len(b.Devices) != 4 || b.Devices[2].Link.Path != "1-3" || b.Devices[3].Link.Path != "1-4" {
		t.Errorf("%+v", b.Devices)
	}
	for i := range b.Devices {
		b.Devices[i].Shared = false // it is not in the file
	}
	must(t, b.Write(path))
	if again, err := ReadBench(path); err != nil || !reflect.DeepEqual(again, b) {
		t.Errorf("read back: %+v, %v", again, err)
	}
	for _, bad := range []string{
		"", "{", `{"format": 2}`, `{"format": 1, "devices": [{"name": "a"}]}`, `{"format": 1, "nonsense": 3}`, `{"format": 1} more`,
		`{"format": 1, "devices": [{"name": "a", "board": "b"}, {"name": "a", "board": "c"}]}`, strings.Repeat(" ", maxBenchBytes+1),
	} {
		must(t, os.WriteFile(path, []byte(bad), 0o644))
		if _, err := ReadBench(path); failure.Of(err) != failure.Config {
			t.Errorf("%.40q: %v", bad, err)
		}
	}
}

func FuzzBench(f *testing.F) {
	f.Add([]byte(`{"format": 1, "devices": [{"name": "a", "board": "b", "link": {"kind": "serial"}}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		b, err := parseBench(data)
		if err != nil {
			return
		}
		path := filepath.Join(t.TempDir(), "b.json")
		must(t, b.Write(path))
		if again, err := ReadBench(path); err != nil || len(again.Devices) != len(b.Devices) {
			t.Errorf("%v: %+v", err, again)
		}
	})
}

func TestWearList(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := cache.NewLedger(dir)
	e := cache.Entry{Device: "chip:1", Probe: "P", Board: "netduinoplus2", Flashes: 3, Dirty: true}
	e.Sector(0x08000000, 0x4000).Erases = 3
	e.Sector(0x08020000, 0x20000).Erases = 2
	e.Sector(0x90000000, 0x1000).Erases = 1 // of a board file that was another
	must(t, l.Save(e))
	must(t, l.Save(cache.Entry{Device: "probe:Q", Board: "gone"}))
	got, err := Wear(Env{StateDir: t.TempDir(), Ledger: dir})
	must(t, err)
	want := []SectorWear{{"flash", 0, 0x08000000, 0x4000, 3, 10000}, {"flash", 5, 0x08020000, 0x20000, 2, 10000}, {"", 0, 0x90000000, 0x1000, 1, 0}}
	if len(got) != 2 || !got[0].Dirty || got[0].Flashes != 3 || !reflect.DeepEqual(got[0].Sectors, want) || got[1].Board != "gone" {
		t.Errorf("%+v", got)
	}
}

// A chip that was known before, behind another probe, keeps its erases and gets those that were counted while it was silent.
func TestAdoptedErases(t *testing.T) {
	t.Parallel()
	l := cache.NewLedger(t.TempDir())
	chip := cache.Entry{Device: "chip:c1", Probe: "OTHER", Board: "microbit"}
	chip.Sector(0, 1024).Erases = 10
	must(t, l.Save(chip))
	silent := cache.Entry{Device: "probe:P", Probe: "P", Board: "microbit", Dirty: true}
	silent.Sector(0, 1024).Erases = 7
	must(t, l.Save(silent))
	d := &Device{board: &boards.Board{Name: "microbit"}, bench: &bench{ledger: l, probe: flasher.Probe{Serial: "P"}}}
	f := flashing{d: d, facts: flashFacts{answer: &firmwareAnswer{chip: "c1"}}}
	for range 2 {
		e, err := f.known()
		if err != nil || len(e.Sectors) != 1 || e.Sectors[0].Erases != 17 {
			t.Errorf("%+v, %v", e, err)
		}
	}
	all, err := l.List()
	if err != nil || len(all) != 1 || all[0].Probe != "P" || all[0].Sectors[0].Erases != 17 {
		t.Errorf("%+v, %v", all, err)
	}
}

// What was noted under the probe goes to the chip that answers. It stays there too where that chip holds just what
// its own entry says: then the silent one may have been another.
func TestAdoptedByOneThatMayBeAnother(t *testing.T) {
	t.Parallel()
	l := cache.NewLedger(t.TempDir())
	answer := &firmwareAnswer{buildID: [16]byte{1}, chip: "c1"}
	chip := cache.Entry{Device: "chip:c1", Probe: "P", Board: "microbit", Seen: time.Unix(1, 0)}
	chip.BuildID = hex.EncodeToString(answer.buildID[:])
	*chip.Sector(0, 1024) = cache.SectorEntry{Size: 1024, Erases: 10, Digest: "d"}
	must(t, l.Save(chip))
	silent := cache.Entry{Device: "probe:P", Probe: "P", Board: "microbit", Dirty: true, Seen: time.Unix(2, 0).UTC()}
	silent.Sector(0, 1024).Erases = 7
	must(t, l.Save(silent))
	n := &bench{ledger: l, probe: flasher.Probe{Serial: "P"}}
	for range 2 {
		f := flashing{d: &Device{board: &boards.Board{Name: "microbit"}, bench: n}, facts: flashFacts{answer: answer}}
		e, err := f.known()
		if err != nil || !e.Dirty || e.Sectors[0].Erases != 17 || len(sectorsInWork(e)) != 1 {
			t.Errorf("%+v, %v", e, err)
		}
	}
	if kept, err := l.Load("probe:P"); err != nil || !reflect.DeepEqual(kept.Sectors, silent.Sectors) || !kept.Dirty {
		t.Errorf("%+v, %v", kept, err)
	}
}

// A chip that answered before a flash, and another one after it: nothing is known of the first one's sectors.
func TestSwapInFlash(t *testing.T) {
	t.Parallel()
	l := cache.NewLedger(t.TempDir())
	img := decideImage()
	n := &bench{ledger: l, probe: flasher.Probe{Serial: "P"}}
	f := flashing{
		d:      &Device{board: &boards.Board{Name: "microbit"}, bench: n},
		facts:  flashFacts{image: img, entry: ledgerSays(img.ID(), "a", "b", "c")},
		report: FlashReport{Device: "chip:c1", Erased: 3, Holds: true},
	}
	f.facts.entry.Device, f.facts.entry.Sectors[1].Erases = "chip:c1", 1
	err := f.identified(&firmwareAnswer{buildID: img.BuildID, chip: "c2"})
	var other *SwappedError
	if !errors.As(err, &other) || other.Meant != "c1" || other.Chip != "c2" || f.report.Holds {
		t.Errorf("%v, %+v", err, f.report)
	}
	first, err := l.Load("chip:c1")
	if err != nil || !first.Dirty || first.Image != "" || !sectorsInWork(first)[64] {
		t.Errorf("%+v, %v", first, err)
	}
}

// TestUSB looks at a tree as Linux shows it: a probe behind a hub, with its port, and a keyboard.
func TestUSB(t *testing.T) {
	old := sysfs
	defer func() { sysfs = old }()
	sysfs = t.TempDir()
	bus := filepath.Join(sysfs, "bus", "usb", "devices")
	for dir, files := range map[string]map[string]string{
		"1-2.3": {"idVendor": "0483", "idProduct": "374B", "serial": "066D", "manufacturer": "ST", "product": "STM32 STLink", "bcdDevice": "0100", "busnum": "1", "devnum": "12"},
		"1-4":   {"idVendor": "046d", "idProduct": "c31c", "product": "Keyboard"},
	} {
		must(t, os.MkdirAll(filepath.Join(bus, dir), 0o755))
		for name, text := range files {
			must(t, os.WriteFile(filepath.Join(bus, dir, name), []byte(text+"\n"), 0o644))
		}
	}
	must(t, os.MkdirAll(filepath.Join(bus, "1-2.3:1.2"), 0o755)) // an interface
	port := filepath.Join(sysfs, "devices", "pci0000:00", "usb1", "1-2", "1-2.3", "1-2.3:1.2")
	must(t, os.MkdirAll(port, 0o755))
	tty := filepath.Join(sysfs, "class", "tty", "ttyACM0")
	must(t, os.MkdirAll(tty, 0o755))
	must(t, os.Symlink(port, filepath.Join(tty, "device")))
	if path, number := usbPlaceOf("/dev/ttyACM0"); path != "1-2.3" || number != "2" {
		t.Errorf("path %q, interface %q", path, number)
	}
	if path, number := usbPlaceOf("/dev/ttyS0"); path != "" || number != "" {
		t.Errorf("path %q, interface %q of none", path, number)
	}
	want := USBDevice{"0483:374b", "066D", "1-2.3", "ST STM32 STLink", "0100", "/dev/bus/usb/001/012"}
	all := USBDevices()
	if len(all) != 2 || all[0] != want || ProbeKind(all[0].ID) != "ST-Link/V2-1" || ProbeKind(all[1].ID) != "" || ProbeKind("1366:1015") != "J-Link" {
		t.Errorf("%+v", all)
	}
}
