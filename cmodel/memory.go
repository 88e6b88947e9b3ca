// This file computes how much memory operators take from TVMBackendAllocWorkspace.

package cmodel

import (
	"fmt"

	"github.com/boardsmith/boardsmith/internal/allocation"
)

// unsureBytes are added to what the metadata lists for operators in objects: it counts pieces without the padding of
// each. They are enough for 8 pieces more than one.
const unsureBytes = 8 * alignment

// peaks returns the memory of functions. Each is computed once.
type peaks struct {
	steps map[string][]allocation.Step
	extra int64
	known map[string]use // zero while a function is being examined
}

// A use is the memory of a function in bytes: the most at one time, and what it has not freed at its end.
type use struct{ peak, left int64 }

// operatorPeaks returns the memory of the model's functions. It is an error if there is code that may allocate any
// number of bytes. What a run does not free is free for the next one.
func (g *model) operatorPeaks() (*peaks, error) {
	w := allocation.Of(g.Archive, g.M)
	p := &peaks{steps: w.Steps, known: map[string]use{}}
	if unclear := w.Unsure(allocation.DoubtCode); len(unclear) > 0 {
		return nil, g.fault("allocate as in void* p = TVMBackendAllocWorkspace(1, 0, 1024, 2, 8), outside of conditions and "+
			"loops, or build firmware for RPC with the option arena_kib",
			"the bytes that it allocates while it runs are not known: %s", unclear[0])
	}
	if g.Unsure = w.Unsure(allocation.DoubtObject); len(g.Unsure) > 0 {
		p.extra = unsureBytes
	}
	return p, nil
}

// of returns the most bytes that an operator has at one time, or 0 if it takes none.
func (p *peaks) of(operator string) (int64, error) {
	most, err := p.peak(operator)
	if err != nil || most.peak == 0 {
		return 0, err
	}
	return most.peak + p.extra, nil
}

// most is more than a model can have, so that sums do not overflow.
const most = 1 << 32

// peak returns the memory of a function with its callees. It is an error if the function does not free in reverse
// order, as TVMBackendFreeWorkspace demands.
func (p *peaks) peak(function string) (use, error) {
	if u, ok := p.known[function]; ok {
		return u, nil
	}
	p.known[function] = use{}
	type piece struct {
		number int
		before int64
	}
	var pieces []piece
	var now, peak int64
	for _, s := range p.steps[function] {
		last := len(pieces) - 1
		switch {
		case s.Kind == allocation.StepCall:
			u, err := p.peak(s.Name)
			if err != nil {
				return use{}, err
			}
			peak, now = max(peak, now+u.peak), now+u.left
		case s.Kind == allocation.StepTake:
			pieces = append(pieces, piece{s.Piece, now})
			now += aligned(min(s.Bytes, most))
		case last >= 0 && pieces[last].number == s.Piece:
			now, pieces = pieces[last].before, pieces[:last]
		default:
			return use{}, fmt.Errorf("function %s frees %s, which is not what it has taken last", function, s.Name)
		}
		now = min(now, most)
		peak = max(peak, now)
	}
	p.known[function] = use{min(peak, most), now}
	return p.known[function], nil
}
