package flasher

import (
	"maps"
	"slices"
	"testing"

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
		wantError(t, last(New(name, Config{})), failure.Config, text)
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
			Flash: boards.Flash{Chip: "nrf52"}, Reserved: []Range{{0x1000, 0x1000}}, Find: find,
		})
		for _, j := range []Job{
			{Erase: []boards.Sector{{Addr: 0x800, Size: 0x800}, {Addr: 0x1800, Size: 0x800}}},
			{Write: []Segment{{0xfff, []byte{1, 2}}}},
			{Write: []Segment{{0x1fff, []byte{1, 2}}}},
		} {
			wantError(t, p.Do(t.Context(), j), failure.Config)
		}
	}
	beside := Job{Erase: []boards.Sector{{Addr: 0x800, Size: 0x800}, {Addr: 0x2000, Size: 0x800}}}
	must(t, Config{Reserved: []Range{{0x1000, 0x1000}}}.checkReserved(beside))
}
