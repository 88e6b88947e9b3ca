// This file recognises macros for bits by their names, and compares them with the fields of their registers.

package registers

import (
	"fmt"
	"strings"

	"github.com/boardsmith/boardsmith/targets/internal/svd"
)

// A field is one of a register that the C uses, and how surely a macro's name means it.
type field struct {
	svd.Field
	path   string // "RCC.CR.HSION"
	strong bool   // the name consists of those of register and field
	form   string // what the name says of the number: "position", "mask", or "" for either
}

// bits compares a macro whose name is that of a register and a field of it, such as RCC_CR_HSION. ok is false if the
// name means no field, or several that contradict each other.
func (c *comparison) bits(u use) (f Finding, ok bool) {
	if u.value.access {
		return f, false
	}

	candidates := c.candidates(u)
	// A name may mean several fields, such as one of each timer: one that fits confirms the number.
	for _, field := range candidates {
		if field.fits(u) {
			return Finding{
				Kind: Bits, Name: u.name, File: u.file, Line: u.line, Value: u.value.number, At: field.place(),
			}, true
		}
	}

	// Only a name that surely means a field can contradict it.
	for _, field := range candidates {
		if field.strong {
			return Finding{
				Kind: Bits, Name: u.name, File: u.file, Line: u.line, Value: u.value.number, At: field.place(),
				Misfit: "other bits",
			}, true
		}
	}

	return f, false
}

func (f field) place() string {
	if f.Width == 1 {
		return fmt.Sprintf("%s is bit %d", f.path, f.LSB)
	}
	return fmt.Sprintf("%s is bits %d to %d", f.path, f.LSB, f.LSB+f.Width-1)
}

// fits reports whether a number is the field's mask, its position, or one of its values, in place or not.
func (f field) fits(u use) bool {
	v, mask := u.value.number, f.Mask()
	switch f.form {
	case "position":
		return v == f.LSB
	case "mask":
		return v == mask

	}
	if v&^mask == 0 {
		return v != 0 || !u.value.bits
	}

	return !u.value.bits && (v == f.LSB || v < 1<<min(f.Width, 63)) // a value to be shifted
}

// endings of a name that say what its number is.
var endings = map[string]string{
	"_POS": "position", "_SHIFT": "position", "_LSB": "position", "_MSK": "mask", "_MASK": "mask", "_BITS": "mask",
}

// candidates returns the fields that a name may mean, of registers that the same file uses.
func (c *comparison) candidates(u use) (list []field) {
	name := strings.ToUpper(u.name)

	form := ""
	for ending, meaning := range endings {
		if rest, ok := strings.CutSuffix(name, ending); ok {
			name, form = rest, meaning
		}
	}

	for _, m := range c.matched {
		if m.file != u.file {
			continue
		}
		for _, f := range m.register.Fields {
			of, ok := strings.CutSuffix(name, "_"+strings.ToUpper(f.Name))
			if !ok {
				continue
			}

			if strong, ok := m.means(of); ok {
				list = append(list, field{f, m.peripheral.Name + "." + m.register.Name + "." + f.Name, strong, form})
			}
		}
	}

	return list
}

// means reports whether the part of a name before its field's means this register: surely if it is the macro's or
// those of peripheral and register; else if it is one of these or the beginning of the macro's.
func (m match) means(of string) (strong, ok bool) {
	peripheral, register := strings.ToUpper(m.peripheral.Name), strings.ToUpper(m.register.Name)
	// Macros leave out the clusters before a register's name.
	if i := strings.LastIndex(register, "."); i >= 0 {
		register = register[i+1:]
	}

	macro := strings.ToUpper(m.macro)
	if of == macro || of == peripheral+"_"+register {
		return true, true
	}

	return false, of == register || of == peripheral || strings.HasPrefix(macro, of+"_")
}
