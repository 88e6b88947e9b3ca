// This file measures the reference, and judges whether a place still takes the time for it that it took at first.

package tune

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/boardsmith/boardsmith/failure"
)

// reference measures the reference: its outputs must be right, and its time what it was at first. What was measured
// since the last time is measured again if it is not.
func (p *place) reference(ctx context.Context) error {
	c := p.run.o.Reference
	if !p.hasReference() {
		return nil
	}
	took, err := steady(p.expected, p.run.o.Drift, func() (float64, error) { return p.timeReference(ctx, c) })
	if err == nil && p.expected != 0 && !closeTo(took, p.expected, p.run.o.Drift) {
		err = failure.Errorf(failure.Verify, "it takes %v, the median of %d measurements, and took %v before", seconds(took),
			steadyTimes, seconds(p.expected))
	}
	unproven := p.unproven
	p.unproven = nil
	if err != nil {
		for _, j := range unproven {
			p.kind.queue.repeat(j)
		}
		return fmt.Errorf("the reference: %w", err)
	}
	if p.expected == 0 {
		p.expected = took
		p.kind.compare(p.name, took)
	}
	var ids []string
	for _, j := range unproven {
		ids = append(ids, j.candidate.content)
	}
	return p.run.store.prove(ids)
}

// hasReference reports whether the run has a reference for the place's kind.
func (p *place) hasReference() bool {
	c := p.run.o.Reference
	return c != nil && (c.Kind == "" || c.Kind == p.kind.name)
}

// timeReference returns the median of the reference's samples, beside a larger arena if it needs one.
func (p *place) timeReference(ctx context.Context, c *Candidate) (float64, error) {
	for least := 0; ; least = p.load.layout.arenaKiB + 1 {
		if err := p.loadReference(ctx, c, least); err != nil {
			return 0, err
		}
		result, err := p.measure(ctx, *c, p.load)
		switch {
		case err != nil:
			return 0, err
		case result.Failure == nil:
			return result.Time.Median, nil
		case result.Failure.Class != failure.DoesNotFit:
			return 0, failure.Errorf(result.Failure.Class, "%s", result.Failure.Message)
		}
	}
}

// loadReference makes the place hold what the reference needs. It builds the reference for the current layout, which it
// takes before: no other place may be there to do that.
func (p *place) loadReference(ctx context.Context, c *Candidate, leastKiB int) error {
	if p.load != nil && p.load.layout == p.kind.current() && leastKiB <= p.load.layout.arenaKiB {
		return p.needs(ctx, p.load)
	}
	p.letWork()
	in, err := p.kind.layoutFor(ctx, c.Args, leastKiB)
	if err != nil {
		return err
	}
	if err := p.needs(ctx, &load{layout: in, image: in.resident}); err != nil {
		return err
	}
	l, err := p.kind.prepareIn(ctx, in, *c)
	if err != nil {
		return err
	}
	if l.program == nil {
		return failure.Errorf(failure.DoesNotFit, "%s", l.why)
	}
	l.reference = true
	p.load, p.expected = &l, 0 // code at other addresses may take another time
	return p.needs(ctx, p.load)
}

// steadyTimes is how many measurements a place's time for the reference is the median of.
const steadyTimes = 5

// steady returns the median of steadyTimes measurements; of one alone, if that is as expected. An expected time of 0 is
// not known yet.
func steady(expected, drift float64, measure func() (float64, error)) (float64, error) {
	times := make([]float64, 0, steadyTimes)
	for range steadyTimes {
		t, err := measure()
		if err != nil {
			return 0, err
		}
		if times = append(times, t); len(times) == 1 && expected != 0 && closeTo(t, expected, drift) {
			return t, nil
		}
	}
	slices.Sort(times)
	return times[len(times)/2], nil
}

// closeTo reports whether two times of the reference differ by no more than the drift that is accepted, a part of b.
func closeTo(a, b, drift float64) bool { return math.Abs(a-b) <= drift*b }

// compare tells of a board whose reference takes another time than those of the same kind.
func (k *kind) compare(name string, took float64) {
	k.mu.Lock()
	var others []string
	for other, t := range k.references {
		if !closeTo(took, t, k.run.o.Drift) {
			others = append(others, fmt.Sprintf("the reference takes %v here, and %v on %s", seconds(took), seconds(t), other))
		}
	}
	k.references[name] = took
	k.mu.Unlock()
	for _, what := range others {
		k.run.tell(Event{Board: name, What: what})
	}
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
