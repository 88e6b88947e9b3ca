// Package firmware reads what a firmware's ELF file puts into memory, and which of these bytes the firmware computes its
// checksum over.
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

// A Segment is bytes and the address that they belong to.
type Segment struct {
	Addr uint64
	Data []byte
}

// End is the address behind its last byte.
func (s Segment) End() uint64 { return s.Addr + uint64(len(s.Data)) }

// Loads are the bytes that the file wants in memory before it starts, and where they are put, by address.
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

// Symbols are the file's symbols by their names. path is for errors, as in all of this package.
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

// CheckCovered refuses an image with bytes outside of its parts: they would be written, and no checksum would tell if they
// changed. An image without parts is one whose template names none.
func CheckCovered(f *elf.File, parts []Range) error {
	if len(parts) == 0 {
		return nil
	}
	for _, p := range f.Progs {
		if p.Type != elf.PT_LOAD {
			continue
		}
		for addr, end := p.Paddr, p.Paddr+p.Filesz; addr < end; {
			i := slices.IndexFunc(parts, func(r Range) bool { return addr >= r.Start && addr < r.End })
			if i < 0 {
				return fmt.Errorf("what is loaded at 0x%08x%s is outside of the parts that the firmware's checksum covers", addr, sectionAt(f, p, addr))
			}
			addr = parts[i].End
		}
	}
	return nil
}

// sectionAt names the section that a segment loads at an address.
func sectionAt(f *elf.File, p *elf.Prog, addr uint64) string {
	offset := p.Off + (addr - p.Paddr)
	for _, s := range f.Sections {
		if s.Flags&elf.SHF_ALLOC != 0 && s.Type != elf.SHT_NOBITS && offset-s.Offset < s.Size {
			return " (section " + s.Name + ")"
		}
	}
	return ""
}

// Parts are the bytes that the firmware computes its CRC-32 over, in this order.
type Parts [][]byte

// ReadParts reads them from the file; nil where the template names none. hole is what memory has between the loads.
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

// maxHole is how many bytes the linker may leave out to align what follows.
const maxHole = 64 << 10

// PartsOf returns the bytes of each range.
func PartsOf(ranges []Range, loads []Segment, path string, hole byte) (Parts, error) {
	parts := make(Parts, len(ranges))
	for n, r := range ranges {
		at := r.Start
		for _, l := range loads {
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

// CRC is the CRC-32 of a nonce and the parts, as the firmware computes it.
func (p Parts) CRC(nonce []byte) uint32 {
	sum := crc32.ChecksumIEEE(nonce)
	for _, part := range p {
		sum = crc32.Update(sum, crc32.IEEETable, part)
	}
	return sum
}
