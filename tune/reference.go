package tune

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/boardsmith/boardsmith/failure"
)

// checkReference measures the reference: its outputs must be right, and its time within the drift of the first one. It
// confirms the results since the last check. After an error, their jobs are measured again.
func (b *board) checkReference(ctx context.Context) error {
	r := &b.reference
	if r.candidate == nil {
		return nil
	}

	took, err := steadyTime(r.expected, b.o.Drift, func() (float64, error) { return b.timeReference(ctx) })
	if err == nil && r.expected != 0 && !withinDrift(took, r.expected, b.o.Drift) {
		err = failure.Errorf(failure.Verify, "it takes %v, the median of %d measurements, and took %v before", seconds(took),
			steadyCount, seconds(r.expected))
	}
	if err != nil {
		b.remeasureUnproven()
		return fmt.Errorf("the reference: %w", err)
	}

	if r.expected == 0 {
		r.expected = took
		b.compareReference(took)
	}

	var keys []string
	for _, j := range r.unproven {
		keys = append(keys, j.candidate.content)
	}
	r.unproven = nil
	if keys == nil {
		return nil
	}
	return b.scheduler.store.append(resultLine{Proven: keys})
}

// remeasureUnproven queues what the reference has not confirmed.
func (b *board) remeasureUnproven() {
	for _, j := range b.reference.unproven {
		b.scheduler.queue.Requeue(j.remeasure())
	}
	b.reference.unproven = nil
}

// timeReference returns the median of the reference's samples. It enlarges the arena if the reference needs it.
func (b *board) timeReference(ctx context.Context) (float64, error) {
	for minKiB := 0; ; minKiB = b.reference.job.layout.arenaKiB + 1 {
		if err := b.prepareReference(ctx, minKiB); err != nil {
			return 0, err
		}
		result, err := b.time(ctx, b.reference.job, 0)
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

// prepareReference builds the reference for the current layout, and puts the firmware that it requires onto the place.
func (b *board) prepareReference(ctx context.Context, minKiB int) error {
	r := &b.reference
	if r.job != nil && r.job.layout == b.firmware.current() && minKiB <= r.job.layout.arenaKiB {
		return b.ensure(ctx, r.job.layout, r.job.image)
	}

	// A build waits until no board holds the processors.
	b.releaseProcessors()

	in, err := b.firmware.layoutFor(ctx, r.candidate.Args, minKiB)
	if err != nil {
		return err
	}

	// The build waits until a board has opened the layout, and there may be no other board.
	if err := b.ensure(ctx, in, in.resident); err != nil {
		return err
	}

	j := &job{candidate: *r.candidate}
	if err := b.firmware.buildIn(ctx, in, j); err != nil {
		return err
	}
	if j.program == nil {
		return failure.Errorf(failure.DoesNotFit, "%s", j.reason)
	}

	r.job, r.expected = j, 0 // code at other addresses may take another time
	return b.ensure(ctx, j.layout, j.image)
}

// compareReference reports boards on which the reference takes another time.
func (b *board) compareReference(took float64) {
	for other, its := range b.scheduler.setReference(b.name, took) {
		if !withinDrift(took, its, b.o.Drift) {
			b.emit(fmt.Sprintf("the reference takes %v here, and %v on %s", seconds(took), seconds(its), other), nil)
		}
	}
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
