// This file searches compiler flags that make a network faster.

package tuning

import (
	"context"
	"encoding/json"
	"path/filepath"
	"strings"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/command"
	"github.com/boardsmith/boardsmith/internal/files/atomicfolder"
	"github.com/boardsmith/boardsmith/internal/files/regularfile"
	"github.com/boardsmith/boardsmith/internal/nextstep"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/project"
	"github.com/boardsmith/boardsmith/targets/internal/inputs"
	"github.com/boardsmith/boardsmith/targets/internal/jsonlines"
	"github.com/boardsmith/boardsmith/tune"
	"github.com/boardsmith/boardsmith/tune/search"
)

// network searches compiler flags for MODEL.
func (t *Job) network(ctx context.Context) (err error) {
	if err := t.oneKind(); err != nil {
		return err
	}
	n, err := t.readNetwork()
	if err != nil {
		return err
	}

	t.folder(inputs.ProjectName(t.In.Model, t.In.ModelName))

	if t.DryRun {
		return t.Would("measure %s with at most %d choices of compiler flags on %s, in %s",
			inputs.ArchiveName(t.In.Model), n.Trials, t.In.Board, t.dir)
	}

	file := filepath.Join(t.dir, bestOptions)
	if _, err := tune.ReadResults(t.dir); err != nil && atomicfolder.HasFile(t.dir, bestOptions) {
		return failure.New(failure.Config, "move it elsewhere, or choose another OUTPUT", "%s is not of a run", file)
	}

	t.view = newView(t.Console, n.Trials)
	n.OnEvent = t.view.add
	t.bar = t.Start("tune", 0)
	t.bar.ShowLines(t.view.lines)

	trials, err := search.Flags(ctx, t.dir, t.Desk, t.boards, n)
	t.bar.End()

	if err != nil {
		return t.stopped(ctx, err, len(trials))
	}

	for _, trial := range trials {
		t.resultLine(trial.Result)
	}

	return t.printFront(file, n.Spec, trials)
}

// readNetwork reads the search from the environment.
func (t *Job) readNetwork() (n search.Network, err error) {
	// All boards are of one kind, so the first one's name is that of the build.
	name, _, _ := strings.Cut(t.boards[0], "=")
	n = search.Network{Trials: t.Trials, Builder: t.Builder, Limit: t.In.Timeout, Retry: t.Retry, Spec: project.Spec{
		Board: name, Model: t.In.Model, ModelName: t.In.ModelName, Template: t.In.Template,
		Options: t.In.OptionsOf(name), Libraries: t.In.Libraries,
	}}

	a, err := mlf.Open(n.Spec.Model)
	if err != nil {
		return n, err
	}
	m, err := a.Model(n.Spec.ModelName)
	if err != nil {
		return n, err
	}

	if t.In.Input != "" {
		n.Inputs, err = inputs.ReadArrays("INPUT", t.In.Input, t.In.Names, m)
	} else {
		n.Inputs, _, err = inputs.InventArrays(t.Seed, m)
	}
	if err != nil {
		return n, err
	}

	n.Want, err = inputs.NamedArrays("EXPECT", t.Expect, nil)
	return n, err
}

// checkOperators returns an error for a run that searched flags of a network: reproduce measures operators.
func checkOperators(dir, id string) error {
	all, err := tune.ReadResults(dir)
	if err != nil {
		return err
	}

	for _, r := range all {
		// Only a search of flags records this field.
		var record struct {
			Flags *string `json:"operator_flags"`
		}
		if r.ID == id && json.Unmarshal(r.Record, &record) == nil && record.Flags != nil {
			return failure.New(failure.Config,
				"OPTIONS="+command.Quote("operator_flags="+*record.Flags)+" and that MODEL, with "+
					nextstep.Target("build flash run")+", measure it again",
				"%s: a run with compiler flags of a network, not with candidates", dir)
		}
	}
	return nil
}

// bestOptions is the file with the options of the fastest trial, in the format of boardsmith.json.
const bestOptions = "best.json"

// printFront prints the trials of search.Front, and writes the options of the fastest into a file of the run's folder.
func (t *Job) printFront(file string, spec project.Spec, trials []search.NetworkTrial) error {
	front := search.Front(trials)
	if len(front) == 0 {
		return failure.Errorf(failure.Internal, "no choice of flags could be measured")
	}

	name := "time"
	if trials[0].Result.Instruction > 0 {
		name = "instructions"
	} else if trials[0].Result.Platform.Clock == "" {
		name = "unverified"
	}

	t.Printf("%-14s %12s %12s %10s  %s", "", name, "flash bytes", "RAM bytes", "operator_flags")

	row := func(label string, n search.NetworkTrial) {
		text := strings.TrimSuffix(cost(n.Result), " instructions")
		t.Printf("%-14s %12s %12d %10d  %s", label, text, n.Flash, n.RAM, n.Flags)
	}

	// The first trial is without flags, so all others compare with it.
	row("untuned", trials[0])
	for i, n := range front {
		label := ""
		if i == 0 {
			label = "fastest"
		}
		row(label, n)
	}

	best := front[0]
	if best.Arena.Used > 0 {
		t.Printf("arena: %v", best.Arena)
	}
	for _, doubt := range best.Arena.Unsure {
		t.Notef("note: arena: it may be more: %s", doubt)
	}

	spec.Options.OperatorFlags = best.Flags
	if err := writeOptions(file, spec.Options); err != nil {
		return err
	}

	t.Printf("tune: %.2f times as fast with OPTIONS=%s; %s has it for boardsmith.json",
		trials[0].Result.Time.Median/best.Result.Time.Median, command.Quote("operator_flags="+best.Flags), file)

	t.JSONLine(jsonlines.TunedModel{
		OperatorFlags: best.Flags, Median: best.Result.Time.Median, Flash: best.Flash, RAM: best.RAM, Arena: best.Arena,
		Untuned: trials[0].Result.Time.Median, Candidates: len(trials), Folder: t.dir,
	})
	return nil
}

// writeOptions writes options in the format of boardsmith.json.
func writeOptions(file string, o boards.Options) error {
	data, err := json.MarshalIndent(struct {
		Options boards.Options `json:"options"`
	}{o}, "", "  ")
	if err != nil {
		return err
	}
	return regularfile.Write(file, append(data, '\n'), 0o644)
}
