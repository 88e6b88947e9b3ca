// This file is a board's loop: it takes jobs and measures them, and recovers the board.

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

// After maxSuspicions failures on boards that still pass the reference, the candidate is blamed. A job fails after
// maxAttempts in any case.
const (
	maxSuspicions = 3
	maxAttempts   = 10
)

// run measures jobs until ctx ends or the place is given up, and returns the cause of that.
func (b *board) run(ctx context.Context) error {
	err := b.use(ctx)
	for b.isLost() && ctx.Err() == nil {
		b.emit("gone", err)
		b.leave()
		err = b.use(ctx)
	}

	if b.idle && len(b.reference.unproven) > 0 {
		// What this check does not confirm is measured again when the run is opened the next time.
		_ = b.checkReference(context.WithoutCancel(ctx))
	}

	b.releaseProcessors()
	b.closeSession()
	err = errors.Join(err, b.place.Close())
	if ctx.Err() == nil && err != nil {
		b.emit("given up", err)
		b.scheduler.removeBoard(err)
	}
	return err
}

// use waits for something to measure and for a place, and measures jobs there until ctx ends or the place has gone or
// is given up.
func (b *board) use(ctx context.Context) error {
	select {
	case <-b.firmware.wanted:
	case <-ctx.Done():
		return nil
	}
	if err := b.acquire(ctx); err != nil {
		return err
	}
	if err := b.start(ctx); err != nil {
		return err
	}
	b.emit("ready", nil)
	return b.serve(ctx)
}

// leave ends the use of a place that has gone. What its reference has not confirmed is measured again.
func (b *board) leave() {
	b.remeasureUnproven()
	b.reference.expected = 0
	b.closeSession()
	_ = b.place.Close() // the connection has ended
}

// start opens a session with the place, and recovers the place if that fails.
func (b *board) start(ctx context.Context) error {
	err := b.open(ctx)
	switch failure.Of(err) {
	case failure.Config, failure.ToolMissing: // a reset cannot help
		return err
	}
	if err != nil {
		return b.recover(ctx, err)
	}
	return nil
}

// serve measures jobs until ctx ends. An error means that the place is given up.
func (b *board) serve(ctx context.Context) error {
	if err := b.checkReference(ctx); err != nil {
		if err = b.recover(ctx, err); err != nil {
			return err
		}
	}

	queue := b.scheduler.queue
	for {
		if queue.Empty() {
			b.releaseProcessors()
		}

		jobs := queue.Pop(ctx)
		b.idle = jobs == nil
		if ctx.Err() != nil {
			return nil
		}
		jobs = slices.DeleteFunc(jobs, func(j *job) bool { return isClosed(j.cancelled) })

		// Compilers need the processors, which the place may hold.
		if len(jobs) > 0 && jobs[0].needsFirmware() && !jobs[0].isLayout {
			b.releaseProcessors()
			b.emit(fmt.Sprintf("building firmware of %d candidates", len(jobs)), nil)
			jobs = b.scheduler.buildBatch(ctx, jobs)
		}

		if err := b.measureBatch(ctx, jobs); err != nil {
			return err
		}
	}
}

// measureBatch measures jobs in the order given. If their firmware does not start, it queues each of the remaining jobs
// for firmware of its own. An error means that the place is given up: the remaining jobs are queued for other places.
func (b *board) measureBatch(ctx context.Context, jobs []*job) error {
	for i, j := range jobs {
		split, err := b.measureJob(ctx, j)
		if !split && err == nil {
			continue
		}

		for _, rest := range jobs[i+1:] {
			if split {
				rest.dropFirmware()
			}
			b.scheduler.queue.Requeue(rest)
		}
		return err
	}
	return nil
}

// measureJob measures one job and finishes it, or queues it for another attempt. split means that the firmware with
// this and other candidates does not start. An error means that the place is given up.
func (b *board) measureJob(ctx context.Context, j *job) (split bool, err error) {
	if j.isLayout {
		return false, b.takeLayout(ctx, j)
	}

	wait := time.Since(j.queued)
	prepareErr := b.ensure(ctx, j.layout, j.image)
	var result Result
	if err = prepareErr; err == nil {
		result, err = b.measureRepeatedly(ctx, j)
	}
	result.Wait = wait

	if err == nil {
		result.Platform = b.platform
		b.setProvenance(j, &result)
		b.fresh = false
		b.finish(j, result)
		return false, b.checkReferenceIfDue(ctx)
	}

	if ctx.Err() != nil {
		j.fail(failure.Errorf(failure.Interrupted, "measure %s: the run was closed", j.candidate.ID))
		return false, nil
	}

	j.attempts++
	lost := b.isLost()
	// If the firmware does not start, another of its candidates may be the cause.
	if !lost && !b.wasKilled(err) && (prepareErr == nil || j.aloneInFirmware) {
		j.suspicions++
	}
	if isWorn(err) {
		j.attempts = maxAttempts // another attempt would be refused too
	}

	recoverErr := b.recover(ctx, err)
	// once more: always if the place is given up, else within the limits
	if recoverErr != nil && !lost || j.suspicions < maxSuspicions && j.attempts < maxAttempts {
		if split = prepareErr != nil && !lost && j.program == nil; split {
			j.dropFirmware()
		}
		b.scheduler.queue.Requeue(j)
		return split, recoverErr
	}

	result = Result{Failure: attemptsFailure(j, err), Wait: wait}
	b.setProvenance(j, &result)
	b.finish(j, result)
	return false, recoverErr
}

// measureRepeatedly measures a job. It measures it again after a reset if the cause of a failure may be an earlier
// candidate, as the device is not fresh, or inputs that are not its own. Finally the firmware must be intact.
func (b *board) measureRepeatedly(ctx context.Context, j *job) (Result, error) {
	hadOther := j.otherErr == nil
	result, err := b.time(ctx, j, b.scheduler.bestTime(j.args))

	if hadOther && j.otherErr != nil && ctx.Err() == nil ||
		err == nil && result.Failure != nil && !b.fresh {
		if err := b.restart(ctx, probeResetTry, b.layout, b.image); err != nil {
			return result, err
		}
		return b.measureRepeatedly(ctx, j)
	}
	if err == nil && result.Failure == nil && j.otherErr != nil {
		b.emit(j.candidate.ID+" was measured without calls with other inputs, as one failed", j.otherErr)
	}

	if err == nil {
		err = b.confirm(ctx)
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
func (b *board) wasKilled(err error) bool {
	var ended *transport.ProcessError
	if !errors.As(err, &ended) || ended.State == nil || len(b.firmware.board.Memory) == 0 {
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
func (b *board) takeLayout(ctx context.Context, j *job) error {
	err := b.ensure(ctx, j.layout, j.image)
	if err == nil || ctx.Err() != nil {
		return nil
	}
	if err = b.recover(ctx, err); err != nil { // a recovery takes the current layout
		b.scheduler.queue.Requeue(j)
	}
	return err
}

// finish delivers the result of a job. If the reference fails at the next check, the job is measured again.
func (b *board) finish(j *job, result Result) {
	f := result.Failure
	// scheduler.try tries again beside a larger arena.
	if f != nil && f.Class == failure.DoesNotFit && j.outcomes != nil && j.confirms == "" {
		result.Build = j.build
		j.outcomes <- outcome{result: result}
		return
	}

	if f == nil && b.reference.candidate != nil {
		b.reference.unproven = append(b.reference.unproven, j)
		result.Unproven = true
	}

	b.scheduler.finish(j, result)
}

// checkReferenceIfDue checks the reference after every Options.Every jobs. An error means that the place is given up.
func (b *board) checkReferenceIfDue(ctx context.Context) error {
	if len(b.reference.unproven) < b.o.Every {
		return nil
	}
	if err := b.checkReference(ctx); err != nil {
		return b.recover(ctx, err)
	}
	return nil
}

// recover resets the place after an error that may be the place's own, each time by stronger means, until the reference
// passes. It returns all errors if the place must be given up, or has gone.
func (b *board) recover(ctx context.Context, cause error) error {
	b.releaseProcessors() // the reference may have to be built
	for try := 1; try <= b.o.MaxRecoveries; try++ {
		if ctx.Err() != nil {
			return failure.Stopped(ctx, "recover %s", b.name)
		}
		if b.isLost() {
			return cause
		}

		b.emit(fmt.Sprintf("recovering, try %d", try), cause)
		l := b.firmware.current()
		err := b.restart(ctx, try, l, l.resident) // firmware with candidates may be the cause
		if err == nil {
			err = b.checkReference(ctx)
		}
		if err == nil {
			return nil
		}

		cause = errors.Join(cause, err)
	}
	return cause
}
