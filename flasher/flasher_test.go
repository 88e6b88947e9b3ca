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

// TestUnusableSettings: a programmer that is unknown is an error, and one without a chip, which pyOCD would choose by
// itself.
func TestUnusableSettings(t *testing.T) {
	for name, text := range map[string]string{"openocd2": "openocd2", "pyocd": "flash.chip"} {
		_, err := New(name, Config{})
		wantError(t, err, failure.Config, text)
	}
}

// Every programmer rejects reserved addresses before it starts a tool.
func TestReserved(t *testing.T) {
	find := func(string) (string, error) {
		t.Error("a tool was looked up")
		return "", nil
	}
	for name := range programmers {
		p := created(t, name, Config{
			Flash: boards.Flash{Chip: "nrf52"}, Reserved: []Range{{0x1000, 0x1000}}, Find: find, Log: hclog.NewNullLogger(),
		})
		for action, j := range map[string]Job{
			"erase":        {Erase: []boards.Sector{{Addr: 0x800, Size: 0x800}, {Addr: 0x1800, Size: 0x800}}},
			"a first byte": {Write: []Segment{{0xfff, []byte{1, 2}}}},
			"a last byte":  {Write: []Segment{{0x1fff, []byte{1, 2}}}},
		} {
			t.Run(name+" "+action, func(t *testing.T) { wantError(t, p.Do(t.Context(), j), failure.Config) })
		}
	}
	beside := Job{Erase: []boards.Sector{{Addr: 0x800, Size: 0x800}, {Addr: 0x2000, Size: 0x800}}}
	must(t, Config{Reserved: []Range{{0x1000, 0x1000}}}.checkReserved(beside))
}

// Serials may be equal: the USB path distinguishes the probes.
func TestProbeOnUSB(t *testing.T) {
	c := Config{Probe: Probe{Serial: "S1", USBPath: "1-2.3"}, Find: func(n string) (string, error) { return n, nil }}
	if got := newOpenOCD(c).Commands(Job{})[0]; !strings.Contains(got, "'adapter serial S1'") ||
		!strings.Contains(got, "'adapter usb location 1-2.3'") {
		t.Error(got)
	}
}
