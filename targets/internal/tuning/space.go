// This file searches the fastest configuration of a C kernel.

package tuning

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/command"
	"github.com/boardsmith/boardsmith/internal/files/atomicfolder"
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

	// Rather now than after the search.
	if err := t.checkBest(); err != nil {
		return err
	}

	run, err := t.open(ctx, s.trials)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, run.Close()) }()

	results, err := t.measureSpace(ctx, run, s)
	if err != nil {
		return err
	}

	// As a page does, the table shows all results of the folder: with those of this search alone, a speed-up would be over
	// another baseline there.
	shown, err := run.Results()
	if err != nil {
		return err
	}
	if err := t.printResults(slices.Concat(shown, notStored(results))); err != nil {
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
	best, err := run.Fastest(results)
	if err != nil {
		return err
	}
	return cmp.Or(t.printBest(ctx, s.space, best), incomplete)
}

// measureSpace measures configurations, and returns their results.
func (t *Job) measureSpace(ctx context.Context, run *tune.Run, s spaceSearch) (results []tune.Result, err error) {
	// Results of another version of the kernel or its space are no results of this search.
	isCurrent := search.IsCurrent(s.space)
	if err := run.LeaveOut(func(c tune.Candidate) bool { return !isCurrent(c) }); err != nil {
		return nil, err
	}

	propose := proposers[t.Proposer](s.space, t.Seed)

	for trial, err := range search.Measure(ctx, run, s.space, propose, s.trials) {
		if err != nil {
			return nil, t.stopped(ctx, err, t.view.finishedIDs())
		}

		r := trial.Result
		t.view.addResult(r)
		t.resultLine(r)
		results = append(results, r)
	}

	return results, nil
}

// bestFolder returns the folder of the fastest configuration, which the run owns.
func (t *Job) bestFolder() string { return filepath.Join(t.dir, "best") }

// checkBest returns an error if the folder of the fastest configuration has files that no run has written.
func (t *Job) checkBest() error {
	listed, err := atomicfolder.Listed(t.bestFolder())
	if err != nil {
		return err
	}

	changed, err := atomicfolder.Changed(t.bestFolder(), listed)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil || changed == "":
		return err
	}
	return failure.New(failure.Config, "move it elsewhere, or choose another OUTPUT",
		"%s has %s, which is not as a run has written it", t.bestFolder(), changed)
}

// printBest prints the fastest configuration and writes it into the run's folder.
func (t *Job) printBest(ctx context.Context, s *space.Space, best tune.Result) error {
	c, ok := s.Config(best.Record)
	if !ok {
		return failure.Errorf(failure.Internal, "the result of %s has no configuration", best.ID)
	}

	config, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return err
	}

	plain, doubt := s.Plain()
	files := bestFiles(s, c, append(plain, mlf.File{Name: configFile, Data: append(config, '\n')}))
	if err := atomicfolder.Write(ctx, t.bestFolder(), append(files, atomicfolder.Sums(files)), t.checkBest); err != nil {
		return err
	}

	t.Printf("tune: the fastest is %v, %s; %s has its C and its configuration", c, cost(best), t.bestFolder())
	if doubt != nil {
		t.Notef("note: %s: %v", t.bestFolder(), doubt)
	}
	if plain != nil {
		typed := "MODEL=" + command.Quote(filepath.Join(t.bestFolder(), "model.json"))
		_, flags := bestMacros(c)
		option := "operator_flags=" + strings.Join(flags, ",")
		_, err := boards.ParseOptions([]string{option})
		switch {
		case len(flags) > 0 && err != nil:
			typed += ", compiled with " + strings.Join(flags, " ") // no project has an option for these
		case len(flags) > 0:
			typed += " OPTIONS=" + command.Quote(option)
		}
		t.Printf("tune: as a model in plain C it is %s", typed)
	}

	t.JSONLine(jsonlines.TunedSpace{
		Best: config, Flags: c.Flags(), Median: best.Time.Median, Folder: t.bestFolder(),
	})
	return nil
}

// configFile has the values of the knobs, as space.Config.MarshalJSON writes them.
const configFile = "config.json"

// bestFiles returns the kernel's files with the configuration's macros defined in them, and others as they are.
func bestFiles(s *space.Space, c space.Config, others []mlf.File) (files []atomicfolder.File) {
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
		files = append(files, atomicfolder.File(f))
	}
	return files
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
