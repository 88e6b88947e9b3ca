// This file compares a memory map with the memory that there is: a chip's file, or a programmer's data of the chip.

package boards

import (
	"fmt"
	"slices"

	"github.com/boardsmith/boardsmith/failure"
)

func (r Region) overlaps(q Region) bool {
	return r.Origin-q.Origin < q.Size || q.Origin-r.Origin < r.Size
}

// HasOwnMemory reports whether a user's file has the memory map, rather than a shipped one.
func (b *Board) HasOwnMemory() bool {
	return b.SetByUser("memory") || b.chip != nil && b.chip.Dir != ""
}

// inheritRatings completes a board's own memory map: flash without erase_cycles has those of the chip's flash.
func (b *Board) inheritRatings() {
	if b.chip == nil {
		return
	}
	for i, r := range b.Memory {
		if c, ok := regionAt(b.chip.Memory, uint64(r.Origin)); ok && r.EraseCycles == 0 && len(r.Sectors) > 0 {
			b.Memory[i].EraseCycles = c.EraseCycles
		}
	}
}

// compareChip returns an error unless the board's chip has a region's memory. Memory that touches none of the chip's
// may be outside of the chip, where a Cortex-M has its addresses for that (Armv7-M Architecture Reference Manual,
// DDI 0403E, B3.1: external RAM and devices).
func (b *Board) compareChip(r Region) error {
	const external = 0x60000000
	isOuter := !slices.ContainsFunc(b.chip.Memory, r.overlaps)
	if _, isArm := armRuns[b.ELF.Arch]; isArm && isOuter && r.Origin >= external {
		return nil
	}

	err := r.Compare(b.chip.Memory)
	if err == nil {
		return nil
	}

	file := b.chip.Files[len(b.chip.Files)-1]
	return failure.New(failure.Config, "correct it; a chip with more memory has a chip file of its own",
		"region %q is not in the chip's memory, which %s has: %w", r.Name, file, err)
}

// Compare returns an error for a region that a memory map lacks: bytes outside of the map, other sectors, or an access
// that the map does not allow. What is unknown on either side, such as sectors, is not compared.
func (r Region) Compare(memory []Region) error {
	for at := uint64(r.Origin); at-uint64(r.Origin) < uint64(r.Size); {
		// A region may cover several of the map.
		c, ok := regionAt(memory, at)
		if !ok {
			return fmt.Errorf("there is none at 0x%08x", at)
		}
		if err := r.compareAccess(c); err != nil {
			return err
		}

		next := uint64(c.Origin) + uint64(c.Size)
		own, ownEnd, isCut := r.sector(at)
		chip, chipEnd, isKnown := c.sector(at)
		if isCut && isKnown {
			if own.Addr != chip.Addr || own.Size != chip.Size {
				return fmt.Errorf("sectors: 0x%x bytes at 0x%08x, where there are 0x%x bytes at 0x%08x", own.Size, own.Addr,
					chip.Size, chip.Addr)
			}
			next = min(ownEnd, chipEnd) // up to there, all are equal
		}
		at = next
	}
	return nil
}

// regionAt returns the region of a memory map that has an address.
func regionAt(memory []Region, at uint64) (r Region, ok bool) {
	i := slices.IndexFunc(memory, func(r Region) bool { return at-uint64(r.Origin) < uint64(r.Size) })
	if i < 0 {
		return Region{}, false
	}
	return memory[i], true
}

// compareAccess returns an error for an access to the region that the memory c at its address does not allow.
func (r Region) compareAccess(c Region) error {
	if r.Reserved { // not accessed at all
		return nil
	}
	for _, f := range []struct {
		field     string
		own, chip any
		ok        bool
	}{
		{"reserved", r.Reserved, c.Reserved, !c.Reserved},
		{"nonvolatile", r.Nonvolatile, c.Nonvolatile, r.Nonvolatile == c.Nonvolatile},
		{"exec", r.Exec, c.Exec, c.Exec || !r.Exec},
		{"erase_cycles", r.EraseCycles, c.EraseCycles, c.EraseCycles == 0 || r.EraseCycles <= c.EraseCycles},
	} {
		if !f.ok {
			return fmt.Errorf("%s: %v, where %s has %v", f.field, f.own, c.Name, f.chip)
		}
	}
	return nil
}
