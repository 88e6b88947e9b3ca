// This file plans where the buffers of a graph lie in one workspace.

package cmodel

import (
	"cmp"
	"slices"
)

// A buffer is memory that holds data from one step to another, both included.
type buffer struct {
	bytes       int64
	first, last int
	offset      int64 // the result
}

// plan gives the buffers offsets, so that those that live at the same step do not overlap, and returns the bytes of
// all. It places buffers one after the other at the lowest free offset, in several orders, and keeps the best result:
// for networks the largest first is mostly the minimum.
func plan(buffers []buffer) int64 {
	orders := []func(a, b *buffer) int{
		func(a, b *buffer) int { return cmp.Compare(b.bytes, a.bytes) },
		func(a, b *buffer) int { return cmp.Compare(b.last-b.first, a.last-a.first) },
		func(a, b *buffer) int { return cmp.Compare(a.first, b.first) },
		func(a, b *buffer) int { return cmp.Compare(b.last, a.last) },
	}

	best := int64(-1)
	offsets := make([]int64, len(buffers))
	for _, order := range orders {
		sorted := make([]*buffer, len(buffers))
		for i := range buffers {
			sorted[i] = &buffers[i]
		}
		slices.SortStableFunc(sorted, func(a, b *buffer) int {
			return cmp.Or(order(a, b), cmp.Compare(b.bytes, a.bytes), cmp.Compare(a.first, b.first))
		})

		if total := place(sorted); best < 0 || total < best {
			best = total
			for i, b := range buffers {
				offsets[i] = b.offset
			}
		}
	}

	for i := range buffers {
		buffers[i].offset = offsets[i]
	}
	return best
}

// place gives each buffer the lowest offset that is free of the buffers before it, and returns the bytes of all.
func place(order []*buffer) (total int64) {
	var placed []*buffer // by offset

	for _, b := range order {
		b.offset = 0
		// By rising offsets: b only moves up, past each that it would overlap.
		for _, p := range placed {
			if p.first <= b.last && b.first <= p.last && p.offset < b.offset+b.bytes && b.offset < p.offset+p.bytes {
				b.offset = aligned(p.offset + p.bytes)
			}
		}

		at, _ := slices.BinarySearchFunc(placed, b, func(p, b *buffer) int { return cmp.Compare(p.offset, b.offset) })
		placed = slices.Insert(placed, at, b)
		total = max(total, aligned(b.offset+b.bytes))
	}
	return total
}

// atOnce returns the most bytes that live at one step: no plan needs less.
func atOnce(buffers []buffer) (most int64) {
	for _, at := range buffers {
		var n int64
		for _, b := range buffers {
			if b.first <= at.first && at.first <= b.last {
				n += aligned(b.bytes)
			}
		}
		most = max(most, n)
	}
	return most
}
