// This file shows the wear of a device's flash as squares, the darker the more often a sector was erased.

package report

import (
	"fmt"

	"github.com/boardsmith/boardsmith/device"
)

const (
	maxSquares = 2048
	palest     = 0.08 // of a sector that was not erased
)

// heatMapOf returns the map of a device. Of more sectors than squares, several share one: that of the most worn of
// them.
func heatMapOf(d device.DeviceWear) figure {
	h := figure{
		ID: "wear", Title: "Wear of " + d.Device + ", board " + d.Board,
		Table: table{Head: []string{"region", "sector", "address", "bytes", "erases", "rated"}},
	}

	most, worst := 0, 0.0
	for _, s := range d.Sectors {
		most = max(most, s.Erases)
		if s.Rated > 0 {
			worst = max(worst, float64(s.Erases)/float64(s.Rated))
		}
	}

	share := (len(d.Sectors) + maxSquares - 1) / maxSquares
	for i, s := range d.Sectors {
		if i%share == 0 {
			h.Squares = append(h.Squares, palest)
		}

		last := len(h.Squares) - 1
		h.Squares[last] = max(h.Squares[last], float64(s.Erases)/float64(max(most, 1)))

		if i == 0 || !sameWear(d.Sectors[i-1], s) {
			h.Table.add(s.Region, s.Index, fmt.Sprintf("0x%08x", s.Addr), s.Size, s.Erases, s.Rated)
		}
	}

	h.Words = fmt.Sprintf("%d flashes. A square is a sector that was written, in the order of addresses; the darkest "+
		"were erased %d times. ", d.Flashes, most)
	if share > 1 {
		h.Words += fmt.Sprintf("%d sectors share a square. ", share)
	}
	if worst > 0 {
		h.Words += fmt.Sprintf("The most worn sector has used %.3g %% of its rated erases. ", 100*worst)
	}
	h.Words += "Of sectors with the same wear, the table has the first."
	return h
}

// sameWear reports whether a sector follows another one with the same wear, so that one row of the table is for both.
func sameWear(a, b device.SectorWear) bool {
	a.Index, a.Addr = b.Index, a.Addr+a.Size
	return a == b
}
