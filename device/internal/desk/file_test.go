package desk

import (
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit"
)

var (
	must       = testkit.Must
	wantEqual  = testkit.WantEqual
	wantResult = testkit.WantResult
	wantIs     = testkit.WantIs
	last       = testkit.Last
	writeFile  = testkit.WriteFile
	wantError  = testkit.WantError
)

// note is Note, which must succeed.
func note(t *testing.T, b *File, d Entry) Entry {
	t.Helper()
	d, err := b.Note(d)
	must(t, err)
	return d
}

// TestFileKeepsNames: a noted device keeps its name, power command and notes, and its entry is found by chip, by probe,
// and by USB path where probes share a serial. A written file reads back equal.
func TestFileKeepsNames(t *testing.T) {
	path := filepath.Join(t.TempDir(), "desk.json")
	b, err := ReadFile(path)
	if err != nil || len(b.Devices) != 0 {
		t.Fatalf("a missing file: %+v, %v", b, err)
	}
	first := note(t, b, Entry{Board: "nucleo_f746zg", Probe: "P1", Chip: "c1", Link: Link{Path: "1-2"}})
	wantEqual(t, first.Name, "nucleo-f746zg-1", "the first is called")
	b.Find(first.Name).Power, b.Find(first.Name).Notes = "relay 3", "antenna removed"
	if n := note(t, b, Entry{Board: "nucleo_f746zg", Probe: "P2"}); n.Name != "nucleo-f746zg-2" {
		t.Errorf("the second is called %q", n.Name)
	}
	sameChip := note(t, b, Entry{Board: "nucleo_f746zg", Probe: "P9", Chip: "c1", Link: Link{Path: "3-1"}})
	want := Entry{
		"nucleo-f746zg-1", "nucleo_f746zg", "P9", "c1", Link{Path: "3-1"}, "relay 3", "antenna removed", false,
	}
	wantEqual(t, sameChip, want, "behind another probe")
	if n := note(t, b, Entry{Name: "left", Board: "nucleo_f746zg", Probe: "P2", Chip: "c2"}); n.Name != "left" ||
		len(b.Devices) != 2 {
		t.Errorf("renamed: %+v of %d", n, len(b.Devices))
	}
	before := slices.Clone(b.Devices)
	for _, d := range []Entry{
		{Name: "left", Board: "nucleo_f746zg", Probe: "P9", Chip: "c1"}, // another one of the file
		{Name: "left", Board: "nucleo_f746zg", Probe: "P4", Chip: "c4"}, // a new one
	} {
		if _, err := b.Note(d); failure.Of(err) != failure.Config || !reflect.DeepEqual(b.Devices, before) {
			t.Errorf("a second device called left: %v, %+v", err, b.Devices)
		}
	}
	one := 1
	for range 2 { // two probes with one serial
		for _, l := range []Link{
			{Kind: "serial", Path: "1-3", Interface: &one}, {Path: "1-4", USB: "1a86:7523", Serial: "A"},
		} {
			note(t, b, Entry{Board: "nucleo_f401re", Probe: "P3", Link: l, Shared: true})
		}
	}
	if len(b.Devices) != 4 || b.Devices[2].Link.Path != "1-3" || b.Devices[3].Link.Path != "1-4" {
		t.Errorf("%+v", b.Devices)
	}
	for i := range b.Devices {
		b.Devices[i].Shared = false // not a field of the file
	}
	must(t, b.Write(path))
	wantResult(t, b, "read back")(ReadFile(path))
}

// TestNoteDistinguishesAddresses: addresses distinguish devices without probes if their chips are unknown.
func TestNoteDistinguishesAddresses(t *testing.T) {
	b := &File{Format: FileFormat}
	at := func(address, chip string) Entry {
		return Entry{Board: "kiln", Chip: chip, Link: Link{Kind: "tcp", Address: address}}
	}
	for _, d := range []Entry{at("a:1", ""), at("b:1", ""), at("a:1", "c1"), at("c:1", "c1")} {
		note(t, b, d)
	}
	if len(b.Devices) != 2 || b.Devices[0].Link.Address != "c:1" || b.Devices[0].Chip != "c1" ||
		b.Devices[1].Link.Address != "b:1" {
		t.Errorf("noted %+v", b.Devices)
	}
}

// TestFileErrorNamesLine: an error names the line, and its next step does not remove what users wrote.
func TestFileErrorNamesLine(t *testing.T) {
	large := filepath.Join(t.TempDir(), "desk.json")
	writeFile(t, large, strings.Repeat(" ", 1<<20+1))
	wantError(t, last(ReadFile(large)), failure.Config, "larger than")
	const device = `{"name": "a", "board": "b"}`
	for _, c := range []struct{ name, text, want string }{
		{"empty", "", ":1: the file is truncated"},
		{"truncated", "{\"format\": 1,\n\"devices\": [", ":2: the file is truncated"},
		{
			"unknown field", "{\"format\": 1,\n\"devices\": [" + device + `,
			{"name": "c", "bord": "b"}]}`, `:3: field "devices[1].bord" is not known; did you mean "devices[1].board"?`,
		},
		{
			"two of a name", "{\"format\": 1,\n\"devices\": [\n" + device + ",\n" + device + "]}",
			`:4: devices[1]: "a" is there twice`,
		},
		{
			"no board", "{\"format\": 1,\n\"devices\": [\n\n{\"name\": \"a\"}]}",
			":4: devices[0].board: missing",
		},
		{"other format", "{\n\"format\": 2}", ":2: format: 2 is none of 1"},
		{"trailing text", "{\"format\": 1}\n more", ":2: "},
		{"duplicate field", "{\"format\": 1,\n\"format\": 1}", `:2: "format" is given twice`},
		{"wrong type", "{\"format\": 1,\n\"devices\": 3}", ":2: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "desk.json")
			writeFile(t, path, c.text)
			_, err := ReadFile(path)
			wantError(t, err, failure.Config, path+c.want)
			if next := failure.Next(err); next == "" || strings.Contains(next, "remove") {
				t.Errorf("next step %q", next)
			}
		})
	}
}

func FuzzFile(f *testing.F) {
	f.Add([]byte(`{"format": 1, "devices": [{"name": "a", "board": "b", "link": {"kind": "serial"}}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		path := filepath.Join(t.TempDir(), "b.json")
		writeFile(t, path, string(data))
		b, err := ReadFile(path)
		if err != nil {
			return
		}
		must(t, b.Write(path))
		if got, err := ReadFile(path); err != nil || len(got.Devices) != len(b.Devices) {
			t.Errorf("%v: %+v", err, got)
		}
	})
}
