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
	RAM        int64 // variables
}

// Symbols returns the functions and variables of the image, by part and name. It is empty for a stripped image. Errors
// have class config: a damaged image.
func (l *Layout) Symbols() ([]SymbolUse, error) {
	symbols, err := l.image.Symbols()
	if err != nil && !errors.Is(err, elf.ErrNoSymbols) {
		return nil, failure.New(failure.Config, "build again", "the firmware's symbols: %w", err)
	}
	sections := map[elf.SectionIndex]*mapSection{}
	addresses := map[uint64]bool{} // of symbols so far: an alias takes no memory
	uses := map[[2]string]SymbolUse{}
	for _, s := range symbols {
		kind := elf.ST_TYPE(s.Info)
		if kind != elf.STT_FUNC && kind != elf.STT_OBJECT || s.Size == 0 || int(s.Section) >= len(l.image.Sections) {
			continue
		}
		sec := l.image.Sections[s.Section]
		if sec.Flags&elf.SHF_ALLOC == 0 || addresses[s.Value] {
			continue
		}
		addresses[s.Value] = true
		if sections[s.Section] == nil {
			sections[s.Section] = l.section(sec)
		}
		at := [2]string{l.partAt(sections[s.Section], s.Value), sourceName(s.Name)}
		u := uses[at]
		u.Part, u.Name = at[0], at[1]
		if sec.Type != elf.SHT_NOBITS {
			u.Flash += int64(s.Size)
		}
		if sec.Flags&elf.SHF_WRITE != 0 {
			u.RAM += int64(s.Size)
		}
		uses[at] = u
	}
	return slices.SortedFunc(maps.Values(uses), func(a, b SymbolUse) int {
		return cmp.Or(cmp.Compare(a.Part, b.Part), cmp.Compare(a.Name, b.Name))
	}), nil
}

// sourceName returns a symbol's name without what the compiler adds after a dot.
func sourceName(name string) string {
	if at := strings.IndexByte(name, '.'); at > 0 {
		return name[:at]
	}
	return name
}

// partAt returns the part of what is at an address of a section. Bit 0 of an address in Thumb code is not part of it.
func (l *Layout) partAt(s *mapSection, address uint64) string {
	for i := range s.pieces {
		if p := &s.pieces[i]; address >= p.address && address < p.address+p.size {
			return l.partOf(s, p)
		}
	}
	return partOther
}
