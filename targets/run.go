// This file runs a model on a board and prints its outputs.

package targets

import (
	"context"
	"errors"
	"fmt"

	"github.com/boardsmith/boardsmith/examples/samples"
	"github.com/boardsmith/boardsmith/executor"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/format"
	"github.com/boardsmith/boardsmith/internal/tensorlist"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/ndarray"
	"github.com/boardsmith/boardsmith/rpc"
	"github.com/boardsmith/boardsmith/targets/internal/console"
	"github.com/boardsmith/boardsmith/targets/internal/inputs"
	"github.com/boardsmith/boardsmith/targets/internal/jsonlines"
)

// Run runs the model on the board with INPUT, and prints outputs and times. OUTPUT is a file of the outputs. REPEAT is
// the number of times, TIMEOUT limits a call, LOAD=ram leaves the firmware as it is, DEVICE names one of several
// boards: docs/command-line.md.
//
// Variables:
//
//	BOARD        a board's name: mage boards lists them [host]
//	MODEL        a model's archive, .tar or .tar.gz, or its description, .json … [the bundled sample, digits_i8]
//	MODEL_NAME   the name of the model in an archive that holds several [the archive's only one]
//	APP          standalone: firmware that runs the model without an RPC server: embedded.md [rpc]
//	OPTIONS      name=value, separated by spaces: mage board:show NAME lists them [the board's own]
//	PLACE        PART=REGION, separated by commas: the memory of parts of the firmware [the board's own]
//	LIBRARIES    names, folders or git places of libraries, separated by commas [those of the project]
//	TEMPLATE     a template's name, path or git place [the board's own]
//	FIXED_INPUT  with APP=standalone: .npz with the inputs that are compiled in [those of the project]
//	PROJECT      the project's folder [build/<board>/<archive name>]
//	TARGET       a named target of boardsmith.json
//	DEVICE       which device of that board: its name in desk.json or its probe's serial [the only attached one]
//	PROGRAMMER   the programmer: openocd, pyocd, west [the board's own]
//	IMAGE        an earlier firmware, by the beginning of its build id or SHA-256 [the project's build]
//	LOAD         ram loads the model into RAM, beside firmware that stays [flash: with the firmware]
//	WAIT         how long to wait for a board that another process uses: 60 (seconds), 2m [no waiting]
//	INPUT        .npz with an array for each input, by name [else random numbers from SEED]
//	OUTPUT       .npz to write: output0, output1, … in the model's order [not written]
//	TRACE        file for a recording of the link: devices.md [not written]
//	REPEAT       number of time samples [10]
//	SEED         seed of random inputs: floats from -1 to 1, and integers [0]
//	TIMEOUT      limit for one call on the device: 60 (seconds), 2m30s [60 s]
//	FORCE=1      uses and flashes the board also if another one is named
//	DRYRUN=1     prints what would be done, without doing it
func Run(ctx context.Context) error { return doRun(ctx) }

var doRun = jobTarget("run", "", runModel)

// runInputs are the variables of run.
type runInputs struct {
	inputs.OfImage
	inputs.OfInput
	inputs.Repeated
	Load   string `var:"LOAD"`
	Output string `var:"OUTPUT" write:".npz"`
	Trace  string `var:"TRACE" write:"recording"`
}

func runModel(ctx context.Context, j *job, _ runInputs) (err error) {
	if err := checkInput(j); err != nil { // before the build
		return err
	}

	if _, err := loadsIntoRAM(j); err != nil {
		return err
	}

	if j.DryRun {
		return j.would(ctx, "run %s on board %s", j.in.Project, j.in.Board)
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
		name, own := tensorlist.OutputName(c.model.Outputs(), i), c.model.Outputs()[i].Name
		named = append(named, ndarray.Named{Name: name, Array: a})

		text, line := tensorLine(name, a)
		line.ModelName = own
		if class, ok := format.ArgMax(a); ok {
			text += fmt.Sprintf("  arg-max %d", class)
			line.ArgMax = &class
		}

		if own != name && own != "output" {
			text += "  (" + own + ")"
		}

		j.Printf("%s", text)
		lines = append(lines, line)
	}

	r := jsonlines.Run{Firmware: j.imageLine(c.load.image), Input: from, Outputs: lines, Time: printTime(j.Console, t)}
	if c.load.resident != nil {
		r.Load = "ram"
	}

	if t.platform != nil && !j.chosen && c.load.resident == nil {
		u, err := j.project.Usage(c.load.image)
		if err != nil {
			return err
		}
		r.Arena = u.Arena.Measured(t.platform.ArenaUsed)
		printArena(j.Console, r.Arena)
	}

	r.Operators = printOperators(j.Console, t.operators)

	r.Output = j.in.Output
	if err := writeTensors(j, named); err != nil {
		return err
	}
	j.JSONLine(r)
	return nil
}

// tensorLine describes a tensor, for people and for JSON.
func tensorLine(name string, a *ndarray.Array) (string, jsonlines.Output) {
	return fmt.Sprintf("%s  %v %s  %s", name, a.DType, ndarray.ShapeString(a.Shape), format.First(a)), jsonlines.Output{
		Name: name, DType: a.DType.String(), First: format.Elements(a),
		Shape: append([]int64{}, a.Shape...), // [] for a scalar, not null
	}
}

// writeTensors writes OUTPUT, if the user wants it.
func writeTensors(j *job, named []ndarray.Named) error {
	if j.in.Output == "" {
		return nil
	}
	if err := ndarray.WriteNPZ(j.in.Output, named); err != nil {
		return failure.New(failure.Config, "choose an OUTPUT that can be written", "OUTPUT: %w", err)
	}
	j.Printf("wrote %s", j.in.Output)
	return nil
}

// clockDoubt marks times of a timer whose rate was compared with nothing.
func clockDoubt(clock string) string {
	if clock == rpc.Clock("").String() {
		return " (the timer's rate is unverified)"
	}
	return ""
}

// printTime prints how long an inference takes, and returns it for JSON.
func printTime(c *console.Console, t timing) jsonlines.Time {
	st := rpc.StatsOf(t.samples)
	r := jsonlines.Time{
		Clock: t.clock.String(), Samples: st.N, Mean: st.Mean, Median: st.Median, Min: st.Min, Max: st.Max,
	}

	text := "1 sample: " + format.Seconds(st.Mean) // of which there is no interval
	if st.N > 1 {
		r.Low95, r.High95 = &st.Low, &st.High
		text = fmt.Sprintf("%d samples: mean %s, median %s, min %s, max %s, 95 %% interval of the mean %s to %s", st.N,
			format.Seconds(st.Mean), format.Seconds(st.Median), format.Seconds(st.Min), format.Seconds(st.Max),
			format.Seconds(st.Low), format.Seconds(st.High))
	}

	c.Printf("time per inference%s, %s", clockDoubt(t.clock.String()), text)
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
		c.Printf("  %10s  %s", format.Seconds(median), t.Node)
		lines = append(lines, jsonlines.Operator{Node: t.Node, Function: t.Name, Median: median})
	}
	return lines
}

// modelInputs holds the arrays to run with, and a description of their source.
func modelInputs(j *job, m *mlf.Model) ([]ndarray.Named, string, error) {
	if samples, err := j.project.Samples(); err != nil || samples != nil {
		if err == nil && j.in.Input != "" {
			err = failure.New(failure.Config, "leave INPUT out, or "+otherInputs(),
				"INPUT=%s: the inputs are constants of the firmware", j.in.Input)
		}
		return nil, "the firmware's samples", err
	}

	if j.in.Input != "" {
		arrays, err := inputs.ReadArrays("INPUT", j.in.Input, j.in.Names, m)
		return arrays, "input from " + j.in.Input, err
	}

	if j.project.ArchiveDigest() == samples.Digest() {
		arrays, err := samples.Inputs()
		return arrays, "input from the bundled sample", err
	}

	return inputs.InventArrays(j.in.Seed, m)
}

// checkInput returns an error for an INPUT that the model does not take. The project need not be generated yet.
func checkInput(j *job) error {
	if j.in.Input == "" || j.in.FixedInput != "" || j.in.Library {
		return nil
	}

	m, _, err := modelToRun(j)
	if err == nil {
		_, err = inputs.ReadArrays("INPUT", j.in.Input, j.in.Names, m)
	}

	return err
}
