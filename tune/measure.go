// This file measures candidates in an open session.

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

// A bench measures candidates in one session with a device. One goroutine at a time uses it.
type bench struct {
	o       *Options
	session *rpc.Session
	args    *arguments // of the last candidate; nil: none on the device
	fresh   bool       // no candidate ran since the last reset: a failure is not the fault of an earlier one
}

// measure loads a candidate, checks its outputs, and times it. best is the time in seconds with which Options.GiveUp
// compares; 0: none. A failure that is certainly the candidate's is in the result. An error may be the board's fault.
func (b *bench) measure(ctx context.Context, c Candidate, l *load, best float64) (Result, error) {
	ctx, cancel := context.WithTimeout(ctx, b.o.measureTimeout())
	defer cancel()

	var result Result
	if l.program != nil {
		result = Result{Base: l.program.Base, Bytes: len(l.program.Bytes)}
	}

	start := time.Now()
	code, err := b.loadCode(ctx, c, l)
	if class := failure.Of(err); class == failure.Link || class == failure.DoesNotFit {
		result.Failure = newFailure(err)
		return result, nil
	}
	if err != nil {
		return result, err
	}

	err = b.loadArguments(ctx, c.Args)
	// The device has no memory for the arguments. On one that is not fresh, another error of it can be the fault of an
	// earlier candidate.
	if errors.As(err, new(*rpc.DeviceError)) && (b.fresh || failure.Of(err) == failure.DoesNotFit) {
		result.Failure = newFailure(err)
		result.Failure.Class = failure.DoesNotFit
		return result, code.unload(ctx)
	}
	if err != nil {
		return result, errors.Join(err, code.unload(ctx))
	}

	result.Load = time.Since(start)
	start = time.Now()
	err = b.checkAndTime(ctx, code, l, best, &result)
	result.Run = time.Since(start)

	if f := candidateFailure(err); f != nil {
		if faultOf(err) != nil {
			b.args = nil // lost by the reset
		}
		result.Failure, err = f, nil
		result.Time, result.Samples, result.Cut, result.Interrupts, result.Disturbed = nil, nil, false, nil, false
	}

	if err != nil || b.args == nil {
		return result, err
	}

	// Damaged arguments must not serve the next candidate.
	if err = code.unload(ctx); err == nil && b.args.damaged {
		err = b.freeArguments(ctx)
	}
	return result, err
}

// loadedCode is a candidate's function on the device.
type loadedCode struct {
	module   rpc.Module
	entry    string
	check    string // name of the function for checked calls
	uploaded bool
}

// loadCode uploads the candidate's program, or finds its function in the firmware.
func (b *bench) loadCode(ctx context.Context, c Candidate, l *load) (loadedCode, error) {
	if l.program == nil {
		m, err := b.session.SystemLib(ctx)
		return loadedCode{module: m, entry: l.function, check: l.function}, err
	}
	m, err := b.session.Upload(ctx, *l.program)
	return loadedCode{module: m, entry: c.Entry, check: c.Operators.CheckName(c.Entry), uploaded: true}, err
}

func (c loadedCode) unload(ctx context.Context) error {
	if !c.uploaded {
		return nil
	}
	return c.module.Unlink(ctx)
}

// loadArguments puts the arguments onto the device. Those of the last candidate are reused if their inputs are equal.
func (b *bench) loadArguments(ctx context.Context, args []Arg) (err error) {
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

func (b *bench) freeArguments(ctx context.Context) error {
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
func (b *bench) checkAndTime(ctx context.Context, code loadedCode, l *load, best float64, result *Result) error {
	f, err := code.module.Function(ctx, code.check)
	if err != nil {
		return err
	}

	if err := b.callOther(ctx, f, l, b.args.keepOther); err != nil {
		return err
	}

	// Timed calls compute in place of an argument that is both input and output: one call is checked before.
	inOut := slices.ContainsFunc(b.args.specs, func(a Arg) bool { return a.Want != nil && a.isInput() })
	if inOut && b.hasOther(l) {
		if err := b.callAndCheck(ctx, f); err != nil {
			return err
		}
	}

	// with the first inputs, for which outputs are expected
	if err := b.args.use(ctx, false); err != nil {
		return err
	}

	var samples []float64
	if best > 0 && b.o.GiveUp > 0 {
		limited, cancel := context.WithTimeout(ctx, b.o.CallTimeout)
		defer cancel()
		samples, err = code.module.Time(limited, code.entry, rpc.TimeOptions{Number: 1, Repeat: 1}, b.args.values()...)
		if err != nil {
			return err
		}
		result.Cut = samples[0] > best*b.o.GiveUp
	}
	if !result.Cut {
		o := rpc.TimeOptions{Number: 1, Repeat: b.o.Samples, MinRepeat: b.o.MinSample}
		samples, err = code.module.Time(ctx, code.entry, o, b.args.values()...)
		if err != nil {
			return err
		}
	}

	err = result.setTime(ctx, b.session, samples)
	if err == nil && !inOut {
		err = b.args.check(ctx)
	}
	if err != nil || result.Cut {
		return err
	}
	return b.callOther(ctx, f, l, b.args.checkOther)
}

// callOther calls the function once with the second inputs, then check. Without second inputs it calls the function
// with the first ones, and checks the outputs.
func (b *bench) callOther(
	ctx context.Context, f rpc.Function, l *load, check func(context.Context) error,
) error {
	if !b.hasOther(l) {
		return b.callAndCheck(ctx, f)
	}
	if l.otherErr = b.call(ctx, f, true); l.otherErr != nil {
		return l.otherErr
	}
	return check(ctx)
}

// hasOther reports whether a candidate is called with second inputs.
func (b *bench) hasOther(l *load) bool { return b.args.second != nil && l.otherErr == nil }

// callAndCheck calls the function once with the first inputs, and checks the outputs.
func (b *bench) callAndCheck(ctx context.Context, f rpc.Function) error {
	if err := b.call(ctx, f, false); err != nil {
		return err
	}
	return b.args.check(ctx)
}

func (b *bench) call(ctx context.Context, f rpc.Function, second bool) error {
	if err := b.args.use(ctx, second); err != nil {
		return err
	}

	ctx, cancel := context.WithTimeout(ctx, b.o.CallTimeout)
	defer cancel()
	_, err := f.Call(ctx, b.args.values()...)
	return err
}

// setTime sets the time and the interrupts of samples, which were measured last in the session. Samples with an
// interrupt do not count, unless all have one.
func (r *Result) setTime(ctx context.Context, s *rpc.Session, samples []float64) error {
	interrupts, err := s.TimedInterrupts(ctx)
	if err != nil {
		return err
	}

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
