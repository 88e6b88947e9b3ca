// This file stores the settings of a run in its folder.

package tune

import (
	"cmp"
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
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/files/jsonfile"
)

const settingsFile = "run.json"

// settings are the options that determine the times of a run.
type settings struct {
	Template  string                    `json:"template,omitempty"`
	Libraries []string                  `json:"libraries,omitempty"`
	Boards    map[string]string         `json:"boards,omitempty"` // files by the board's name; "" of one found by name
	Memory    map[string]boards.Options `json:"memory,omitempty"`
	Samples   int                       `json:"samples"`
	MinSample time.Duration             `json:"min_sample_ns"`

	CallTimeout time.Duration `json:"call_timeout_ns"`
}

// keepSettings writes the settings of a run. If the folder has results, the template, memory and libraries must be
// equal, so that times can be compared. The longest call timeout is kept, with which every candidate can be measured
// again.
func (s *store) keepSettings(o Options, boardFiles map[string]string) error {
	old, err := readSettings(s.dir)
	current := settings{o.Template, o.Libraries, boardFiles, o.Memory, o.Samples, o.MinSample, o.CallTimeout}
	hasResults := s.start > 0 && !errors.Is(err, fs.ErrNotExist)

	if hasResults {
		if err != nil {
			return err
		}
		if err := cmp.Or(old.checkEqual(s.dir, o), old.checkFiles(s.dir, boardFiles)); err != nil {
			return err
		}

		merged := map[string]string{}
		maps.Copy(merged, old.Boards)
		maps.Copy(merged, boardFiles)

		if o.CallTimeout <= old.CallTimeout && maps.Equal(merged, old.Boards) {
			return nil
		}
		current = old
		current.Boards, current.CallTimeout = merged, max(o.CallTimeout, old.CallTimeout)
	}

	text, err := json.Marshal(current)
	if err != nil {
		return err
	}
	return writeAtomic(filepath.Join(s.dir, settingsFile), append(text, '\n'), 0o644)
}

// checkEqual returns an error for options with which times would not be comparable.
func (s *settings) checkEqual(dir string, o Options) error {
	switch {
	case s.Template != o.Template:
		return failure.New(failure.Config, "choose another folder", "the run in %s has template %q, not %q", dir,
			s.Template, o.Template)
	case !maps.Equal(s.Memory, o.Memory):
		return failure.New(failure.Config, "choose another folder, or the same options",
			"the run in %s has the options %s, not %s", dir, memoryText(s.Memory), memoryText(o.Memory))
	case !slices.Equal(s.Libraries, o.Libraries):
		return failure.New(failure.Config, "choose another folder, or the same libraries",
			"the run in %s has the libraries %q, not %q", dir, s.Libraries, o.Libraries)
	}
	return nil
}

// checkFiles returns an error if a board of the run is now that of another file, while its own is still there.
func (s *settings) checkFiles(dir string, boardFiles map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(boardFiles)) {
		old, known := s.Boards[name]
		now := boardFiles[name]
		if !known || old == now || old != "" && now != "" && isMoved(old, now) {
			continue
		}
		return failure.New(failure.Config, "choose another folder", "the run in %s has board %s of %s, not of %s", dir, name,
			cmp.Or(old, "boardsmith or BOARDSMITH_PATH"), cmp.Or(now, "boardsmith or BOARDSMITH_PATH"))
	}
	return nil
}

// isMoved reports whether a file is the same, or may be: nothing else has its old name.
func isMoved(old, now string) bool {
	before, err := os.Stat(old)
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	is, err := os.Stat(now)
	return err == nil && os.SameFile(before, is)
}

// boardFiles returns the boards that words of OpenRun name: the absolute paths of their files, "" of those that are
// found by their names.
func boardFiles(words, path []string) map[string]string {
	files := map[string]string{}
	for _, word := range words {
		board, _ := splitWord(word)
		name, file := boards.Locate(board, path)
		files[name] = file
	}
	return files
}

// memoryText returns the options of a run's boards in the notation of the variable OPTIONS.
func memoryText(memory map[string]boards.Options) string {
	var words []string
	for _, kind := range slices.Sorted(maps.Keys(memory)) {
		for _, w := range memory[kind].Words() {
			if kind != "" {
				w = kind + ":" + w
			}
			words = append(words, w)
		}
	}
	return fmt.Sprintf("%q", strings.Join(words, " "))
}

// memoryOf returns the options of one kind of board, for a run with boards of this kind only.
func (s *settings) memoryOf(kind string) map[string]boards.Options {
	m, ok := s.Memory[kind]
	if !ok {
		m = s.Memory[""]
	}
	if m == (boards.Options{}) {
		return nil
	}
	return map[string]boards.Options{"": m}
}

func readSettings(dir string) (s settings, err error) {
	text, err := os.ReadFile(filepath.Join(dir, settingsFile))
	if err != nil {
		return s, failure.New(failure.Config, "choose the folder of a run", "%w", err)
	}
	if err := json.Unmarshal(text, &s); err != nil {
		return s, failure.New(failure.Config, "restore the file, or choose another run", "%s: %w",
			filepath.Join(dir, settingsFile), jsonfile.Plain(err))
	}
	return s, nil
}
