// This file times a function on a device, once.

package tune

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/rpc"
	"github.com/boardsmith/boardsmith/rpc/fault"
)

// A timing is one measurement of a candidate in an open session: its function is loaded, checked and timed.
type timing struct {
	*board
	job    *job
	best   float64 // seconds, with which Options.GiveUp compares; 0: none
	result Result

	module   rpc.Module
	entry    string
	check    string       // name of the function for checked calls
	function rpc.Function // of that name
}

// time measures a job whose firmware is on the place. best is the best time so far in seconds; 0: none. A failure that
// is certainly the candidate's is in the result. An error may be the board's fault.
func (b *board) time(ctx context.Context, j *job, best float64) (Result, error) {
	end, err := b.acquireProcessors(ctx)
	if err != nil {
		return Result{}, err
	}
	defer end()
	ctx, cancel := context.WithTimeout(ctx, b.o.measureTimeout())
	defer cancel()

	t := timing{board: b, job: j, best: best}
	err = t.run(ctx)
	return t.result, err
}

func (t *timing) run(ctx context.Context) error {
	// All calls have one budget, since a change of it is a request more; where it is short, the firmware's own functions
	// have another one after the candidate. After ctx's end the session is not used again.
	if err := t.session.SetBudget(ctx, t.o.budget()); err != nil {
		return err
	}
	defer func() { _ = t.session.SetBudget(ctx, max(t.o.budget(), callTimeout)) }()

	start := time.Now()
	err := t.load(ctx)
	if class := failure.Of(err); class == failure.Link || class == failure.DoesNotFit {
		t.result.Failure = newFailure(err)
		return nil
	}
	if err != nil {
		return err
	}

	err = t.loadArguments(ctx, t.job.candidate.Args)
	// The device has no memory for the arguments. On one that is not fresh, another error of it can be the fault of an
	// earlier candidate.
	if errors.As(err, new(*rpc.DeviceError)) && (t.fresh || failure.Of(err) == failure.DoesNotFit) {
		t.result.Failure = newFailure(err)
		t.result.Failure.Class = failure.DoesNotFit
		return t.unload(ctx)
	}
	if err != nil {
		return errors.Join(err, t.unload(ctx))
	}

	t.result.Load = time.Since(start)
	start = time.Now()
	err = t.checkAndTime(ctx)
	t.result.Run = time.Since(start)

	if f := candidateFailure(err); f != nil {
		if faultOf(err) != nil {
			t.args = nil // lost by the reset
		}
		r := &t.result
		r.Failure, err = f, nil
		r.Time, r.Samples, r.Cut, r.Interrupts, r.Disturbed = nil, nil, false, nil, false
	}

	if err != nil || t.args == nil {
		return err
	}

	// Damaged arguments must not serve the next candidate.
	if err = t.unload(ctx); err == nil && t.args.damaged {
		err = t.freeArguments(ctx)
	}
	return err
}

// load uploads the candidate's program, or finds its function in the firmware.
func (t *timing) load(ctx context.Context) (err error) {
	c, p := &t.job.candidate, t.job.program
	if p == nil {
		t.entry, t.check = t.job.function, t.job.function
		t.module, err = t.session.SystemLib(ctx)
		return err
	}

	t.result.Base, t.result.Bytes = p.Base, len(p.Bytes)
	t.entry, t.check = c.Entry, c.Operators.CheckName(c.Entry)
	t.module, err = t.session.Upload(ctx, *p)
	return err
}

func (t *timing) unload(ctx context.Context) error {
	if t.job.program == nil {
		return nil
	}
	return t.module.Unlink(ctx)
}

// loadArguments puts the arguments onto the device. Those of the last candidate are reused if their inputs are equal.
func (b *board) loadArguments(ctx context.Context, args []Arg) (err error) {
	if b.args != nil && equalInputs(b.args.specs, args) {
		b.args.specs = args // the expected outputs may differ
		return nil
	}
	if b.args != nil {
		if err := b.freeArguments(ctx); err != nil {
			return err
		}
	}

	b.args, err = newArguments(ctx, b.session, args)
	return err
}

func (b *board) freeArguments(ctx context.Context) error {
	block := b.args.block
	b.args = nil
	return block.Free(ctx)
}

// faultOf returns the fault of the device that ended the candidate's call, else nil: a prior fault is not the
// candidate's. After a fault, the device was reset.
func faultOf(err error) *fault.Error {
	var f *fault.Error
	if errors.As(err, &f) && !f.Prior {
		return f
	}
	return nil
}

// candidateFailure returns the failure if the candidate caused err: by a fault of the device, an error that its
// function returned, or wrong outputs. Otherwise it returns nil.
func candidateFailure(err error) *Failure {
	if crash := faultOf(err); crash != nil {
		f := newFailure(err)
		if crash.Record.Reason == fault.ReasonTimeout {
			f.Class = failure.Timeout
		}
		return f
	}
	if errors.As(err, new(*rpc.DeviceError)) || failure.Of(err) == failure.WrongAnswer {
		return newFailure(err)
	}
	return nil
}

// checkAndTime times a candidate between two calls with other inputs, which must have equal outputs. Outputs are
// compared with the expected ones as the last timed call leaves them, and inputs and guards after it and after the call
// that follows it: a candidate that changes them in each call cannot have restored them in both.
func (t *timing) checkAndTime(ctx context.Context) (err error) {
	if t.function, err = t.module.Function(ctx, t.check); err != nil {
		return err
	}

	if err := t.callOther(ctx, t.args.keepOther); err != nil {
		return err
	}

	// Timed calls compute in place of an argument that is both input and output: one call is checked before.
	inOut := slices.ContainsFunc(t.args.specs, func(a Arg) bool { return a.Want != nil && a.isInput() })
	if inOut && t.hasOther() {
		if err := t.callAndCheck(ctx); err != nil {
			return err
		}
	}

	// with the first inputs, for which outputs are expected
	if err := t.args.use(ctx, false); err != nil {
		return err
	}

	var samples []float64
	if t.best > 0 && t.o.GiveUp > 0 {
		samples, err = t.module.Time(ctx, t.entry, rpc.TimeOptions{Number: 1, Repeat: 1}, t.args.values()...)
		if err != nil {
			return err
		}
		t.result.Cut = samples[0] > t.best*t.o.GiveUp
	}
	if !t.result.Cut {
		o := rpc.TimeOptions{Number: 1, Repeat: t.o.Samples, MinRepeat: t.o.MinSample}
		samples, err = t.module.Time(ctx, t.entry, o, t.args.values()...)
		if err != nil {
			return err
		}
	}

	err = t.setTime(ctx, samples)
	if err == nil && !inOut {
		err = t.args.check(ctx)
	}
	if err != nil || t.result.Cut {
		return err
	}
	return t.callOther(ctx, t.args.checkOther)
}

// callOther calls the function once with the second inputs, then check. Without second inputs it calls the function
// with the first ones, and checks the outputs.
func (t *timing) callOther(ctx context.Context, check func(context.Context) error) error {
	if !t.hasOther() {
		return t.callAndCheck(ctx)
	}
	if t.job.otherErr = t.call(ctx, true); t.job.otherErr != nil {
		return t.job.otherErr
	}
	return check(ctx)
}

// hasOther reports whether a candidate is called with second inputs.
func (t *timing) hasOther() bool { return t.args.second != nil && t.job.otherErr == nil }

// callAndCheck calls the function once with the first inputs, and checks the outputs.
func (t *timing) callAndCheck(ctx context.Context) error {
	if err := t.call(ctx, false); err != nil {
		return err
	}
	return t.args.check(ctx)
}

func (t *timing) call(ctx context.Context, second bool) error {
	if err := t.args.use(ctx, second); err != nil {
		return err
	}

	// A device whose clock agrees with the host's ends it earlier, and says where.
	ctx, cancel := context.WithTimeout(ctx, 2*t.o.budget())
	defer cancel()
	_, err := t.function.Call(ctx, t.args.values()...)
	return err
}

// setTime sets the time and the interrupts of samples, which were measured last in the session. Samples with an
// interrupt do not count, unless all have one.
func (t *timing) setTime(ctx context.Context, samples []float64) error {
	interrupts, err := t.session.TimedInterrupts(ctx)
	if err != nil {
		return err
	}

	r := &t.result
	var quiet []float64
	for i, sample := range samples {
		if interrupts == nil || interrupts[i] == 0 {
			quiet = append(quiet, sample)
		}
	}

	if len(quiet) < len(samples) {
		r.Interrupts = interrupts
	}
	if r.Disturbed = len(quiet) == 0; r.Disturbed {
		quiet = samples
	}

	stats := rpc.StatsOf(quiet)
	r.Time, r.Samples = &stats, samples
	return nil
}
