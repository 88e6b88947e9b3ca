// This file cuts an image into the sectors of the board's flash.

package project

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/flasher"
)

// A flashImage is what an image wants the flash to hold, in whole sectors.
type flashImage struct {
	*Image
	sectors []imageSector // by address
	parts   imageParts
}

// An imageSector is one sector and all its bytes; what the image leaves open is as erased.
type imageSector struct {
	flasher.Sector
	data    []byte
	digest  string // SHA-256 of data, in hexadecimal
	holdsID bool   // the build id lies in it
	rated   int    // erase cycles; 0 means not limited
}

func (s imageSector) segment() flasher.Segment { return flasher.Segment{Addr: s.Addr, Data: s.data} }

const erasedByte = 0xFF

// flashImageOf reads the ELF file. Bytes outside of the board's flash, or in a reserved region, are an error.
func flashImageOf(b *boards.Board, i *Image) (*flashImage, error) {
	f, err := i.elf()
	if err != nil {
		return nil, err
	}
	loads, err := loadsOf(f, i.Path)
	if err != nil {
		return nil, err
	}
	img := &flashImage{Image: i}
	for _, l := range loads {
		if err := img.put(b, l.Addr, l.Data); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(img.sectors, func(a, b imageSector) int { return cmp.Compare(a.Addr, b.Addr) })
	return img, img.identify(f, loads)
}

// loadsOf are the bytes that the file wants in memory before it starts, and where they are put, by address.
func loadsOf(f *elf.File, path string) (loads []flasher.Segment, err error) {
	for _, p := range f.Progs {
		if p.Type != elf.PT_LOAD || p.Filesz == 0 {
			continue
		}
		data := make([]byte, p.Filesz)
		if _, err := p.ReadAt(data, 0); err != nil {
			return nil, failure.New(failure.Config, "build again", "%s: %w", path, err)
		}
		loads = append(loads, flasher.Segment{Addr: p.Paddr, Data: data})
	}
	slices.SortFunc(loads, func(a, b flasher.Segment) int { return cmp.Compare(a.Addr, b.Addr) })
	return loads, nil
}

// put lays data into the sectors that it touches.
func (img *flashImage) put(b *boards.Board, addr uint64, data []byte) error {
	for len(data) > 0 {
		s, err := img.sectorAt(b, addr)
		if err != nil {
			return err
		}
		n := copy(s.data[addr-s.Addr:], data)
		addr, data = addr+uint64(n), data[n:]
	}
	return nil
}

func (img *flashImage) sectorAt(b *boards.Board, addr uint64) (*imageSector, error) {
	for i := range img.sectors {
		if s := &img.sectors[i]; addr-s.Addr < s.Size {
			return s, nil
		}
	}
	at, rated, err := sectorOf(b, addr)
	if err != nil {
		return nil, err
	}
	img.sectors = append(img.sectors, imageSector{Sector: at, data: bytes.Repeat([]byte{erasedByte}, int(at.Size)), rated: rated})
	return &img.sectors[len(img.sectors)-1], nil
}

// sectorOf finds the erase unit of an address in the board's memory map.
func sectorOf(b *boards.Board, addr uint64) (s flasher.Sector, rated int, err error) {
	for _, r := range b.Memory {
		if !r.Nonvolatile || addr-uint64(r.Origin) >= uint64(r.Size) {
			continue
		}
		if r.Reserved {
			return s, 0, failure.New(failure.Config, "link the firmware elsewhere", "the image has bytes at 0x%08x, in region %s, which board %s reserves", addr, r.Name, b.Name)
		}
		at := uint64(r.Origin)
		for index, run := 0, 0; run < len(r.Sectors); run++ {
			size := uint64(r.Sectors[run].Size)
			if n := (addr - at) / size; n < uint64(r.Sectors[run].Count) {
				return flasher.Sector{Index: index + int(n), Addr: at + n*size, Size: size}, r.EraseCycles, nil
			}
			at += size * uint64(r.Sectors[run].Count)
			index += r.Sectors[run].Count
		}
	}
	return s, 0, failure.New(failure.Config, "look at the board's memory map (mage board:show)", "the image has bytes at 0x%08x, where board %s has no flash with sectors", addr, b.Name)
}

// identify computes the digests, and finds the image's parts and the sector with the build id.
func (img *flashImage) identify(f *elf.File, loads []flasher.Segment) error {
	at, err := symbolsOf(f, img.Path)
	if err != nil {
		return err
	}
	for i := range img.sectors {
		s := &img.sectors[i]
		sum := sha256.Sum256(s.data)
		s.digest = hex.EncodeToString(sum[:])
		s.holdsID = at["boardsmith_build_id"]-s.Addr < s.Size
	}
	if err := coverAll(f, at); err != nil {
		return failure.New(failure.Config, "build again", "%s: %w", img.Path, err)
	}
	img.parts, err = partsOf(at, loads, img.Path, erasedByte)
	return err
}

func symbolsOf(f *elf.File, path string) (map[string]uint64, error) {
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

// partSymbols are the linker script's names for where the parts of imageParts start and end.
var partSymbols = [len(imageParts{})]struct{ start, end string }{{"bare_image_start", "bare_resident_end"}, {"bare_model", "bare_image_end"}}

// coverAll refuses an image with bytes outside of its parts: they would be written, and no checksum would tell if they
// changed. An image that names no parts is another template's.
func coverAll(f *elf.File, at map[string]uint64) error {
	if at[partSymbols[0].end] == 0 {
		return nil
	}
	for _, p := range f.Progs {
		if p.Type != elf.PT_LOAD {
			continue
		}
		for addr, end := p.Paddr, p.Paddr+p.Filesz; addr < end; {
			i := slices.IndexFunc(partSymbols[:], func(s struct{ start, end string }) bool { return addr >= at[s.start] && addr < at[s.end] })
			if i < 0 {
				return fmt.Errorf("what is loaded at 0x%08x%s is outside of the parts that the firmware's checksum covers", addr, sectionAt(f, p, addr))
			}
			addr = at[partSymbols[i].end]
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

// imageParts are the bytes that the firmware computes its CRC-32 over: the resident part and the model's.
type imageParts [2][]byte

// readParts reads them from the image's file; nil where it names no parts, which is another template's. hole is what memory
// has between the loads.
func readParts(i *Image, hole byte) (*imageParts, error) {
	f, err := i.elf()
	if err != nil {
		return nil, err
	}
	loads, err := loadsOf(f, i.Path)
	if err != nil {
		return nil, err
	}
	at, err := symbolsOf(f, i.Path)
	if errors.Is(err, elf.ErrNoSymbols) {
		return nil, nil
	}
	if err != nil || at[partSymbols[0].end] == 0 {
		return nil, err
	}
	parts, err := partsOf(at, loads, i.Path, hole)
	return &parts, err
}

// maxHole is how many bytes the linker may leave out to align what follows.
const maxHole = 64 << 10

// partsOf are the bytes between the linker's symbols.
func partsOf(at map[string]uint64, loads []flasher.Segment, path string, hole byte) (parts imageParts, err error) {
	for n, part := range partSymbols {
		start, end := at[part.start], at[part.end]
		if end <= start {
			return parts, failure.New(failure.Config, "", "%s does not say where the image begins and ends", path)
		}
		for _, l := range loads {
			if l.End() <= start || l.Addr >= end || l.Addr-start > maxHole && l.Addr > start {
				continue
			}
			if l.Addr > start {
				parts[n] = append(parts[n], bytes.Repeat([]byte{hole}, int(l.Addr-start))...)
				start = l.Addr
			}
			data := l.Data[start-l.Addr : min(end-l.Addr, uint64(len(l.Data)))]
			parts[n] = append(parts[n], data...)
			start += uint64(len(data))
		}
		if start < end {
			return parts, failure.New(failure.Config, "build again", "%s: nothing at 0x%08x", path, start)
		}
	}
	return parts, nil
}

// crc is the CRC-32 of a nonce and the parts, as the firmware computes it.
func (p imageParts) crc(nonce []byte) uint32 {
	sum := crc32.ChecksumIEEE(nonce)
	for _, part := range p {
		sum = crc32.Update(sum, crc32.IEEETable, part)
	}
	return sum
}
