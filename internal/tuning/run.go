// This file is what all kinds of tuning share: it opens a run, shows how it gets on, and prints its results.

package tuning

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/console"
	"github.com/boardsmith/boardsmith/internal/valuetext"
	"github.com/boardsmith/boardsmith/tune"
	"github.com/boardsmith/boardsmith/tune/report"
)

// A view collects what has happened in a run. Its methods may be called from many goroutines.
type view struct {
	notes *console.Console
	total int // candidates that are to be finished; 0: not known

	mu       sync.Mutex
	began    time.Time
	earlier  int // finished before this run of mage
	finished int
	failed   map[failure.Class]int
	kinds    map[string]*kindState
	places   map[string]*placeState
}

// A kindState is what is known of one kind of board: the first candidate with a time, and the fastest.
type kindState struct{ first, best tune.Result }

// A placeState is what is known of one board.
type placeState struct {
	state    string
	ready    time.Time // zero: not yet
	busy     time.Duration
	measured int
}

func newView(notes *console.Console, total int) *view {
	return &view{
		notes: notes, total: total, began: time.Now(), failed: map[failure.Class]int{}, kinds: map[string]*kindState{},
		places: map[string]*placeState{},
	}
}

// told takes an event of the run.
func (w *view) told(e tune.Event) {
	if e.Err != nil {
		w.notes.Notef("%s: %s: %v", e.Board, e.What, e.Err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if e.Board != "" {
		w.place(e)
	}
	if e.Result != nil && e.Result.Of == "" {
		w.finished++
		w.note(*e.Result)
	}
}

func (w *view) place(e tune.Event) {
	p := w.places[e.Board]
	if p == nil {
		p = &placeState{}
		w.places[e.Board] = p
	}
	if e.Result == nil {
		p.state = e.What
		if e.Err == nil && p.ready.IsZero() {
			p.ready = time.Now()
		}
		return
	}
	p.state = "measuring"
	if p.ready.IsZero() {
		p.ready = time.Now().Add(-e.Result.Load - e.Result.Run)
	}
	if e.Result.Same == "" {
		p.busy += e.Result.Load + e.Result.Run
		p.measured++
	}
}

// note counts a result. The caller holds w.mu.
func (w *view) note(r tune.Result) {
	if r.Failure != nil {
		w.failed[r.Failure.Class]++
		return
	}
	k := w.kinds[r.Kind]
	switch {
	case k == nil:
		w.kinds[r.Kind] = &kindState{first: r, best: r}
	case r.Time.Median < k.best.Time.Median:
		k.best = r
	}
}

// resumed counts results of an earlier run of mage.
func (w *view) resumed(results ...tune.Result) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range results {
		if r.Of == "" {
			w.earlier++
			w.note(r)
		}
	}
}

// lines returns the state in lines: the run, the best candidate of each kind of board, each board.
func (w *view) lines() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	all := []string{"tune: " + w.progress(now)}
	for _, name := range slices.Sorted(maps.Keys(w.kinds)) {
		all = append(all, "  best "+w.bestText(name))
	}
	for _, name := range slices.Sorted(maps.Keys(w.places)) {
		p := w.places[name]
		line := fmt.Sprintf("  %-14s %6d measured", name, p.measured)
		if alive := now.Sub(p.ready); !p.ready.IsZero() && alive > 0 {
			line += fmt.Sprintf(", %3.0f %% idle", 100*max(0, 1-p.busy.Seconds()/alive.Seconds()))
		}
		all = append(all, line+"  "+p.state)
	}
	return all
}

// progress is the first line: what a log needs, without the boards.
func (w *view) progress(now time.Time) string {
	done := w.earlier + w.finished
	text := fmt.Sprintf("%d done", done)
	if w.total > 0 {
		text = fmt.Sprintf("%d of %d done", done, w.total)
	}
	for _, name := range slices.Sorted(maps.Keys(w.kinds)) {
		text += ", best " + w.bestTime(name)
	}
	if words := w.failures(); len(words) > 0 {
		text += ", failed: " + strings.Join(words, ", ")
	}
	if rate := float64(w.finished) / now.Sub(w.began).Minutes(); w.finished > 0 {
		text += fmt.Sprintf(", %.0f a minute", rate)
		if left := w.total - done; left > 0 {
			text += fmt.Sprintf(", %v left", time.Duration(float64(left)/rate*float64(time.Minute)).Round(time.Second))
		}
	}
	return text
}

func (w *view) failures() (words []string) {
	for _, class := range slices.Sorted(maps.Keys(w.failed)) {
		words = append(words, fmt.Sprintf("%d %s", w.failed[class], class))
	}
	return words
}

func (w *view) bestText(kind string) string {
	text, k := w.bestTime(kind), w.kinds[kind]
	if k.first.Time.Median > 0 && k.best.Time.Median > 0 {
		text += fmt.Sprintf(" (%.2f× the first)", k.first.Time.Median/k.best.Time.Median)
	}
	return text + ": " + k.best.ID
}

// bestTime is the best time of a kind of board, which is named if there are several.
func (w *view) bestTime(kind string) string {
	text := valuetext.Seconds(w.kinds[kind].best.Time.Median)
	if len(w.kinds) > 1 {
		text += " on " + kind
	}
	return text
}

// expect sets the number of candidates.
func (w *view) expect(total int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.total = total
}

// resultLine prints the JSON line of a candidate that is finished.
func (t *Job) resultLine(r tune.Result) {
	if r.Failure != nil {
		t.JSONLine(fields{
			"status": "failed", "id": r.ID, "of": r.Of, "board": r.Kind, "place": r.Board, "class": r.Failure.Class,
			"blame": r.Failure.Blame, "error": r.Failure.Message,
		})
		return
	}
	t.JSONLine(fields{
		"status": "done", "id": r.ID, "of": r.Of, "board": r.Kind, "place": r.Board, "median_s": r.Time.Median,
		"min_s": r.Time.Min, "max_s": r.Time.Max, "bytes": r.Bytes, "cut": r.Cut,
	})
}

// memory returns the options that decide how much memory candidates have. A project's other options are of no use
// here.
func (t *Job) memory() (boards.Options, error) {
	if !t.In.OptionsAsked {
		return t.In.Usual, nil
	}
	others := slices.DeleteFunc(t.In.Options.Set(), func(name string) bool {
		return name == "arena_kib" || name == "upload_kib"
	})
	if len(others) > 0 {
		return boards.Options{}, failure.New(failure.Config, "candidates are measured with arena_kib and upload_kib alone",
			"OPTIONS has no effect on candidates with %s", strings.Join(others, ", "))
	}
	return t.In.Options, nil
}

// folder sets the run's folder: OUTPUT, or one for these boards.
func (t *Job) folder(name string) {
	folder := strings.NewReplacer(",", "+", "/", "+").Replace(t.In.Board.Value)
	t.dir = cmp.Or(t.In.Output, filepath.Join("build", "tune", name, folder))
}

// open opens a run of package tune, and begins to show how it gets on. total is the number of candidates.
func (t *Job) open(ctx context.Context, total int) (*tune.Run, error) {
	memory, err := t.memory()
	if err != nil {
		return nil, err
	}
	t.view = newView(t.Console, total)
	t.bar = t.Start("tune: building firmware", 0)
	run, err := tune.OpenRun(ctx, t.dir, t.Desk, t.boards, tune.Options{
		Builder: t.Builder, Template: t.In.Template.Value, Samples: t.In.Repeat, CallTimeout: t.In.Timeout,
		ArenaKiB: memory.ArenaKiB, UploadKiB: memory.UploadKiB, Told: t.view.told,
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

// allFailed is the error of a run in which every candidate failed: the first failure.
func allFailed(results []tune.Result) error {
	total, failed := counts(results)
	if total == 0 || failed < total {
		return nil
	}
	first := results[slices.IndexFunc(results, func(r tune.Result) bool { return r.Of == "" })]
	return failure.New(first.Failure.Class, "results.jsonl in the run's folder has every failure",
		"%d of %d candidates failed; the first, %s: %s", failed, total, first.ID, first.Failure.Message)
}

// trials returns TRIALS, or the default.
func (t *Job) trials(otherwise int) (int, error) {
	text := t.Env("TRIALS")
	if text == "" {
		return otherwise, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return 0, failure.New(failure.Config, "", "TRIALS=%s is not a number of trials from 1", text)
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
