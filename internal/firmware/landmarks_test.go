package firmware

import (
	"debug/elf"
	"errors"
	"io"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/internal/files/jsonfile"
	"github.com/boardsmith/boardsmith/internal/testkit"
)

// image links a file whose variables are loaded elsewhere than they lie, and which has symbols around a part.
func image(t *testing.T) *elf.File {
	t.Helper()
	dir := testkit.Link(t, "arm-none-eabi-gcc", `SECTIONS {
		gone = 0x1; .text 0x100 : { first = .; *(.text) *(.rodata) behind = .; }
		.data 0x2000 : AT(0x400) { *(.data) . = ALIGN(16); } /DISCARD/ : { *(.note.*) *(.ARM*) } }`, `
.text
.word gone
.section .rodata
.global text
.type text, %object
.size text, 12
text: .ascii "01234567890\000"
.data
.global word
.type word, %object
.size word, 4
word: .word 7
`, "-Wl,-n")
	f, err := elf.Open(filepath.Join(dir, "o.elf"))
	must(t, err)
	t.Cleanup(func() { f.Close() })
	return f
}

// A place is found by a symbol, by two, or by a section: where the firmware uses it; a part is where it is loaded.
func TestLandmarks(t *testing.T) {
	t.Parallel()
	f := image(t)
	text := f.Section(".text")
	for _, c := range []struct {
		place Place
		want  Range // zero: not there
	}{
		{Place{Symbol: "word"}, Range{0x2000, 0x2004}},
		{Place{Symbol: "first", End: "behind"}, Range{0x100, 0x100 + text.Size}},
		{Place{Symbol: "behind", End: "first"}, Range{}},
		{Place{Symbol: "first", End: "nothing"}, Range{}},
		{Place{Symbol: "nothing"}, Range{}},
		{Place{Symbol: "nothing", Else: "word"}, Range{0x2000, 0x2004}},
		{Place{Symbol: "word", Else: "text"}, Range{0x2000, 0x2004}},
		{Place{Symbol: "nothing", Else: "none"}, Range{}},
		{Place{Section: ".data"}, Range{0x2000, 0x2010}},
		{Place{Section: ".nothing"}, Range{}},
	} {
		if got, ok := c.place.Find(f); ok != (c.want != Range{}) || ok && got != c.want {
			t.Errorf("%v: %#x, %v, want %#x", c.place, got, ok, c.want)
		}
	}
	both := Landmarks{Parts: []Place{{Symbol: "first", End: "behind"}, {Section: ".data"}}}
	ranges, err := both.FindParts(f, "a.elf")
	if err != nil || len(ranges) != 2 || ranges[1] != (Range{0x400, 0x410}) {
		t.Fatalf("%#x, %v", ranges, err)
	}
	must(t, CheckCovered(f, ranges))
	testkit.WantError(t, CheckCovered(f, ranges[:1]), "", "0x00000400 (section .data)")
	if err := CheckCovered(f, nil); err != nil {
		t.Errorf("a template without parts: %v", err)
	}
	parts, err := ReadParts(f, both, "a.elf", 0)
	if err != nil || len(parts) != 2 || len(parts[1]) != 16 || parts[1][0] != 7 {
		t.Errorf("%x, %v", parts, err)
	}
	empty := Landmarks{Parts: []Place{{Symbol: "first"}}}
	if _, err := empty.FindParts(f, "a.elf"); err == nil {
		t.Error("a part without a byte is taken")
	}
	both.Parts[0].End = "nothing"
	if _, err := both.FindParts(f, "a.elf"); err == nil {
		t.Error("a part that is not there is taken")
	}
	both.Parts[0].Optional = true
	if ranges, err := both.FindParts(f, "a.elf"); err != nil || len(ranges) != 1 {
		t.Errorf("an optional part that is not there: %#x, %v", ranges, err)
	}
	if parts, err := ReadParts(f, Landmarks{}, "a.elf", 0); parts != nil || err != nil {
		t.Errorf("a template without parts: %x, %v", parts, err)
	}
}

// A place has one name: a symbol, a symbol and an end, or a section.
func TestPlaceNames(t *testing.T) {
	t.Parallel()
	for place, good := range map[Place]bool{
		{Symbol: "a"}: true, {Symbol: "a", End: "b"}: true, {Section: "c"}: true, {}: false, {End: "b"}: false,
		{Symbol: "a", Section: "c"}: false, {Section: "c", End: "b"}: false, {Symbol: "a", Else: "b"}: true,
		{Section: "a", Else: "b"}: false,
	} {
		optional := good || place == Place{} // these two need not be named at all
		for l, good := range map[*Landmarks]bool{
			{Parts: []Place{place}}: good, {Stacks: []Place{place}}: good,
			{Kept: place}: optional, {ResetCause: place}: optional,
		} {
			if faults := jsonfile.Check(l); (len(faults) == 0) != good {
				t.Errorf("%+v: %v", l, faults)
			}
		}
	}
}

// A file that ends before the end of its segments is refused with that reason.
func TestCutFile(t *testing.T) {
	t.Parallel()
	f := &elf.File{
		Sections: []*elf.Section{{SectionHeader: elf.SectionHeader{Name: ".data", Addr: 0x100, Size: 8}}},
		Progs: []*elf.Prog{{
			ProgHeader: elf.ProgHeader{Type: elf.PT_LOAD, Vaddr: 0x100, Paddr: 0x100, Filesz: 8},
			ReaderAt:   strings.NewReader("7 bytes"),
		}},
	}
	if _, err := ReadParts(f, Landmarks{Parts: []Place{{Section: ".data"}}}, "a.elf", 0); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
}

// What is loaded is sorted by address; a segment without bytes in the file, or of another kind, is not loaded.
func TestLoads(t *testing.T) {
	t.Parallel()
	prog := func(kind elf.ProgType, addr uint64, text string) *elf.Prog {
		h := elf.ProgHeader{Type: kind, Paddr: addr, Filesz: uint64(len(text)), Memsz: 8}
		return &elf.Prog{ProgHeader: h, ReaderAt: strings.NewReader(text)}
	}
	f := &elf.File{Progs: []*elf.Prog{
		prog(elf.PT_LOAD, 0x300, "late"), prog(elf.PT_LOAD, 0x200, ""), prog(elf.PT_NOTE, 0x180, "note"),
		prog(elf.PT_LOAD, 0x100, "b"),
	}}
	got, err := Loads(f, "a.elf")
	if want := []Segment{{0x100, []byte("b")}, {0x300, []byte("late")}}; err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v, %v", got, err)
	}
}

// TVM's constants are not const in C: what is in flash stays as it was linked, what is copied to RAM may change.
func TestIsConstant(t *testing.T) {
	t.Parallel()
	f := &elf.File{Progs: []*elf.Prog{
		{ProgHeader: elf.ProgHeader{Type: elf.PT_LOAD, Vaddr: 0x100, Paddr: 0x100, Filesz: 0x100}},
		{ProgHeader: elf.ProgHeader{Type: elf.PT_LOAD, Vaddr: 0x2000, Paddr: 0x200, Filesz: 0x100}},
	}}
	for _, test := range []struct {
		name  string
		addr  uint64
		flags elf.SectionFlag
		want  bool
	}{
		{".text", 0x100, elf.SHF_EXECINSTR, true},
		{".rodata", 0x100, elf.SHF_WRITE, true},
		{".model_rodata", 0x100, elf.SHF_WRITE, true},
		{".model_rodata", 0x2000, elf.SHF_WRITE, false},
		{".data", 0x100, elf.SHF_WRITE, false},
	} {
		s := &elf.Section{SectionHeader: elf.SectionHeader{Name: test.name, Addr: test.addr, Size: 8, Flags: test.flags}}
		if got := IsConstant(f, s); got != test.want {
			t.Errorf("%s at 0x%x: %v", test.name, test.addr, got)
		}
	}
}
