// This file measures the operators in CANDIDATES.

package tuning

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/files/abspath"
	"github.com/boardsmith/boardsmith/internal/format"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/ndarray"
	"github.com/boardsmith/boardsmith/targets/internal/inputs"
	"github.com/boardsmith/boardsmith/targets/internal/jsonlines"
	"github.com/boardsmith/boardsmith/tune"
)

// archives are the archives in a folder, each with a candidate.
type archives struct {
	folder       string
	names        []string
	inputs, want []ndarray.Named // of every archive; nil: none
	best         int             // number of candidates to confirm in flash
}

func (t *Job) readArchives(folder string) (a archives, err error) {
	a.folder = folder
	if a.names, err = candidateFiles(folder); err != nil {
		return a, err
	}

	if a.inputs, err = inputs.NamedArrays("INPUT", t.In.Input, t.In.Names); err != nil {
		return a, err
	}

	a.best = t.Confirm
	a.want, err = inputs.NamedArrays("EXPECT", t.Expect, nil)
	return a, err
}

// candidates measures the archives in a folder.
func (t *Job) candidates(ctx context.Context, folder string) (err error) {
	a, err := t.readArchives(folder)
	if err != nil {
		return err
	}

	t.folder(filepath.Base(abspath.Of(folder)))

	if t.DryRun {
		return t.Would("measure %s on %s, in %s", format.Count(len(a.names), "candidate"), t.In.Board, t.dir)
	}

	run, err := t.open(ctx, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, run.Close()) }()

	// The folder may have results of archives that are gone: they must not be among the fastest.
	ids := map[string]bool{}
	for _, name := range a.names {
		ids[candidateName(name)] = true
	}
	if err := run.LeaveOut(func(c tune.Candidate) bool { return !ids[c.ID] }); err != nil {
		return err
	}

	notStored, bad, err := t.measureAll(ctx, run, a)
	if err != nil {
		return err
	}

	results, err := run.Results()
	if err != nil {
		return err
	}

	return t.concludeArchives(a, run.Kinds(), append(results, notStored...), bad)
}

// measureAll measures the archives and confirms the best. It returns the failures that are not in the run's
// results, and the number of archives that could not be read. It leaves out earlier results of these.
func (t *Job) measureAll(
	ctx context.Context, run *tune.Run, a archives,
) (notStored []tune.Result, bad int, err error) {
	kinds := run.Kinds()

	t.view.setTotal(len(a.names) * len(kinds))

	unread := map[string]bool{}
	report := func(name string, err error) {
		bad++
		unread[candidateName(name)] = true
		t.notMeasured(name, kinds, err)
	}

	a.names = slices.DeleteFunc(slices.Clone(a.names), func(name string) bool { // before any is measured
		_, err := a.candidate(name)
		if err != nil {
			report(name, err)
		}
		return err != nil
	})

	for r, err := range run.All(ctx, a.candidates(kinds, report)) {
		if err != nil {
			return notStored, bad, t.stopped(ctx, err, t.view.finishedIDs())
		}
		// A run stores no failure that another attempt may not have.
		if r.Failure != nil && r.Failure.Retry {
			notStored = append(notStored, r)
		}
		t.view.addResult(r)
		t.resultLine(r)
	}

	// Earlier results of these archives are of another content.
	if err := run.LeaveOut(func(c tune.Candidate) bool { return unread[c.ID] }); err != nil {
		return notStored, bad, err
	}

	if a.best == 0 {
		return notStored, bad, nil
	}

	confirmed, err := run.Confirm(ctx, a.best)
	for _, r := range confirmed {
		if r.Failure != nil && r.Failure.Retry {
			notStored = append(notStored, r)
		}
		t.resultLine(r)
	}
	return notStored, bad, err
}

// concludeArchives prints the results of the folder. It returns an error if archives could not be read, and concludes
// from the results on boards of kinds: others are of an earlier command.
func (t *Job) concludeArchives(a archives, kinds []string, done []tune.Result, bad int) error {
	if err := t.printResults(done); err != nil {
		return err
	}

	// The table shows all, but success is that of this command's boards.
	done = slices.DeleteFunc(done, func(r tune.Result) bool { return !slices.Contains(kinds, r.Kind) })

	end := jsonlines.TunedCandidates{Folder: t.dir}
	end.Candidates, end.Failed = counts(done)

	if a.best > 0 {
		end.Correlations = t.printCorrelations(kinds, done)
	}

	if err := cmp.Or(unmeasured(done), allFailed(done)); err != nil {
		return err
	}
	if a.best > 0 {
		if err := noneConfirmed(done); err != nil {
			return err
		}
	}

	if bad > 0 {
		return failure.New(failure.Config, "correct them, or INPUT and EXPECT; the same command measures them then",
			"%s: %d of %d archives not measured", a.folder, bad, len(a.names))
	}

	t.JSONLine(end)
	return nil
}

// printCorrelations prints the correlation of times in RAM and in flash, and returns it for the JSON line.
func (t *Job) printCorrelations(kinds []string, done []tune.Result) []jsonlines.Correlation {
	all := []jsonlines.Correlation{}
	for _, kind := range kinds {
		rho, pairs := tune.Correlation(done, kind)
		if pairs < 2 {
			continue
		}
		t.Printf("tune: %s: %d confirmed in flash, rank correlation of flash and RAM %.2f", kind, pairs, rho)
		all = append(all, jsonlines.Correlation{Board: kind, Pairs: pairs, Rho: rho})
	}
	return all
}

// notMeasured reports an archive that cannot be measured. It stores no result, so that a later command measures the
// corrected archive.
func (t *Job) notMeasured(name string, kinds []string, err error) {
	t.Notef("%s: not measured: %v", name, err)
	for _, kind := range kinds {
		r := tune.Result{
			ID: candidateName(name), Kind: kind,
			Failure: &tune.Failure{Class: failure.Of(err), Blame: tune.BlameCandidate, Message: err.Error()},
		}
		t.view.add(tune.Event{Result: &r})
		t.resultLine(r)
	}
}

// candidateFiles lists the archives in a folder.
func candidateFiles(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, failure.Errorf(failure.Config, "CANDIDATES: %w", err)
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

	// A candidate's name is its key in the run, and two endings may follow it.
	byName := map[string]string{}
	for _, path := range names {
		name := candidateName(path)
		if other, ok := byName[name]; ok {
			return nil, failure.New(failure.Config, "rename or remove one", "CANDIDATES: %s and %s are both candidate %s", other,
				path, name)
		}
		byName[name] = path
	}

	return names, nil
}

// candidate reads an archive.
func (a archives) candidate(path string) (tune.Candidate, error) {
	archive, err := mlf.Open(path)
	if err != nil {
		return tune.Candidate{}, err
	}
	return tune.CandidateOf(candidateName(path), archive, a.inputs, a.want)
}

// candidates returns the candidates of the archives for each kind of board, and reads each archive when it is drawn. It
// calls bad for an archive that cannot be measured.
func (a archives) candidates(kinds []string, bad func(name string, err error)) iter.Seq[tune.Candidate] {
	return func(yield func(tune.Candidate) bool) {
		for _, name := range a.names {
			c, err := a.candidate(name)
			if err != nil {
				bad(name, err)
				continue
			}
			for _, kind := range kinds {
				c.Kind = kind
				if !yield(c) {
					return
				}
			}
		}
	}
}

func candidateName(path string) string {
	return strings.TrimSuffix(strings.TrimSuffix(filepath.Base(path), ".gz"), ".tar")
}
