// This file cuts an image into the sectors of the board's flash.

package project

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"fmt"
	"hash"
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
	crc     uint32        // of the image's two parts, as the firmware computes it
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
	f, err := elf.Open(i.Path)
	if err != nil {
		return nil, failure.New(failure.Config, "build again", "%s: %w", i.Path, err)
	}
	defer f.Close()
	img := &flashImage{Image: i}
	for _, p := range f.Progs {
		if p.Type != elf.PT_LOAD || p.Filesz == 0 {
			continue
		}
		data := make([]byte, p.Filesz)
		if _, err := p.ReadAt(data, 0); err != nil {
			return nil, failure.New(failure.Config, "build again", "%s: %w", i.Path, err)
		}
		if err := img.put(b, p.Paddr, data); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(img.sectors, func(a, b imageSector) int { return cmp.Compare(a.Addr, b.Addr) })
	return img, img.identify(f)
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

// identify computes the digests and the checksum, and finds the sector with the build id.
func (img *flashImage) identify(f *elf.File) error {
	symbols, err := f.Symbols()
	if err != nil {
		return failure.New(failure.Config, "build again", "%s: %w", img.Path, err)
	}
	at := map[string]uint64{}
	for _, s := range symbols {
		at[s.Name] = s.Value
	}
	for i := range img.sectors {
		s := &img.sectors[i]
		sum := sha256.Sum256(s.data)
		s.digest = hex.EncodeToString(sum[:])
		s.holdsID = at["boardsmith_build_id"]-s.Addr < s.Size
	}
	sum := crc32.NewIEEE()
	for _, part := range []struct{ start, end string }{{"bare_image_start", "bare_resident_end"}, {"bare_model", "bare_image_end"}} {
		start, end := at[part.start], at[part.end]
		if end <= start {
			return failure.New(failure.Config, "", "%s does not say where the image begins and ends", img.Path)
		}
		if err := img.checksum(sum, start, end); err != nil {
			return err
		}
	}
	img.crc = sum.Sum32()
	return nil
}

// checksum adds a range, which lies in the image's sectors.
func (img *flashImage) checksum(sum hash.Hash32, start, end uint64) error {
	for at := start; at < end; {
		i := slices.IndexFunc(img.sectors, func(s imageSector) bool { return at-s.Addr < s.Size })
		if i < 0 {
			return fmt.Errorf("%s: nothing at 0x%08x", img.Path, at)
		}
		s := img.sectors[i]
		part := s.data[at-s.Addr : min(end-s.Addr, s.Size)]
		sum.Write(part)
		at += uint64(len(part))
	}
	return nil
}
