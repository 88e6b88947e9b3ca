// This file checks the sections of an image against its board's memory map and, with a board's own linker script or
// start-up code, against the template's contract.

package imagecheck

import (
	"cmp"
	"debug/elf"
	"fmt"
	"slices"
	"strings"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/firmware"
	"github.com/boardsmith/boardsmith/internal/fit"
)

// A span is memory that an image uses.
type span struct {
	what        string
	start, size uint64
}

func (s span) String() string { return fmt.Sprintf("%s at 0x%08x, %d bytes,", s.what, s.start, s.size) }

// spans returns the memory that is loaded, and that of sections.
func spans(f *elf.File) (all []span) {
	for _, p := range f.Progs {
		if p.Type == elf.PT_LOAD && p.Filesz > 0 {
			all = append(all, span{"loaded data", p.Paddr, p.Filesz})
		}
	}
	for _, s := range f.Sections {
		if s.Flags&elf.SHF_ALLOC != 0 && s.Size > 0 {
			all = append(all, span{"section " + s.Name, s.Addr, s.Size})
		}
	}
	return all
}

const nextRegion = "correct the linker script, or the regions of the board file"

// CheckReserved returns an error for an image with code, data or variables in a reserved region.
func CheckReserved(f *elf.File, name string, b *boards.Board) error {
	for _, s := range spans(f) {
		for _, r := range b.Memory {
			origin, size := uint64(r.Origin), uint64(r.Size)
			if r.Reserved && (s.start-origin < size || origin-s.start < s.size) {
				return failure.New(failure.Link, nextRegion, "%s: %v reaches into region %s, which board %s reserves", name, s,
					r.Name, b.Name)
			}
		}
	}
	return nil
}

// checkRegions returns an error for an image with code, data or variables outside of the regions, or with variables at
// the addresses of other sections. The regions of a board that its build completes are not all known.
func (i Image) checkRegions(f *elf.File) error {
	if i.Template.Board != "" {
		return nil
	}
	name, b := i.Template.ELF, i.Board
	for _, s := range spans(f) {
		at := slices.IndexFunc(b.Memory, func(r boards.Region) bool { return s.start-uint64(r.Origin) < uint64(r.Size) })
		if at < 0 {
			return failure.New(failure.Link, nextRegion, "%s: %v is in no memory region of board %s", name, s, b.Name)
		}
		r := b.Memory[at]
		if left := uint64(r.Size) - (s.start - uint64(r.Origin)); s.size > left {
			return failure.New(failure.DoesNotFit, nextRegion,
				"%s: %v is %d bytes longer than the rest of region %s of board %s", name, s, s.size-left, r.Name, b.Name)
		}
	}
	return checkOverlaps(f, name)
}

// checkOverlaps returns an error for variables at the addresses of another section: linkers compare only sections with
// contents.
func checkOverlaps(f *elf.File, name string) error {
	var all []*elf.Section
	for _, s := range f.Sections {
		if s.Flags&elf.SHF_ALLOC != 0 && s.Flags&elf.SHF_TLS == 0 && s.Size > 0 {
			all = append(all, s)
		}
	}
	slices.SortStableFunc(all, func(a, b *elf.Section) int { return cmp.Compare(a.Addr, b.Addr) })
	for i := 1; i < len(all); i++ {
		a, b := all[i-1], all[i]
		if b.Addr-a.Addr < a.Size && (a.Type == elf.SHT_NOBITS || b.Type == elf.SHT_NOBITS) {
			return failure.New(failure.Link, nextRegion, "%s: sections %s and %s overlap at 0x%08x", name, a.Name, b.Name,
				b.Addr)
		}
	}
	return nil
}

// checkContract returns an error if an image with the board's own linker script or start-up code has a section in a
// wrong place, for which a linker script has no expression.
func (i Image) checkContract(f *elf.File) error {
	b, c := i.Board, i.Template.Contract
	if b.LinkerScript.Name == "" && b.Startup.Name == "" {
		return nil
	}
	if err := cmp.Or(i.checkKept(f), i.checkCleared(f), i.checkOrder(f)); err != nil {
		files := slices.DeleteFunc([]string{b.LinkerScript.Name, b.Startup.Name}, func(s string) bool { return s == "" })
		return failure.New(failure.Link, "see "+c.Page, "%s with %s: %w", i.Template.ELF,
			strings.Join(files, " and "), err)
	}
	return nil
}

// checkKept returns an error if memory that a reset keeps is missing, or if loading the image writes to it.
func (i Image) checkKept(f *elf.File) error {
	kept := i.Template.Landmarks.Kept
	if kept.Section == "" {
		return nil
	}
	s := f.Section(kept.Section)
	switch {
	case s == nil || s.Size == 0:
		return fmt.Errorf("section %s is missing: it keeps the fault record over a reset", kept.Section)
	case s.Type != elf.SHT_NOBITS:
		return fmt.Errorf("section %s has contents, which loading writes: it needs (NOLOAD)", kept.Section)
	}
	return errIfLoaded(f, s)
}

// errIfLoaded returns an error for a section in a segment, whose memory without contents a loader may clear.
func errIfLoaded(f *elf.File, s *elf.Section) error {
	if slices.ContainsFunc(f.Progs, func(p *elf.Prog) bool {
		return p.Type == elf.PT_LOAD && s.Addr < p.Vaddr+p.Memsz && p.Vaddr < s.Addr+s.Size
	}) {
		return fmt.Errorf("section %s is in a segment, which loading clears: it needs :NONE, with PHDRS", s.Name)
	}
	return nil
}

// checkCleared returns an error for variables that the start does not clear, and for memory that it must not clear.
func (i Image) checkCleared(f *elf.File) error {
	t := i.Template
	var cleared []firmware.Range
	for _, place := range t.Contract.Cleared {
		if r, ok := place.Find(f); ok {
			cleared = append(cleared, r)
		}
	}
	uncleared := slices.Concat(t.Areas.Stacks, t.Areas.Arena, []string{t.Landmarks.Kept.Section})
	window, hasWindow := firmware.Place{Symbol: t.Contract.Window}.Find(f)
	for _, s := range f.Sections {
		if s.Flags&elf.SHF_ALLOC == 0 || s.Type != elf.SHT_NOBITS || s.Size == 0 ||
			hasWindow && window.Start-s.Addr < s.Size {
			continue
		}
		inside := slices.ContainsFunc(cleared, func(r firmware.Range) bool {
			return s.Addr >= r.Start && s.Addr+s.Size <= r.End
		})
		touched := slices.ContainsFunc(cleared, func(r firmware.Range) bool {
			return s.Addr < r.End && r.Start < s.Addr+s.Size
		})
		switch kept := slices.Contains(uncleared, s.Name); {
		case kept && touched:
			return fmt.Errorf("section %s is in memory that is cleared at the start", s.Name)
		case !kept && !inside:
			return fmt.Errorf("section %s, %d bytes at 0x%08x, is not cleared at the start", s.Name, s.Size, s.Addr)
		}
	}
	return nil
}

// checkOrder returns an error for constructors that the start does not call, and for code of the image before the
// vector table, where a boot loader or the core expects the table.
func (i Image) checkOrder(f *elf.File) error {
	c := i.Template.Contract
	called, ok := c.Constructors.Find(f)
	if !ok {
		return nil // the template does not name them
	}
	order, err := fit.OpenOrder(i.Map)
	if err != nil {
		return err
	}
	if lost := order.LostConstructors(called.Start, called.End); lost != "" {
		return fmt.Errorf("constructors are not called at the start: %s", lost)
	}
	table, _ := firmware.Place{Symbol: c.Vectors}.Find(f) // without one, nothing precedes address 0
	code, _ := i.Board.Region(i.Board.Place.Code)
	if f.Machine != elf.EM_ARM {
		return nil
	}
	if before := order.CodeBetween(uint64(code.Origin), table.Start); before != "" {
		return fmt.Errorf("the vector table %s at 0x%08x does not precede the code: %s", c.Vectors, table.Start, before)
	}
	return nil
}
