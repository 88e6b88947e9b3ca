// This file splits an image into the sectors of the board's flash.

package device

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"slices"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/flasher"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/internal/firmware"
)

// A flashImage is the content of the flash for an image, in whole sectors.
type flashImage struct {
	*image.Image
	sectors []imageSector // by address
	parts   firmware.Parts
}

// An imageSector is one sector with all its bytes; bytes outside the image are as erased.
type imageSector struct {
	flasher.Sector
	data    []byte
	digest  string // SHA-256 of data, in hexadecimal
	holdsID bool   // the build id lies in it
	rated   int    // erase cycles; 0 means not limited
}

func (s imageSector) segment() flasher.Segment { return flasher.Segment{Addr: s.Addr, Data: s.data} }

const erasedByte = 0xFF

// flashImageOf reads the ELF file. It returns an error for bytes outside the board's flash or in a reserved region.
func flashImageOf(b *boards.Board, i *image.Image) (*flashImage, error) {
	f, err := i.ELF()
	if err != nil {
		return nil, err
	}
	loads, err := firmware.Loads(f, i.Path)
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

// put copies data into the sectors that it overlaps.
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
	at, rated, err := b.SectorAt(addr)
	if err != nil {
		return nil, err
	}
	img.sectors = append(img.sectors,
		imageSector{Sector: at, data: bytes.Repeat([]byte{erasedByte}, int(at.Size)), rated: rated})
	return &img.sectors[len(img.sectors)-1], nil
}

// identify computes the digests, and finds the image's parts and the sector with the build id.
func (img *flashImage) identify(f *elf.File, loads []firmware.Segment) error {
	ranges, err := img.Landmarks.FindParts(f, img.Path)
	if err == nil && len(ranges) == 0 {
		err = failure.New(failure.Config, "add them to its template.json",
			"%s: the template does not define the ranges of the firmware's checksum", img.Path)
	}
	if err != nil {
		return err
	}
	id, hasID := img.Landmarks.BuildID.Find(f)
	for i := range img.sectors {
		s := &img.sectors[i]
		sum := sha256.Sum256(s.data)
		s.digest = hex.EncodeToString(sum[:])
		s.holdsID = hasID && id.Start-s.Addr < s.Size
	}
	if err := firmware.CheckCovered(f, ranges); err != nil {
		return failure.New(failure.Config, "build again", "%s: %w", img.Path, err)
	}
	img.parts, err = firmware.PartsOf(ranges, loads, img.Path, erasedByte)
	return err
}
