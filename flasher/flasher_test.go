package flasher

import (
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
)

func TestEveryBoardsRunnerExists(t *testing.T) {
	t.Parallel()
	for _, name := range boards.List(nil) {
		b, err := boards.Find(name, nil)
		if err != nil {
			t.Fatal(err)
		}
		if b.Flash.Programmer == "none" {
			continue
		}
		if _, err := New(b.Flash.Programmer, Config{Flash: b.Flash}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestUnknownRunner(t *testing.T) {
	t.Parallel()
	if _, err := New("openocd2", Config{}); failure.Of(err) != failure.Config {
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
	for _, name := range Names() {
		p, err := New(name, Config{Reserved: []Range{{0x1000, 0x1000}}, Find: find, Log: hclog.NewNullLogger()})
		if err != nil {
			t.Fatal(err)
		}
		for what, j := range map[string]Job{
			"erase":        {Erase: []Sector{{Index: 0, Addr: 0x800, Size: 0x800}, {Index: 1, Addr: 0x1800, Size: 0x800}}},
			"a first byte": {Write: []Segment{{0xfff, []byte{1, 2}}}},
			"a last byte":  {Write: []Segment{{0x1fff, []byte{1, 2}}}},
		} {
			if err := p.Do(t.Context(), j); failure.Of(err) != failure.Config {
				t.Errorf("%s, %s: %v", name, what, err)
			}
		}
	}
	if err := (Config{Reserved: []Range{{0x1000, 0x1000}}}).allows(Job{Erase: []Sector{{
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
