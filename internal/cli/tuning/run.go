// This file is what all kinds of tuning share: it opens a run and prints its results.

package tuning

import (
	"cmp"
	"context"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/cli/jsonlines"
	"github.com/boardsmith/boardsmith/tune"
	"github.com/boardsmith/boardsmith/tune/report"
)

// resultLine prints the JSON line of a candidate that is finished.
func (t *Job) resultLine(r tune.Result) {
	line := jsonlines.Tuned{ID: r.ID, Of: r.Of, Board: r.Kind, Place: r.Board}
	if f := r.Failure; f != nil {
		line.Status, line.Class, line.Blame, line.Error = jsonlines.StatusFailed, string(f.Class), string(f.Blame), f.Message
	} else {
		line.Median, line.Min, line.Max, line.Bytes, line.Cut = &r.Time.Median, &r.Time.Min, &r.Time.Max, &r.Bytes, &r.Cut
	}
	t.JSONLine(line)
}

// memory returns the options of the boards: those of boardsmith.json only as far as they change memory.
func (t *Job) memory() map[string]boards.Options {
	if t.In.OptionsAsked {
		return t.In.BoardOptions
	}
	u := t.In.Usual
	return map[string]boards.Options{
		"": {ArenaKiB: u.ArenaKiB, UploadKiB: u.UploadKiB, StackBytes: u.StackBytes, Place: u.Place},
	}
}

// folder sets the run's folder: OUTPUT, or one for these boards.
func (t *Job) folder(name string) {
	folder := strings.NewReplacer(",", "+", "/", "+").Replace(t.In.Board.Value)
	t.dir = cmp.Or(t.In.Output, filepath.Join("build", "tune", name, folder))
}

// open opens a run of package tune, and begins to show how it gets on. total is the number of candidates.
func (t *Job) open(ctx context.Context, total int) (*tune.Run, error) {
	t.view = newView(t.Console, total)
	t.bar = t.Start("tune: building firmware", 0)
	run, err := tune.OpenRun(ctx, t.dir, t.Desk, t.boards, tune.Options{
		Builder: t.Builder, Template: t.In.Template.Value, Samples: t.In.Repeat, CallTimeout: t.In.Timeout,
		Memory: t.memory(), Told: t.view.told, Libraries: t.In.Libraries, Retry: t.Env.On("RETRY"),
	})
	if err != nil {
		return nil, err
	}
	t.bar.ShowLines(t.view.lines)
	return run, nil
}

// stopped returns err, after a note of how to go on if the user has stopped the run.
func (t *Job) stopped(ctx context.Context, err error, finished int) error {
	if ctx.Err() != nil {
		t.Notef("%d candidates are finished, in %s; the same command goes on from there", finished, t.dir)
	}
	return err
}

// defaultTrials is the default of TRIALS.
const defaultTrials = 100

// tableRows is how many of the fastest candidates of each kind are printed.
const tableRows = 20

// printResults prints the fastest candidates and why others have no time.
func (t *Job) printResults(results []tune.Result) error {
	var text strings.Builder
	if err := report.WriteTable(&text, results, tableRows); err != nil {
		return err
	}
	t.bar.End()
	total, failed := counts(results)
	t.Printf("%s", strings.TrimRight(text.String(), "\n"))
	t.Printf("tune: %d candidates, %d failed; %s has all of it", total, failed, t.dir)
	return nil
}

// counts returns how many candidates have a result, and how many of them failed.
func counts(results []tune.Result) (total, failed int) {
	for _, r := range results {
		if r.Of != "" {
			continue
		}
		total++
		if r.Failure != nil {
			failed++
		}
	}
	return total, failed
}

// allFailed returns the error of a run in which every candidate failed: the first failure.
func allFailed(results []tune.Result) error {
	return noTime("failed", slices.DeleteFunc(slices.Clone(results), func(r tune.Result) bool { return r.Of != "" }))
}

// noneConfirmed returns the error of a kind of board on which every candidate failed that was measured again in flash:
// the first failure.
func noneConfirmed(results []tune.Result) error {
	confirmed := map[string][]tune.Result{} // by kind
	for _, r := range results {
		if r.Of != "" {
			confirmed[r.Kind] = append(confirmed[r.Kind], r)
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(confirmed)) {
		if err := noTime("failed in flash on board "+kind, confirmed[kind]); err != nil {
			return err
		}
	}
	return nil
}

// noTime returns the first failure if all results are failures, or nil.
func noTime(outcome string, results []tune.Result) error {
	if len(results) == 0 || slices.ContainsFunc(results, func(r tune.Result) bool { return r.Failure == nil }) {
		return nil
	}
	first := results[0]
	return failure.New(first.Failure.Class, "results.jsonl in the run's folder has every failure",
		"%d of %d candidates %s; the first, %s: %s", len(results), len(results), outcome, first.ID, first.Failure.Message)
}

// unmeasured is the error of a run in which the computer or a board kept candidates from being measured, or from being
// measured again in flash; nil if there are none.
func unmeasured(results []tune.Result) error {
	for _, outcome := range []string{"not measured", "not measured again in flash"} {
		part := slices.DeleteFunc(slices.Clone(results), func(r tune.Result) bool {
			return (r.Of != "") != (outcome != "not measured")
		})
		lost := slices.DeleteFunc(slices.Clone(part), func(r tune.Result) bool {
			return r.Failure == nil || !r.Failure.Retry
		})
		if len(lost) == 0 {
			continue
		}
		of := "a board"
		if lost[0].Failure.Blame == tune.BlameHost {
			of = "the computer"
		}
		return failure.New(lost[0].Failure.Class, "after the cause is gone, the same command measures them",
			"%d of %d candidates %s, by a fault of %s; the first, %s: %s", len(lost), len(part), outcome, of, lost[0].ID,
			lost[0].Failure.Message)
	}
	return nil
}

// trials returns TRIALS, or the default.
func (t *Job) trials(otherwise int) (int, error) {
	text := t.Env("TRIALS")
	if text == "" {
		return otherwise, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return 0, failure.Errorf(failure.Config, "TRIALS=%s is not a number of trials from 1", text)
	}
	return n, nil
}

// oneKind fails if the boards are of several kinds.
func (t *Job) oneKind() error {
	first, _, _ := strings.Cut(t.boards[0], "=")
	for _, b := range t.boards {
		if name, _, _ := strings.Cut(b, "="); name != first {
			return failure.New(failure.Config, "search for one of them after the other", "boards of two kinds, %s and %s, "+
				"have different fastest configurations", first, name)
		}
	}
	return nil
}
