// This file checks in the linker's map where a board's linker script places constructors and code.

package fit

import (
	"fmt"
	"slices"
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
		return fmt.Sprintf("section %s of %s is not in the image", p.name, p.from())
	}

	lost := o.find(func(p mapPiece) bool {
		return isConstructors(p.name) && (p.address < start || p.address+p.size > end)
	})

	if lost != "" {
		lost += ", not among the constructors"
	}
	return lost
}

// Outside returns the first section of objects with a name that is not between the addresses start and end, "" if all
// are there.
func (o Order) Outside(section string, start, end uint64) string {
	return o.find(func(p mapPiece) bool {
		return p.name == section && (p.address < start || p.address+p.size > end)
	})
}

// ContentBetween returns the first code or constants between the addresses start and end, "" if there are none.
func (o Order) ContentBetween(start, end uint64) string {
	return o.find(func(p mapPiece) bool {
		isContent := strings.HasPrefix(p.name+".", ".text.") || strings.HasPrefix(p.name+".", ".rodata.")
		return isContent && p.address >= start && p.address < end
	})
}

// find returns the first piece that is accepted, with its address, "" if there is none.
func (o Order) find(accept func(mapPiece) bool) string {
	for _, s := range o.from.sections {
		if i := slices.IndexFunc(s.pieces, accept); i >= 0 {
			return fmt.Sprintf("section %s of %s at 0x%08x", s.pieces[i].name, s.pieces[i].from(), s.pieces[i].address)
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
