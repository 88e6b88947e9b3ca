// This file compares templates with their template.json, without hardware.

package targets

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/boardsmith/boardsmith/examples/samples"
	"github.com/boardsmith/boardsmith/executor"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/format"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/ndarray"
	"github.com/boardsmith/boardsmith/project"
	"github.com/boardsmith/boardsmith/project/templatecheck"
	"github.com/boardsmith/boardsmith/rpc"
	"github.com/boardsmith/boardsmith/targets/internal/console"
	"github.com/boardsmith/boardsmith/targets/internal/inputs"
	"github.com/boardsmith/boardsmith/targets/internal/jsonlines"
)

// Check checks a template, by name or folder, without hardware. It builds for BOARD, and agrees with its template.json.
//
// Variables:
//
//	BOARD        a board's name: mage boards lists them [host]
//	DRYRUN=1     prints the checks that would run
func (Template) Check(ctx context.Context, nameOrFolder string) error {
	return doTemplateCheck(ctx, nameOrFolder)
}

var doTemplateCheck = namedTarget("template:check", checkTemplate)

// templateCheckInputs are the variables of template:check.
type templateCheckInputs struct {
	inputs.Dry
	Board string `var:"BOARD"`
}

func checkTemplate(ctx context.Context, c *console.Console, v templateCheckInputs, template string) error {
	if c.DryRun {
		var names []string
		for _, check := range templatecheck.List() {
			c.Printf("%-10s %s", check.Name, check.Doc)
			names = append(names, check.Name)
		}
		return c.Would("check template %s: %s", template, strings.Join(names, ", "))
	}

	builder, err := searchBuilder(ctx, c)
	if err != nil {
		return err
	}

	model, err := mlf.Parse(samples.Name, samples.Archive())
	if err != nil {
		return err
	}

	bar := c.Start("checking template "+template, 0)
	defer bar.End()

	trial := templatecheck.Trial{
		Spec: project.Spec{Board: v.Board, Template: template, Archive: model}, Run: runsSample,
	}

	checked, skipped, failed := 0, 0, 0
	err = templatecheck.Run(ctx, builder, trial, func(r templatecheck.Check) {
		state, detail := "ok", r.Result
		if checked++; r.Skipped != "" {
			skipped++
			state, detail = "skipped", r.Skipped
		}

		if r.Failed != nil {
			state, detail = "failed", r.Failed.Error()
			failed++
		}

		c.Printf("%-8s %-10s %s: %s", state, r.Name, r.Doc, detail)
		line := jsonlines.Check{Check: r.Name, Doc: r.Doc, Result: r.Result, Skipped: r.Skipped}
		if r.Failed != nil {
			line.Failed = r.Failed.Error()
		}
		c.JSONLine(line)
	})

	if failed > 1 {
		c.Notef("note: %d checks failed; the first one:", failed)
	}

	if err != nil {
		return fmt.Errorf("template %s: %w", filepath.Base(template), err)
	}

	c.Printf("template %s: good; %d checks, %d of them skipped", filepath.Base(template), checked, skipped)
	c.JSONLine(jsonlines.Checked{Template: template, Passed: checked - skipped, Skipped: skipped})
	return nil
}

// runsSample runs the bundled model on its input, and compares the outputs.
func runsSample(ctx context.Context, s *rpc.Session, m *mlf.Model) error {
	inputs, err := samples.Inputs()
	if err != nil {
		return err
	}
	want, err := samples.Outputs()
	if err != nil {
		return err
	}

	e, err := executor.Open(ctx, s, m)
	if err != nil {
		return err
	}

	for _, in := range inputs {
		if err := e.SetInput(ctx, in.Name, in.Array); err != nil {
			return err
		}
	}

	if err := e.Run(ctx); err != nil {
		return err
	}

	for i, w := range want {
		got, err := e.Output(ctx, i)
		if err != nil {
			return err
		}
		if !got.Equal(w.Array) {
			return failure.Errorf(failure.WrongAnswer, "%s is %v %s, %s instead of %s", w.Name, got.DType,
				ndarray.ShapeString(got.Shape), format.First(got), format.First(w.Array))
		}
	}

	return e.Close(ctx)
}
