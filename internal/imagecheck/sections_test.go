package imagecheck

import (
	"debug/elf"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/blueprint"
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

// TestRegions: an image of a linker script that contradicts the board file is an error, whoever wrote the script.
func TestRegions(t *testing.T) {
	t.Parallel()
	alloc := func(name string, kind elf.SectionType, at, size uint64) *elf.Section {
		return &elf.Section{SectionHeader: elf.SectionHeader{
			Name: name, Type: kind, Flags: elf.SHF_ALLOC, Addr: at, Size: size,
		}}
	}
	bss := func(at, size uint64) *elf.Section { return alloc(".bss", elf.SHT_NOBITS, at, size) }
	text := alloc(".text", elf.SHT_PROGBITS, 0, 0x1000)
	data := alloc(".data", elf.SHT_PROGBITS, 0x20000000, 0x100)
	for _, c := range []struct {
		more  *elf.Section
		load  uint64
		want  string
		class failure.Class
	}{
		{bss(0x20000100, 0xFF00), 0x1000, "", ""},
		{bss(0x20000100, 0xFF01), 0x1000, "1 bytes longer than the rest of", failure.DoesNotFit},
		{bss(0x20010000, 4), 0x1000, "4 bytes, is in no memory", failure.Link},
		{bss(0x200000FC, 8), 0x1000, ".data and .bss overlap at 0x200000fc", failure.Link},
		{bss(0x20000000, 8), 0x1000, "overlap at 0x20000000", failure.Link},
		{alloc(".overlay", elf.SHT_PROGBITS, 0x200000FC, 8), 0x1000, "", ""}, // the linker has compared them
		{bss(0x20000100, 0), 0x08000000, "loaded data at 0x08000000", failure.Link},
	} {
		f := &elf.File{
			Sections: []*elf.Section{text, c.more, data},
			Progs:    []*elf.Prog{{ProgHeader: elf.ProgHeader{Type: elf.PT_LOAD, Paddr: c.load, Filesz: 0x100}}},
		}
		i := Image{Template: &blueprint.Blueprint{}, Board: &boards.Board{Memory: []boards.Region{
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
