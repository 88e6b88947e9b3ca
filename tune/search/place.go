// This file builds and measures a network on one board.

package search

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/executor"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/ndarray"
	"github.com/boardsmith/boardsmith/project"
	"github.com/boardsmith/boardsmith/rpc"
	"github.com/boardsmith/boardsmith/tune"
)

// A networkPlace is a board with a project of its own.
type networkPlace struct {
	search *networkSearch
	desk   *device.Desk
	name   string
	which  string // device, as Desk.Attach expects it
	dir    string // of the project

	project *project.Project // nil: not generated yet
	device  *device.Device   // nil: not attached
}

func (p *networkPlace) close() error {
	var err error
	if p.device != nil {
		err = p.device.Close()
	}
	if p.project != nil {
		err = errors.Join(err, p.project.Close())
	}
	p.device, p.project = nil, nil
	return err
}

// recover detaches the device after an error that it may have caused.
func (p *networkPlace) recover(cause error) error {
	p.search.emit(tune.Event{Board: p.name, Text: "recovering", Err: cause})
	d := p.device
	p.device = nil
	if d == nil {
		return nil
	}
	return d.Close()
}

// measure builds and runs the network with the trial's flags, and sets the other fields of the trial. If failures is
// set, a failure that the flags cause is in the trial, else it is an error.
func (p *networkPlace) measure(ctx context.Context, t *NetworkTrial, failures bool) ([]*ndarray.Array, error) {
	r := &t.Result
	r.Board, r.Tier = p.name, tune.Image

	i, err := p.build(ctx, t)
	var outputs []*ndarray.Array
	if err == nil {
		r.Kind, r.Image = p.project.Board().Name, i.ID()
		outputs, err = p.run(ctx, i, r)
		t.Arena = t.Arena.Measured(r.Platform.ArenaUsed)
	}

	// Flags must not change the outputs.
	if err == nil && p.search.first != nil {
		err = checkEqual(outputs, p.search.first)
	}
	if err == nil {
		return outputs, nil
	}

	if !failures || ctx.Err() != nil {
		return nil, err
	}
	// Only failures of these classes can be the flags'.
	switch class := failure.Of(err); class {
	case failure.Compile, failure.Link, failure.DoesNotFit, failure.WrongAnswer, failure.Fault, failure.Timeout:
		r.Time, r.Samples = nil, nil
		r.Failure = &tune.Failure{Class: class, Blame: tune.BlameCandidate, Message: err.Error()}
		if class == failure.Fault || class == failure.Timeout { // the board may not respond any more
			return nil, p.recover(err)
		}
		return nil, nil
	}
	return nil, err
}

func (p *networkPlace) build(ctx context.Context, t *NetworkTrial) (i *image.Image, err error) {
	end, err := p.search.gate.Work(ctx)
	if err != nil {
		return nil, failure.Stopped(ctx, "build with flags %s", t.Flags)
	}
	defer end()

	start := time.Now()
	defer func() { t.Result.Build = time.Since(start) }()
	spec := p.search.Spec
	spec.Options.OperatorFlags = t.Flags

	if p.project == nil {
		p.project, err = p.search.Builder.Generate(ctx, p.dir, spec)
	} else {
		err = p.project.Generate(ctx, spec)
	}
	if err != nil {
		return nil, err
	}
	if i, err = p.project.Build(ctx); err != nil {
		return nil, err
	}
	if t.Result.Toolchain, err = p.project.Toolchain(); err != nil {
		return nil, err
	}

	u, err := p.project.Usage(i)
	if err != nil {
		return nil, err
	}
	t.Flash, t.RAM = u.FlashAndRAM()
	t.Arena = u.Arena
	t.Result.Bytes = int(t.Flash)
	return i, nil
}

// run writes the image to the device, runs the network and times it.
func (p *networkPlace) run(ctx context.Context, i *image.Image, r *tune.Result) (outputs []*ndarray.Array, err error) {
	enter := p.search.gate.Work
	// Compilers would disturb times by this computer's clock.
	if p.project.Board().KeepsHostTime() {
		enter = p.search.gate.Time
	}
	end, err := enter(ctx)
	if err != nil {
		return nil, failure.Stopped(ctx, "measure with flags %s", r.ID)
	}
	defer end()

	start := time.Now()
	if err := p.attach(ctx); err != nil {
		return nil, err
	}

	limited, cancel := context.WithTimeout(ctx, p.search.Limit)
	defer cancel()
	if _, err := p.device.Flash(limited, i); err != nil {
		return nil, err
	}
	session, err := p.device.Open(limited, i)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, session.Close(context.WithoutCancel(ctx))) }()

	e, err := p.load(limited, session)
	if err != nil {
		return nil, err
	}

	r.Load = time.Since(start)
	start = time.Now()
	defer func() { r.Run = time.Since(start) }()
	if outputs, err = p.call(ctx, e, r); err != nil {
		return nil, err
	}

	// after the calls: the device reports the most that its arena held
	r.Platform, err = session.Platform(limited)
	if r.Platform.Clock == rpc.InstructionClock {
		_, r.Instruction = p.project.Board().InstructionClock()
	}
	return outputs, err
}

// load opens the network on the device and sets its inputs.
func (p *networkPlace) load(ctx context.Context, s *rpc.Session) (e executor.Executor, err error) {
	_, model, err := p.project.Model()
	if err != nil {
		return nil, err
	}
	if e, err = executor.Open(ctx, s, model); err != nil {
		return nil, err
	}
	return e, executor.SetInputs(ctx, e, p.search.Inputs)
}

// call runs the network once for its outputs, and then times it.
func (p *networkPlace) call(
	ctx context.Context, e executor.Executor, r *tune.Result,
) (outputs []*ndarray.Array, err error) {
	calls, cancel := context.WithTimeout(ctx, p.search.Limit)
	defer cancel()
	if err := e.Run(calls); err != nil {
		return nil, err
	}
	for n := range e.Outputs() {
		a, err := e.Output(calls, n)
		if err != nil {
			return nil, err
		}
		outputs = append(outputs, a)
	}

	o := rpc.TimeOptions{Number: 1, Repeat: 1}
	if p.project.Board().KeepsHostTime() { // times of this computer vary
		o.Repeat, o.MinRepeat = 10, 10*time.Millisecond
	}
	if r.Samples, err = e.Time(calls, o); err != nil {
		return nil, err
	}

	stats := rpc.StatsOf(r.Samples)
	r.Time = &stats
	return outputs, nil
}

// attach attaches the device. Its error is of class config for a board with flash.
func (p *networkPlace) attach(ctx context.Context) (err error) {
	if p.device != nil {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, p.search.Limit)
	defer cancel()
	d, err := p.desk.Attach(limited, p.project.Board(), p.which)
	if err != nil {
		return err
	}
	if d.KeepsImage() {
		err := failure.New(failure.Config, "name an emulated board without a probe, such as mps2_an386",
			"each trial would write the flash of board %s", p.project.Board().Name)
		return errors.Join(err, d.Close())
	}

	p.device = d
	return nil
}

// checkEqual returns an error of class wrong-answer for outputs that differ in any byte.
func checkEqual(got, want []*ndarray.Array) error {
	for i := range want {
		if !bytes.Equal(got[i].Data, want[i].Data) {
			return failure.Errorf(failure.WrongAnswer, "output %d has other bytes than without further flags", i)
		}
	}
	return nil
}
