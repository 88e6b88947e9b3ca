// Package tuning implements the targets tune, report and reproduce. It reads the search from the environment, shows the
// progress of a run, and prints its results.
//
// It neither measures nor chooses candidates: packages tune and tune/search do.
package tuning

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/project"
	"github.com/boardsmith/boardsmith/targets/internal/console"
	"github.com/boardsmith/boardsmith/targets/internal/inputs"
	"github.com/boardsmith/boardsmith/tune"
)

// A Job is one run of a target that measures.
type Job struct {
	*console.Console
	In      *inputs.Inputs
	Desk    *device.Desk
	Builder *project.Builder

	TuneInputs               // as they are set; In completes them
	dir        string        // of the run
	boards     []string      // of BOARD
	remotes    []tune.Remote // the boards, if they are at TRACKER
	view       *view
	bar        *console.Progress
}

// TuneInputs are the variables of tune.
type TuneInputs struct {
	inputs.OfProject
	inputs.OfCall
	inputs.OfInput
	inputs.Repeated
	inputs.Dry
	Expect     string `var:"EXPECT"`
	Output     string `var:"OUTPUT"`
	Space      string `var:"SPACE"`
	Candidates string `var:"CANDIDATES"`
	Proposer   string `var:"PROPOSER" of:"grid random evolve" default:"evolve"`
	Trials     int    `var:"TRIALS" default:"100" range:"1 1e9" else:" is not a number of trials from 1"`
	Confirm    int    `var:"CONFIRM" range:"1 1e9" else:": it is the number of candidates to measure again in flash"`
	Retry      bool   `var:"RETRY"`
	Tracker    string `var:"TRACKER"`
	Key        string `var:"KEY"`
	Priority   int    `var:"PRIORITY" default:"1" else:" is no number"`
}

// Tune searches the fastest of the archives in CANDIDATES, of the configurations of SPACE, or of the flags for MODEL.
func (t *Job) Tune(ctx context.Context, v TuneInputs) error {
	t.TuneInputs = v
	t.boards = strings.Split(t.In.Board, ",")

	form, search := "", t.network
	switch {
	case v.Space != "" && v.Candidates != "":
		return failure.New(failure.Config, "unset one of them", "both SPACE and CANDIDATES are set")
	case v.Space != "":
		form, search = "SPACE", func(ctx context.Context) error { return t.space(ctx, v.Space) }
	case v.Candidates != "":
		form, search = "CANDIDATES", func(ctx context.Context) error { return t.candidates(ctx, v.Candidates) }
	case t.In.Model != "":
		form = "MODEL"
	default:
		return failure.New(failure.Config,
			"CANDIDATES=FOLDER has archives of one operator each, SPACE=FILE a kernel with knobs, MODEL=FILE a network",
			"nothing to tune is named")
	}

	if err := t.checkVariables(form); err != nil {
		return err
	}

	if err := t.readRemotes(); err != nil {
		return err
	}

	return search(ctx)
}

// formsOf are the forms of tuning in which a variable has an effect.
var formsOf = map[string][]string{
	"INPUT": {"CANDIDATES", "MODEL"}, "EXPECT": {"CANDIDATES", "MODEL"}, "CONFIRM": {"CANDIDATES"},
	"PROPOSER": {"SPACE"}, "TRIALS": {"SPACE", "MODEL"},
	"TRACKER": {"CANDIDATES", "SPACE"}, "KEY": {"CANDIDATES", "SPACE"}, "PRIORITY": {"CANDIDATES", "SPACE"},
}

// checkVariables fails for a variable that has no effect in this form of tuning.
func (t *Job) checkVariables(form string) error {
	for _, name := range slices.Sorted(maps.Keys(formsOf)) {
		if text := t.Env(name); text != "" && !slices.Contains(formsOf[name], form) {
			return failure.New(failure.Config, "unset it", "%s=%s is for %s, not for %s", name, text,
				strings.Join(formsOf[name], " and "), form)
		}
	}
	return nil
}
