// This file checks in the linker's map where a board's linker script places constructors and code.

package fit

import (
	"fmt"
	"strings"
)

// An Order is where the linker put what the firmware finds by its place. Its zero value is not valid.
type Order struct{ from *linkMap }

// OpenOrder reads a map. Errors are of class config.
func OpenOrder(mapFile string) (Order, error) {
	m, err := openMap(mapFile)
	return Order{m}, err
}

// isConstructors reports whether a section of an object has addresses of constructors.
func isConstructors(section string) bool {
	return section == ".init_array" || strings.HasPrefix(section, ".init_array.")
}

// LostConstructors returns the first constructors that the start does not call, because they are not in the image or
// not between the addresses start and end; "" if all are there.
func (o Order) LostConstructors(start, end uint64) string {
	for _, p := range o.from.discarded {
		return fmt.Sprintf("section %s of %s is not in the image: it needs KEEP", p.name, p.from())
	}
	for _, s := range o.from.sections {
		for _, p := range s.pieces {
			if isConstructors(p.name) && (p.address < start || p.address+p.size > end) {
				return fmt.Sprintf("section %s of %s is at 0x%08x, not among the constructors", p.name, p.from(), p.address)
			}
		}
	}
	return ""
}

// CodeBetween returns the first code between the addresses start and end, "" if there is none.
func (o Order) CodeBetween(start, end uint64) string {
	for _, s := range o.from.sections {
		for _, p := range s.pieces {
			isCode := p.name == ".text" || strings.HasPrefix(p.name, ".text.")
			if isCode && p.address >= start && p.address < end {
				return fmt.Sprintf("section %s of %s at 0x%08x", p.name, p.from(), p.address)
			}
		}
	}
	return ""
}

// from returns the piece's object, with its archive.
func (p mapPiece) from() string {
	if p.member != "" {
		return p.object + "(" + p.member + ")"
	}
	return p.object
}
