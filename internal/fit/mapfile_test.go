package fit

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/internal/testkit"
)

// The maps in testdata/maps are of small.c.txt, linked by small.ld: with Debian's gcc 12.2 for Arm (from an archive)
// and for RISC-V, and by the host's linker.
func TestReadMaps(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		file, regions string
		pieces        []string
	}{
		{"arm.map", "[{flash 0 262144 true} {ram 536870912 16384 false}]", []string{
			".text LONG 0x0+4  ",
			".text .text.a_function_with_quite_a_long_name 0x4+44 lib.a a.o",
			".text *fill* 0x3a+2  ",
			".data .data.initialised 0x20000000+4 lib.a a.o",
			".bss COMMON 0x20000404+4 lib.a a.o",
			".boardsmith.stack *fill* 0x20000408+1024  ",
		}},
		{"riscv.map", "[{flash 0 262144 true} {ram 536870912 16384 false}]", []string{
			".text .text.memset 0x42+16 /usr/lib/picolibc/riscv64-unknown-elf/lib/rv32imac/ilp32/libc.a memset.S.o",
			".data .sdata.initialised 0x20000000+4 rv.o ",
		}},
		{"host.map", "[]", []string{".bss .bss.big 0x4040+1024 h.o "}},
	} {
		m, err := readMap(bytes.NewReader(testkit.ReadFile(t, "testdata/maps/"+c.file)))
		testkit.Must(t, err)
		testkit.Equal(t, c.file, fmt.Sprint(m.regions), c.regions)
		all := pieceLines(m)
		for _, want := range c.pieces {
			testkit.WantText(t, all, "\n"+want+"\n")
		}
		for _, s := range m.sections {
			var sum uint64
			for _, p := range s.pieces {
				sum += p.size
			}
			if strings.HasPrefix(s.name, ".debug") || s.name == ".comment" || strings.HasSuffix(s.name, ".attributes") {
				continue // merged: a piece's size is that before or after
			}
			if sum > s.size {
				t.Errorf("%s: section %s has %d bytes, its pieces %d", c.file, s.name, s.size, sum)
			}
		}
	}
}

func pieceLines(m *linkMap) string {
	var w strings.Builder
	w.WriteByte('\n')
	for _, s := range m.sections {
		for _, p := range s.pieces {
			fmt.Fprintf(&w, "%s %s %#x+%d %s %s\n", s.name, p.name, p.address, p.size, p.object, p.member)
		}
	}
	return w.String()
}

func TestMapLoadAddress(t *testing.T) {
	t.Parallel()
	m, err := readMap(strings.NewReader(mapHead + ".data           0x20000000        0x4 load address 0x000000e0\n" +
		".a_section_of_a_long_name\n                0x20000010       0x10 load address 0x00000100\n.bss            0x30\n"))
	testkit.Must(t, err)
	want := "[{.data 536870912 4 224 []} {.a_section_of_a_long_name 536870928 16 256 []}]"
	testkit.Equal(t, "sections", fmt.Sprint(m.sections), want)
}

const mapHead = "Linker script and memory map\n\n"

// TestOddMaps reads texts that are no map, or a damaged one: the result is an error, or what can be read.
func TestOddMaps(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]error{
		"":                                  errNoMap,
		"no map":                            errNoMap,
		"Archive member included\n\nx.o\n":  errNoMap,
		"Memory Configuration\nflash 1 2 r": errNoMap,
		mapHead:                             nil,
	} {
		if _, err := readMap(strings.NewReader(text)); !errors.Is(err, want) {
			t.Errorf("%q: %v", text, err)
		}
	}
	for text, want := range map[string]string{
		" .text 0x10 0x20 a.o":                                              "\n", // a piece of no section
		".text 0x0 0x40\n .text.x 0x0 0x10 dir (1)/a.o\n":                   "\n.text .text.x 0x0+16 dir (1)/a.o \n",
		".text 0x0 0x40\n .text.x 0x0 0x10 dir (1)/lib.a(b.o)\n":            "\n.text .text.x 0x0+16 dir (1)/lib.a b.o\n",
		".text 0x0 0x40\n .text.x\n .text.y 0x0 0x8 b.o\n":                  "\n.text .text.y 0x0+8 b.o \n",
		".text 0x0 0x40\n .text.x 0x0 0x11111111111111111 a.o\n":            "\n",
		".text 0x0 0x40\n .text.x\n   0x0 0x10 a.o\n   0x0 a_symbol\n":      "\n.text .text.x 0x0+16 a.o \n",
		".text 0x0 0x40\nCross Reference Table\n.fake 0x0 0x1\n .x 0 0x1 a": "\n",
	} {
		m, err := readMap(strings.NewReader(mapHead + text))
		if err != nil {
			t.Errorf("%q: %v", text, err)
		} else if got := pieceLines(m); got != want {
			t.Errorf("%q:\ngot  %q\nwant %q", text, got, want)
		}
	}
	if _, err := readMap(strings.NewReader(mapHead + strings.Repeat("x", maxMapLine+1))); err == nil {
		t.Error("a line without end was read")
	}
}

func FuzzReadMap(f *testing.F) {
	for _, name := range []string{"arm.map", "riscv.map", "host.map"} {
		f.Add(testkit.ReadFile(f, "testdata/maps/"+name))
	}
	f.Add([]byte(mapHead + ".text 0x0 0x40\n .text.x\n   0xffffffffffffffff 0xffffffffffffffff l.a(a.o)\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := readMap(strings.NewReader(string(data)))
		if err != nil {
			return
		}
		for _, s := range m.sections {
			for _, p := range s.pieces {
				if p.size == 0 || p.member != "" && p.object == "" {
					t.Errorf("section %s has a piece %+v", s.name, p)
				}
			}
		}
	})
}
