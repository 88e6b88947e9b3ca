// This file opens runs and prints their results, for all forms of tuning.

package tuning

import (
	"cmp"
	"context"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/format"
	"github.com/boardsmith/boardsmith/targets/internal/jsonlines"
	"github.com/boardsmith/boardsmith/tune"
	"github.com/boardsmith/boardsmith/tune/report"
)

// resultLine prints the JSON line of a candidate that is finished.
func (t *Job) resultLine(r tune.Result) {
	line := jsonlines.Tuned{ID: r.ID, Of: r.Confirms, Board: r.Kind, Place: r.Board}
	if f := r.Failure; f != nil {
		line.Status, line.Class, line.Blame, line.Error = jsonlines.StatusFailed, string(f.Class), string(f.Blame), f.Message
	} else {
		line.Median, line.Min, line.Max, line.Bytes, line.Cut = &r.Time.Median, &r.Time.Min, &r.Time.Max, &r.Bytes, &r.Cut
	}
	t.JSONLine(line)
}

// memory returns the options of the boards. Of those in boardsmith.json, it returns only the ones that change memory.
func (t *Job) memory() map[string]boards.Options {
	if t.In.Set["OPTIONS"] {
		return t.In.BoardOptions
	}

	u := t.In.Defaults
	return map[string]boards.Options{
		"": {ArenaKiB: u.ArenaKiB, UploadKiB: u.UploadKiB, StackBytes: u.StackBytes, Place: u.Place},
	}
}

// folder sets the run's folder: OUTPUT, or a default for the boards.
func (t *Job) folder(name string) {
	var names []string

	for word := range strings.SplitSeq(t.In.Board, ",") {
		board, device, named := strings.Cut(word, "=")
		board, _ = boards.Locate(board, t.In.Path)
		if named {
			board += "=" + device
		}
		// The folder is one level deep, but a board's name may have slashes.
		names = append(names, strings.ReplaceAll(board, "/", "+"))
	}

	t.dir = cmp.Or(t.In.Output, filepath.Join("build", "tune", name, strings.Join(names, "+")))
}

// open opens a run of package tune and shows its progress. total is the number of candidates; 0: unknown.
func (t *Job) open(ctx context.Context, total int) (*tune.Run, error) {
	t.view = newView(t.Console, total)

	t.bar = t.Start("tune: building firmware", 0)
	// Boards at a tracker are not attached to this computer.
	local := t.boards
	if len(t.remotes) > 0 {
		local = nil
	}

	run, err := tune.OpenRun(ctx, t.dir, t.Desk, local, tune.Options{
		Builder: t.Builder, Template: t.In.Template, Samples: t.In.Repeat, CallTimeout: t.In.CallTimeout(),
		Memory: t.memory(), OnEvent: t.view.add, Libraries: t.In.Libraries, Retry: t.Retry,
		Remotes: t.remotes,
	})
	if err != nil {
		return nil, err
	}

	t.bar.ShowLines(t.view.lines)
	return run, nil
}

// stopped returns err. If the user has stopped the run, it first prints how to continue.
func (t *Job) stopped(ctx context.Context, err error, finished int) error {
	if ctx.Err() != nil {
		t.Notef("%d candidates are finished, in %s; the same command goes on from there", finished, t.dir)
	}
	return err
}

// tableRows is the number of fastest candidates of each kind that are printed.
const tableRows = 20

// printResults prints the fastest candidates and the failures.
func (t *Job) printResults(results []tune.Result) error {
	var text strings.Builder
	if err := (report.Run{Results: results}).WriteTable(&text, tableRows); err != nil {
		return err
	}

	// The bar would be drawn over the table.
	t.bar.End()

	total, failed := counts(results)
	t.Printf("%s", strings.TrimRight(text.String(), "\n"))
	t.Printf("tune: %s, %d failed; %s has all of it", format.Count(total, "candidate"), failed, t.dir)
	return nil
}

// notStored returns the failures that are not the candidate's, which a run does not store.
func notStored(results []tune.Result) []tune.Result {
	return slices.DeleteFunc(slices.Clone(results), func(r tune.Result) bool {
		return r.Failure == nil || !r.Failure.Retry
	})
}

// counts returns the number of candidates with a result, and of those that failed.
func counts(results []tune.Result) (total, failed int) {
	for _, r := range results {
		// A confirmation is the same candidate once more.
		if r.Confirms != "" {
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
	return noTime("failed", slices.DeleteFunc(slices.Clone(results), func(r tune.Result) bool { return r.Confirms != "" }))
}

// noneConfirmed returns the first failure of a kind of board on which all candidates failed in flash.
func noneConfirmed(results []tune.Result) error {
	confirmed := map[string][]tune.Result{} // by kind
	for _, r := range results {
		if r.Confirms != "" {
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

// unmeasured returns the error of a run with candidates that a fault of the computer or of a board left unmeasured, in
// RAM or in flash; nil if there are none.
func unmeasured(results []tune.Result) error {
	for _, outcome := range []string{"not measured", "not measured again in flash"} {
		part := slices.DeleteFunc(slices.Clone(results), func(r tune.Result) bool {
			return (r.Confirms != "") != (outcome != "not measured")
		})

		retries := notStored(part)
		if len(retries) == 0 {
			continue
		}

		culprit := "a board"
		if retries[0].Failure.Blame == tune.BlameHost {
			culprit = "the computer"
		}
		return failure.New(retries[0].Failure.Class, "after the cause is gone, the same command measures them",
			"%d of %d candidates %s, by a fault of %s; the first, %s: %s", len(retries), len(part), outcome, culprit,
			retries[0].ID, retries[0].Failure.Message)
	}

	return nil
}

// oneKind returns an error if the boards are of several kinds.
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
