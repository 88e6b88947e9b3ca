// This file measures candidates on boards.

package targets

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/ndarray"
	"github.com/boardsmith/boardsmith/tune"
)

// tune measures the archives in CANDIDATES on the boards of BOARD.
func (v *invocation) tune(ctx context.Context) (err error) {
	in, err := v.inputs()
	if err != nil {
		return err
	}
	names, err := candidateFiles(v.Env("CANDIDATES"))
	if err != nil {
		return err
	}
	inputs, err := arraysOf("INPUT", in.input)
	if err != nil {
		return err
	}
	want, err := arraysOf("EXPECT", v.Env("EXPECT"))
	if err != nil {
		return err
	}
	dir := cmp.Or(in.output, filepath.Join("build", "tune", strings.ReplaceAll(in.board.value, ",", "+")))
	if v.Env.On("DRYRUN") {
		return v.Would("measure %d candidates on %s, in %s", len(names), in.board.value, dir)
	}
	desk := v.desk(in)
	defer func() { err = firstError(err, desk.Close()) }()
	watch := &tuneWatch{v: v, total: len(names)}
	bar := v.Start("tune: building firmware", len(names))
	defer bar.End()
	run, err := tune.OpenRun(ctx, dir, desk, strings.Split(in.board.value, ","), tune.Options{
		Builder: v.builder(in), Template: in.template.value, Samples: in.repeat, CallTimeout: in.timeout, Told: watch.told,
	})
	if err != nil {
		return err
	}
	defer func() { err = firstError(err, run.Close()) }()
	watch.total *= len(run.Kinds())
	watch.done(len(run.Results()))
	for _, err := range run.All(ctx, candidatesOf(names, run.Kinds(), inputs, want, &err)) {
		if err != nil {
			return err
		}
	}
	bar.End()
	return v.printTuned(dir, names, run.Kinds(), run.Results())
}

// candidateFiles lists the archives in a folder.
func candidateFiles(dir string) ([]string, error) {
	if dir == "" {
		return nil, failure.New(failure.Config, "CANDIDATES=FOLDER names it", "no folder with candidates")
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, failure.New(failure.Config, "", "CANDIDATES: %w", err)
	}
	var names []string
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".tar") || strings.HasSuffix(e.Name(), ".tar.gz") {
			names = append(names, filepath.Join(dir, e.Name()))
		}
	}
	if len(names) == 0 {
		return nil, failure.New(failure.Config, "it has to hold archives of one operator each, .tar or .tar.gz",
			"CANDIDATES: no archive in %s", dir)
	}
	return names, nil
}

func arraysOf(variable, path string) ([]ndarray.Named, error) {
	if path == "" {
		return nil, nil
	}
	arrays, err := ndarray.ReadNPZ(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", variable, err)
	}
	return arrays, nil
}

// candidatesOf reads the archives as they are needed, for each kind of board. What is no candidate ends the sequence.
func candidatesOf(names, kinds []string, inputs, want []ndarray.Named, failed *error) iter.Seq[tune.Candidate] {
	return func(yield func(tune.Candidate) bool) {
		for _, name := range names {
			a, err := mlf.Open(name)
			var c tune.Candidate
			if err == nil {
				c, err = tune.CandidateOf(candidateName(name), a, inputs, want)
			}
			if err != nil {
				*failed = err
				return
			}
			for _, kind := range kinds {
				each := c
				each.ID, each.Kind = candidateID(name, kind, kinds), kind
				if !yield(each) {
					return
				}
			}
		}
	}
}

// candidateID tells an archive's measurements apart where there are several kinds of board.
func candidateID(path, kind string, kinds []string) string {
	if len(kinds) == 1 {
		return candidateName(path)
	}
	return candidateName(path) + "@" + kind
}

func candidateName(path string) string {
	return strings.TrimSuffix(strings.TrimSuffix(filepath.Base(path), ".gz"), ".tar")
}

// A tuneWatch shows how a run gets on.
type tuneWatch struct {
	v     *invocation
	total int

	mu       sync.Mutex
	finished int
	failed   int
	best     tune.Result
}

func (w *tuneWatch) done(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.finished += n
}

func (w *tuneWatch) told(e tune.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if e.Err != nil {
		w.v.Notef("%s: %s: %v", e.Board, e.What, e.Err)
	}
	if e.Result == nil {
		return
	}
	w.finished++
	switch r := *e.Result; {
	case r.Failure != nil:
		w.failed++
	case w.best.Time == nil || r.Time.Median < w.best.Time.Median:
		w.best = r
	}
	text := fmt.Sprintf("tune: %d failed", w.failed)
	if w.best.Time != nil {
		text += fmt.Sprintf(", best %s %s", w.best.ID, seconds(w.best.Time.Median))
	}
	w.v.Update(text, w.finished, w.total)
}

// printTuned prints what is known of the candidates, by kind of board and the fastest first.
func (v *invocation) printTuned(dir string, names, kinds []string, results []tune.Result) error {
	asked := map[string]bool{}
	for _, name := range names {
		for _, kind := range kinds {
			asked[candidateID(name, kind, kinds)] = true
		}
	}
	results = slices.DeleteFunc(results, func(r tune.Result) bool { return !asked[r.ID] })
	for _, ranking := range tune.Rank(results) {
		v.Printf("%s:", ranking.Of)
		for _, r := range ranking.Results {
			cut := ""
			if r.Cut {
				cut = ", one call"
			}
			v.Printf("%-32s %12s  %.2f×%s", r.ID, seconds(r.Time.Median), ranking.SpeedUp(r.Time), cut)
			v.JSONLine(fields{
				"status": "done", "id": r.ID, "board": r.Kind, "place": r.Board, "median_s": r.Time.Median, "min_s": r.Time.Min,
				"max_s": r.Time.Max, "bytes": r.Bytes, "cut": r.Cut,
			})
		}
	}
	failed := 0
	for _, r := range results {
		if r.Failure == nil {
			continue
		}
		failed++
		v.Printf("%-32s %s: %s", r.ID, r.Failure.Class, r.Failure.Message)
		v.JSONLine(fields{
			"status": "failed", "id": r.ID, "board": r.Kind, "place": r.Board, "class": r.Failure.Class,
			"blame": r.Failure.Blame,
			"error": r.Failure.Message,
		})
	}
	v.Printf("tune: %d candidates, %d failed; %s has all of it", len(results), failed, dir)
	return nil
}
