package device

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/failure"
)

// note is Note, which must succeed.
func note(t *testing.T, b *DeskFile, d DeskDevice) DeskDevice {
	t.Helper()
	d, err := b.Note(d)
	must(t, err)
	return d
}

func TestDeskFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "desk.json")
	b, err := ReadDeskFile(path)
	if err != nil || len(b.Devices) != 0 {
		t.Fatalf("of no file: %+v, %v", b, err)
	}
	first := note(t, b, DeskDevice{
		Board: "nucleo_f746zg", Probe: "P1", Chip: "c1",
		Link: DeskLink{Kind: "serial", Path: "1-2"},
	})
	if first.Name != "nucleo-f746zg-1" {
		t.Errorf("it is called %q", first.Name)
	}
	b.Find(first.Name).Power, b.Find(first.Name).Notes = "relay 3", "antenna removed"
	if n := note(t, b, DeskDevice{Board: "nucleo_f746zg", Probe: "P2"}); n.Name != "nucleo-f746zg-2" {
		t.Errorf("the second is called %q", n.Name)
	}
	// by its chip
	moved := note(t, b, DeskDevice{
		Board: "nucleo_f746zg", Probe: "P9", Chip: "c1",
		Link: DeskLink{Kind: "serial", Path: "3-1"},
	})
	want := DeskDevice{
		"nucleo-f746zg-1", "nucleo_f746zg", "P9", "c1",
		DeskLink{Kind: "serial", Path: "3-1"},
		"relay 3",
		"antenna removed", false,
	}
	if moved != want {
		t.Errorf("moved: %+v", moved)
	}
	if n := note(t, b, DeskDevice{Name: "left", Board: "nucleo_f746zg", Probe: "P2", Chip: "c2"}); n.Name != "left" ||
		len(b.Devices) != 2 {
		t.Errorf("renamed: %+v of %d", n, len(b.Devices))
	}
	before := slices.Clone(b.Devices)
	for _, d := range []DeskDevice{
		{Name: "left", Board: "nucleo_f746zg", Probe: "P9", Chip: "c1"}, // another one of the file
		{Name: "left", Board: "nucleo_f746zg", Probe: "P4", Chip: "c4"}, // a new one
	} {
		if _, err := b.Note(d); failure.Of(err) != failure.Config || !reflect.DeepEqual(b.Devices, before) {
			t.Errorf("a second device called left: %v, %+v", err, b.Devices)
		}
	}
	one := 1
	for range 2 { // two probes of one serial, by where they are
		note(t, b, DeskDevice{
			Board: "nucleo_f401re", Probe: "P3", Link: DeskLink{Kind: "serial", Path: "1-3", Interface: &one},
			Shared: true,
		})
		note(t, b, DeskDevice{
			Board: "nucleo_f401re", Probe: "P3",
			Link: DeskLink{Kind: "serial", Path: "1-4", USB: "1a86:7523", Serial: "A"}, Shared: true,
		})
	}
	if len(b.Devices) != 4 || b.Devices[2].Link.Path != "1-3" || b.Devices[3].Link.Path != "1-4" {
		t.Errorf("%+v", b.Devices)
	}
	for i := range b.Devices {
		b.Devices[i].Shared = false // it is not in the file
	}
	must(t, b.Write(path))
	if again, err := ReadDeskFile(path); err != nil || !reflect.DeepEqual(again, b) {
		t.Errorf("read back: %+v, %v", again, err)
	}
	for _, bad := range []string{
		"", "{", `{"format": 2}`, `{"format": 1, "devices": [{"name": "a"}]}`, `{"format": 1, "nonsense": 3}`,
		`{"format": 1} more`,
		`{"format": 1, "devices": [{"name": "a", "board": "b"}, {"name": "a", "board": "c"}]}`,
		strings.Repeat(" ", maxDeskFileBytes+1),
	} {
		must(t, os.WriteFile(path, []byte(bad), 0o644))
		if _, err := ReadDeskFile(path); failure.Of(err) != failure.Config {
			t.Errorf("%.40q: %v", bad, err)
		}
	}
}

// TestNoteAddress checks that addresses distinguish devices without probes if their chips are unknown.
func TestNoteAddress(t *testing.T) {
	b := &DeskFile{Format: deskFileFormat}
	at := func(address, chip string) DeskDevice {
		return DeskDevice{Board: "kiln", Chip: chip, Link: DeskLink{Kind: "tcp", Address: address}}
	}
	for _, d := range []DeskDevice{at("a:1", ""), at("b:1", ""), at("a:1", "c1"), at("c:1", "c1")} {
		note(t, b, d)
	}
	if len(b.Devices) != 2 || b.Devices[0].Link.Address != "c:1" || b.Devices[0].Chip != "c1" ||
		b.Devices[1].Link.Address != "b:1" {
		t.Errorf("noted %+v", b.Devices)
	}
}

// TestDeskFileLines: an error names the line, and its next step loses nothing of what users wrote.
func TestDeskFileLines(t *testing.T) {
	path := filepath.Join(t.TempDir(), "desk.json")
	const device = `{"name": "a", "board": "b"}`
	for text, want := range map[string]string{
		"":                                ":1: the file is truncated",
		"{\"format\": 1,\n\"devices\": [": ":2: unexpected EOF",
		"{\"format\": 1,\n\"devices\": [" + device + `,
			{"name": "c", "bord": "b"}]}`: `:3: field "devices[].bord" is not known; did you mean "devices[].board"?`,
		"{\"format\": 1,\n\"devices\": [\n" + device + ",\n" + device + "]}": `:4: two devices are called "a"`,
		"{\"format\": 1,\n\"devices\": [\n\n{\"name\": \"a\"}]}":             ":4: a device has no name or no board",
		"{\n\"format\": 2}":                ":2: unsupported format: not 1",
		"{\"format\": 1}\n more":           ":2: ",
		"{\"format\": 1,\n\"format\": 1}":  `:2: "format" is given twice`,
		"{\"format\": 1,\n\"devices\": 3}": ":2: ",
	} {
		must(t, os.WriteFile(path, []byte(text), 0o644))
		_, err := ReadDeskFile(path)
		if err == nil || !strings.HasPrefix(err.Error(), path+want) || failure.Of(err) != failure.Config {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
		if next := failure.Next(err); next == "" || strings.Contains(next, "remove") {
			t.Errorf("%q: next step %q", text, next)
		}
	}
}

func FuzzDeskFile(f *testing.F) {
	f.Add([]byte(`{"format": 1, "devices": [{"name": "a", "board": "b", "link": {"kind": "serial"}}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		b, err := parseDeskFile("desk.json", data)
		if err != nil {
			return
		}
		path := filepath.Join(t.TempDir(), "b.json")
		must(t, b.Write(path))
		if again, err := ReadDeskFile(path); err != nil || len(again.Devices) != len(b.Devices) {
			t.Errorf("%v: %+v", err, again)
		}
	})
}
