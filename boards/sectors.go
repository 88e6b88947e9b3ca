// This file finds the erase units of flash.

package boards

import (
	"fmt"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/nextstep"
)

// A Sector is one erase unit of flash.
type Sector struct {
	Index int    // from the start of its region
	Addr  uint64 // of its first byte
	Size  uint64 // bytes
}

func (s Sector) String() string {
	return fmt.Sprintf("sector %d (0x%08x, %d bytes)", s.Index, s.Addr, s.Size)
}

// FlashAt returns the nonvolatile region of an address.
func (b *Board) FlashAt(addr uint64) (r Region, ok bool) {
	for _, r := range b.Memory {
		if r.Nonvolatile && addr-uint64(r.Origin) < uint64(r.Size) {
			return r, true
		}
	}
	return Region{}, false
}

// SectorAt returns the erase unit of an address in the board's memory map, and its rated number of erases (0:
// unlimited). It returns an error of class config for an address outside flash or in a reserved region.
func (b *Board) SectorAt(addr uint64) (s Sector, rated int, err error) {
	r, _ := b.FlashAt(addr)
	if r.Reserved {
		return s, 0, failure.New(failure.Config, "link the firmware elsewhere",
			"the image has bytes at 0x%08x, in region %s, which board %s reserves", addr, r.Name, b.Name)
	}

	if s, _, ok := r.sector(addr); ok {
		return s, r.EraseCycles, nil
	}

	return s, 0, failure.New(failure.Config, nextstep.Target("board:show")+" "+b.Name+" shows its memory map",
		"the image has bytes at 0x%08x, but board %s has no flash with sectors there", addr, b.Name)
}

// sector returns the erase unit of an address in the region, and where those of its size end; ok is false without
// sectors.
func (r Region) sector(addr uint64) (s Sector, end uint64, ok bool) {
	at, index := uint64(r.Origin), 0

	for _, run := range r.Sectors {
		size := uint64(run.Size)
		end := at + size*uint64(run.Count)
		// An address before the region wraps around to a large number.
		if n := (addr - at) / size; n < uint64(run.Count) {
			return Sector{Index: index + int(n), Addr: at + n*size, Size: size}, end, true
		}
		at = end
		index += run.Count
	}
	return Sector{}, 0, false
}
