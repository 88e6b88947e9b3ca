// This file computes how much memory operators take from TVMBackendAllocWorkspace.

package cmodel

import "github.com/boardsmith/boardsmith/internal/operatormemory"

// unsureBytes are added to what the metadata lists for operators in objects: it counts pieces without the padding of
// each. They are enough for 8 pieces more than one.
const unsureBytes = 8 * alignment

// operatorPeaks returns the most bytes that each of the model's functions has at one time. It is an error if there is
// code that may allocate any number of bytes. What a run does not free is free for the next one.
func (g *model) operatorPeaks() (map[string]int64, error) {
	w := operatormemory.Of(g.Archive, g.M)
	if len(w.Unknown) > 0 {
		return nil, g.fault("allocate as in void* p = TVMBackendAllocWorkspace(1, 0, 1024, 2, 8), outside of conditions and "+
			"loops, or build firmware for RPC with the option arena_kib",
			"the bytes that it allocates while it runs are not known: %s", w.Unknown[0])
	}
	g.Unsure = w.Objects

	// Of functions that leak this may be more than they have: a free in their caller frees the leak, too.
	peaks := map[string]int64{}
	for name, steps := range w.Steps {
		var now, peak int64
		var before []int64 // what was in use before each piece
		for _, bytes := range steps {
			if last := len(before) - 1; bytes == operatormemory.Free {
				now, before = before[last], before[:last]
				continue
			}
			before = append(before, now)
			now += aligned(bytes)
			peak = max(peak, now)
		}

		if len(g.Unsure) > 0 && peak > 0 {
			peak += unsureBytes
		}
		peaks[name] = peak
	}
	return peaks, nil
}
