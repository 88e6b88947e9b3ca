// This file decides which candidate is measured, when, and at whose request.

package tune

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/rpc"
	"github.com/boardsmith/boardsmith/tune/internal/schedule"
)

// A scheduler measures the candidates of one kind of board: it builds them, queues them for the boards, and writes
// their results. Many goroutines may use it.
type scheduler struct {
	kind       string
	o          *Options
	store      *store
	firmware   *firmware
	queue      *schedule.Queue[*job]
	batcher    *schedule.Batcher[*job]
	locks      keyLock    // of contents, and of twinKeys
	twins      sync.Map   // measured contents by twinKey
	confirming sync.Mutex // one Confirm at a time

	mu         sync.Mutex
	best       map[digest]float64 // times of candidates in seconds, by the digest of their arguments
	references map[string]float64 // times of the reference in seconds, by board
}

// queueBound is how many built candidates of a kind wait for a board.
const queueBound = 2

// maxHostTries limits how often a candidate is built if the computer is to blame.
const maxHostTries = 3

var errNoBoard = failure.Errorf(failure.BoardLost, "no board is left")

func newScheduler(kind string, o *Options, st *store) *scheduler {
	s := &scheduler{
		kind: kind, o: o, store: st, best: map[digest]float64{}, references: map[string]float64{},
		queue: schedule.NewQueue(queueBound, func(j *job) { j.fail(errNoBoard) }),
	}
	s.batcher = &schedule.Batcher[*job]{Size: o.FlashBatch, Release: s.queue.Requeue}
	return s
}

// measure returns the result of a candidate's content. It measures the candidate if there is none.
func (s *scheduler) measure(ctx context.Context, c Candidate) (Result, error) {
	unlock, err := s.locks.lock(ctx, c.content)
	if err != nil {
		return Result{}, failure.Stopped(ctx, "measure %s", c.ID)
	}
	defer unlock()

	if s.isFinished(c.content) {
		return s.share(c, Result{}, c.content)
	}
	return s.try(ctx, c)
}

// isFinished reports whether a content has a result that counts: of this process, or of an earlier one unless it is a
// failure and Options.Retry is set.
func (s *scheduler) isFinished(content string) bool {
	result, own, ok := s.store.find(content)
	return ok && (own || result.Failure == nil || !s.o.Retry)
}

// try measures a candidate and writes its result. It tries again beside a larger arena if the candidate needs it, and
// if this computer is to blame.
func (s *scheduler) try(ctx context.Context, c Candidate) (Result, error) {
	minKiB, tries, suspicions := 0, 0, 0
	for {
		j := newJob(ctx, c)
		result, err := s.attempt(ctx, j, minKiB)
		if err != nil || result.ID != "" {
			return result, err
		}

		f := result.Failure
		switch {
		case result.Board != "": // its arena is too small
			minKiB = j.layout.arenaKiB + 1
			_, err := s.firmware.layoutFor(ctx, nil, minKiB)
			// Other errors are those of the next attempt.
			if failure.Of(err) != failure.DoesNotFit {
				continue
			}
			f.Message += fmt.Sprintf("; the arena has %d KiB, and cannot have more: %v", minKiB-1, err)
		case f.Blame == BlameHost:
			if f.suspected != "" {
				suspicions++
			}
			if tries++; tries < maxHostTries {
				continue
			}
		}

		if suspicions == maxHostTries && s.firmware.compilerWorks(ctx) {
			f.Class, f.Blame, f.Retry = f.suspected, BlameCandidate, false
			f.Message = fmt.Sprintf("the compiler fails each time, and not for another source: %s", f.Message)
		}
		return s.write(c, resultLine{Result: &result})
	}
}

// attempt builds a job beside an arena of at least minKiB, and waits until a board has measured it, or another
// candidate with the same bytes and arguments. A result without ID is not written yet: the candidate cannot be built,
// or, if the result has a board, needs a larger arena.
func (s *scheduler) attempt(ctx context.Context, j *job, minKiB int) (Result, error) {
	if _, err := s.firmware.waitWindow(ctx, s.firmware.current()); err != nil {
		return Result{}, err
	}

	defer s.batcher.Begin()()
	err := s.firmware.build(ctx, j, minKiB)
	j.queued = time.Now()
	if err != nil {
		if f := buildFailure(err); f != nil && ctx.Err() == nil {
			return Result{Failure: f, Build: j.build}, nil
		}
		return Result{}, err
	}

	if j.needsFirmware() {
		s.batcher.Add(j)
		defer s.batcher.Done()
		return s.await(ctx, j)
	}

	key := j.twinKey()
	unlock, err := s.locks.lock(ctx, key)
	if err != nil {
		return Result{}, failure.Stopped(ctx, "measure %s", j.candidate.ID)
	}
	defer unlock()
	if content, ok := s.twins.Load(key); ok {
		return s.share(j.candidate, Result{Build: j.build}, content.(string))
	}

	if err := s.queue.Push(ctx, j); err != nil {
		return Result{}, s.closeReason(ctx)
	}
	result, err := s.await(ctx, j)
	// Others share what is written.
	if err == nil && result.ID != "" && (result.Failure == nil || !result.Failure.Retry) {
		s.twins.Store(key, j.candidate.content)
	}
	return result, err
}

// await waits for the outcome of a job.
func (s *scheduler) await(ctx context.Context, j *job) (Result, error) {
	var o outcome
	select {
	case o = <-j.outcomes:
	case <-ctx.Done():
		return Result{}, failure.Stopped(ctx, "measure %s", j.candidate.ID)
	case <-s.firmware.closed:
		return Result{}, failure.Errorf(failure.Interrupted, "measure %s: the run was closed", j.candidate.ID)
	case <-s.queue.Closed():
		// A board may have finished it before the queue closed.
		select {
		case o = <-j.outcomes:
		default:
			o.err = errNoBoard
		}
	}

	if errors.Is(o.err, errNoBoard) {
		return Result{}, s.closeReason(ctx)
	}
	return o.result, o.err
}

// closeReason returns the error of a job that cannot be queued or measured any more.
func (s *scheduler) closeReason(ctx context.Context) error {
	switch {
	case ctx.Err() != nil:
		return failure.Stopped(ctx, "measure")
	case isClosed(s.firmware.closed):
		return failure.Errorf(failure.Interrupted, "the run was closed")
	}
	return cmp.Or(s.firmware.lost(), errNoBoard)
}

// removeBoard counts a board that is given up. Without boards the queue closes.
func (s *scheduler) removeBoard(cause error) {
	if s.firmware.removeBoard(cause) {
		s.queue.Close()
	}
}

// buildBatch builds firmware of jobs that need it, and returns those that can be measured. If the jobs do not fit
// together, it queues two halves.
func (s *scheduler) buildBatch(ctx context.Context, jobs []*job) (built []*job) {
	names, candidates := make([]string, len(jobs)), map[string]Candidate{}
	for n, j := range jobs {
		names[n] = fmt.Sprintf("boardsmith_candidate_%d", n)
		candidates[names[n]] = j.candidate
	}

	i, l, err := s.firmware.buildBatch(ctx, candidates)
	if err != nil && len(jobs) > 1 && ctx.Err() == nil && failure.Of(err) != failure.Host {
		half := len(jobs) / 2
		s.queue.Requeue(jobs[:half:half]...)
		s.queue.Requeue(jobs[half:]...)
		return nil
	}

	for n, j := range jobs {
		j.aloneInFirmware = len(jobs) == 1
		if err == nil {
			j.image, j.layout, j.function = i, l, names[n]
			built = append(built, j)
		} else if f := buildFailure(err); f != nil {
			s.finish(j, Result{Failure: f, Reason: j.reason})
		} else {
			j.fail(err)
		}
	}
	return built
}

// confirmJobs queues jobs that measure candidates again in flash, all in one firmware, and returns their results.
func (s *scheduler) confirmJobs(ctx context.Context, jobs []*job) (results []Result, err error) {
	if len(jobs) == 0 {
		return nil, nil
	}
	if _, err := s.firmware.waitWindow(ctx, s.firmware.current()); err != nil {
		return nil, err
	}

	// a copy: a board deletes cancelled jobs from its slice
	s.queue.Requeue(slices.Clone(jobs)...)
	for _, j := range jobs {
		result, err := s.await(ctx, j)
		if err != nil {
			return results, err
		}
		results = append(results, result)
	}
	return results, nil
}

// finish writes the result of a job and delivers it.
func (s *scheduler) finish(j *job, result Result) {
	result.Build, result.Confirms = j.build, j.confirms
	result, err := s.write(j.candidate, resultLine{Result: &result, Again: j.outcomes == nil})

	if result.Time != nil && !result.Cut && !result.Disturbed {
		s.addTime(j.args, rpc.StatsOf(result.Samples).Median)
	}

	switch {
	case j.outcomes != nil:
		j.outcomes <- outcome{result, err}
	case err != nil: // no caller waits for it
		s.o.emit(Event{Text: "measured " + j.candidate.ID + " again", Err: err})
	}
}

// write writes the line of a candidate's result, and returns the result. It does not write a failure with Retry.
func (s *scheduler) write(c Candidate, l resultLine) (Result, error) {
	s.stamp(c, l.Result)
	result := *l.Result
	if result.Failure != nil && result.Failure.Retry {
		s.o.emit(Event{Board: result.Board, Text: "could not measure " + c.ID, Result: &result})
		return result, nil
	}

	if err := s.store.append(l); err != nil {
		return Result{}, err
	}
	s.o.emit(Event{Board: result.Board, Text: "finished " + c.ID, Result: &result})
	return result, nil
}

// share makes the candidate's ID a label of its content, gives this content the finished result of a key, and returns
// that result. own has the other fields of the label.
func (s *scheduler) share(c Candidate, own Result, key string) (Result, error) {
	s.stamp(c, &own)
	result, added, err := s.store.share(own, key)
	if err == nil && added {
		s.o.emit(Event{Text: "finished " + c.ID, Result: &result})
	}
	return result, err
}

// stamp sets the fields of a result that describe its candidate.
func (s *scheduler) stamp(c Candidate, result *Result) {
	result.ID, result.Kind, result.Record, result.Finished = c.ID, s.kind, c.Record, time.Now().UTC()
	result.Content, result.Toolchain = c.content, s.firmware.toolchain
	// The result of an invalid record is a failure, and JSON could not contain the record.
	if !json.Valid(result.Record) {
		result.Record = nil
	}
}

// bestTime returns the best time of candidates with arguments of a digest, in seconds; 0 if there is none.
func (s *scheduler) bestTime(args digest) float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.best[args]
}

func (s *scheduler) addTime(args digest, seconds float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if best, ok := s.best[args]; !ok || seconds < best {
		s.best[args] = seconds
	}
}

// setReference sets the time of the reference on a board in seconds, and returns those of all boards.
func (s *scheduler) setReference(board string, seconds float64) (all map[string]float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.references[board] = seconds
	return maps.Clone(s.references)
}
