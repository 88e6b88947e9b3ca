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

// narrows returns an error unless the board's chip has a region's memory. Memory that touches none of the chip's may be
// outside of the chip, where a Cortex-M has its addresses for that (Armv7-M Architecture Reference Manual, DDI 0403E,
// B3.1: external RAM and devices).
func (b *Board) narrows(r Region) error {
	const external = 0x60000000
	isOuter := !slices.ContainsFunc(b.chip.Memory, r.overlaps)
	if _, isArm := armRuns[b.ELF.Arch]; isArm && isOuter && r.Origin >= external {
		return nil
	}

	err := r.Within(b.chip.Memory)
	if err == nil {
		return nil
	}
	file := b.chip.Files[len(b.chip.Files)-1]
	return failure.New(failure.Config, "correct it; a chip with more memory has a chip file of its own",
		"region %q is not in the chip's memory, which %s has: %w", r.Name, file, err)
}

// Within returns an error for a region that a memory map does not have: bytes outside of it, other sectors, or an
// access that it does not allow. What is not known on either side, such as sectors, is not compared.
func (r Region) Within(memory []Region) error {
	for at := uint64(r.Origin); at-uint64(r.Origin) < uint64(r.Size); {
		i := slices.IndexFunc(memory, func(c Region) bool { return at-uint64(c.Origin) < uint64(c.Size) })
		if i < 0 {
			return fmt.Errorf("there is none at 0x%08x", at)
		}
		c := memory[i]
		if err := r.checkUse(c); err != nil {
			return err
		}

		next := uint64(c.Origin) + uint64(c.Size)
		own, ownEnd, isCut := r.sector(at)
		there, thereEnd, isKnown := c.sector(at)
		if isCut && isKnown {
			if own.Addr != there.Addr || own.Size != there.Size {
				return fmt.Errorf("sectors: 0x%x bytes at 0x%08x, where there are 0x%x bytes at 0x%08x", own.Size, own.Addr,
					there.Size, there.Addr)
			}
			next = min(ownEnd, thereEnd) // up to there, all are equal
		}
		at = next
	}
	return nil
}

// checkUse returns an error for a use of the region that the memory c at its address does not allow.
func (r Region) checkUse(c Region) error {
	if r.Reserved { // not used at all
		return nil
	}
	for _, f := range []struct {
		field      string
		own, there any
		ok         bool
	}{
		{"reserved", r.Reserved, c.Reserved, !c.Reserved},
		{"nonvolatile", r.Nonvolatile, c.Nonvolatile, r.Nonvolatile == c.Nonvolatile},
		{"exec", r.Exec, c.Exec, c.Exec || !r.Exec},
		// 0 is no limit, as the largest number would be
		{
			"erase_cycles", r.EraseCycles, c.EraseCycles,
			len(r.Sectors) == 0 || uint(r.EraseCycles)-1 <= uint(c.EraseCycles)-1,
		},
	} {
		if !f.ok {
			return fmt.Errorf("%s: %v, where %s has %v", f.field, f.own, c.Name, f.there)
		}
	}
	return nil
}
