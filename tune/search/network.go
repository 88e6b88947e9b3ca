// This file searches the compiler flags of a network's operators.

package search

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/cachekey"
	"github.com/boardsmith/boardsmith/internal/fit"
	"github.com/boardsmith/boardsmith/internal/tensorlist"
	"github.com/boardsmith/boardsmith/internal/tolerance"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/ndarray"
	"github.com/boardsmith/boardsmith/project"
	"github.com/boardsmith/boardsmith/tune"
	"github.com/boardsmith/boardsmith/tune/internal/cpulock"
)

// A Network is a model whose operators' compiler flags are searched. Spec, with Board and the model, and Inputs must be
// set.
type Network struct {
	Builder *project.Builder // nil: a new one
	Spec    project.Spec     // the search starts with its option OperatorFlags
	Inputs  []ndarray.Named
	// Want has the expected outputs, by name or else in the model's order; nil: they are not compared. In any case the
	// outputs with other flags must have the same bytes as those with the first flags.
	Want    []ndarray.Named
	Trials  int              // at most; 0: 400
	Limit   time.Duration    // of each call on a board; 0: 60 s
	Retry   bool             // measures flags again whose failure an earlier search has stored
	OnEvent func(tune.Event) // called for each event, from any goroutine; may be nil
}

// A NetworkTrial is a choice of flags, with the size and the time of the network.
type NetworkTrial struct {
	Flags  string // value of the option operator_flags
	Flash  int64  // bytes of the region that holds the code; for a process, its code and constants
	RAM    int64  // bytes of all variables, and of the model's part of the arena; for a process, its variables
	Arena  fit.ArenaUse
	Result tune.Result // of one inference
}

// Flags searches flags that make a network faster, and returns all trials in order of finishing, those of earlier
// searches in the same folder first. Each word of places is a place to measure, as in tune.OpenRun, all of one kind:
// processes, or boards that are emulated without a probe, because each trial is a firmware image. The folder has the
// format of a tuning run (tune.ReadResults); finished trials are not measured again.
//
// The search changes one flag at a time. It keeps a change that makes the network faster by at least a thousandth, or
// smaller and at most a thousandth slower, and ends when no single change does. Equal times give equal results on any
// number of places. Errors: those of project, device and executor for the first flags; of class config for a board
// whose flash would be written, and for a folder of another network or compiler.
func Flags(ctx context.Context, dir string, desk *device.Desk, places []string, n Network) ([]NetworkTrial, error) {
	if len(places) == 0 {
		return nil, failure.New(failure.Config, "name at least one board", "a search without boards")
	}
	if ctx.Err() != nil {
		return nil, failure.Stopped(ctx, "search flags")
	}
	n.Trials, n.Limit = cmp.Or(n.Trials, 400), cmp.Or(n.Limit, time.Minute)
	m, err := n.read()
	if err != nil {
		return nil, err
	}
	want, err := tensorlist.Assign("output", m.Outputs, m.Inputs, n.Want)
	if err != nil {
		return nil, err
	}

	st, err := openStore(dir, n.inputsKey())
	if err != nil {
		return nil, err
	}
	s := &networkSearch{
		Network: n, store: st, idle: make(chan *networkPlace, len(places)), files: filesWithLoops(m), want: want,
		seen: map[string]NetworkTrial{},
	}

	// A finished trial is not measured again; with Retry, a failed one is.
	for _, t := range st.earlier {
		if !n.Retry || t.Result.Failure == nil {
			s.note(t)
		}
	}
	if s.Builder == nil {
		s.Builder = &project.Builder{}
	}
	s.Spec = s.Builder.Absolute(s.Spec)

	// Each place has a project of its own, because other flags are built for each at the same time.
	var all []*networkPlace
	for i, word := range places {
		p := &networkPlace{search: s, desk: desk, name: fmt.Sprintf("%s#%d", word, i), dir: st.firmware(i)}
		_, p.which, _ = strings.Cut(word, "=")
		all = append(all, p)
		s.idle <- p
	}

	err = s.climb(ctx)
	for _, p := range all {
		err = errors.Join(err, p.close())
	}
	return s.trials, errors.Join(err, st.record.Close())
}

// inputsKey returns a hash of the inputs.
func (n *Network) inputsKey() string {
	key := cachekey.New("inputs of a network")
	for _, a := range n.Inputs {
		key.Add(a.Name, a.DType.String(), ndarray.ShapeString(a.Shape), string(a.Data))
	}
	return fmt.Sprintf("%x", key.Key())
}

// read opens the archive for all trials, and returns its model.
func (n *Network) read() (*mlf.Model, error) {
	if n.Spec.Archive == nil {
		a, err := mlf.Open(n.Spec.Model)
		if err != nil {
			return nil, err
		}
		n.Spec.Archive, n.Spec.Model = a, ""
	}
	return n.Spec.Archive.Model(n.Spec.ModelName)
}

// Front returns the trials that are faster than all that take less flash. The fastest is first.
func Front(trials []NetworkTrial) []NetworkTrial {
	var front []NetworkTrial
	timed := slices.DeleteFunc(slices.Clone(trials), func(t NetworkTrial) bool { return !t.isTimed() })
	slices.SortStableFunc(timed, func(a, b NetworkTrial) int {
		return cmp.Or(cmp.Compare(a.seconds(), b.seconds()), cmp.Compare(a.Flash, b.Flash))
	})

	// In the order of time, a trial is on the front if it is smaller than all before.
	for _, t := range timed {
		if len(front) == 0 || t.Flash < front[len(front)-1].Flash {
			front = append(front, t)
		}
	}
	return front
}

// isTimed reports whether t has a time that no interrupt disturbed.
func (t NetworkTrial) isTimed() bool { return t.Result.Time != nil && !t.Result.Disturbed }

func (t NetworkTrial) seconds() float64 { return t.Result.Time.Median }

// better reports whether t is faster than the best so far, or smaller and not slower, by the rule of Flags.
func (t NetworkTrial) better(best NetworkTrial) bool {
	const thousandth = 0.001
	if !t.isTimed() {
		return false
	}

	a, b := t.seconds(), best.seconds()
	return a < b*(1-thousandth) || a < b*(1+thousandth) && t.Flash < best.Flash
}

// A networkSearch is a running search.
type networkSearch struct {
	Network
	store *store
	idle  chan *networkPlace // places that are not in use
	gate  cpulock.Gate       // of builds, and of measurements with this computer's clock

	files []string         // the model's C files with loops, if there are several
	want  []*ndarray.Array // expected outputs; nil: not compared
	first []*ndarray.Array // outputs with the first flags

	mu     sync.Mutex
	trials []NetworkTrial
	seen   map[string]NetworkTrial // by flags
}

func (s *networkSearch) note(t NetworkTrial) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen[t.Flags] = t
	s.trials = append(s.trials, t)
}

// window is the number of changes that are tried at once. It does not depend on the number of places, so that the
// result does not either.
const window = 4

func (s *networkSearch) climb(ctx context.Context) error {
	best, err := s.begin(ctx)
	if err != nil {
		return err
	}

	measured := 1
	for improved := true; improved; {
		// A round without an improvement is the last.
		improved = false
		queue := s.changes()
		for len(queue) > 0 && measured < s.Trials {
			n := min(window, len(queue), s.Trials-measured)
			tried := queue[:n]
			queue = queue[n:]

			trials, err := s.try(ctx, listOf(best.Flags), tried)
			if err != nil {
				return err
			}
			measured += n

			// Of several improvements in the window, the fastest is kept.
			kept := -1
			for i, t := range trials {
				if t.better(best) && (kept < 0 || t.seconds() < trials[kept].seconds()) {
					kept = i
				}
			}
			if kept < 0 {
				continue
			}

			for i, t := range trials { // other good changes are tried on top of the kept one
				if i != kept && t.better(best) {
					queue = append([]string{tried[i]}, queue...)
				}
			}

			best, improved = trials[kept], true
		}
	}
	return nil
}

// changes lists the flags to add to the best ones, or to remove from them.
func (s *networkSearch) changes() []string {
	all := slices.Clone(choices)
	for _, file := range s.files {
		for _, c := range choices {
			all = append(all, file+":"+c)
		}
	}
	return all
}

// try measures the flags with one change each, on all places.
func (s *networkSearch) try(ctx context.Context, flags flagList, changes []string) ([]NetworkTrial, error) {
	trials, errs := make([]NetworkTrial, len(changes)), make([]error, len(changes))
	var all sync.WaitGroup
	for i, c := range changes {
		all.Go(func() { trials[i], errs[i] = s.measure(ctx, flags.with(c).String()) })
	}
	all.Wait()
	return trials, errors.Join(errs...)
}

// measure returns the trial of flags. It measures those without one.
func (s *networkSearch) measure(ctx context.Context, flags string) (NetworkTrial, error) {
	s.mu.Lock()
	t, ok := s.seen[flags]
	s.mu.Unlock()
	if ok {
		return t, nil
	}

	t, _, err := s.onPlace(ctx, flags, true)
	if err != nil {
		return t, err
	}
	return t, s.keep(t)
}

// onPlace measures flags on the next idle place. If failures is set, failures that the flags cause are in the trial,
// not in err.
func (s *networkSearch) onPlace(ctx context.Context, flags string, failures bool) (t NetworkTrial,
	outputs []*ndarray.Array, err error,
) {
	queued := time.Now()
	select {
	case p := <-s.idle:
		defer func() { s.idle <- p }()
		t = NetworkTrial{Flags: flags}
		t.Result.ID, t.Result.Wait = cmp.Or(flags, noFlags), time.Since(queued)

		outputs, err = p.measure(ctx, &t, failures)
		// The place may be the cause: once more with the device attached anew.
		if err != nil && ctx.Err() == nil && failures {
			err = p.recover(err)
			if err == nil {
				outputs, err = p.measure(ctx, &t, failures)
			}
		}

		t.Result.Finished = time.Now().UTC()
		return t, outputs, err
	case <-ctx.Done():
		return t, nil, failure.Stopped(ctx, "search flags")
	}
}

// noFlags is the ID of the trial without flags.
const noFlags = "no flags"

func (s *networkSearch) keep(t NetworkTrial) error {
	if err := s.store.add(t); err != nil {
		return err
	}
	s.note(t)
	s.emit(tune.Event{Board: t.Result.Board, Text: "finished " + t.Result.ID, Result: &t.Result})
	return nil
}

func (s *networkSearch) emit(e tune.Event) {
	if s.OnEvent != nil {
		s.OnEvent(e)
	}
}

// begin measures the network with the first flags, even if their trial is finished: it needs the outputs, and the build
// id and the compiler, which must be those of the earlier trials.
func (s *networkSearch) begin(ctx context.Context) (NetworkTrial, error) {
	t, outputs, err := s.onPlace(ctx, listOf(s.Spec.Options.OperatorFlags).String(), false)
	if err != nil {
		return t, err
	}
	if err := s.compareWant(outputs); err != nil {
		return t, err
	}

	s.first = outputs

	if len(s.trials) == 0 {
		return t, s.keep(t)
	}

	// The first trial's outputs are those that all others must have.
	earlier, reason := s.trials[0], ""
	switch {
	case earlier.Flags != t.Flags:
		reason = "began with other flags"
	case earlier.Result.Toolchain != t.Result.Toolchain:
		reason = "was with another compiler, flags or libraries: " + earlier.Result.Toolchain + ", not " + t.Result.Toolchain
	case earlier.Result.Image != t.Result.Image:
		reason = "was of another model or board"
	default:
		return earlier, nil
	}
	return t, failure.New(failure.Config, "choose another folder", "the search in %s %s", s.store.dir, reason)
}

// compareWant compares outputs with the expected ones: floats within 1e-5 of max(1, |expected|), all else exactly.
func (s *networkSearch) compareWant(outputs []*ndarray.Array) error {
	for i, got := range outputs {
		want := s.want[i]
		if want == nil {
			continue
		}
		if got.Len() != want.Len() { // the types are equal
			return failure.Errorf(failure.Config, "output %d is %v %s, not %v %s", i, got.DType,
				ndarray.ShapeString(got.Shape), want.DType, ndarray.ShapeString(want.Shape))
		}

		for k := range got.Len() {
			limit := 0.0
			if want.DType.Code == ndarray.Float {
				limit = 1e-5 * max(1, math.Abs(want.Float(k)))
			}
			if _, ok := tolerance.Compare(got, want, k, limit, 0); !ok {
				return failure.Errorf(failure.WrongAnswer, "output %d: element %d is %v, expected %v", i, k, got.Float(k),
					want.Float(k))
			}
		}
	}
	return nil
}

// loop matches a for or while statement in C.
var loop = regexp.MustCompile(`\b(for|while) ?\(`)

// filesWithLoops lists the model's C files with loops, whose flags matter; nil for fewer than two.
func filesWithLoops(m *mlf.Model) []string {
	var all []string
	for _, f := range m.Sources {
		if strings.HasSuffix(f.Name, ".c") && loop.Match(f.Data) {
			all = append(all, path.Base(f.Name))
		}
	}
	// flags for the only file are flags for all
	if len(all) < 2 {
		return nil
	}
	return all
}
