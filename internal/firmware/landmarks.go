// This file finds places in an image by names that its template defines.

package firmware

import (
	"cmp"
	"debug/elf"
	"strings"

	"github.com/boardsmith/boardsmith/failure"
)

// Landmarks describe how to find places in a template's ELF file that the host needs. A template may omit any of
// them.
type Landmarks struct {
	// the ranges of the firmware's checksum, in its order, at load addresses
	Parts      []Place `json:"parts,omitempty"`
	Kept       Place   `json:"kept,omitzero"`        // memory that outlasts a reset, including the fault record
	ResetCause Place   `json:"reset_cause,omitzero"` // a word, see docs/templates.md
	Stacks     []Place `json:"stacks,omitempty"`     // the thread's stack, then the handlers'
	Folders    Folders `json:"folders,omitzero"`     // where the sources lie
	// Protocol is what the firmware speaks: "" is RPC, Lines that of standalone firmware
	Protocol string `json:"protocol,omitempty" is:"lines|"`
}

// Lines is the Protocol of standalone firmware (boardsmith.md, "Standalone firmware").
const Lines = "lines"

// Folders name the folders of a project for the archive's files and for the runtime. The paths of objects, below the
// build folder, and of sources in debugging information begin with them, too.
type Folders struct {
	Model   string `json:"model,omitempty" is:"inside"`   // "" is "model"
	Runtime string `json:"runtime,omitempty" is:"inside"` // "" is "crt"
}

// OfModel is the archive's folder.
func (f Folders) OfModel() string { return cmp.Or(f.Model, "model") }

// OfRuntime is the runtime's folder.
func (f Folders) OfRuntime() string { return cmp.Or(f.Runtime, "crt") }

// InModel reports whether a slash path is in the archive's folder.
func (f Folders) InModel(name string) bool { return strings.HasPrefix(name, f.OfModel()+"/") }

// InRuntime reports whether a slash path is in the runtime's folder.
func (f Folders) InRuntime(name string) bool { return strings.HasPrefix(name, f.OfRuntime()+"/") }

// A Place is a symbol with its size, the range between two symbols, or a section.
type Place struct {
	Symbol  string `json:"symbol,omitempty" is:"either"`
	Else    string `json:"else,omitempty" with:"symbol"` // the symbol in images without Symbol, as settings of a build decide
	End     string `json:"end,omitempty" with:"symbol"`  // the symbol after it; "" if Symbol has a size
	Section string `json:"section,omitempty" is:"either"`
	// of a part: images that no programmer writes, because they run from RAM or are programs, may lack it
	Optional bool `json:"optional,omitempty"`
}

// A Range is the addresses from Start to below End.
type Range struct{ Start, End uint64 }

// Size is its number of bytes.
func (r Range) Size() uint64 { return r.End - r.Start }

func (p Place) String() string {
	if p.Else != "" {
		return p.Symbol + " or " + p.Else
	}
	return strings.TrimSuffix(p.Symbol+p.Section+" to "+p.End, " to ")
}

// Find returns the addresses of a place as the firmware uses them. ok is false if the file has no such place.
func (p Place) Find(f *elf.File) (r Range, ok bool) {
	if p.Section != "" {
		s := f.Section(p.Section)
		if s == nil {
			return r, false
		}
		return Range{s.Addr, s.Addr + s.Size}, true
	}

	symbols, err := f.Symbols()
	if err != nil || p.Symbol == "" {
		return r, false // stripped
	}

	start, ok := symbolNamed(symbols, p.Symbol)
	if !ok && p.Else != "" {
		start, ok = symbolNamed(symbols, p.Else)
	}

	r = Range{start.Value, start.Value + start.Size}
	if p.End == "" || !ok {
		return r, ok
	}

	end, ok := symbolNamed(symbols, p.End)
	r.End = end.Value
	return r, ok && r.End >= r.Start
}

// symbolNamed returns the symbol of a name that is defined in the file.
func symbolNamed(symbols []elf.Symbol, name string) (elf.Symbol, bool) {
	for _, s := range symbols {
		if s.Name == name && s.Section != elf.SHN_UNDEF {
			return s, true
		}
	}
	return elf.Symbol{}, false
}

// FindParts returns the load addresses of the parts; none if the template names none. It returns an error of class
// config if the file lacks a part that is not optional.
func (l Landmarks) FindParts(f *elf.File, path string) ([]Range, error) {
	var ranges []Range
	for _, p := range l.Parts {
		r, ok := p.Find(f)
		if p.Section != "" {
			// The checksum covers the bytes at the addresses that they are loaded to.
			r = Loaded(f, r)
		}

		if !ok && p.Optional {
			continue
		}
		if !ok || r.End <= r.Start {
			return nil, failure.New(failure.Config,
				"build again, or correct the linker script, or landmarks.parts in template.json",
				"%s lacks a part that its template names: %v", path, p)
		}
		ranges = append(ranges, r)
	}
	return ranges, nil
}

// IsConstant reports whether a section is never written: code, constants, and those of TVM, which are not const in C:
// their section counts as writable where it stays in flash, too.
func IsConstant(f *elf.File, s *elf.Section) bool {
	r := Range{s.Addr, s.Addr + s.Size}
	return s.Flags&elf.SHF_WRITE == 0 || strings.Contains(s.Name, "rodata") && Loaded(f, r) == r
}

// Loaded converts a section's addresses to load addresses.
func Loaded(f *elf.File, r Range) Range {
	for _, p := range f.Progs {
		if p.Type == elf.PT_LOAD && r.Start >= p.Vaddr && r.End <= p.Vaddr+p.Filesz {
			return Range{r.Start - p.Vaddr + p.Paddr, r.End - p.Vaddr + p.Paddr}
		}
	}
	return r
}
