package tune

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/tune/internal/schedule"
)

// A boardKind is the part of a run for one kind of board: it builds candidates and queues them for the kind's places.
type boardKind struct {
	name       string
	o          *Options
	closed     <-chan struct{} // closed with the run
	firmware   *firmware
	queue      *schedule.Queue[*job]
	batcher    *schedule.Batcher[*job]
	recorder   *recorder
	places     places
	bestTimes  bestTimes
	references referenceTimes
	twins      claims[digest] // by twinKey
	confirming sync.Mutex     // one Confirm at a time
}

// queueBound is how many built candidates of a kind wait for a place.
const queueBound = 2

var errNoPlace = failure.Errorf(failure.BoardLost, "no board is left")

// measure builds a candidate and waits for its measurement. It enlarges the arena if the candidate needs it.
func (k *boardKind) measure(ctx context.Context, c Candidate) (Result, error) {
	for minKiB := 0; ; {
		result, err := k.measureBeside(ctx, c, minKiB)
		var short *shortArenaError
		if !errors.As(err, &short) {
			return result, err
		}

		minKiB = short.arenaKiB + 1
		// Other errors are those of the next attempt.
		if _, err := k.firmware.layoutFor(ctx, nil, minKiB); failure.Of(err) == failure.DoesNotFit {
			result.Failure.Message += fmt.Sprintf("; the arena has %d KiB, and cannot have more: %v", short.arenaKiB, err)
			return result, nil
		}
	}
}

// measureBeside is measure beside an arena of at least minKiB. The error is a *shortArenaError if that is too small.
func (k *boardKind) measureBeside(ctx context.Context, c Candidate, minKiB int) (Result, error) {
	if _, err := k.firmware.waitWindow(ctx, k.firmware.current()); err != nil {
		return Result{}, err
	}

	defer k.batcher.Begin()()
	start := time.Now()
	l, err := k.firmware.build(ctx, c, minKiB)
	// without the time in which measurements held the build up
	build := time.Since(start) - l.paused
	if err != nil {
		if f := buildFailure(err); f != nil && ctx.Err() == nil {
			return Result{Failure: f, Build: build}, nil
		}
		return Result{}, err
	}

	if l.needsFirmware() {
		return k.submit(ctx, c, l, build)
	}
	return k.shareOrSubmit(ctx, c, l, build)
}

// shareOrSubmit measures a candidate, unless another one with the same bytes and arguments was measured. The result
// refers to that one by sharedKey.
func (k *boardKind) shareOrSubmit(ctx context.Context, c Candidate, l load, build time.Duration) (Result, error) {
	key := twinKey(l, c.Entry)
	shared, first := k.twins.get(key)
	if !first {
		select {
		case <-shared.done:
		case <-ctx.Done():
			return Result{}, failure.Stopped(ctx, "measure %s", c.ID)
		}
		// The first one may have no result to share.
		if _, _, ok, err := k.recorder.store.find(shared.content); ok || err != nil {
			return Result{sharedKey: shared.content, Build: build}, err
		}
		return k.submit(ctx, c, l, build)
	}

	defer close(shared.done)
	result, err := k.submit(ctx, c, l, build)
	if err == nil && (result.Failure == nil || !result.Failure.Retry) {
		shared.content = c.content
		return result, nil
	}

	// There is nothing to share: the next candidate with these bytes is measured.
	k.twins.remove(key)
	return result, err
}

// submit queues a candidate and waits for its result.
func (k *boardKind) submit(ctx context.Context, c Candidate, l load, build time.Duration) (Result, error) {
	j := &job{
		cancelled: ctx.Done(), candidate: c, load: l, build: build, queued: time.Now(), outcomes: make(chan outcome, 1),
	}

	if l.needsFirmware() {
		k.batcher.Add(j)
		defer k.batcher.Done()
	} else if err := k.queue.Push(ctx, j); err != nil {
		return Result{}, k.closeReason(ctx)
	}
	return k.await(ctx, j)
}

// await waits for the outcome of a job.
func (k *boardKind) await(ctx context.Context, j *job) (Result, error) {
	var o outcome
	select {
	case o = <-j.outcomes:
	case <-ctx.Done():
		return Result{}, failure.Stopped(ctx, "measure %s", j.candidate.ID)
	case <-k.closed:
		return Result{}, failure.Errorf(failure.Interrupted, "measure %s: the run was closed", j.candidate.ID)
	case <-k.queue.Closed():
		// A place may have finished it before the queue closed.
		select {
		case o = <-j.outcomes:
		default:
			o.err = errNoPlace
		}
	}

	if errors.Is(o.err, errNoPlace) {
		return Result{}, k.closeReason(ctx)
	}
	return o.result, o.err
}

// closeReason returns the error of a job that cannot be queued or measured any more.
func (k *boardKind) closeReason(ctx context.Context) error {
	switch {
	case ctx.Err() != nil:
		return failure.Stopped(ctx, "measure")
	case isClosed(k.closed):
		return failure.Errorf(failure.Interrupted, "the run was closed")
	}
	if err := k.places.lost(); err != nil {
		return fmt.Errorf("no board %s is left: %w", k.name, err)
	}
	return errNoPlace
}

// buildBatch builds firmware of jobs that need it, and returns those that can be measured. If the jobs do not fit
// together, it queues two halves.
func (k *boardKind) buildBatch(ctx context.Context, jobs []*job) (built []*job) {
	names, candidates := make([]string, len(jobs)), map[string]Candidate{}
	for n, j := range jobs {
		names[n] = fmt.Sprintf("boardsmith_candidate_%d", n)
		candidates[names[n]] = j.candidate
	}

	i, l, err := k.firmware.buildBatch(ctx, candidates)
	if err != nil && len(jobs) > 1 && ctx.Err() == nil && failure.Of(err) != failure.Host {
		half := len(jobs) / 2
		k.queue.Requeue(jobs[:half:half]...)
		k.queue.Requeue(jobs[half:]...)
		return nil
	}

	for n, j := range jobs {
		j.aloneInFirmware = len(jobs) == 1
		if err == nil {
			j.load.image, j.load.layout, j.load.function = i, l, names[n]
			built = append(built, j)
		} else if f := buildFailure(err); f != nil {
			k.recorder.finish(j, Result{Failure: f, Reason: j.load.reason})
		} else {
			j.fail(err)
		}
	}
	return built
}

// confirmJobs queues jobs that measure candidates again in flash, all in one firmware, and returns their results.
func (k *boardKind) confirmJobs(ctx context.Context, jobs []*job) (results []Result, err error) {
	if len(jobs) == 0 {
		return nil, nil
	}
	if _, err := k.firmware.waitWindow(ctx, k.firmware.current()); err != nil {
		return nil, err
	}

	// a copy: a worker deletes cancelled jobs from its slice
	k.queue.Requeue(slices.Clone(jobs)...)
	for _, j := range jobs {
		result, err := k.await(ctx, j)
		if err != nil {
			return results, err
		}
		results = append(results, result)
	}
	return results, nil
}

// removePlace counts a place that is given up. Without places the queue closes.
func (k *boardKind) removePlace(cause error) {
	if k.places.remove(cause) {
		k.firmware.abandon()
		k.queue.Close()
	}
}
