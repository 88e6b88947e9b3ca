package imagecheck

import (
	"debug/elf"
	"testing"
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
