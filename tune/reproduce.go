// This file measures a candidate of an earlier run again.

package tune

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/files/scratch"
)

const settingsFile = "run.json"

// Settings are what decides the times of a run, in its folder.
type settings struct {
	Template  string                    `json:"template,omitempty"`
	Libraries []string                  `json:"libraries,omitempty"`
	Boards    map[string]string         `json:"boards,omitempty"` // paths of board files, by the board's name
	Memory    map[string]boards.Options `json:"memory,omitempty"`
	Samples   int                       `json:"samples"`
	MinSample time.Duration             `json:"min_sample_ns"`

	CallTimeout time.Duration `json:"call_timeout_ns"`
}

// keepSettings writes the settings of a run without results. One that goes on has the same memory, so that times can be
// compared; the longest of its limits for a call is kept, with which every candidate can be measured again.
func (s *store) keepSettings(o Options, files map[string]string) error {
	then, err := readSettings(s.dir)
	now := settings{o.Template, o.Libraries, files, o.Memory, o.Samples, o.MinSample, o.CallTimeout}
	all := map[string]string{}
	maps.Copy(all, then.Boards)
	maps.Copy(all, files)
	switch {
	case s.began == 0, errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	case then.Template != o.Template:
		return failure.New(failure.Config, "choose another folder", "the run in %s has template %q, not %q", s.dir,
			then.Template, o.Template)
	case !maps.Equal(then.Memory, o.Memory):
		return failure.New(failure.Config, "choose another folder, or the same options",
			"the run in %s has the options %s, not %s", s.dir, memoryText(then.Memory), memoryText(o.Memory))
	case !slices.Equal(then.Libraries, o.Libraries):
		return failure.New(failure.Config, "choose another folder, or the same libraries",
			"the run in %s has the libraries %q, not %q", s.dir, then.Libraries, o.Libraries)
	case o.CallTimeout <= then.CallTimeout && maps.Equal(all, then.Boards):
		return nil
	default:
		now = then
		now.Boards, now.CallTimeout = all, max(o.CallTimeout, then.CallTimeout)
	}
	text, err := json.Marshal(now)
	if err != nil {
		return err
	}
	return writeWhole(filepath.Join(s.dir, settingsFile), append(text, '\n'), 0o644)
}

// boardFiles are the absolute paths of the board files that words of OpenRun name, by the board's name.
func boardFiles(words, path []string) map[string]string {
	files := map[string]string{}
	for _, word := range words {
		name, _, _ := strings.Cut(word, "=")
		if file := boards.Absolute(name, path); file != name || filepath.IsAbs(name) {
			files[boards.NameOf(name, path)] = file
		}
	}
	return files
}

// memoryText is the options of a run's boards as OPTIONS has them.
func memoryText(memory map[string]boards.Options) string {
	var words []string
	for _, name := range slices.Sorted(maps.Keys(memory)) {
		for _, w := range memory[name].Words() {
			if name != "" {
				w = name + ":" + w
			}
			words = append(words, w)
		}
	}
	return fmt.Sprintf("%q", strings.Join(words, " "))
}

// memoryOf is the options of one kind of board, for a run of that kind alone.
func (s settings) memoryOf(kind string) map[string]boards.Options {
	m, own := s.Memory[kind]
	if !own {
		m = s.Memory[""]
	}
	if m == (boards.Options{}) {
		return nil
	}
	return map[string]boards.Options{"": m}
}

func readSettings(dir string) (then settings, err error) {
	text, err := os.ReadFile(filepath.Join(dir, settingsFile))
	if err != nil {
		return then, err
	}
	if err := json.Unmarshal(text, &then); err != nil {
		return then, failure.Errorf(failure.Config, "%s: %w", filepath.Join(dir, settingsFile), err)
	}
	return then, nil
}

// Reproduce measures a candidate of the run in dir once more, on a board of the same kind, with the run's settings
// where o has none; dir's own results stay as they are. It returns the result of then and of now. A result of Confirm
// is measured in flash again. board is as a word of OpenRun's; "" is the kind, from the board file that the run had.
// Errors: those of OpenRun and Measure; of class config if the run has no such candidate, or board is of another kind.
func Reproduce(ctx context.Context, dir, id string, desk *device.Desk, board string, o Options) (was, is Result,
	err error,
) {
	all, err := ReadResults(dir)
	if err != nil {
		return was, is, err
	}
	i := slices.IndexFunc(all, func(r Result) bool { return r.ID == id })
	if i < 0 {
		return was, is, failure.New(failure.Config, "choose the id of a result", "%s: no result %s", dir, id)
	}
	was = all[i]
	content := strings.TrimSuffix(was.Content, inFlash)
	c, err := readCandidate(dir, id, func(l *candidateLine) bool {
		return l.Content == content && (content != "" || l.ID == cmp.Or(was.Of, id))
	})
	if err != nil {
		return was, is, err
	}
	then, err := readSettings(dir)
	if err != nil {
		return was, is, err
	}
	if !was.Cut && len(was.Samples) > 0 {
		then.Samples = len(was.Samples)
	}
	if len(o.Libraries) == 0 {
		o.Libraries = then.Libraries
	}
	if len(o.Memory) == 0 {
		o.Memory = then.memoryOf(was.Kind)
	}
	o.CallTimeout, o.Template = cmp.Or(o.CallTimeout, then.CallTimeout), cmp.Or(o.Template, then.Template)
	o.Samples, o.MinSample = cmp.Or(o.Samples, then.Samples), cmp.Or(o.MinSample, then.MinSample)
	own, err := scratch.Make("boardsmith-reproduce")
	if err != nil {
		return was, is, err
	}
	defer func() { err = errors.Join(err, own.Remove()) }()
	board = cmp.Or(board, then.Boards[was.Kind], was.Kind)
	r, err := OpenRun(ctx, own.Dir, desk, []string{board}, o)
	if err != nil {
		return was, is, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	if kinds := r.Kinds(); kinds[0] != was.Kind {
		return was, is, failure.Errorf(failure.Config, "%s was measured on board %s, not on %s", id, was.Kind,
			strings.Join(kinds, ", "))
	}
	c.ID = cmp.Or(was.Of, id)
	if is, err = r.Measure(ctx, c); err != nil || was.Of == "" {
		return was, is, err
	}
	confirmed, err := r.Confirm(ctx, 1)
	if err == nil && len(confirmed) == 0 {
		why := "it came into firmware"
		switch {
		case is.Failure != nil:
			why = is.Failure.Message
		case is.Disturbed:
			why = "every sample was interrupted"
		}
		err = failure.Errorf(failure.Config, "%s has no time in RAM now that could be confirmed: %s", was.Of, why)
	}
	if err != nil {
		return was, is, err
	}
	return was, confirmed[0], nil
}
