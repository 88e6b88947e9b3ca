// This file runs a model on a board and prints its outputs.

package targets

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/examples/samples"
	"github.com/boardsmith/boardsmith/executor"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/cli/console"
	"github.com/boardsmith/boardsmith/internal/cli/inputs"
	"github.com/boardsmith/boardsmith/internal/cli/jsonlines"
	"github.com/boardsmith/boardsmith/internal/cli/valuetext"
	"github.com/boardsmith/boardsmith/internal/standalone"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/ndarray"
	"github.com/boardsmith/boardsmith/rpc"
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

// call runs f with the deadline of one call. The error names the call and how to wait longer.
func (c *connection) call(ctx context.Context, step string, f func(context.Context) error) error {
	limited, cancel := context.WithTimeout(ctx, c.limit)
	defer cancel()
	err := f(limited)
	if err == nil {
		return nil
	}
	if ctx.Err() == nil && limited.Err() != nil && !errors.As(err, new(*transport.SharedPortError)) {
		return failure.New(failure.Timeout, "the board may hang; TIMEOUT=2m waits longer", "%s did not end within %v: %w",
			step, c.limit, err)
	}
	return fmt.Errorf("%s: %w", step, err)
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
	if load.resident != nil {
		if _, err := d.Flash(ctx, load.image); err != nil {
			return err
		}
	}
	c := &connection{limit: j.in.Timeout, load: load}
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

// close ends the session.
func (c *connection) close(ctx context.Context) error {
	if c.standalone != nil {
		return c.standalone.Close()
	}
	return c.rpc.Close(ctx)
}

// Run runs the model on the board with INPUT, prints outputs and times, and writes OUTPUT. REPEAT is the number of
// times, TIMEOUT limits a call, LOAD=ram leaves the firmware as it is, DEVICE names one of several boards:
// docs/command-line.md.
func Run(ctx context.Context) error { return doJob(ctx, "run", runModel) }

func runModel(ctx context.Context, j *job) (err error) {
	if j.Env.On("DRYRUN") {
		return j.Would("run %s on board %s", j.in.Project, j.in.Board.Value)
	}
	load, err := prepare(ctx, j)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, load.Close()) }()
	_, model, err := j.project.Model()
	if err != nil {
		return err
	}
	arrays, from, err := modelInputs(j, model)
	if err != nil {
		return err
	}
	if err := cmp.Or(checkOutput(j), checkReplaced(j)); err != nil {
		return err
	}
	return withLoad(ctx, j, load, func(c *connection) error {
		bar := j.Start("run", 0)
		defer bar.End()
		outputs, err := c.infer(ctx, arrays)
		if err != nil {
			return err
		}
		t, err := c.measure(ctx, j, bar)
		if err != nil {
			return err
		}
		bar.End()
		return printRun(j, c, from, outputs, t)
	})
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
	platform  *rpc.Platform           // the device's clocks and caches; nil if it does not report them
	operators []executor.OperatorTime // with VERBOSE, of a graph
}

// measure times REPEAT samples, each in a call of its own, and with VERBOSE each operator of a graph.
func (c *connection) measure(ctx context.Context, j *job, bar *console.Progress) (t timing, err error) {
	o := rpc.TimeOptions{Number: 1, MinRepeat: sampleTime}
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
	if err := c.call(ctx, "asking for the clocks", func(ctx context.Context) error { return t.read(ctx, c) }); err != nil {
		return t, err
	}
	graph, ok := c.model.(*executor.Graph)
	if !ok || !j.Env.On("VERBOSE") {
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
	if missing := new(rpc.NotFoundError); errors.As(err, &missing) {
		return nil
	}
	t.platform = &p
	return err
}

// printRun prints outputs and times, and writes OUTPUT.
func printRun(j *job, c *connection, from string, outputs []*ndarray.Array, t timing) error {
	subject := inputs.ArchiveName(j.project.ArchiveName())
	if j.chosen {
		subject = j.image.String()
	}
	where := j.project.Board().Name
	if c.load.resident != nil {
		where += ", in RAM"
	}
	j.Printf("run: %s on board %s, %s", subject, where, from)
	var lines []jsonlines.Output
	var named []ndarray.Named
	for i, a := range outputs {
		name := "output" + strconv.Itoa(i)
		named = append(named, ndarray.Named{Name: name, Array: a})
		text := fmt.Sprintf("%s  %v %s  %s", name, a.DType, ndarray.ShapeString(a.Shape), valuetext.First(a))
		line := jsonlines.Output{
			Name: name, ModelName: c.model.Outputs()[i].Name, DType: a.DType.String(), Shape: shape(a),
			First: valuetext.Elements(a),
		}
		if class, ok := valuetext.ArgMax(a); ok {
			text += fmt.Sprintf("  arg-max %d", class)
			line.ArgMax = &class
		}
		j.Printf("%s", text)
		lines = append(lines, line)
	}
	r := jsonlines.Run{Image: j.imageLine(c.load.image), Input: from, Outputs: lines, Time: printTime(j.Console, t)}
	if c.load.resident != nil {
		r.Load = "ram"
	}
	r.Operators = printOperators(j.Console, t.operators)
	if j.in.Output != "" {
		if err := ndarray.WriteNPZ(j.in.Output, named); err != nil {
			return failure.New(failure.Config, "choose an OUTPUT that can be written", "OUTPUT: %w", err)
		}
		j.Printf("wrote %s", j.in.Output)
		r.Output = j.in.Output
	}
	j.JSONLine(r)
	return nil
}

func shape(a *ndarray.Array) []int64 { return append([]int64{}, a.Shape...) } // [] for a scalar, not null

// printTime prints how long an inference takes, and returns it for JSON.
func printTime(c *console.Console, t timing) jsonlines.Time {
	st := rpc.StatsOf(t.samples)
	c.Printf("time per inference, %d samples: mean %s, median %s, min %s, max %s, 95 %% interval of the mean %s to %s",
		st.N, valuetext.Seconds(st.Mean), valuetext.Seconds(st.Median), valuetext.Seconds(st.Min),
		valuetext.Seconds(st.Max), valuetext.Seconds(st.Low), valuetext.Seconds(st.High))
	r := jsonlines.Time{
		Samples: st.N, Mean: st.Mean, Median: st.Median, Min: st.Min, Max: st.Max, Low95: st.Low, High95: st.High,
	}
	if t.platform != nil {
		c.Printf("measured with: %v", t.platform)
		r.Platform = t.platform
	}
	return r
}

// printOperators prints how long each operator of a graph takes, in their order, and returns it for JSON.
func printOperators(c *console.Console, times []executor.OperatorTime) (lines []jsonlines.Operator) {
	for _, t := range times {
		median := rpc.StatsOf(t.Samples).Median
		c.Printf("  %10s  %s", valuetext.Seconds(median), t.Node)
		lines = append(lines, jsonlines.Operator{Node: t.Node, Function: t.Name, Median: median})
	}
	return lines
}

// modelInputs holds the arrays to run with, and a description of their source.
func modelInputs(j *job, m *mlf.Model) ([]ndarray.Named, string, error) {
	if samples, err := j.project.Samples(); err != nil || samples != nil {
		if err == nil && j.in.Input != "" {
			err = failure.New(failure.Config, "leave INPUT out, or generate the project without FIXED_INPUT",
				"INPUT=%s: the inputs are constants of the firmware", j.in.Input)
		}
		return nil, "the firmware's samples", err
	}
	if j.in.Input != "" {
		arrays, err := inputs.ReadArrays(j.in.Input, m)
		return arrays, "input from " + j.in.Input, err
	}
	if j.project.ArchiveDigest() == samples.Digest() {
		arrays, err := samples.Inputs()
		return arrays, "input from the bundled sample", err
	}
	return inputs.InventArrays(j.Env, m)
}

// checkOutput checks, before the work, that OUTPUT's folder exists.
func checkOutput(j *job) error {
	if j.in.Output == "" {
		return nil
	}
	folder := filepath.Dir(j.in.Output)
	if info, err := os.Stat(folder); err != nil || !info.IsDir() {
		return failure.New(failure.Config, "create the folder first", "OUTPUT=%s: %s is not a folder", j.in.Output, folder)
	}
	return nil
}

// checkReplaced returns an error if OUTPUT, whatever its path, is a file that is read: the result would replace it.
func checkReplaced(j *job) error {
	output, err := os.Stat(j.in.Output)
	if err != nil {
		return nil // it does not exist
	}
	for _, x := range []struct{ variable, path string }{
		{"INPUT", j.in.Input},
		{"EXPECT", j.Env("EXPECT")},
		{"LABELS", j.Env("LABELS")},
	} {
		files := []string{x.path}
		entries, _ := os.ReadDir(x.path) // none of a file
		for _, e := range entries {
			files = append(files, filepath.Join(x.path, e.Name()))
		}
		for _, file := range files {
			if info, err := os.Stat(file); err == nil && os.SameFile(info, output) {
				return failure.New(failure.Config, "choose another OUTPUT", "OUTPUT=%s is a file of %s=%s, which it would replace",
					j.in.Output, x.variable, x.path)
			}
		}
	}
	return nil
}
