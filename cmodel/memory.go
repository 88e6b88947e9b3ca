// This file computes how much memory operators take from TVMBackendAllocWorkspace.

package cmodel

import (
	"fmt"
	"math"

	"github.com/boardsmith/boardsmith/mlf"
)

// unsureBytes are added to what the metadata lists for operators in objects: it counts pieces without the padding of
// each. They are enough for 8 pieces more than one.
const unsureBytes = 8 * alignment

// peaks returns the memory of functions. Each is computed once.
type peaks struct {
	steps map[string][]mlf.WorkStep
	extra int64
	known map[string]int64 // 0 while a function is being examined: of a recursion, the first call counts
}

// operatorPeaks returns the memory of the model's functions. It is an error if objects take memory of unknown size.
func (g *model) operatorPeaks() (*peaks, error) {
	steps, sure := g.Archive.Workspace(g.M)
	p := &peaks{steps: steps, known: map[string]int64{}}
	if sure {
		return p, nil
	}
	p.extra = unsureBytes
	for _, of := range steps {
		for _, s := range of {
			if s.Take > 0 && s.Name == "" {
				return p, nil
			}
		}
	}
	return nil, g.fault("export the model for target c",
		"its objects take temporary memory, and its metadata does not list how much")
}

// of returns the most bytes that an operator has at one time, or 0 if it takes none.
func (p *peaks) of(operator string) (int64, error) {
	most, err := p.peak(operator)
	if err != nil || most == 0 {
		return 0, err
	}
	return most + p.extra, nil
}

// peak returns the most bytes that a function has at one time, its callees included; above 2 GiB, any such number. It
// is an error if the function does not free in reverse order, as TVMBackendFreeWorkspace demands.
func (p *peaks) peak(function string) (most int64, err error) {
	if n, ok := p.known[function]; ok {
		return n, nil
	}
	p.known[function] = 0
	type piece struct {
		name   string
		before int64
	}
	var pieces []piece
	var now int64
	for _, s := range p.steps[function] {
		last := len(pieces) - 1
		switch {
		case s.Call != "":
			n, err := p.peak(s.Call)
			if err != nil {
				return 0, err
			}
			most = max(most, now+n)
		case s.Take > 0:
			pieces = append(pieces, piece{s.Name, now})
			now = min(now+aligned(min(s.Take, math.MaxInt32)), 1<<32)
		case last >= 0 && pieces[last].name == s.Name:
			now, pieces = pieces[last].before, pieces[:last]
		default:
			return 0, fmt.Errorf("function %s frees %s, which is not what it has taken last", function, s.Name)
		}
		most = max(most, now)
	}
	most = min(most, 1<<32)
	p.known[function] = most
	return most, nil
}
