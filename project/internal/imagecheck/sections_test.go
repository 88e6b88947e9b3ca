package imagecheck

import (
	"debug/elf"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/firmware"
	"github.com/boardsmith/boardsmith/internal/fit"
	"github.com/boardsmith/boardsmith/project/internal/templatefile"
)

// TestKeptSegment: memory that a reset keeps is in no segment that is loaded.
func TestKeptSegment(t *testing.T) {
	t.Parallel()
	s := &elf.Section{SectionHeader: elf.SectionHeader{Name: ".noinit", Addr: 0x20001000, Size: 64}}
	for _, c := range []struct {
		kind      elf.ProgType
		at, bytes uint64
		loaded    bool
	}{
		{elf.PT_LOAD, 0x20000000, 0x2000, true},
		{elf.PT_LOAD, 0x2000103F, 1, true},
		{elf.PT_LOAD, 0x20000000, 0x1000, false},
		{elf.PT_LOAD, 0x20001040, 16, false},
		{elf.PT_TLS, 0x20000000, 0x2000, false},
	} {
		f := &elf.File{Progs: []*elf.Prog{{ProgHeader: elf.ProgHeader{Type: c.kind, Vaddr: c.at, Memsz: c.bytes}}}}
		if err := errIfLoaded(f, s); (err != nil) != c.loaded {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// alloc returns a section of the memory.
func alloc(name string, kind elf.SectionType, at, size uint64) *elf.Section {
	return &elf.Section{SectionHeader: elf.SectionHeader{
		Name: name, Type: kind, Flags: elf.SHF_ALLOC, Addr: at, Size: size,
	}}
}

// TestKept: memory that a reset keeps is there, and has no contents.
func TestKept(t *testing.T) {
	t.Parallel()
	kept := firmware.Landmarks{Kept: firmware.Place{Section: ".noinit"}}
	i := Program{Template: &templatefile.Description{Landmarks: kept}}
	for _, c := range []struct {
		section *elf.Section
		want    string
	}{
		{alloc(".noinit", elf.SHT_NOBITS, 0x100, 1), ""},
		{alloc(".noinit", elf.SHT_NOBITS, 0x100, 0), "section .noinit is missing"},
		{alloc(".other", elf.SHT_NOBITS, 0x100, 1), "section .noinit is missing"},
		{alloc(".noinit", elf.SHT_PROGBITS, 0x100, 1), "section .noinit has contents"},
	} {
		err := i.checkKept(&elf.File{Sections: []*elf.Section{c.section}})
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.HasPrefix(err.Error(), c.want)) {
			t.Errorf("%+v: %v", c.section, err)
		}
	}
}

// TestCleared: variables are in memory that is cleared, from the first byte to the last; stacks, the arena and what a
// reset keeps may be beside it.
func TestCleared(t *testing.T) {
	t.Parallel()
	i := Program{Template: &templatefile.Description{
		Contract:  templatefile.Contract{Cleared: []firmware.Place{{Section: "cleared"}}},
		Landmarks: firmware.Landmarks{Kept: firmware.Place{Section: ".noinit"}},
		Areas:     fit.Areas{Stacks: []string{".stack"}, Arena: []string{".arena"}},
	}}
	cleared := &elf.Section{SectionHeader: elf.SectionHeader{Name: "cleared", Addr: 0x100, Size: 0x100}}
	const not, is = "is not cleared at the start", "is in memory that is cleared at the start"
	for _, c := range []struct {
		section *elf.Section
		want    string
	}{
		{alloc(".bss", elf.SHT_NOBITS, 0x100, 0x100), ""},
		{alloc(".bss", elf.SHT_NOBITS, 0xFF, 2), not},
		{alloc(".bss", elf.SHT_NOBITS, 0x1FF, 2), not},
		{alloc(".bss", elf.SHT_NOBITS, 0x300, 1), not},
		{alloc(".bss", elf.SHT_NOBITS, 0x300, 0), ""},
		{alloc(".data", elf.SHT_PROGBITS, 0x300, 1), ""},
		{&elf.Section{SectionHeader: elf.SectionHeader{Name: ".debug", Type: elf.SHT_NOBITS, Addr: 0x300, Size: 1}}, ""},
		{alloc(".stack", elf.SHT_NOBITS, 0xF0, 0x10), ""},
		{alloc(".stack", elf.SHT_NOBITS, 0xF0, 0x11), is},
		{alloc(".stack", elf.SHT_NOBITS, 0x1FF, 1), is},
		{alloc(".stack", elf.SHT_NOBITS, 0x200, 1), ""},
		{alloc(".arena", elf.SHT_NOBITS, 0x300, 1), ""},
		{alloc(".noinit", elf.SHT_NOBITS, 0x300, 1), ""},
	} {
		err := i.checkCleared(&elf.File{Sections: []*elf.Section{cleared, c.section}})
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%+v: %v", c.section, err)
		}
	}
}

// TestReserved: an image may begin where a reserved region ends, and end where one begins.
func TestReserved(t *testing.T) {
	t.Parallel()
	b := &boards.Board{Name: "b", Memory: []boards.Region{
		{Name: "all", Size: 0x10000}, {Name: "boot", Origin: 0x1000, Size: 0x1000, Reserved: true},
	}}
	for _, c := range []struct {
		at, size uint64
		reserved bool
	}{
		{0xFF0, 0x10, false},
		{0xFF0, 0x11, true},
		{0xFF0, 0x2000, true},
		{0x1000, 1, true},
		{0x1FFF, 1, true},
		{0x2000, 1, false},
	} {
		f := &elf.File{Sections: []*elf.Section{alloc(".text", elf.SHT_PROGBITS, c.at, c.size)}}
		if err := CheckReserved(f, "o.elf", b); (err != nil) != c.reserved {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// TestRegions: an image of a linker script that contradicts the board file is an error, whoever wrote the script.
func TestRegions(t *testing.T) {
	t.Parallel()
	bss := func(at, size uint64) *elf.Section { return alloc(".bss", elf.SHT_NOBITS, at, size) }
	text := alloc(".text", elf.SHT_PROGBITS, 0, 0x1000)
	data := alloc(".data", elf.SHT_PROGBITS, 0x20000000, 0x100)
	threads := alloc(".tbss", elf.SHT_NOBITS, 0x20000050, 8) // each thread has a copy elsewhere
	threads.Flags |= elf.SHF_TLS
	for _, c := range []struct {
		more  *elf.Section
		load  uint64
		want  string
		class failure.Class
	}{
		{bss(0x20000100, 0xFF00), 0x1000, "", ""},
		{bss(0x20000100, 0xFF01), 0x1000, "1 bytes longer than the rest of", failure.DoesNotFit},
		{bss(0x20010000, 1), 0x1000, "1 bytes, is in no memory", failure.Link},
		{bss(0x30000000, 0), 0x1000, "", ""},
		{bss(0x20000050, 0), 0x1000, "", ""},
		{bss(0x20000050, 1), 0x1000, ".data and .bss overlap at 0x20000050", failure.Link},
		{bss(0x800, 8), 0x1000, ".text and .bss overlap at 0x00000800", failure.Link},
		{&elf.Section{SectionHeader: elf.SectionHeader{Name: ".debug", Addr: 0x30000000, Size: 1}}, 0x1000, "", ""},
		{threads, 0x1000, "", ""},
		{bss(0x200000FC, 8), 0x1000, ".data and .bss overlap at 0x200000fc", failure.Link},
		{bss(0x20000000, 8), 0x1000, "overlap at 0x20000000", failure.Link},
		{alloc(".overlay", elf.SHT_PROGBITS, 0x200000FC, 8), 0x1000, "", ""}, // the linker has compared them
		{bss(0x20000100, 0), 0x08000000, "loaded data at 0x08000000", failure.Link},
	} {
		f := &elf.File{
			Sections: []*elf.Section{text, c.more, data},
			Progs: []*elf.Prog{
				{ProgHeader: elf.ProgHeader{Type: elf.PT_LOAD, Paddr: c.load, Filesz: 1}},
				{ProgHeader: elf.ProgHeader{Type: elf.PT_LOAD, Paddr: 0x30000000, Memsz: 1}},
				{ProgHeader: elf.ProgHeader{Type: elf.PT_NOTE, Paddr: 0x30000000, Filesz: 1}},
			},
		}
		i := Program{Template: &templatefile.Description{}, Board: &boards.Board{Memory: []boards.Region{
			{Name: "flash", Size: 0x10000}, {Name: "ram", Origin: 0x20000000, Size: 0x10000},
		}}}
		err := i.checkRegions(f)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) ||
			err != nil && failure.Of(err) != c.class {
			t.Errorf("%s at 0x%x: %v (%v), want %q", c.more.Name, c.more.Addr, err, failure.Of(err), c.want)
		}
		i.Template.Board = "build/board.json"
		if err := i.checkRegions(f); err != nil {
			t.Errorf("of a board that its build completes: %v", err)
		}
	}
}
