// This file takes jobs from the queue, and measures them at one place.

package tune

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"slices"
	"syscall"
	"time"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/ndarray"
	"github.com/boardsmith/boardsmith/rpc"
	"github.com/boardsmith/boardsmith/rpc/fault"
	"github.com/boardsmith/boardsmith/transport"
)

// serve measures jobs until ctx ends, or the place cannot be brought back.
func (p *place) serve(ctx context.Context) error {
	if err := p.reference(ctx); err != nil {
		if err = p.recover(ctx, err); err != nil {
			return err
		}
	}
	for {
		if !p.kind.queue.waits() {
			p.letWork()
		}
		jobs := p.kind.queue.pop(ctx)
		p.idle = jobs == nil
		jobs = slices.DeleteFunc(jobs, func(j *job) bool { return !j.isWanted() })
		if ctx.Err() != nil {
			return nil
		}
		if len(jobs) > 0 && jobs[0].load.waits() && !jobs[0].opens {
			jobs = p.together(ctx, jobs)
		}
		for i, j := range jobs {
			apart, err := p.do(ctx, j)
			if apart || err != nil {
				for _, left := range jobs[i+1:] {
					if apart {
						left.load.apart()
					}
					p.kind.queue.again(left)
				}
			}
			if err != nil {
				return err
			}
			if apart {
				break
			}
		}
	}
}

// What could be a board's fault is the candidate's if it happens suspectTries times, on boards that do well with the
// reference afterwards. What surely is the board's fails a job after boardTries.
const (
	suspectTries = 3
	boardTries   = 10
)

// do measures one job. If the firmware that it is in does not start, it is queued again, to be put into other firmware
// apart from those that it was with. An error means that the place is given up.
func (p *place) do(ctx context.Context, j *job) (apart bool, err error) {
	if j.opens {
		return false, p.takeLayout(ctx, j)
	}
	wait := time.Since(j.queued)
	var result Result
	ready := p.needs(ctx, &j.load)
	err = ready
	if err == nil {
		result, err = p.measure(ctx, j.candidate, &j.load)
	}
	if err == nil && result.Failure != nil && !p.fresh {
		// What another candidate has left may be why: only a device that was reset since shows that it is this one's fault.
		if err = p.renew(ctx); err == nil {
			result, err = p.measure(ctx, j.candidate, &j.load)
		}
	}
	if err == nil {
		err = p.confirm(ctx)
	}
	if err == nil {
		result.Wait, result.Platform = wait, p.platform
		p.describe(j, &result)
		p.fresh = false
		p.answer(j, result)
		return false, p.now(ctx)
	}
	if ctx.Err() != nil {
		j.fail(failure.Errorf(failure.Interrupted, "measure %s: the run was closed", j.candidate.ID))
		return false, nil
	}
	// The candidate may have broken the board, or the board the candidate's measurement.
	j.failed++
	if !p.killed(err) && (ready == nil || j.alone) {
		j.suspect++
	}
	if worn(err) != nil {
		j.failed = boardTries // the next try would be refused as well
	}
	lost := p.recover(ctx, err)
	if lost != nil || j.suspect < suspectTries && j.failed < boardTries {
		if apart = ready != nil && j.load.program == nil; apart {
			j.load.apart()
		}
		p.kind.queue.again(j)
		return apart, lost
	}
	f := failureOf(err, BlameCandidate)
	switch {
	case f.Blame == BlameHost:
	case worn(err) != nil:
		f.Blame, f.Retry = BlameBoard, true
	case j.suspect < suspectTries:
		f.Class, f.Blame, f.Retry = failure.BoardLost, BlameBoard, true
	}
	f.Message = fmt.Sprintf("%s (after %d measurements on boards that do well with others)", f.Message, j.failed)
	result = Result{Failure: f, Wait: wait}
	p.describe(j, &result)
	p.answer(j, result)
	return false, nil
}

// describe says where and how a job was measured.
func (p *place) describe(j *job, r *Result) {
	r.Board, r.Image, r.Tier, r.Why = p.name, p.image.ID(), RAM, j.load.why
	if j.load.program == nil {
		r.Tier, r.Why = p.tier, j.load.why+"; "+p.why
	}
}

// killed says whether an emulator was ended from outside, which no candidate can do. A process may have done that
// itself.
func (p *place) killed(err error) bool {
	var ended *transport.ProcessError
	if !errors.As(err, &ended) || ended.State == nil || len(p.kind.board.Memory) == 0 {
		return false
	}
	if bytes.Contains(ended.Tail, []byte("terminating on signal")) { // QEMU ends in peace then
		return true
	}
	status, ok := ended.State.Sys().(interface{ Signal() syscall.Signal })
	return ok && (status.Signal() == syscall.SIGKILL || status.Signal() == syscall.SIGTERM)
}

// renew gives the place a device that was just reset.
func (p *place) renew(ctx context.Context) error {
	p.closeSession()
	limited, cancel := context.WithTimeout(ctx, 10*p.run.o.StepTimeout)
	defer cancel()
	if err := p.Reset(limited, resetByProbe); err != nil {
		return err
	}
	if err := p.prepare(limited, p.image); err != nil {
		return err
	}
	return p.openSession(ctx)
}

// takeLayout makes the place hold a new layout's firmware, so that candidates can be built for it. An error means that
// the place is given up.
func (p *place) takeLayout(ctx context.Context, j *job) error {
	err := p.needs(ctx, &j.load)
	if err == nil || ctx.Err() != nil {
		return nil
	}
	if err = p.recover(ctx, err); err != nil { // it holds the newest layout otherwise
		p.kind.queue.again(j)
	}
	return err
}

// answer gives a job its result. Until the reference is right the next time the job may be repeated.
func (p *place) answer(j *job, result Result) {
	if f := result.Failure; f != nil && f.Class == failure.DoesNotFit && j.answer != nil && j.of == "" {
		result.Build = j.built
		j.answer <- answer{result, &shortError{j.load.layout.arenaKiB}}
		return
	}
	if result.Failure == nil && p.hasReference() {
		p.unproven = append(p.unproven, j)
		result.Unproven = true
	}
	j.done(p.kind, result)
}

// now measures the reference where it is its turn.
func (p *place) now(ctx context.Context) error {
	if len(p.unproven) < p.run.o.Every {
		return nil
	}
	if err := p.reference(ctx); err != nil {
		return p.recover(ctx, err)
	}
	return nil
}

func (p *place) confirm(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, p.run.o.wholeTimeout())
	defer cancel()
	return p.Confirm(ctx, p.session, p.image)
}

// measure loads a program, checks what it computes, and times it. An error is one that could be the board's fault; what
// is surely the candidate's is a failure in the result.
func (p *place) measure(ctx context.Context, c Candidate, l *load) (result Result, err error) {
	end, err := p.useProcessors(ctx)
	if err != nil {
		return result, err
	}
	defer end()
	ctx, cancel := context.WithTimeout(ctx, p.run.o.wholeTimeout())
	defer cancel()
	began := time.Now()
	entry := c.Entry
	var module rpc.Module
	unload := func() error { return nil }
	if l.program != nil {
		result = Result{Base: l.program.Base, Bytes: len(l.program.Bytes), elf: l.program.ELF}
		module, err = p.session.Upload(ctx, *l.program)
		unload = func() error { return module.Unlink(ctx) }
	} else {
		entry = l.function
		module, err = p.session.SystemLib(ctx)
	}
	if class := failure.Of(err); class == failure.Link || class == failure.DoesNotFit {
		result.Failure = failureOf(err, BlameCandidate)
		return result, nil
	}
	if err != nil {
		return result, err
	}
	held, err := p.hold(ctx, c.Args)
	var refused *rpc.DeviceError
	if errors.As(err, &refused) && (p.fresh || failure.Of(err) == failure.DoesNotFit) { // else by another one's fault
		result.Failure = failureOf(err, BlameCandidate)
		result.Failure.Class = failure.DoesNotFit
		return result, unload()
	}
	if err != nil {
		return result, errors.Join(err, unload())
	}
	result.Load = time.Since(began)
	began = time.Now()
	err = p.call(ctx, module, entry, held, l, &result)
	result.Run = time.Since(began)
	f := p.candidates(err)
	if f != nil {
		result.Failure, err = f, nil
		result.Time, result.Samples, result.Cut, result.Interrupts, result.Disturbed = nil, nil, false, nil, false
	}
	if err == nil && p.held != nil { // not reset
		err = unload()
	}
	return result, err
}

// candidates is the failure of an error that is the candidate's own: what its function returned, and what the device
// said of it when it stopped. After that the device has begun anew, and nothing is held on it.
func (p *place) candidates(err error) *Failure {
	var faultErr *fault.Error
	var refused *rpc.DeviceError
	switch {
	case errors.As(err, &faultErr) && !faultErr.Prior:
		p.held = nil
		f := failureOf(err, BlameCandidate)
		if faultErr.Record.Reason == fault.ReasonTimeout {
			f.Class = failure.Timeout
		}
		return f
	case errors.As(err, &refused):
		return failureOf(err, BlameCandidate)
	case failure.Of(err) == failure.WrongAnswer:
		return failureOf(err, BlameCandidate)
	}
	return nil
}

// call calls the function once and compares its outputs, and then times it.
func (p *place) call(ctx context.Context, m rpc.Module, entry string, held *arguments, l *load, result *Result) error {
	f, err := m.Function(ctx, entry)
	if err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, p.run.o.CallTimeout)
	defer cancel()
	if err := p.callOnce(limited, f, held); err != nil {
		return err
	}
	o := rpc.TimeOptions{Number: 1, Repeat: p.run.o.Samples, MinRepeat: p.run.o.MinSample}
	if best := p.kind.bestTime(l); best > 0 && p.run.o.GiveUp > 0 {
		one, err := m.Time(limited, entry, rpc.TimeOptions{Number: 1, Repeat: 1}, held.values()...)
		if err != nil {
			return err
		}
		if result.Cut = one[0] > best*p.run.o.GiveUp; result.Cut {
			if err := result.time(ctx, p.session, one); err != nil {
				return err
			}
			return held.unchanged(ctx, p.session)
		}
	}
	if held.overwrites() { // the timed calls begin with its content
		if err := held.unsettle(limited); err != nil {
			return err
		}
	}
	samples, err := m.Time(ctx, entry, o, held.values()...)
	if err != nil {
		return err
	}
	if err := result.time(ctx, p.session, samples); err != nil {
		return err
	}
	if err := held.unchanged(ctx, p.session); err != nil {
		return err
	}
	err = p.callOnce(ctx, f, held) // it may have stopped computing
	if err == nil && !result.Disturbed {
		p.kind.noteBest(l, samples)
	}
	return err
}

// callOnce calls a function and compares its outputs.
func (p *place) callOnce(ctx context.Context, f rpc.Function, held *arguments) error {
	if err := held.unsettle(ctx); err != nil {
		return err
	}
	if _, err := f.Call(ctx, held.values()...); err != nil {
		return err
	}
	return held.compare(ctx, p.session)
}

// time takes the samples that were just measured. Those with an interrupt do not count, unless all have one.
func (r *Result) time(ctx context.Context, s *rpc.Session, samples []float64) error {
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

// bestTime is that of candidates with equal arguments; 0: there is none yet.
func (k *kind) bestTime(l *load) float64 {
	if l.reference {
		return 0
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.best[l.args]
}

func (k *kind) noteBest(l *load, samples []float64) {
	t := rpc.StatsOf(samples).Median
	k.mu.Lock()
	defer k.mu.Unlock()
	if best := k.best[l.args]; !l.reference && (best == 0 || t < best) {
		k.best[l.args] = t
	}
}

// arguments are tensors on the device.
type arguments struct {
	of      []Arg
	tensors []*rpc.Tensor
}

func sameArgs(a, b []Arg) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		x, y := &a[i], &b[i]
		if x.DType != y.DType || fmt.Sprint(x.Shape) != fmt.Sprint(y.Shape) || !bytes.Equal(x.Data, y.Data) ||
			(x.Data == nil) != (y.Data == nil) || x.Seed != y.Seed || x.Flash != y.Flash {
			return false
		}
	}
	return true
}

// hold has the arguments on the device: those of the candidate before, where they are equal.
func (p *place) hold(ctx context.Context, args []Arg) (*arguments, error) {
	if p.held != nil && sameArgs(p.held.of, args) {
		p.held.of = args // what is wanted may be another
		return p.held, nil
	}
	if p.held != nil {
		for i, t := range p.held.tensors {
			if p.held.of[i].Flash {
				continue
			}
			if err := t.Free(ctx); err != nil {
				return nil, err
			}
		}
		p.held = nil
	}
	h := &arguments{of: args}
	for i, a := range args {
		t, err := holdOne(ctx, p.session, a)
		if err != nil {
			return nil, fmt.Errorf("argument %d: %w", i, err)
		}
		h.tensors = append(h.tensors, t)
	}
	p.held = h
	return h, nil
}

func holdOne(ctx context.Context, s *rpc.Session, a Arg) (*rpc.Tensor, error) {
	if a.Flash {
		return constant(ctx, s, a)
	}
	t, err := s.Empty(ctx, a.DType, a.Shape)
	if err == nil && a.isInput() {
		err = a.write(ctx, t)
	}
	return t, err
}

// isInput reports whether the argument's content before the call matters.
func (a *Arg) isInput() bool { return a.Data != nil || a.Seed != 0 }

// content is the argument's before the call.
func (a *Arg) content() ([]byte, error) {
	if a.Data != nil {
		return a.Data, nil
	}
	of, err := ndarray.Fill(a.DType, a.Shape, a.Seed)
	if err != nil {
		return nil, failure.Errorf(failure.Config, "%w", err)
	}
	return of.Data, nil
}

// write gives a tensor the argument's content, which the device computes where it can.
func (a *Arg) write(ctx context.Context, t *rpc.Tensor) error {
	if a.Data == nil {
		err := t.Fill(ctx, a.Seed)
		var absent *rpc.NotFoundError
		if !errors.As(err, &absent) {
			return err
		}
	}
	data, err := a.content()
	if err != nil {
		return err
	}
	return t.Write(ctx, data)
}

// constant is an argument that lies in flash.
func constant(ctx context.Context, s *rpc.Session, a Arg) (*rpc.Tensor, error) {
	m, err := s.SystemLib(ctx)
	if err != nil {
		return nil, err
	}
	f, err := m.Function(ctx, constantName(a))
	if err != nil {
		return nil, err
	}
	at, err := f.Call(ctx)
	if err != nil {
		return nil, err
	}
	address, ok := at.(int64)
	if !ok {
		return nil, failure.Errorf(failure.Transport, "%s returned %T, not an address", f.Name(), at)
	}
	return s.TensorAt(ctx, rpc.Handle(address), a.DType, a.Shape)
}

func (h *arguments) values() (all []any) {
	for _, t := range h.tensors {
		all = append(all, t)
	}
	return all
}

const unsettlingSeed = 0x9e3779b97f4a7c15 // any

// unsettle fills outputs with what nobody wants, so that what was there is not taken for an answer. An argument that is
// input and output has its content again.
func (h *arguments) unsettle(ctx context.Context) error {
	for i, a := range h.of {
		if a.Want == nil {
			continue
		}
		var err error
		if a.isInput() {
			err = a.write(ctx, h.tensors[i])
		} else {
			noise := Arg{DType: a.DType, Shape: a.Shape, Seed: unsettlingSeed}
			err = noise.write(ctx, h.tensors[i])
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// overwrites reports whether an argument is input and output.
func (h *arguments) overwrites() bool {
	return slices.ContainsFunc(h.of, func(a Arg) bool { return a.Want != nil && a.isInput() })
}

// sum is the CRC-32 of a tensor, computed on the device where it can.
func sum(ctx context.Context, s *rpc.Session, t *rpc.Tensor) (uint32, error) {
	f, err := s.Function(ctx, "boardsmith.crc32")
	var absent *rpc.NotFoundError
	if errors.As(err, &absent) {
		data := make([]byte, t.Bytes())
		err = t.Read(ctx, data)
		return crc32.ChecksumIEEE(data), err
	}
	if err != nil {
		return 0, err
	}
	result, err := f.Call(ctx, t)
	if err != nil {
		return 0, err
	}
	v, ok := result.(int64)
	if !ok {
		return 0, failure.Errorf(failure.Transport, "boardsmith.crc32 answered %T", result)
	}
	return uint32(v), nil
}

// compare looks at the outputs: by their CRC, and where that differs by their content.
func (h *arguments) compare(ctx context.Context, s *rpc.Session) error {
	for i, a := range h.of {
		if a.Want == nil {
			continue
		}
		got, err := sum(ctx, s, h.tensors[i])
		if err != nil {
			return err
		}
		if got == crc32.ChecksumIEEE(a.Want) {
			continue
		}
		data := make([]byte, h.tensors[i].Bytes())
		if err := h.tensors[i].Read(ctx, data); err != nil {
			return err
		}
		if err := differs(i, a, data); err != nil {
			return err
		}
	}
	return nil
}

// differs says how an output differs from what is wanted, beyond what is allowed.
func differs(n int, a Arg, got []byte) error {
	want, is := ndarray.Array{DType: a.DType, Shape: a.Shape, Data: a.Want},
		ndarray.Array{DType: a.DType, Shape: a.Shape, Data: got}
	if err := want.Check(); err != nil {
		return failure.Errorf(failure.Config, "what is wanted of argument %d: %w", n, err)
	}
	wrong, first, worst := 0, -1, 0.0
	for i := range want.Len() {
		w, g := want.Float(i), is.Float(i)
		if off := math.Abs(w - g); !(off <= a.AbsTol+a.RelTol*math.Abs(w)) && !(math.IsNaN(w) && math.IsNaN(g)) {
			if wrong++; first < 0 {
				first = i
			}
			worst = max(worst, off)
		}
	}
	if wrong == 0 && (a.AbsTol > 0 || a.RelTol > 0) {
		return nil
	}
	if wrong == 0 {
		return failure.Errorf(failure.WrongAnswer, "argument %d: other bytes, of equal value", n)
	}
	return failure.Errorf(failure.WrongAnswer,
		"argument %d: %d of %d elements differ, the first is %d: %v, wanted %v; the largest difference is %v",
		n, wrong, want.Len(), first, is.Float(first), want.Float(first), worst)
}

// unchanged reports inputs that the candidate has written to: they are sent again for the next one.
func (h *arguments) unchanged(ctx context.Context, s *rpc.Session) error {
	for i, a := range h.of {
		if !a.isInput() || a.Want != nil {
			continue
		}
		got, err := sum(ctx, s, h.tensors[i])
		if err != nil {
			return err
		}
		data, err := a.content()
		if err != nil {
			return err
		}
		if got == crc32.ChecksumIEEE(data) {
			continue
		}
		if err := a.write(ctx, h.tensors[i]); err != nil {
			return err
		}
		return failure.Errorf(failure.WrongAnswer, "argument %d: the candidate changes its input", i)
	}
	return nil
}
