// This file checks the sections of an image against its board's memory map and, with a board's own linker script or
// start-up code, against the template's contract.

package imagecheck

import (
	"cmp"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"io"
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
	// Initial values of variables are loaded elsewhere than the variables lie.
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
			// An unsigned difference is less than a size only if the one span begins in the other.
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
func (i Program) checkRegions(f *elf.File) error {
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
func (i Program) checkContract(f *elf.File) error {
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
func (i Program) checkKept(f *elf.File) error {
	kept := i.Template.Landmarks.Kept
	if kept.Section == "" {
		return nil
	}

	s := f.Section(kept.Section)
	switch {
	case s == nil || s.Size == 0:
		return fmt.Errorf("section %s is missing: it keeps the fault record over a reset, with KEEP(*(%s)) in it",
			kept.Section, keptInput)
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
func (i Program) checkCleared(f *elf.File) error {
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
		// The window for uploaded code need not be cleared.
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

// keptInput is the section of objects with what a reset keeps, such as the fault record (templates/firmware/fault.c).
const keptInput = ".boardsmith.noinit"

// checkOrder returns an error for constructors that the start does not call, for a fault record that is not kept, and
// for content of the image before the vector table, where a boot loader or the core expects the table.
func (i Program) checkOrder(f *elf.File) error {
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
		const keep = "KEEP(*(SORT_BY_INIT_PRIORITY(.init_array.*))) KEEP(*(.init_array))"
		return fmt.Errorf("constructors are not called at the start: %s: from %s, place %s", lost, c.Constructors, keep)
	}

	if kept, ok := i.Template.Landmarks.Kept.Find(f); ok {
		if lost := order.Outside(keptInput, kept.Start, kept.End); lost != "" {
			return fmt.Errorf("the fault record is not kept over a reset: %s, not in %s: KEEP(*(%s)) places it there", lost,
				i.Template.Landmarks.Kept, keptInput)
		}
	}

	if f.Machine != elf.EM_ARM || c.Vectors == "" {
		return nil
	}

	table, ok := firmware.Place{Symbol: c.Vectors}.Find(f)
	if !ok {
		return fmt.Errorf("the vector table %s is not in the image: its section needs KEEP", c.Vectors)
	}

	code, _ := i.Board.Region(i.Board.Place.Code)
	if before := order.ContentBetween(uint64(code.Origin), table.Start); before != "" {
		return fmt.Errorf("the vector table %s at 0x%08x does not precede code and constants: %s: place its section first",
			c.Vectors, table.Start, before)
	}
	return i.checkVectors(f, table.Start)
}

// checkVectors returns an error for a vector table with which a Cortex-M does not start: its first word is the initial
// stack pointer, the second one the address of code for a reset, with the bit of Thumb code (ARMv7-M Architecture
// Reference Manual, DDI 0403E, B1.5.3).
func (i Program) checkVectors(f *elf.File, at uint64) error {
	if !strings.Contains(i.Board.ELF.Arch, "-m") {
		return nil // another profile, or not known
	}

	var words [2]uint32
	s := sectionAt(f, at, elf.SHF_ALLOC)
	if s == nil || s.Type != elf.SHT_PROGBITS || s.Addr+s.Size-at < 8 {
		return fmt.Errorf("the vector table %s at 0x%08x has no contents", i.Template.Contract.Vectors, at)
	}
	if err := binary.Read(io.NewSectionReader(s, int64(at-s.Addr), 8), f.ByteOrder, &words); err != nil {
		return fmt.Errorf("the vector table %s: %w", i.Template.Contract.Vectors, err)
	}
	stack, reset := uint64(words[0]), uint64(words[1])

	// The regions of a board that its build completes are not all known.
	inRAM := i.Template.Board != "" || slices.ContainsFunc(i.Board.Memory, func(r boards.Region) bool {
		isRAM := !r.Nonvolatile || r.Name == i.Board.Place.Data
		return isRAM && stack-uint64(r.Origin)-1 < uint64(r.Size) // it may be the end
	})

	switch {
	case !inRAM:
		return fmt.Errorf("the vector table %s begins with 0x%08x, which is in no RAM of the board: the first word is the "+
			"end of the handlers' stack", i.Template.Contract.Vectors, stack)
	case sectionAt(f, reset, elf.SHF_ALLOC|elf.SHF_EXECINSTR) == nil:
		return fmt.Errorf("the second word of the vector table %s, 0x%08x, is no code: it is the address of the reset's "+
			"function", i.Template.Contract.Vectors, reset)
	case reset&1 == 0:
		return fmt.Errorf("the second word of the vector table %s, 0x%08x, lacks the bit of Thumb code, 1: in assembler, "+
			"the reset's function needs .thumb_func", i.Template.Contract.Vectors, reset)
	}
	return nil
}

// sectionAt returns the section with an address that has all flags, nil if there is none.
func sectionAt(f *elf.File, address uint64, flags elf.SectionFlag) *elf.Section {
	i := slices.IndexFunc(f.Sections, func(s *elf.Section) bool {
		return s.Flags&flags == flags && s.Flags&elf.SHF_TLS == 0 && address-s.Addr < s.Size
	})
	if i < 0 {
		return nil
	}
	return f.Sections[i]
}
