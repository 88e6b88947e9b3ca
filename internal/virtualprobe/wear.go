// This file counts erases and makes flash fail, for tests.

package virtualprobe

// Wear is what has become of a flash: how often each sector was erased, and what is broken in it. The zero value is a new
// flash. It is used under the chip's lock.
type Wear struct {
	Erases []int           // by sector; grows as needed
	Stuck  map[int]bool    // sectors that no longer erase
	Weak   map[uint32]byte // by offset: bits that no longer become 0
}

// erased counts, and reports whether the sector was erased.
func (w *Wear) erased(sector int) bool {
	if w == nil {
		return true
	}
	for len(w.Erases) <= sector {
		w.Erases = append(w.Erases, 0)
	}
	w.Erases[sector]++
	return !w.Stuck[sector]
}

func (w *Wear) weak(off uint32) byte {
	if w == nil {
		return 0
	}
	return w.Weak[off]
}
