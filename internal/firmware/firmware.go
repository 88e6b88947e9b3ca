// Package firmware reads from a firmware's ELF file the bytes that it loads into memory, and the ranges of the
// firmware's checksum.
package firmware

import (
	"bytes"
	"cmp"
	"debug/elf"
	"fmt"
	"hash/crc32"
	"slices"

	"github.com/boardsmith/boardsmith/failure"
)

// Erased is the value of an erased byte of flash.
const Erased = 0xFF

// A Segment is data with its address.
type Segment struct {
	Addr uint64
	Data []byte
}

// End returns the first address after it.
func (s Segment) End() uint64 { return s.Addr + uint64(len(s.Data)) }

// Loads returns the data that must be in memory before the start, at their load addresses, sorted.
func Loads(f *elf.File, path string) (loads []Segment, err error) {
	for _, p := range f.Progs {
		if p.Type != elf.PT_LOAD || p.Filesz == 0 {
			continue
		}

		data := make([]byte, p.Filesz)
		if _, err := p.ReadAt(data, 0); err != nil {
			return nil, failure.New(failure.Config, "build again", "%s: %w", path, err)
		}
		loads = append(loads, Segment{Addr: p.Paddr, Data: data})
	}
	slices.SortFunc(loads, func(a, b Segment) int { return cmp.Compare(a.Addr, b.Addr) })
	return loads, nil
}

// Symbols returns the file's symbols by name. path is for errors, as in this whole package.
func Symbols(f *elf.File, path string) (map[string]uint64, error) {
	symbols, err := f.Symbols()
	if err != nil {
		return nil, failure.New(failure.Config, "build again", "%s: %w", path, err)
	}

	at := map[string]uint64{}
	for _, s := range symbols {
		at[s.Name] = s.Value
	}
	return at, nil
}

// CheckCovered returns an error for an image with data outside its parts: the checksum would not cover them. An
// image has no parts if its template names none.
func CheckCovered(f *elf.File, parts []Range) error {
	if len(parts) == 0 {
		return nil
	}
	for _, p := range f.Progs {
		if p.Type != elf.PT_LOAD {
			continue
		}

		// Parts may follow each other without a gap, so that several may cover one segment.
		for addr, end := p.Paddr, p.Paddr+p.Filesz; addr < end; {
			i := slices.IndexFunc(parts, func(r Range) bool { return addr >= r.Start && addr < r.End })
			if i < 0 {
				return fmt.Errorf("the data loaded at 0x%08x%s are outside the ranges of the firmware's checksum", addr,
					sectionAt(f, p, addr))
			}
			addr = parts[i].End
		}
	}
	return nil
}

// sectionAt returns the name of the section that a segment loads at an address.
func sectionAt(f *elf.File, p *elf.Prog, addr uint64) string {
	offset := p.Off + (addr - p.Paddr)
	for _, s := range f.Sections {
		if s.Flags&elf.SHF_ALLOC != 0 && s.Type != elf.SHT_NOBITS && offset-s.Offset < s.Size {
			return " (section " + s.Name + ")"
		}
	}
	return ""
}

// Parts are the data of the firmware's CRC-32, in this order.
type Parts [][]byte

// ReadParts reads them from the file; nil if the template names none. hole is the content of memory between the
// loads.
func ReadParts(f *elf.File, l Landmarks, path string, hole byte) (Parts, error) {
	ranges, err := l.FindParts(f, path)
	if err != nil || len(ranges) == 0 {
		return nil, err
	}
	loads, err := Loads(f, path)
	if err != nil {
		return nil, err
	}
	return PartsOf(ranges, loads, path, hole)
}

// maxHole limits the padding that the linker may insert for alignment.
const maxHole = 64 << 10

// PartsOf returns the bytes of each range.
func PartsOf(ranges []Range, loads []Segment, path string, hole byte) (Parts, error) {
	parts := make(Parts, len(ranges))
	for n, r := range ranges {
		at := r.Start
		for _, l := range loads {
			// A larger hole is no padding: the range then counts as incomplete.
			if l.End() <= at || l.Addr >= r.End || l.Addr > at && l.Addr-at > maxHole {
				continue
			}

			if l.Addr > at {
				parts[n] = append(parts[n], bytes.Repeat([]byte{hole}, int(l.Addr-at))...)
				at = l.Addr
			}

			data := l.Data[at-l.Addr : min(r.End-l.Addr, uint64(len(l.Data)))]
			parts[n] = append(parts[n], data...)
			at += uint64(len(data))
		}

		if at < r.End {
			return nil, failure.New(failure.Config, "build again", "%s: nothing at 0x%08x", path, at)
		}
	}
	return parts, nil
}

// CRC returns the CRC-32 of a nonce and the parts, as the firmware computes it.
func (p Parts) CRC(nonce []byte) uint32 {
	sum := crc32.ChecksumIEEE(nonce)
	for _, part := range p {
		sum = crc32.Update(sum, crc32.IEEETable, part)
	}
	return sum
}
