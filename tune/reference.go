package tune

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/boardsmith/boardsmith/failure"
)

// A reference is the candidate whose time shows whether a place still measures as it did at first. One goroutine at a
// time uses it.
type reference struct {
	candidate *Candidate // nil: the run has none for this kind of board
	station   *station
	drift     float64
	others    *referenceTimes // of all places of the kind
	load      *load           // nil: not built yet
	expected  float64         // seconds; 0: not measured yet
	unproven  []*job          // measured since the last check
}

// check measures the reference: its outputs must be right, and its time within the drift of the first one. It returns
// the jobs that were measured since the last check: the caller confirms them, or measures them again after an error.
func (r *reference) check(ctx context.Context) (jobs []*job, err error) {
	if r.candidate == nil {
		return nil, nil
	}

	took, err := steadyTime(r.expected, r.drift, func() (float64, error) { return r.measure(ctx) })
	jobs, r.unproven = r.unproven, nil
	if err == nil && r.expected != 0 && !withinDrift(took, r.expected, r.drift) {
		err = failure.Errorf(failure.Verify, "it takes %v, the median of %d measurements, and took %v before", seconds(took),
			steadyCount, seconds(r.expected))
	}

	if err != nil {
		return jobs, fmt.Errorf("the reference: %w", err)
	}

	if r.expected == 0 {
		r.expected = took
		r.compareWithOthers(took)
	}
	return jobs, nil
}

// measure returns the median of the reference's samples. It enlarges the arena if the reference needs it.
func (r *reference) measure(ctx context.Context) (float64, error) {
	for minKiB := 0; ; minKiB = r.load.layout.arenaKiB + 1 {
		if err := r.prepare(ctx, minKiB); err != nil {
			return 0, err
		}
		result, err := r.station.measure(ctx, *r.candidate, r.load, 0)
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

// prepare builds the reference for the current layout, and puts the firmware that it requires onto the place.
func (r *reference) prepare(ctx context.Context, minKiB int) error {
	s := r.station
	if r.load != nil && r.load.layout == s.firmware.current() && minKiB <= r.load.layout.arenaKiB {
		return s.ensure(ctx, r.load)
	}

	// A build waits until no place holds the processors.
	s.releaseProcessors()

	in, err := s.firmware.layoutFor(ctx, r.candidate.Args, minKiB)
	if err != nil {
		return err
	}

	// The build waits until a place has opened the layout, and there may be no other place.
	if err := s.ensure(ctx, &load{layout: in, image: in.resident}); err != nil {
		return err
	}

	l, err := s.firmware.buildIn(ctx, in, *r.candidate)
	if err != nil {
		return err
	}
	if l.program == nil {
		return failure.Errorf(failure.DoesNotFit, "%s", l.reason)
	}

	r.load, r.expected = &l, 0 // code at other addresses may take another time
	return s.ensure(ctx, r.load)
}

// compareWithOthers reports places of the same kind on which the reference takes another time.
func (r *reference) compareWithOthers(took float64) {
	for place, other := range r.others.set(r.station.name, took) {
		if !withinDrift(took, other, r.drift) {
			r.station.o.emit(Event{
				Board: r.station.name,
				Text:  fmt.Sprintf("the reference takes %v here, and %v on %s", seconds(took), seconds(other), place),
			})
		}
	}
}

// referenceTimes are the times of the reference in seconds, by place. Many goroutines may use it.
type referenceTimes struct {
	mu    sync.Mutex
	times map[string]float64
}

// set sets the time of a place, and returns those of the other places.
func (t *referenceTimes) set(place string, seconds float64) (others map[string]float64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.times == nil {
		t.times = map[string]float64{}
	}

	delete(t.times, place)
	others = maps.Clone(t.times)
	t.times[place] = seconds
	return others
}

// steadyCount is the number of measurements of which steadyTime returns the median.
const steadyCount = 5

// steadyTime returns the median of steadyCount measurements. If the first one is within the drift of the expected time,
// it returns that. An expected time of 0 is not known.
func steadyTime(expected, drift float64, measure func() (float64, error)) (float64, error) {
	times := make([]float64, 0, steadyCount)
	for range steadyCount {
		t, err := measure()
		if err != nil {
			return 0, err
		}
		if times = append(times, t); len(times) == 1 && expected != 0 && withinDrift(t, expected, drift) {
			return t, nil
		}
	}

	slices.Sort(times)
	return times[len(times)/2], nil
}

// withinDrift reports whether a time differs from the expected one by at most drift, a fraction of the expected one.
func withinDrift(took, expected, drift float64) bool {
	return math.Abs(took-expected) <= drift*expected
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
