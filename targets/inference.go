// This file opens models on boards, runs and times them.

package targets

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/executor"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/internal/standalone"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/ndarray"
	"github.com/boardsmith/boardsmith/project"
	"github.com/boardsmith/boardsmith/rpc"
	"github.com/boardsmith/boardsmith/targets/internal/console"
	"github.com/boardsmith/boardsmith/transport"
)

// A connection is an open session with the firmware and the model in it.
type connection struct {
	rpc        *rpc.Session        // nil: standalone firmware
	standalone *standalone.Session // nil: firmware with an RPC server
	model      executor.Executor
	load       modelLoad
	limit      time.Duration // of each call
}

// withModel opens the link, calls f with the model, and closes everything.
func withModel(ctx context.Context, j *job, f func(*connection) error) (err error) {
	load, err := prepare(ctx, j)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, load.Close()) }()
	return withLoad(ctx, j, load, f)
}

// withLoad is withModel for a model that was prepared.
func withLoad(ctx context.Context, j *job, load modelLoad, f func(*connection) error) (err error) {
	_, model, err := j.project.Model()
	if err != nil {
		return err
	}

	d, err := j.attached(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, j.detach()) }()

	// A resident firmware must be on the board before the model, which follows over the link.
	if load.resident != nil {
		if _, err := d.Flash(ctx, load.image); err != nil {
			return err
		}
	}

	c := &connection{limit: j.in.CallTimeout(), load: load}
	err = c.call(ctx, "opening the link", func(ctx context.Context) error {
		if j.project.Options().App == boards.Standalone {
			c.standalone, err = d.OpenStandalone(ctx, load.image)
		} else {
			c.rpc, err = d.Open(ctx, load.image)
		}
		return err
	})
	if err != nil {
		return err
	}
	// The link is closed also after an interrupt, which has ended ctx.
	defer func() {
		err = errors.Join(err, c.call(context.WithoutCancel(ctx), "closing the link", c.close))
	}()

	err = c.call(ctx, "preparing the model", func(ctx context.Context) error {
		c.model, err = load.open(ctx, c, model)
		return err
	})
	if err != nil {
		return err
	}

	return f(c)
}

// call runs f with the deadline of one call. The error names the call and how to wait longer.
func (c *connection) call(ctx context.Context, step string, f func(context.Context) error) error {
	limited, cancel := context.WithTimeout(ctx, c.limit)
	defer cancel()

	err := f(limited)
	if err == nil {
		return nil
	}

	// Only the limit of the call is meant: not the user's interrupt, and not another program at the port.
	late := ctx.Err() == nil && limited.Err() != nil && !errors.Is(err, transport.ErrSharedPort)

	switch {
	case late && failure.Next(err) != "":
		return failure.Errorf(failure.Timeout, "%s did not end within TIMEOUT=%v: %w", step, c.limit, err)
	case late:
		return failure.New(failure.Timeout, "the board may hang; TIMEOUT=2m waits longer", "%s did not end within %v: %w",
			step, c.limit, err)
	}
	return fmt.Errorf("%s: %w", step, err)
}

// close ends the session.
func (c *connection) close(ctx context.Context) error {
	if c.standalone != nil {
		return c.standalone.Close()
	}
	return c.rpc.Close(ctx)
}

// infer sets the inputs, runs the model once and fetches all outputs.
func (c *connection) infer(ctx context.Context, arrays []ndarray.Named) ([]*ndarray.Array, error) {
	for _, a := range arrays {
		err := c.call(ctx, "setting an input",
			func(ctx context.Context) error { return c.model.SetInput(ctx, a.Name, a.Array) })
		if err != nil {
			return nil, err
		}
	}

	if err := c.call(ctx, "running the model", c.model.Run); err != nil {
		return nil, err
	}

	var outputs []*ndarray.Array
	for i := range c.model.Outputs() {
		err := c.call(ctx, "fetching an output", func(ctx context.Context) error {
			a, err := c.model.Output(ctx, i)
			outputs = append(outputs, a)
			return err
		})
		if err != nil {
			return nil, err
		}
	}

	return outputs, nil
}

// sampleTime is the minimum time of all calls of one sample, so that a coarse clock suffices.
const sampleTime = time.Millisecond

// A timing holds times of inferences, in seconds.
type timing struct {
	samples   []float64               // one per REPEAT
	clock     rpc.Clock               // that the timer's rate was compared with
	platform  *rpc.Platform           // the device's clocks and caches; nil if it does not report them
	operators []executor.OperatorTime // with VERBOSE, of a graph
}

// measure times REPEAT samples, each in a call of its own, and with VERBOSE each operator of a graph.
func (c *connection) measure(ctx context.Context, j *job, bar *console.Progress) (t timing, err error) {
	o := rpc.TimeOptions{Number: 1, MinRepeat: sampleTime}
	t.clock = c.model.Clock()
	// One sample a call, so that TIMEOUT limits each, and the bar moves.
	for i := range j.in.Repeat {
		bar.Show("timing", i, j.in.Repeat)
		err := c.call(ctx, "timing the model", func(ctx context.Context) error {
			sample, err := c.model.Time(ctx, o)
			t.samples = append(t.samples, sample...)
			return err
		})
		if err != nil {
			return t, err
		}
	}

	// After the samples: the settings are those during the measurement.
	if err := c.call(ctx, "asking for the clocks", func(ctx context.Context) error { return t.read(ctx, c) }); err != nil {
		return t, err
	}

	graph, ok := c.model.(*executor.Graph)
	if !ok || !j.Verbose {
		return t, nil
	}

	return t, c.call(ctx, "timing the operators", func(ctx context.Context) (err error) {
		t.operators, err = graph.Debug(ctx, o)
		return err
	})
}

// read records the device's settings during the measurement.
func (t *timing) read(ctx context.Context, c *connection) error {
	if c.rpc == nil {
		return nil // standalone firmware does not report them
	}
	p, err := c.rpc.Platform(ctx)
	if errors.Is(err, rpc.ErrNotFound) {
		return nil
	}
	t.platform = &p
	return err
}

// loadsIntoRAM reports whether LOAD is ram.
func loadsIntoRAM(j *job) (bool, error) {
	in := j.in
	if in.Load == "ram" && in.Image != "" {
		return false, failure.New(failure.Config, "leave one of them out", "IMAGE=%s has no effect with LOAD=ram", in.Image)
	}
	return in.Load == "ram", nil
}

// A modelLoad is the way in which a model comes onto a board: with its firmware, or into RAM beside a resident one.
type modelLoad struct {
	image     *image.Image     // to run
	resident  *project.Project // nil: with its firmware
	operators project.Operators
}

// prepare builds the firmware, and for LOAD=ram the firmware that stays and the operators. It returns how the model
// gets onto the board. The caller closes it.
func prepare(ctx context.Context, j *job) (modelLoad, error) {
	ram, err := loadsIntoRAM(j)
	if err != nil {
		return modelLoad{}, err
	}
	if !ram {
		i, err := j.built(ctx)
		return modelLoad{image: i}, err
	}

	if err := j.ready(ctx); err != nil {
		return modelLoad{}, err
	}

	if j.project.Options().App == boards.Standalone {
		return modelLoad{}, failure.New(failure.Config, "leave LOAD=ram or APP=standalone out",
			"standalone firmware has its model in flash")
	}

	operators, err := j.project.ModelOperators()
	if err != nil {
		return modelLoad{}, err
	}

	bar := j.Start("build: firmware that stays", 0)
	// In a folder of its own, so that the project's firmware stays as it is.
	r, err := j.project.Resident(ctx, residentFolder(j.project.Dir()), project.Spec{
		Board: j.in.Board, Template: j.in.Template,
	})
	bar.End()
	if err != nil {
		return modelLoad{}, err
	}

	i, err := r.Built()
	return modelLoad{i, r, operators}, err
}

// residentFolder returns the folder of a project's firmware that stays, into whose RAM models are loaded.
func residentFolder(project string) string { return project + ".ram" }

// open prepares the model in the firmware of a session.
func (l modelLoad) open(ctx context.Context, c *connection, m *mlf.Model) (executor.Executor, error) {
	switch {
	case c.standalone != nil:
		return executor.OpenStandalone(ctx, c.standalone, m)
	case l.resident == nil:
		return executor.Open(ctx, c.rpc, m)
	}

	lib, err := l.resident.LoadRAM(ctx, c.rpc, l.operators)
	if err != nil {
		return nil, err
	}

	return executor.OpenLoaded(ctx, c.rpc, lib, m)
}

func (l modelLoad) Close() error {
	if l.resident == nil {
		return nil
	}
	return l.resident.Close()
}
