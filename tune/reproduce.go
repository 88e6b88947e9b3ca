package tune

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/files/scratch"
)

// Reproduce measures a candidate of the run in dir once more, on a board of the same kind, with the run's settings
// where o has none; dir does not change. id is that of a result, or its beginning, of one in RAM. It returns the old
// and the new result. A result of Run.Confirm is measured in flash again. board is as a word of OpenRun's; "" is the
// kind, from the board file that the run used. Errors: those of OpenRun and Measure; of class config if the run has no
// such candidate, or board is of another kind.
func Reproduce(ctx context.Context, dir, id string, desk *device.Desk, board string, o Options) (before, after Result,
	err error,
) {
	before, c, err := readReproducible(dir, id)
	if err != nil {
		return before, after, err
	}
	old, err := readSettings(dir)
	if err != nil {
		return before, after, err
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
	if kinds := r.Kinds(); kinds[0] != before.Kind {
		return before, after, failure.Errorf(failure.Config, "%s was measured on board %s, not on %s", id, before.Kind,
			strings.Join(kinds, ", "))
	}
	c.ID = cmp.Or(before.Confirms, before.ID)
	after, err = r.Measure(ctx, c)
	if err == nil && before.Confirms != "" {
		after, err = r.confirmOnly(ctx, after)
	}
	return before, after, err
}

// readReproducible returns the result with an ID from the run in dir, and its candidate.
func readReproducible(dir, id string) (Result, Candidate, error) {
	all, err := ReadResults(dir)
	if err != nil {
		return Result{}, Candidate{}, err
	}
	i := slices.IndexFunc(all, func(r Result) bool { return r.ID == id })
	if begin := strings.TrimSuffix(id, "…"); i < 0 && begin != "" { // tables have the beginnings of long ones
		begins := func(r Result) bool { return strings.HasPrefix(r.ID, begin) && r.Confirms == "" }
		i = slices.IndexFunc(all, begins)
		if i >= 0 && slices.ContainsFunc(all, func(r Result) bool { return begins(r) && r.ID != all[i].ID }) {
			return Result{}, Candidate{}, failure.New(failure.Config, "give more of the id", "%s: several results begin with %s",
				dir, id)
		}
	}
	if i < 0 {
		return Result{}, Candidate{}, failure.New(failure.Config, "choose the id of a result", "%s: no result %s", dir, id)
	}
	result, id := all[i], all[i].ID
	content := strings.TrimSuffix(result.Content, flashSuffix)
	c, err := readCandidate(dir, id, func(l *candidateLine) bool {
		return l.Content == content && (content != "" || l.ID == cmp.Or(result.Confirms, id))
	})
	return result, c, err
}

// complete returns options with the settings in place of zero values, and with as many samples as an earlier result.
func (s *settings) complete(o Options, earlier Result) Options {
	samples := s.Samples
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
