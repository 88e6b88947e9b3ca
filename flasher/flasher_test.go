package flasher

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
)

// TestEveryProgrammer: each programmer that a board file may name is implemented, and no other.
func TestEveryProgrammer(t *testing.T) {
	t.Parallel()
	have := append(slices.Sorted(maps.Keys(programmers)), boards.NoProgrammer)
	if want := boards.Programmers(); !slices.Equal(slices.Sorted(slices.Values(have)),
		slices.Sorted(slices.Values(want))) {
		t.Errorf("implemented are %q, board files may name %q", have, want)
	}
}

// created returns a programmer.
func created(t *testing.T, name string, c Config) Programmer {
	t.Helper()
	p, err := New(name, c)
	must(t, err)
	return p
}

func TestUnknownRunner(t *testing.T) {
	t.Parallel()
	if _, err := New("openocd2", Config{}); failure.Of(err) != failure.Config {
		t.Errorf("got %v", err)
	}
}

// TestMissingChip: pyOCD would choose a chip by itself if a board's file names none.
func TestMissingChip(t *testing.T) {
	t.Parallel()
	_, err := New("pyocd", Config{})
	if failure.Of(err) != failure.Config || !strings.Contains(err.Error(), "flash.chip") {
		t.Errorf("got %v", err)
	}
}

// Every programmer rejects reserved addresses before it starts a tool.
func TestReserved(t *testing.T) {
	t.Parallel()
	find := func(string) (string, error) {
		t.Error("a tool was looked up")
		return "", nil
	}
	for name := range programmers {
		p := created(t, name, Config{
			Flash: boards.Flash{Chip: "nrf52"}, Reserved: []Range{{0x1000, 0x1000}}, Find: find, Log: hclog.NewNullLogger(),
		})
		for action, j := range map[string]Job{
			"erase": {Erase: []boards.Sector{
				{Index: 0, Addr: 0x800, Size: 0x800},
				{Index: 1, Addr: 0x1800, Size: 0x800},
			}},
			"a first byte": {Write: []Segment{{0xfff, []byte{1, 2}}}},
			"a last byte":  {Write: []Segment{{0x1fff, []byte{1, 2}}}},
		} {
			if err := p.Do(t.Context(), j); failure.Of(err) != failure.Config {
				t.Errorf("%s, %s: %v", name, action, err)
			}
		}
	}
	if err := (Config{Reserved: []Range{{0x1000, 0x1000}}}).checkReserved(Job{Erase: []boards.Sector{{
		Index: 0, Addr: 0x800,
		Size: 0x800,
	}, {Index: 2, Addr: 0x2000, Size: 0x800}}}); err != nil {
		t.Error(err)
	}
}

// Serials may be equal: the USB path distinguishes the probes.
func TestProbeOnUSB(t *testing.T) {
	t.Parallel()
	c := Config{Probe: Probe{Serial: "S1", USBPath: "1-2.3"}, Find: func(n string) (string, error) { return n, nil }}
	if got := newOpenOCD(c).Commands(Job{})[0]; !strings.Contains(got, "'adapter serial S1'") ||
		!strings.Contains(got, "'adapter usb location 1-2.3'") {
		t.Error(got)
	}
}
