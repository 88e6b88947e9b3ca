// This file counts erases and makes flash fail, for tests.

package virtualprobe

import (
	"errors"
	"math/rand/v2"

	"github.com/boardsmith/boardsmith/internal/chipkeeper"
)

// Wear is the state of a flash: the erases of each sector, and its defects. The zero value is a new flash. It is
// protected by the chip's lock.
type Wear struct {
	Erases   []int           // by sector; grows as needed
	Stuck    map[int]bool    // sectors that can no longer be erased
	Weak     map[uint32]byte // by offset: bits that can no longer become 0
	Unstable map[uint32]byte // by offset: bits that read randomly as 0 or 1 until they are erased

	cut *chipkeeper.Cut // pending power loss
	off bool            // the power is off since the cut
	dim *rand.Rand
}

// errPowerCut ends all operations of the chip and its probe.
var errPowerCut = errors.New("the power was cut")

// erased counts an erase, and reports whether it succeeded.
func (w *Wear) erased(sector int) bool {
	for len(w.Erases) <= sector {
		w.Erases = append(w.Erases, 0)
	}
	w.Erases[sector]++
	return !w.Stuck[sector]
}

func (w *Wear) weak(off uint32) byte { return w.Weak[off] }

// cuts reports whether the power fails in this erase or programming operation.
func (w *Wear) cuts(erase bool) bool {
	if w.cut == nil || w.cut.Erase != erase {
		return false
	}
	if w.cut.After--; w.cut.After > 0 {
		return false
	}

	w.chance(w.cut.Seed)
	w.cut, w.off = nil, true
	return true
}

func (w *Wear) chance(seed uint64) { w.dim = rand.New(rand.NewPCG(seed, 1)) }

// Shares of bits that were not changed yet when the power failed, and of those that read randomly: one in so many.
var (
	cutShares   = []int{2, 8, 4096} // early, halfway, at the very end
	unstableOne = 2
)

// torn returns the bytes at an offset after a power loss on their way from old to new.
func (w *Wear) torn(off uint32, old, new []byte) []byte {
	share := cutShares[w.dim.IntN(len(cutShares))]
	all := make([]byte, len(old))
	remaining := 0

	for i := range old {
		all[i] = new[i]
		for bit := byte(1); bit != 0; bit <<= 1 {
			if (old[i]^new[i])&bit == 0 || w.dim.IntN(share) > 0 {
				continue
			}
			remaining++
			all[i] = all[i]&^bit | old[i]&bit
			if w.dim.IntN(unstableOne) == 0 {
				w.makeUnstable(off+uint32(i), bit)
			}
		}
	}

	for i := 0; remaining == 0 && i < len(old); i++ { // at the very end, one bit remains
		if d := old[i] ^ new[i]; d != 0 {
			w.makeUnstable(off+uint32(i), d&-d)
			remaining++
		}
	}

	return all
}

func (w *Wear) makeUnstable(off uint32, bits byte) {
	if w.Unstable == nil {
		w.Unstable = map[uint32]byte{}
	}
	w.Unstable[off] |= bits
}

// settled records cells that have a defined value again: an erased range, or programmed bits.
func (w *Wear) settled(off uint32, data []byte, erased bool) {
	for i := range data {
		at := off + uint32(i)
		mask := w.Unstable[at]
		if mask == 0 {
			continue
		}
		// A programmed 0 is stable, a bit that stays 1 is not.
		if mask &= data[i]; erased || mask == 0 {
			delete(w.Unstable, at)
		} else {
			w.Unstable[at] = mask
		}
	}
}

// seen returns the value that cells read as, this time.
func (w *Wear) seen(off uint32, cell byte) byte {
	mask := w.Unstable[off]
	if mask == 0 {
		return cell
	}

	if w.dim == nil {
		w.chance(uint64(off))
	}
	return cell&^mask | byte(w.dim.Uint32())&mask
}

// seenAll returns that of a whole flash.
func (w *Wear) seenAll(flash []byte) []byte {
	if len(w.Unstable) == 0 {
		return flash
	}

	all := append([]byte(nil), flash...)
	for off := range w.Unstable {
		all[off] = w.seen(off, all[off])
	}
	return all
}
