// This file holds the demo, for new users.

package targets

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/boardsmith/boardsmith/examples/samples"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/cli/jsonlines"
	"github.com/boardsmith/boardsmith/internal/cli/toolbox"
	"github.com/boardsmith/boardsmith/internal/cli/valuetext"
	"github.com/boardsmith/boardsmith/ndarray"
)

// demoShown is the number of digits that are drawn.
const demoShown = 4

// demoInputs replaces the user's inputs: the demo is always the same.
var demoInputs = map[string]string{
	"BOARD": "host", "MODEL": "", "MODEL_NAME": "", "PROJECT": "", "TEMPLATE": "",
	"OPTIONS": "", "TARGET": "",
}

func (v *invocation) demo(ctx context.Context) error {
	outer := v.Env
	v.Env = func(name string) string {
		if value, ok := demoInputs[name]; ok {
			return value
		}
		return outer(name)
	}
	if err := v.forget(); err != nil {
		return err
	}
	set, err := samples.LoadTestSet()
	if err != nil {
		return err
	}
	if err := v.demoBuild(ctx); err != nil {
		return err
	}
	_, model, err := v.project.Model()
	if err != nil {
		return err
	}
	if len(model.Inputs) != 1 {
		return errors.New("the bundled model has changed: one input is expected")
	}
	return v.withModel(ctx, func(c *connection) error { return v.readDigits(ctx, c, model.Inputs[0].Name, set) })
}

// demoBuild builds the bundled model's firmware. It first installs missing tools if that needs no password.
func (v *invocation) demoBuild(ctx context.Context) error {
	v.Printf("Building firmware for this computer from the bundled model, a network that reads handwritten digits …")
	err := v.build(ctx)
	if failure.Of(err) != failure.ToolMissing {
		return err
	}
	v.Notef("%v: trying to install it", err)
	wasMissing, setupErr := toolbox.SetupNeeded(ctx, v.Console)
	if !wasMissing {
		return err
	}
	if setupErr != nil {
		return setupErr
	}
	return v.build(ctx)
}

// A score is the firmware's result on the test set.
type score struct {
	right, exact, all int
}

// readDigits runs the firmware on the whole test set and compares each output with the reference, bit for bit.
func (v *invocation) readDigits(ctx context.Context, c *connection, input string, set *samples.TestSet) error {
	var sc score
	var wrong []string
	bar := v.Start("reading digits", set.Len())
	defer bar.End()
	for i := range set.Len() {
		outputs, err := c.infer(ctx, []ndarray.Named{{Name: input, Array: set.Image(i)}})
		if err != nil {
			return err
		}
		bar.Add(1)
		said, ok := valuetext.ArgMax(outputs[0])
		if !ok {
			return failure.Errorf(failure.WrongAnswer, "the firmware returned %v %s instead of one score per digit",
				outputs[0].DType, ndarray.ShapeString(outputs[0].Shape))
		}
		label := set.Labels.Int(i)
		if i < demoShown {
			v.drawDigit(set.Image(i), int64(said), label)
		}
		sc.all++
		if int64(said) == label {
			sc.right++
		}
		if outputs[0].Equal(set.Logit(i)) {
			sc.exact++
		} else if len(wrong) < 3 {
			wrong = append(wrong, fmt.Sprintf("image %d: %s instead of %s", i, valuetext.First(outputs[0]),
				valuetext.First(set.Logit(i))))
		}
	}
	t, err := v.time(ctx, c, bar)
	if err != nil {
		return err
	}
	bar.End()
	return v.demoResult(sc, wrong, t)
}

func (v *invocation) drawDigit(image *ndarray.Array, said, label int64) {
	verdict := "right"
	if said != label {
		verdict = fmt.Sprintf("wrong: it is a %d", label)
	}
	for y, line := range valuetext.Picture(image) {
		note := ""
		if y == 3 {
			note = fmt.Sprintf("   recognised as %d (%s)", said, verdict)
		}
		v.Printf("    %s%s", line, note)
	}
	v.Printf("")
}

func (v *invocation) demoResult(sc score, wrong []string, times timing) error {
	accuracy := 100 * float64(sc.right) / float64(sc.all)
	v.Printf("%d of %d test images read right: %.1f %%", sc.right, sc.all, accuracy)
	v.Printf("logits equal to the reference bit for bit: %d of %d images", sc.exact, sc.all)
	took := v.tellTime(times)
	if sc.exact != sc.all {
		return failure.Errorf(failure.WrongAnswer, "%d answers differ from the reference: %s", sc.all-sc.exact,
			strings.Join(wrong, "; "))
	}
	v.JSONLine(jsonlines.Demo{
		Project: v.projectLine(), Accuracy: accuracy, Right: sc.right, Exact: sc.exact, Images: sc.all, Time: took,
	})
	v.Printf("The firmware is in %s. Next: MODEL=your.tar INPUT=your.npz %s", v.Shown(v.project.Dir()),
		v.Mage("build flash run"))
	return nil
}
