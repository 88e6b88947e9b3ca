package tune

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/files/scratch"
	"github.com/boardsmith/boardsmith/tune/internal/record"
)

// Reproduce measures a candidate of the run in dir once more, on a board of the same kind, with the run's settings
// where o has none; dir does not change. id is that of a result, as a table may shorten it: its beginning, or its
// beginning and its end with an ellipsis between. It returns the old and the new result. A result of Run.Confirm is
// measured in flash again. board is as a word of OpenRun's; "" is the kind, from the board file that the run used.
// Errors: those of OpenRun and Measure; of class config if the run has no such candidate on this kind of board, or
// several.
func Reproduce(ctx context.Context, dir, id string, desk *device.Desk, board string, o Options) (before, after Result,
	err error,
) {
	kind := ""
	if board != "" {
		name, _ := splitWord(board)
		kind, _ = boards.Locate(name, o.path())
	}
	x := newIndex()
	if err := record.Read(dir, x.read); err != nil {
		return before, after, err
	}
	if before, err = findReproducible(dir, x.all(), id, kind); err != nil {
		return before, after, err
	}

	c, err := readCandidate(dir, before)
	if err != nil {
		return before, after, err
	}
	old := x.settings
	if old == nil {
		return before, after, failure.New(failure.Config, "choose another run", "%s has no settings", dir)
	}

	folder, err := scratch.Make("boardsmith-reproduce")
	if err != nil {
		return before, after, err
	}
	defer func() { err = errors.Join(err, folder.Remove()) }()

	board = cmp.Or(board, old.Boards[before.Kind], before.Kind)
	r, err := OpenRun(ctx, folder.Dir, desk, []string{board}, old.complete(o, before))
	if err != nil {
		return before, after, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()

	// A candidate in flash is measured in RAM first, then confirmed.
	c.ID = cmp.Or(before.Confirms, before.ID)
	after, err = r.Measure(ctx, c)
	if err == nil && before.Confirms != "" {
		after, err = r.confirmOnly(ctx, after)
	}
	return before, after, err
}

// findReproducible returns the result of all in dir that has an ID, or one that begins and ends as it does, on a kind
// of board; "": on any.
func findReproducible(dir string, all []Result, id, kind string) (Result, error) {
	begin, end, _ := strings.Cut(id, "…")
	named := slices.DeleteFunc(slices.Clone(all), func(r Result) bool { return r.ID != id })
	if len(named) == 0 && begin != "" {
		named = slices.DeleteFunc(all, func(r Result) bool { // tables shorten long ones
			return r.Confirms != "" || !strings.HasPrefix(r.ID, begin) || !strings.HasSuffix(r.ID[len(begin):], end)
		})
	}

	ofKind := slices.DeleteFunc(slices.Clone(named), func(r Result) bool { return kind != "" && r.Kind != kind })
	if len(named) > 0 && len(ofKind) == 0 {
		return Result{}, failure.Errorf(failure.Config, "%s was measured on board %s, not on %s", id, named[0].Kind, kind)
	}
	named = ofKind

	switch {
	case len(named) == 0:
		return Result{}, failure.New(failure.Config, "choose the id of a result", "%s: no result %s", dir, id)
	case len(named) > 1 && named[0].ID == named[1].ID:
		return Result{}, failure.New(failure.Config, "name one of the boards", "%s: %s has results on boards %s and %s", dir,
			named[0].ID, named[0].Kind, named[1].Kind)
	case len(named) > 1:
		return Result{}, failure.New(failure.Config, "give more of the id", "%s: several results begin with %s", dir, id)
	}
	return named[0], nil
}

// complete returns options with the settings in place of zero values, and with as many samples as an earlier result.
func (s *settings) complete(o Options, earlier Result) Options {
	samples := s.Samples
	// a cut result has one sample, however many were to be taken
	if !earlier.Cut && len(earlier.Samples) > 0 {
		samples = len(earlier.Samples)
	}

	if len(o.Libraries) == 0 {
		o.Libraries = s.Libraries
	}
	if len(o.Memory) == 0 {
		o.Memory = s.memoryOf(earlier.Kind)
	}

	o.CallTimeout, o.Template = cmp.Or(o.CallTimeout, s.CallTimeout), cmp.Or(o.Template, s.Template)
	o.Samples, o.MinSample = cmp.Or(o.Samples, samples), cmp.Or(o.MinSample, s.MinSample)
	return o
}

// confirmOnly confirms the only result of a run.
func (r *Run) confirmOnly(ctx context.Context, inRAM Result) (Result, error) {
	confirmed, err := r.Confirm(ctx, 1)
	if err != nil {
		return inRAM, err
	}
	if len(confirmed) > 0 {
		return confirmed[0], nil
	}

	reason := "it came into firmware"
	switch {
	case inRAM.Failure != nil:
		reason = inRAM.Failure.Message
	case inRAM.Disturbed:
		reason = "every sample was interrupted"
	}
	return inRAM, failure.Errorf(failure.Config, "%s has no time in RAM now that could be confirmed: %s", inRAM.ID,
		reason)
}
