// This file holds the demo, for new users.

package targets

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/boardsmith/boardsmith/examples/samples"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/boardsmithjson"
	"github.com/boardsmith/boardsmith/internal/format"
	"github.com/boardsmith/boardsmith/ndarray"
	"github.com/boardsmith/boardsmith/targets/internal/console"
	"github.com/boardsmith/boardsmith/targets/internal/inputs"
	"github.com/boardsmith/boardsmith/targets/internal/jsonlines"
	"github.com/boardsmith/boardsmith/targets/internal/toolbox"
)

// demoShown is the number of digits that are drawn.
const demoShown = 4

// Demo builds the bundled digit classifier for this computer and runs its test set.
//
// Variables:
//
//	LOAD         ram loads the model into RAM, beside firmware that stays [flash: with the firmware]
func Demo(ctx context.Context) error { return doDemo(ctx) }

var doDemo = sharedTarget("demo", demo)

// demoInputs are the variables of demo.
type demoInputs struct {
	Load string `var:"LOAD" of:"flash ram"`
}

func demo(ctx context.Context, j *job, v demoInputs) error {
	// The demo is always the same, so that boardsmith.json does not count.
	var shared inputs.Variables
	shared.Board, shared.Load, shared.Repeat = "host", v.Load, 10
	if err := j.openBy(ctx, new(boardsmithjson.Config), "", shared); err != nil {
		return err
	}

	set, err := samples.LoadTestSet()
	if err != nil {
		return err
	}

	if err := buildDemo(ctx, j); err != nil {
		return err
	}

	_, model, err := j.project.Model()
	if err != nil {
		return err
	}

	if len(model.Inputs) != 1 {
		return errors.New("the bundled model has changed: one input is expected")
	}

	return withModel(ctx, j, func(c *connection) error { return readDigits(ctx, j, c, model.Inputs[0].Name, set) })
}

// buildDemo builds the bundled model's firmware. It first installs missing tools if that needs no password.
func buildDemo(ctx context.Context, j *job) error {
	j.Printf("Building firmware for this computer from the bundled model, a network that reads handwritten digits …")
	err := buildFirmware(ctx, j, buildInputs{})
	if failure.Of(err) != failure.ToolMissing {
		return err
	}

	j.Notef("%v: trying to install it", err)
	wasMissing, setupErr := toolbox.SetupNeeded(ctx, j.Console)
	if !wasMissing {
		return err
	}
	if setupErr != nil {
		return setupErr
	}

	return buildFirmware(ctx, j, buildInputs{})
}

// A score is the firmware's result on the test set.
type score struct {
	right, exact, all int
}

// readDigits runs the firmware on the whole test set and compares each output with the reference, bit for bit.
func readDigits(ctx context.Context, j *job, c *connection, input string, set *samples.TestSet) error {
	var sc score
	var wrong []string

	bar := j.Start("reading digits", set.Len())
	defer bar.End()
	for i := range set.Len() {
		outputs, err := c.infer(ctx, []ndarray.Named{{Name: input, Array: set.Image(i)}})
		if err != nil {
			return err
		}
		bar.Add(1)

		predicted, ok := format.ArgMax(outputs[0])
		if !ok {
			return failure.Errorf(failure.WrongAnswer, "the firmware returned %v %s instead of one score per digit",
				outputs[0].DType, ndarray.ShapeString(outputs[0].Shape))
		}

		label := set.Labels.Int(i)
		if i < demoShown {
			drawDigit(j.Console, set.Image(i), int64(predicted), label)
		}

		sc.all++
		if int64(predicted) == label {
			sc.right++
		}
		if outputs[0].Equal(set.Logit(i)) {
			sc.exact++
		} else if len(wrong) < 3 {
			wrong = append(wrong, fmt.Sprintf("image %d: %s instead of %s", i, format.First(outputs[0]),
				format.First(set.Logit(i))))
		}
	}

	t, err := c.measure(ctx, j, bar)
	if err != nil {
		return err
	}
	bar.End()
	return printScore(j, sc, wrong, t)
}

func drawDigit(c *console.Console, image *ndarray.Array, predicted, label int64) {
	verdict := "right"
	if predicted != label {
		verdict = fmt.Sprintf("wrong: it is a %d", label)
	}

	for y, line := range format.Picture(image) {
		note := ""
		if y == 3 {
			note = fmt.Sprintf("   recognised as %d (%s)", predicted, verdict)
		}
		c.Printf("    %s%s", line, note)
	}
	c.Printf("")
}

func printScore(j *job, sc score, wrong []string, times timing) error {
	accuracy := 100 * float64(sc.right) / float64(sc.all)

	j.Printf("%d of %d test images read right: %.1f %%", sc.right, sc.all, accuracy)
	j.Printf("logits equal to the reference bit for bit: %d of %d images", sc.exact, sc.all)
	took := printTime(j.Console, times)

	if sc.exact != sc.all {
		return failure.Errorf(failure.WrongAnswer, "%d answers differ from the reference: %s", sc.all-sc.exact,
			strings.Join(wrong, "; "))
	}

	j.JSONLine(jsonlines.Demo{
		Project: j.projectLine(), Accuracy: accuracy, Right: sc.right, Exact: sc.exact, Images: sc.all, Time: took,
	})
	j.Printf("The firmware is in %s. Next: MODEL=your.tar INPUT=your.npz %s", j.Shown(j.project.Dir()),
		j.Mage("build flash run"))
	return nil
}
