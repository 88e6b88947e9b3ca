// This file lists the functions and variables of an image.

package fit

import (
	"cmp"
	"debug/elf"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/boardsmith/boardsmith/failure"
)

// A SymbolUse is the memory of the functions and variables of one name in one part, in bytes. What the compiler made of
// a function, such as "f.constprop.0", counts for the function.
type SymbolUse struct {
	Part, Name string
	Flash      int64 // code, constants and initial values
	RAM        int64 // variables, and code that is copied there
}

// Symbols returns the functions and variables of the image, by part and name, without stacks and the arena, as
// Usage.Shares counts them. Regions are as for Usage. It is empty for a stripped image. Errors have class config: a
// damaged image.
func (l *Layout) Symbols(regions []RegionUse) ([]SymbolUse, error) {
	regions = l.regionsOf(regions)
	symbols, err := l.symbols()
	if err != nil {
		return nil, err
	}

	sections := map[elf.SectionIndex]*mapSection{}
	uses := map[[2]string]SymbolUse{}

	for _, s := range symbols {
		sec := l.image.Sections[s.Section]
		if sections[s.Section] == nil {
			sections[s.Section] = l.section(sec)
		}
		in := sections[s.Section]

		at := [2]string{l.partAt(in, s.Value), sourceName(s.Name)}
		if at[0] == partStack || at[0] == partArena {
			continue
		}

		u := uses[at]
		u.Part, u.Name = at[0], at[1]

		inFlash, inRAM := sec.Type != elf.SHT_NOBITS, sec.Flags&elf.SHF_WRITE != 0

		// Of a process, which has no regions, the section alone decides.
		if i := regionAt(regions, s.Value); i >= 0 {
			inRAM = !regions[i].Flash
			// What is in RAM takes flash, too, if it is copied from there.
			inFlash = !inRAM || inFlash && in.load != in.address
		}

		if inFlash {
			u.Flash += int64(s.Size)
		}
		if inRAM {
			u.RAM += int64(s.Size)
		}

		uses[at] = u
	}

	return slices.SortedFunc(maps.Values(uses), func(a, b SymbolUse) int {
		return cmp.Or(cmp.Compare(a.Part, b.Part), cmp.Compare(a.Name, b.Name))
	}), nil
}

// symbols returns the functions and variables in memory, by address, with the size that none before it covers: an
// alias, and an entry into another function, take no memory of their own.
func (l *Layout) symbols() ([]elf.Symbol, error) {
	all, err := l.image.Symbols()
	if err != nil && !errors.Is(err, elf.ErrNoSymbols) {
		return nil, failure.New(failure.Config, "build again", "the firmware's symbols: %w", err)
	}

	all = slices.DeleteFunc(all, func(s elf.Symbol) bool {
		kind := elf.ST_TYPE(s.Info)
		return kind != elf.STT_FUNC && kind != elf.STT_OBJECT || s.Size == 0 || int(s.Section) >= len(l.image.Sections) ||
			l.image.Sections[s.Section].Flags&elf.SHF_ALLOC == 0
	})

	for i, s := range all {
		if l.image.Machine == elf.EM_ARM && elf.ST_TYPE(s.Info) == elf.STT_FUNC {
			all[i].Value &^= 1 // of code in Thumb
		}
	}

	return withoutOverlaps(all), nil
}

// withoutOverlaps sorts symbols by address, the longest first, and cuts what an earlier one of the same section covers.
func withoutOverlaps(all []elf.Symbol) (kept []elf.Symbol) {
	slices.SortStableFunc(all, func(a, b elf.Symbol) int {
		return cmp.Or(cmp.Compare(a.Section, b.Section), cmp.Compare(a.Value, b.Value), cmp.Compare(b.Size, a.Size))
	})

	var end uint64
	for i, s := range all {
		if i == 0 || s.Section != all[i-1].Section {
			end = 0
		}

		if covered := min(max(end, s.Value)-s.Value, s.Size); covered < s.Size {
			end = s.Value + s.Size
			s.Value, s.Size = s.Value+covered, s.Size-covered
			kept = append(kept, s)
		}
	}

	return kept
}

// sourceName returns a symbol's name without what the compiler adds after a dot.
func sourceName(name string) string {
	if at := strings.IndexByte(name, '.'); at > 0 {
		return name[:at]
	}
	return name
}

// partAt returns the part of what is at an address of a section.
func (l *Layout) partAt(s *mapSection, address uint64) string {
	for i := range s.pieces {
		if p := &s.pieces[i]; address >= p.address && address < p.address+p.size {
			return l.partOf(s, p)
		}
	}
	return partOther
}
