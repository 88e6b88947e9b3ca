package tune

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/transport"
)

// A worker takes jobs of its kind from the queue and measures them at one place, in one goroutine.
type worker struct {
	kind      *boardKind
	station   *station
	reference *reference
	idle      bool // it waited for a job when the run was closed
}

// After maxSuspicions failures on boards that still pass the reference, the candidate is blamed. A job fails after
// maxAttempts in any case.
const (
	maxSuspicions = 3
	maxAttempts   = 10
)

// run measures jobs until ctx ends or the place is given up, and returns the cause of that.
func (w *worker) run(ctx context.Context) error {
	err := w.use(ctx)
	for w.station.isLost() && ctx.Err() == nil {
		w.emit("gone", err)
		w.leave()
		err = w.use(ctx)
	}

	if w.idle && len(w.reference.unproven) > 0 {
		// What this check does not confirm is measured again when the run is opened the next time.
		_ = w.checkReference(context.WithoutCancel(ctx))
	}

	w.station.releaseProcessors()
	w.station.closeSession()
	err = errors.Join(err, w.station.place.Close())
	if ctx.Err() == nil && err != nil {
		w.emit("given up", err)
		w.kind.removePlace(err)
	}
	return err
}

// use waits for something to measure and for a place, and measures jobs there until ctx ends or the place has gone or
// is given up.
func (w *worker) use(ctx context.Context) error {
	select {
	case <-w.kind.firmware.wanted:
	case <-ctx.Done():
		return nil
	}
	if err := w.station.acquire(ctx); err != nil {
		return err
	}
	if err := w.open(ctx); err != nil {
		return err
	}
	w.emit("ready", nil)
	return w.serve(ctx)
}

// leave ends the use of a place that has gone. What its reference has not confirmed is measured again.
func (w *worker) leave() {
	for _, j := range w.reference.unproven {
		w.kind.queue.Requeue(j.remeasure())
	}
	w.reference.unproven, w.reference.expected = nil, 0
	w.station.closeSession()
	_ = w.station.place.Close() // the connection has ended
}

func (w *worker) emit(text string, err error) {
	w.kind.o.emit(Event{Board: w.station.name, Text: text, Err: err})
}

// open opens a session with the place, and recovers the place if that fails.
func (w *worker) open(ctx context.Context) error {
	err := w.station.open(ctx)
	switch failure.Of(err) {
	case failure.Config, failure.ToolMissing: // a reset cannot help
		return err
	}
	if err != nil {
		return w.recover(ctx, err)
	}
	return nil
}

// serve measures jobs until ctx ends. An error means that the place is given up.
func (w *worker) serve(ctx context.Context) error {
	if err := w.checkReference(ctx); err != nil {
		if err = w.recover(ctx, err); err != nil {
			return err
		}
	}

	queue := w.kind.queue
	for {
		if queue.Empty() {
			w.station.releaseProcessors()
		}

		jobs := queue.Pop(ctx)
		w.idle = jobs == nil
		if ctx.Err() != nil {
			return nil
		}
		jobs = slices.DeleteFunc(jobs, func(j *job) bool { return isClosed(j.cancelled) })

		// Compilers need the processors, which the place may hold.
		if len(jobs) > 0 && jobs[0].load.needsFirmware() && !jobs[0].isLayout {
			w.station.releaseProcessors()
			w.emit(fmt.Sprintf("building firmware of %d candidates", len(jobs)), nil)
			jobs = w.kind.buildBatch(ctx, jobs)
		}

		if err := w.measureBatch(ctx, jobs); err != nil {
			return err
		}
	}
}

// measureBatch measures jobs in the order given. If their firmware does not start, it queues each of the remaining jobs
// for firmware of its own. An error means that the place is given up: the remaining jobs are queued for other places.
func (w *worker) measureBatch(ctx context.Context, jobs []*job) error {
	for i, j := range jobs {
		split, err := w.measureJob(ctx, j)
		if !split && err == nil {
			continue
		}

		for _, rest := range jobs[i+1:] {
			if split {
				rest.load.dropFirmware()
			}
			w.kind.queue.Requeue(rest)
		}
		return err
	}
	return nil
}

// measureJob measures one job and finishes it, or queues it for another attempt. split means that the firmware with
// this and other candidates does not start. An error means that the place is given up.
func (w *worker) measureJob(ctx context.Context, j *job) (split bool, err error) {
	if j.isLayout {
		return false, w.takeLayout(ctx, j)
	}

	wait := time.Since(j.queued)
	prepareErr := w.station.ensure(ctx, &j.load)
	var result Result
	if err = prepareErr; err == nil {
		result, err = w.measureRepeatedly(ctx, j)
	}
	result.Wait = wait

	if err == nil {
		result.Platform = w.station.platform
		w.station.setProvenance(&j.load, &result)
		w.station.bench.fresh = false
		w.finish(j, result)
		return false, w.checkReferenceIfDue(ctx)
	}

	if ctx.Err() != nil {
		j.fail(failure.Errorf(failure.Interrupted, "measure %s: the run was closed", j.candidate.ID))
		return false, nil
	}

	j.attempts++
	lost := w.station.isLost()
	// If the firmware does not start, another of its candidates may be the cause.
	if !lost && !w.wasKilled(err) && (prepareErr == nil || j.aloneInFirmware) {
		j.suspicions++
	}
	if isWorn(err) {
		j.attempts = maxAttempts // another attempt would be refused too
	}

	recoverErr := w.recover(ctx, err)
	// once more: always if the place is given up, else within the limits
	if recoverErr != nil && !lost || j.suspicions < maxSuspicions && j.attempts < maxAttempts {
		if split = prepareErr != nil && !lost && j.load.program == nil; split {
			j.load.dropFirmware()
		}
		w.kind.queue.Requeue(j)
		return split, recoverErr
	}

	result = Result{Failure: attemptsFailure(j, err), Wait: wait}
	w.station.setProvenance(&j.load, &result)
	w.finish(j, result)
	return false, recoverErr
}

// measureRepeatedly measures a job. It measures it again after a reset if the cause of a failure may be an earlier
// candidate, as the device is not fresh, or inputs that are not its own. Finally the firmware must be intact.
func (w *worker) measureRepeatedly(ctx context.Context, j *job) (Result, error) {
	s, hadOther := w.station, j.load.otherErr == nil
	result, err := w.measure(ctx, j)

	if hadOther && j.load.otherErr != nil && ctx.Err() == nil ||
		err == nil && result.Failure != nil && !s.bench.fresh {
		if err := s.restart(ctx, probeResetTry, s.layout, s.image); err != nil {
			return result, err
		}
		return w.measureRepeatedly(ctx, j)
	}
	if err == nil && result.Failure == nil && j.load.otherErr != nil {
		w.emit(j.candidate.ID+" was measured without calls with other inputs, as one failed", j.load.otherErr)
	}

	if err == nil {
		err = s.confirm(ctx)
	}
	return result, err
}

// measure measures a job once, and updates the best time of its arguments.
func (w *worker) measure(ctx context.Context, j *job) (Result, error) {
	best := w.kind.bestTimes.get(j.load.args)
	result, err := w.station.measure(ctx, j.candidate, &j.load, best)
	if err == nil && result.Failure == nil && !result.Cut && !result.Disturbed {
		w.kind.bestTimes.add(j.load.args, result.Samples)
	}
	return result, err
}

// attemptsFailure returns the failure of a job after its last attempt, which ended with err.
func attemptsFailure(j *job, err error) *Failure {
	f := newFailure(err)
	switch {
	case f.Blame == BlameHost:
	case isWorn(err):
		f.Blame, f.Retry = BlameBoard, true
	case j.suspicions < maxSuspicions:
		f.Class, f.Blame, f.Retry = failure.BoardLost, BlameBoard, true
	}
	f.Message = fmt.Sprintf("%s (after %d measurements on boards that do well with others)", f.Message, j.attempts)
	return f
}

// wasKilled reports whether an emulator was ended by a signal from outside, which no candidate in it can send. A
// process may have sent the signal to itself.
func (w *worker) wasKilled(err error) bool {
	var ended *transport.ProcessError
	if !errors.As(err, &ended) || ended.State == nil || len(w.station.firmware.board.Memory) == 0 {
		return false
	}
	if bytes.Contains(ended.Tail, []byte("terminating on signal")) { // QEMU exits without a signal status then
		return true
	}
	status, ok := ended.State.Sys().(interface{ Signal() syscall.Signal })
	return ok && (status.Signal() == syscall.SIGKILL || status.Signal() == syscall.SIGTERM)
}

// takeLayout puts the firmware of a new layout onto the place, so that candidates can be built for it. An error means
// that the place is given up.
func (w *worker) takeLayout(ctx context.Context, j *job) error {
	err := w.station.ensure(ctx, &j.load)
	if err == nil || ctx.Err() != nil {
		return nil
	}
	if err = w.recover(ctx, err); err != nil { // a recovery takes the current layout
		w.kind.queue.Requeue(j)
	}
	return err
}

// finish delivers the result of a job. If the reference fails at the next check, the job is measured again.
func (w *worker) finish(j *job, result Result) {
	f := result.Failure
	// boardKind.measure tries again beside a larger arena.
	if f != nil && f.Class == failure.DoesNotFit && j.outcomes != nil && j.confirms == "" {
		result.Build = j.build
		j.outcomes <- outcome{result, &shortArenaError{j.load.layout.arenaKiB}}
		return
	}

	if f == nil && w.reference.candidate != nil {
		w.reference.unproven = append(w.reference.unproven, j)
		result.Unproven = true
	}

	w.kind.recorder.finish(j, result)
}

// checkReferenceIfDue checks the reference after every Options.Every jobs. An error means that the place is given up.
func (w *worker) checkReferenceIfDue(ctx context.Context) error {
	if len(w.reference.unproven) < w.kind.o.Every {
		return nil
	}
	if err := w.checkReference(ctx); err != nil {
		return w.recover(ctx, err)
	}
	return nil
}

// checkReference checks the reference, and confirms the results since the last check. After an error, their jobs are
// measured again.
func (w *worker) checkReference(ctx context.Context) error {
	jobs, err := w.reference.check(ctx)
	if err != nil {
		for _, j := range jobs {
			w.kind.queue.Requeue(j.remeasure())
		}
		return err
	}

	var keys []string
	for _, j := range jobs {
		keys = append(keys, j.candidate.content)
	}
	return w.kind.recorder.store.prove(keys)
}

// recover resets the place after an error that may be the place's own, each time by stronger means, until the reference
// passes. It returns all errors if the place must be given up, or has gone.
func (w *worker) recover(ctx context.Context, cause error) error {
	w.station.releaseProcessors() // the reference may have to be built
	for try := 1; try <= w.kind.o.MaxRecoveries; try++ {
		if ctx.Err() != nil {
			return failure.Stopped(ctx, "recover %s", w.station.name)
		}
		if w.station.isLost() {
			return cause
		}

		w.emit(fmt.Sprintf("recovering, try %d", try), cause)
		l := w.kind.firmware.current()
		err := w.station.restart(ctx, try, l, l.resident) // firmware with candidates may be the cause
		if err == nil {
			err = w.checkReference(ctx)
		}
		if err == nil {
			return nil
		}

		cause = errors.Join(cause, err)
	}
	return cause
}
