// This file counts erases and makes flash fail, for tests.

package virtualprobe

import (
	"errors"
	"math/rand/v2"
)

// Wear is what has become of a flash: how often each sector was erased, and what is broken in it. The zero value is a
// new flash. It is used under the chip's lock.
type Wear struct {
	Erases   []int           // by sector; grows as needed
	Stuck    map[int]bool    // sectors that no longer erase
	Weak     map[uint32]byte // by offset: bits that no longer become 0
	Unstable map[uint32]byte // by offset: bits that read as 0 or 1 by chance, until they are erased

	cut *Cut // that is to come
	off bool // the power is off since the cut
	dim *rand.Rand
}

// A Cut is power that fails inside an erase or inside the programming of a word, once. What was being changed is left
// partly changed: some of its bits are as before, some as they were to become, and some read differently each time.
type Cut struct {
	Erase bool   `json:"erase"`          // else a program
	After int    `json:"after"`          // erases of a sector, or words programmed, from now: 1 is the next one
	Seed  uint64 `json:"seed,omitempty"` // of what becomes of the bits, and of how far it had got
}

// errPowerCut ends all that the chip and its probe were doing.
var errPowerCut = errors.New("the power was cut")

// erased counts, and reports whether the sector was erased.
func (w *Wear) erased(sector int) bool {
	for len(w.Erases) <= sector {
		w.Erases = append(w.Erases, 0)
	}
	w.Erases[sector]++
	return !w.Stuck[sector]
}

func (w *Wear) weak(off uint32) byte { return w.Weak[off] }

// cuts reports that the power fails in this erase, or else this program.
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

// Of how many bits one has not got there when the power fails, and how many of those read by chance.
var (
	cutShares   = []int{2, 8, 4096} // early, halfway, at the very end
	unstableOne = 2
)

// torn is what becomes of bytes at an offset on their way from old to new when the power fails.
func (w *Wear) torn(off uint32, old, new []byte) []byte {
	share := cutShares[w.dim.IntN(len(cutShares))]
	all := make([]byte, len(old))
	left := 0
	for i := range old {
		all[i] = new[i]
		for bit := byte(1); bit != 0; bit <<= 1 {
			if (old[i]^new[i])&bit == 0 || w.dim.IntN(share) > 0 {
				continue
			}
			left++
			all[i] = all[i]&^bit | old[i]&bit
			if w.dim.IntN(unstableOne) == 0 {
				w.unsettle(off+uint32(i), bit)
			}
		}
	}
	for i := 0; left == 0 && i < len(old); i++ { // at the very end: one bit
		if d := old[i] ^ new[i]; d != 0 {
			w.unsettle(off+uint32(i), d&-d)
			left++
		}
	}
	return all
}

func (w *Wear) unsettle(off uint32, bits byte) {
	if w.Unstable == nil {
		w.Unstable = map[uint32]byte{}
	}
	w.Unstable[off] |= bits
}

// settled notes cells that have a value again: those of a stretch that was erased, or bits that were programmed.
func (w *Wear) settled(off uint32, data []byte, erased bool) {
	for i := range data {
		at := off + uint32(i)
		mask := w.Unstable[at]
		if mask == 0 {
			continue
		}
		if mask &= data[i]; erased || mask == 0 {
			delete(w.Unstable, at)
		} else {
			w.Unstable[at] = mask
		}
	}
}

// seen is what cells read as, this time.
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

// seenAll is that of a whole flash.
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
