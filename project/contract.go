// This file checks an image against its board's memory map, and one with a board's own linker script or start-up code
// against the template's contract.

package project

import (
	"cmp"
	"debug/elf"
	"errors"
	"fmt"
	"math/bits"
	"path/filepath"
	"slices"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/firmware"
	"github.com/boardsmith/boardsmith/internal/fit"
	"github.com/boardsmith/boardsmith/internal/toolwords"
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

// checkReserved returns an error for an image with code, data or variables in a reserved region.
func checkReserved(f *elf.File, name string, b *boards.Board) error {
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

// checkRegions returns an error for an image with code, data or variables outside of the regions.
func checkRegions(f *elf.File, name string, b *boards.Board) error {
	for _, s := range spans(f) {
		if !slices.ContainsFunc(b.Memory, func(r boards.Region) bool {
			before := s.start - uint64(r.Origin)
			return before < uint64(r.Size) && s.size <= uint64(r.Size)-before
		}) {
			return failure.New(failure.Link, nextRegion, "%s: %v is not in one memory region of board %s", name, s, b.Name)
		}
	}
	return nil
}

// checkContract returns an error if an image with the board's own linker script or start-up code lacks what the
// template's code or the host needs.
func (p *Project) checkContract(f *elf.File) error {
	b, c := p.Board(), p.state.Template.Contract
	if b.LinkerScript.Name == "" && b.Startup.Name == "" {
		return nil
	}
	if err := checkRegions(f, p.state.Template.ELF, b); err != nil {
		return err
	}
	symbols, err := definedSymbols(f)
	if err != nil {
		return failure.New(failure.Link, "", "%s: %w", p.state.Template.ELF, err)
	}
	for _, list := range p.contractLists(b) {
		for _, name := range list.symbols {
			if _, ok := symbols[name]; !ok {
				return p.undefined(list, name)
			}
		}
	}
	if err := cmp.Or(p.checkVectors(f, symbols), p.checkStacks(f), p.checkKept(f), p.checkCleared(f, symbols),
		p.checkWindow(symbols), p.checkOrder(f, symbols)); err != nil {
		return failure.New(failure.Link, "see "+c.Page, "%s with %s: %w", p.state.Template.ELF, ownNames(b), err)
	}
	return nil
}

// A contractList is the symbols that one of the board's files must define.
type contractList struct {
	what, file string
	symbols    []string
	used       []string // those that only some firmware refers to
}

// contractLists returns the lists for the files that the board brings.
func (p *Project) contractLists(b *boards.Board) (all []contractList) {
	c := p.state.Template.Contract
	if b.LinkerScript.Name != "" {
		all = append(all, contractList{"linker script", b.LinkerScript.Name, c.LinkerScript, c.Used})
	}
	if b.Startup.Name != "" {
		symbols := slices.Clip(c.Startup)
		if b.ELF.Machine == "arm" && c.Vectors != "" {
			symbols = append(symbols, c.Vectors)
		}
		all = append(all, contractList{"start-up code", b.Startup.Name, symbols, nil})
	}
	return all
}

func ownNames(b *boards.Board) string {
	switch {
	case b.Startup.Name == "":
		return "linker script " + b.LinkerScript.Name
	case b.LinkerScript.Name == "":
		return "start-up code " + b.Startup.Name
	}
	return b.LinkerScript.Name + " and " + b.Startup.Name
}

func (p *Project) undefined(l contractList, symbol string) error {
	return failure.New(failure.Link, "see "+p.state.Template.Contract.Page, "the %s %s of board %s does not define %s",
		l.what, l.file, p.state.Board.Name, symbol)
}

// brokenContract replaces a linker's error about a symbol that the board's linker script or start-up code must define.
func (p *Project) brokenContract(err error) error {
	var tool *ToolError
	if !errors.As(err, &tool) {
		return err
	}
	missing := toolwords.MissingSymbol(tool.Message + "\n" + string(tool.Tail))
	for _, l := range p.contractLists(p.Board()) {
		if slices.Contains(slices.Concat(l.symbols, l.used), missing) {
			return p.undefined(l, missing)
		}
	}
	return err
}

// definedSymbols returns the symbols that a file defines, by name.
func definedSymbols(f *elf.File) (map[string]elf.Symbol, error) {
	symbols, err := f.Symbols()
	if err != nil {
		return nil, err
	}
	all := map[string]elf.Symbol{}
	for _, s := range symbols {
		if s.Section != elf.SHN_UNDEF {
			all[s.Name] = s
		}
	}
	return all, nil
}

// minTableBytes is the alignment of the shortest vector table of a Cortex-M (VTOR has bits from 7 on).
const minTableBytes = 128

// checkVectors returns an error for a vector table outside of the region of the code, or not aligned to the next power
// of two above its size (Armv7-M Architecture Reference Manual, DDI 0403, B3.2.5).
func (p *Project) checkVectors(f *elf.File, symbols map[string]elf.Symbol) error {
	name := p.state.Template.Contract.Vectors
	table, ok := symbols[name]
	if !ok || f.Machine != elf.EM_ARM {
		return nil
	}
	b := p.Board()
	r, _ := b.Region(b.Place.Code)
	if table.Value-uint64(r.Origin) >= uint64(r.Size) {
		return fmt.Errorf("the vector table %s at 0x%08x is not in region %s, which holds the code", name, table.Value,
			r.Name)
	}
	align := max(uint64(minTableBytes), 1<<bits.Len64(max(table.Size, 1)-1))
	if table.Value%align != 0 {
		return fmt.Errorf("the vector table %s at 0x%08x, %d bytes, is not aligned to %d bytes", name, table.Value,
			table.Size, align)
	}
	return nil
}

// checkStacks returns an error for a thread's stack that is smaller than the board's option.
func (p *Project) checkStacks(f *elf.File) error {
	stacks := p.state.Template.Landmarks.Stacks
	want := p.configured("BOARDSMITH_STACK_BYTES", 1, func(o boards.Options) int { return o.StackBytes })
	for i, place := range stacks {
		r, ok := place.Find(f)
		switch {
		case !ok || r.Size() == 0:
			return fmt.Errorf("there is no stack from %v", place)
		case i == 0 && r.Size() < uint64(want):
			return fmt.Errorf("the stack from %v has %d bytes, stack_bytes is %d", place, r.Size(), want)
		}
	}
	return nil
}

// checkKept returns an error if memory that a reset keeps is missing, or if loading the image writes to it.
func (p *Project) checkKept(f *elf.File) error {
	kept := p.state.Template.Landmarks.Kept
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
func (p *Project) checkCleared(f *elf.File, symbols map[string]elf.Symbol) error {
	t := &p.state.Template.Blueprint
	var cleared []firmware.Range
	for _, place := range t.Contract.Cleared {
		r, ok := place.Find(f)
		if !ok || r.Start%8 != 0 || r.End%8 != 0 {
			return fmt.Errorf("%v is not a range of whole 8 bytes", place)
		}
		cleared = append(cleared, r)
	}
	uncleared := slices.Concat(t.Areas.Stacks, t.Areas.Arena, []string{t.Landmarks.Kept.Section})
	window, hasWindow := symbols[t.Contract.Window]
	for _, s := range f.Sections {
		if s.Flags&elf.SHF_ALLOC == 0 || s.Type != elf.SHT_NOBITS || s.Size == 0 ||
			hasWindow && window.Value-s.Addr < s.Size {
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
func (p *Project) checkOrder(f *elf.File, symbols map[string]elf.Symbol) error {
	c := p.state.Template.Contract
	first, ok := symbols[c.Constructors.Symbol]
	if !ok {
		return nil // the template does not name them
	}
	order, err := fit.OpenOrder(filepath.Join(p.dir, filepath.FromSlash(p.state.Template.Map)))
	if err != nil {
		return err
	}
	if lost := order.LostConstructors(first.Value, symbols[c.Constructors.End].Value); lost != "" {
		return fmt.Errorf("constructors are not called at the start: %s", lost)
	}
	table, ok := symbols[c.Vectors]
	code, _ := p.Board().Region(p.Board().Place.Code)
	if !ok || f.Machine != elf.EM_ARM {
		return nil
	}
	if before := order.CodeBetween(uint64(code.Origin), table.Value); before != "" {
		return fmt.Errorf("the vector table %s at 0x%08x does not precede the code: %s", c.Vectors, table.Value, before)
	}
	return nil
}

// checkWindow returns an error for a window of uploaded code that is not aligned to its size, or at address 0.
func (p *Project) checkWindow(symbols map[string]elf.Symbol) error {
	name := p.state.Template.Contract.Window
	size := p.configured("BOARDSMITH_UPLOAD_BYTES", 0, func(o boards.Options) int { return o.UploadKiB * 1024 })
	if name == "" || size == 0 {
		return nil
	}
	at, ok := symbols[name]
	if !ok {
		return fmt.Errorf("%s, the window for uploaded code, is missing", name)
	}
	if at.Value == 0 || at.Value%uint64(size) != 0 {
		return fmt.Errorf("%s at 0x%08x is not aligned to the window's %d bytes, or 0", name, at.Value, size)
	}
	return nil
}
