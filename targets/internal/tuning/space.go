// This file searches the fastest configuration of a C kernel.

package tuning

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/command"
	"github.com/boardsmith/boardsmith/internal/files/regularfile"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/targets/internal/jsonlines"
	"github.com/boardsmith/boardsmith/tune"
	"github.com/boardsmith/boardsmith/tune/search"
	"github.com/boardsmith/boardsmith/tune/space"
)

// proposers are the values of PROPOSER.
var proposers = map[string]func(s *space.Space, seed uint64) space.Proposer{
	"grid":   func(s *space.Space, _ uint64) space.Proposer { return s.Grid() },
	"random": (*space.Space).Random,
	"evolve": (*space.Space).Evolve,
}

// A spaceSearch is a search of a space.
type spaceSearch struct {
	space  *space.Space
	trials int
}

// readSpaceSearch reads the search from a file and the environment.
func (t *Job) readSpaceSearch(file string) (s spaceSearch, err error) {
	if s.space, err = space.Read(file); err != nil {
		return s, err
	}
	s.trials = t.Trials
	// A small space ends before the trials do.
	if size := s.space.Size(); size.IsInt64() {
		s.trials = int(min(int64(s.trials), size.Int64()))
	}

	return s, t.oneKind()
}

// space searches the space in a file.
func (t *Job) space(ctx context.Context, file string) (err error) {
	s, err := t.readSpaceSearch(file)
	if err != nil {
		return err
	}

	t.folder(strings.TrimSuffix(filepath.Base(file), ".json"))

	if t.DryRun {
		return t.Would("measure at most %d of %v combinations in %s on %s, chosen by %s with seed %d, in %s", s.trials,
			s.space.Size(), file, t.In.Board, t.Proposer, t.Seed, t.dir)
	}

	run, err := t.open(ctx, s.trials)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, run.Close()) }()

	best, results, err := t.measureSpace(ctx, run, s)
	if err != nil {
		return err
	}

	// As a page does, the table shows all results of the folder: with those of this search alone, a speed-up would be over
	// another baseline there.
	shown, err := run.Results()
	if err != nil {
		return err
	}
	if err := t.printResults(append(shown, notStored(results)...)); err != nil {
		return err
	}

	incomplete := unmeasured(results)
	if err := allFailed(results); err != nil {
		return cmp.Or(incomplete, err)
	}

	if len(results) == 0 {
		return failure.New(failure.Config, "its constraints contradict each other", "%s: no configuration satisfies them",
			file)
	}
	return cmp.Or(t.printBest(s.space, best), incomplete)
}

// measureSpace measures configurations, and returns the fastest and all results.
func (t *Job) measureSpace(
	ctx context.Context, run *tune.Run, s spaceSearch,
) (best search.Trial, results []tune.Result, err error) {
	// Results of another version of the kernel or its space are no results of this search.
	isCurrent := search.IsCurrent(s.space)
	if err := run.LeaveOut(func(c tune.Candidate) bool { return !isCurrent(c) }); err != nil {
		return best, nil, err
	}

	propose := proposers[t.Proposer](s.space, t.Seed)

	for trial, err := range search.Measure(ctx, run, s.space, propose, s.trials) {
		if err != nil {
			return best, nil, t.stopped(ctx, err, t.view.finishedIDs())
		}

		r := trial.Result
		t.view.addResult(r)
		t.resultLine(r)
		results = append(results, r)

		if r.Time != nil && (best.Result.Time == nil || r.Time.Median < best.Result.Time.Median) {
			best = trial
		}
	}

	return best, results, nil
}

// printBest prints the fastest configuration and writes it into the run's folder.
func (t *Job) printBest(s *space.Space, best search.Trial) error {
	config, err := json.MarshalIndent(best.Config, "", "  ")
	if err != nil {
		return err
	}

	folder := filepath.Join(t.dir, "best")

	plain, doubt := s.Plain()
	others := append(plain, mlf.File{Name: configFile, Data: append(config, '\n')})
	if err := writeBest(folder, s, best.Config, others); err != nil {
		return err
	}

	t.Printf("tune: the fastest is %v, %s; %s has its C and its configuration", best.Config, cost(best.Result), folder)
	if doubt != nil {
		t.Notef("note: %s: %v", folder, doubt)
	}
	if plain != nil {
		typed := "MODEL=" + command.Quote(filepath.Join(folder, "model.json"))
		if _, flags := bestMacros(best.Config); len(flags) > 0 {
			typed += " OPTIONS=" + command.Quote("operator_flags="+strings.Join(flags, ","))
		}
		t.Printf("tune: as a model in plain C it is %s", typed)
	}

	t.JSONLine(jsonlines.TunedSpace{
		Best: config, Flags: best.Config.Flags(), Median: best.Result.Time.Median, Folder: folder,
	})
	return nil
}

// configFile has the values of the knobs, as space.Config.MarshalJSON writes them.
const configFile = "config.json"

// writeBest writes the kernel's files with the configuration's macros defined in them, and others as they are.
func writeBest(folder string, s *space.Space, c space.Config, others []mlf.File) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}

	macros, flags := bestMacros(c)
	head := fmt.Sprintf("// Compiler flags: %s\n%s\n", cmp.Or(strings.Join(flags, " "), "none"), macros)
	for _, f := range s.Kernel {
		data := f.Data
		if strings.HasSuffix(f.Name, ".c") {
			data = append([]byte(head), data...)
		}
		others = append(others, mlf.File{Name: f.Name, Data: data})
	}

	for _, f := range others {
		if err := regularfile.Write(filepath.Join(folder, f.Name), f.Data, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// bestMacros returns the macros of a configuration as lines of C, and its other flags.
func bestMacros(c space.Config) (macros string, flags []string) {
	for _, f := range c.Flags() {
		name, value, hasValue := strings.Cut(strings.TrimPrefix(f, "-D"), "=")
		switch {
		case !strings.HasPrefix(f, "-D"):
			flags = append(flags, f)
		case hasValue:
			macros += fmt.Sprintf("#define %s %s\n", name, value)
		default:
			macros += fmt.Sprintf("#define %s 1\n", name)
		}
	}
	return macros, flags
}
