// Package measure runs models on boards with samples. It returns what they cost (time or instructions, flash and RAM by
// part, stack) and how their outputs compare with expected ones and with labels, and compares it with earlier results.
//
// It prints nothing. Package project builds the firmware and computes its memory, an executor.Executor is the model on
// the device.
package measure

import (
	"cmp"
	"context"
	"errors"
	"path/filepath"
	"time"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/executor"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/internal/files/scratch"
	"github.com/boardsmith/boardsmith/internal/nextstep"
	"github.com/boardsmith/boardsmith/internal/tensorlist"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/project"
	"github.com/boardsmith/boardsmith/rpc"
)

// Options are the choices for a measurement. The zero value measures on the only attached device, compares bytes, and
// requires no accuracy. Result.Run uses the first four.
type Options struct {
	Rule     Rule          // how outputs are compared
	Accuracy float64       // least share of labels that must be right, 0 to 1; 0: any
	Timeout  time.Duration // of each call on the device; 0: 60 s, of Result.Run only the context's
	// Progress is called after each sample of the set, by the goroutine that called; nil: none
	Progress func(done, total int)

	Files   Files        // inputs and expected outputs; the zero value: the model's examples, or random inputs from Seed
	Set     *Set         // in place of Files; nil: Files
	Seed    uint64       // of random inputs
	Samples int          // of the cost; 0: 10, on an emulated board 3
	Device  string       // which device of the board, as for device.Desk.Attach
	Desk    *device.Desk // nil: the zero value

	ForBaseline bool // the result is for UpdateBaseline: too few Samples for it are an error before the build

	// earlier results: the cost of a process that is above its limit, compared with the one of its Key, is measured again
	// (Result.Rechecks); nil: none
	Baseline *Baseline
	Limits   Limits

	Builder *project.Builder // of Model; nil: a new one
	Dir     string           // of Model: the project's folder; "": a temporary one, which is removed
}

const defaultTimeout = time.Minute

// Model generates and builds the firmware of a model for a board, runs it there and returns what it costs. If only
// Board and Model of the specification are set, this is firmware with an RPC server; Spec.Options.App chooses another.
// Outputs that differ from the expected ones are no error: see Result.Err. Errors: those of Builder.Generate and of
// Project.
func Model(ctx context.Context, spec project.Spec, o Options) (r *Result, err error) {
	b, dir := o.Builder, o.Dir
	if b == nil {
		b = &project.Builder{}
	}
	if dir == "" {
		temporary, makeErr := scratch.Make("boardsmith-measure-")
		if makeErr != nil {
			return nil, makeErr
		}
		defer func() { err = errors.Join(err, temporary.Remove()) }()
		dir = filepath.Join(temporary.Dir, "project")
	}

	p, err := b.Generate(ctx, dir, spec)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	return Project(ctx, p, o)
}

// Project builds a project, runs its model on a device, and returns what the model costs. Builder and Dir of the
// options have no effect. The cost is that of the set's last sample, run Samples times. Outputs that differ from the
// expected ones are no error: see Result.Err. Errors: those of ReadSet, Project.Build, device, executor and Result.Run;
// device.ErrClock if the device's clock is not as fast as its firmware states.
func Project(ctx context.Context, p *project.Project, o Options) (*Result, error) {
	o.Timeout = cmp.Or(o.Timeout, defaultTimeout)
	if o.Samples < 0 {
		return nil, failure.Errorf(failure.Config, "Samples is %d: it cannot be negative", o.Samples)
	}

	if _, each := p.Board().InstructionClock(); o.ForBaseline && o.Samples > 0 && each == 0 {
		if err := (Cost{Unit: inSeconds, Samples: o.Samples}).few(); err != nil {
			return nil, err
		}
	}

	_, model, err := p.Model()
	if err != nil {
		return nil, err
	}
	set, err := o.set(ctx, p, model)
	if err != nil {
		return nil, err
	}

	// The build takes longer than reading the inputs, whose errors are known by now.
	i, err := p.Build(ctx)
	if err != nil {
		return nil, err
	}
	r, err := Build(ctx, p, i)
	if err != nil {
		return nil, err
	}

	r.InputsSHA256 = set.inputsDigest()
	// Costs of processes of two computers are not compared.
	if p.Board().Link.Kind == processLink {
		r.Computer = computer()
	}

	m := &measurement{Options: o, project: p, model: model, image: i, set: set, result: r}
	if err := m.run(ctx); err != nil {
		return nil, err
	}
	return r, nil
}

// processLink is the kind of link of boards that are processes of this computer.
const processLink = "process"

// Build returns what an image of a project takes of the board's memory: a Result without what only a run shows, and
// without sizes if the image is nil, as for an image of another project. Errors: those of Project.Model, Project.Usage,
// Project.Symbols and ctx.
func Build(ctx context.Context, p *project.Project, i *image.Image) (*Result, error) {
	a, _, err := p.Model()
	if err != nil {
		return nil, err
	}

	o := p.Options()
	r := &Result{
		Board: p.Board().Name, Model: modelName(p, a), ModelSHA256: p.ArchiveDigest(), App: cmp.Or(o.App, boards.RPC),
	}

	_, r.instruction = p.Board().InstructionClock()

	// App has a field of its own in the result.
	o.App = ""
	r.Options = o.Words()
	if i == nil {
		return r, nil
	}
	r.BuildID = i.ID()
	if r.Toolchain, err = p.Toolchain(); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, failure.Stopped(ctx, "the sizes of %s", i.Path)
	}
	if err := r.addUsage(p, i); err != nil {
		return nil, err
	}
	return r, r.addSymbols(p, i)
}

// set returns the inputs of the runs.
func (o Options) set(ctx context.Context, p *project.Project, m *mlf.Model) (*Set, error) {
	if samples, err := p.Samples(); err != nil || samples != nil {
		if err == nil {
			err = failure.New(failure.Config, "remove the project first: "+nextstep.Target("clean"),
				"the inputs are constants of the firmware")
		}
		return nil, err
	}

	switch {
	case o.Set != nil:
		return o.Set, nil
	case m.Examples != nil || o.Files.Arrays != nil || o.Files.Inputs+o.Files.Expected+o.Files.Labels != "":
		return ReadSet(ctx, o.Files, m)
	}

	arrays, err := tensorlist.RandomInputs(m, o.Seed)
	if err != nil {
		return nil, err
	}
	return ReadSet(ctx, Files{Arrays: arrays}, m)
}

// A measurement is one run of a model on a device.
type measurement struct {
	Options
	project *project.Project
	model   *mlf.Model
	image   *image.Image
	device  *device.Device
	set     *Set
	result  *Result
}

// run attaches and flashes the device, runs the set, and times the model with its last sample.
func (m *measurement) run(ctx context.Context) (err error) {
	if m.Desk == nil {
		m.Desk = &device.Desk{}
	}
	if m.device, err = m.Desk.Attach(ctx, m.project.Board(), m.Device); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.device.Close()) }()

	flashed, err := m.device.Flash(ctx, m.image)
	if err := errors.Join(err, m.project.RecordFlash(m.image, flashed, err)); err != nil {
		return err
	}

	err = m.with(ctx, m.image, func(x *session) error {
		if err := x.runSet(ctx); err != nil {
			return err
		}
		if m.result.Cost, err = x.repeat(ctx); err != nil {
			return err
		}
		if err := x.operators(ctx); err != nil {
			return err
		}
		return x.askArena(ctx)
	})
	if err != nil {
		return err
	}
	return m.recheck(ctx)
}

// with opens an image on the device, calls f with its model, and closes the session.
func (m *measurement) with(ctx context.Context, i *image.Image, f func(*session) error) (err error) {
	x := &session{Options: m.Options, set: m.set, result: m.result}
	var prepare, end func(context.Context) error
	if m.project.Options().App == boards.Standalone {
		s, err := m.device.OpenStandalone(ctx, i)
		if err != nil {
			return err
		}
		end = func(context.Context) error { return s.Close() }
		prepare = func(ctx context.Context) (err error) {
			x.model, err = executor.OpenStandalone(ctx, s, m.model)
			return err
		}
	} else {
		s, err := m.device.Open(ctx, i)
		if err != nil {
			return err
		}
		x.platform, end = s.Platform, s.Close
		prepare = func(ctx context.Context) (err error) {
			p, err := s.Platform(ctx)
			// Without this function the rate stays unknown.
			if err != nil && !errors.Is(err, rpc.ErrNotFound) {
				return err
			}
			if p.TicksHz != nil {
				x.hz = *p.TicksHz
			}
			x.model, err = executor.Open(ctx, s, m.model)
			return err
		}
	}

	// also after ctx has ended, so that the model's memory on the device is freed
	defer func() {
		err = errors.Join(err, m.call(context.WithoutCancel(ctx), "closing the link", func(ctx context.Context) error {
			if x.model == nil {
				return end(ctx)
			}
			return errors.Join(x.model.Close(ctx), end(ctx))
		}))
	}()
	if err := m.call(ctx, "preparing the model", prepare); err != nil {
		return err
	}
	return f(x)
}

// addUsage adds what the image takes of the board's memory, by part.
func (r *Result) addUsage(p *project.Project, i *image.Image) error {
	u, err := p.Usage(i)
	if err != nil {
		return err
	}
	r.Parts, r.Regions = u.Shares(), u.Regions
	r.Flash, r.RAM = u.FlashAndRAM()

	r.RAMUnsure, r.Arena, r.ArenaSize = u.Arena.Unsure, u.Arena.Peak, u.Arena.Have
	if u.Arena.Need == 0 && u.Arena.Have > 0 {
		r.RAMUnsure = append(r.RAMUnsure, "what the model takes of the arena is unknown, so that all of it counts")
	}
	if u.Stack != nil {
		r.Stack, r.StackPath, r.StackUnsure, r.StackSize = u.Stack.Need, u.Stack.Path, u.Stack.Unsure, u.Stack.Have
	}
	return nil
}

// addSymbols adds what functions, constants and variables take.
func (r *Result) addSymbols(p *project.Project, i *image.Image) error {
	symbols, err := p.Symbols(i)
	if err != nil {
		return err
	}
	r.FlashOf, r.RAMOf = map[string]int64{}, map[string]int64{}

	for _, s := range symbols {
		name := s.Part + ": " + s.Name
		if s.Flash > 0 {
			r.FlashOf[name] = s.Flash
		}
		if s.RAM > 0 {
			r.RAMOf[name] = s.RAM
		}
	}
	return nil
}
