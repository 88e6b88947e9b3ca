// This file compares the settings of a run with those of its record.

package tune

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
)

// keepSettings writes the settings of a run. If the folder has results, the template, memory and libraries must be
// equal, so that times can be compared. The longest call timeout is kept, with which every candidate can be measured
// again.
func (s *store) keepSettings(o Options, boardFiles map[string]string) error {
	current := settings{o.Template, o.Libraries, boardFiles, o.Memory, o.Samples, o.MinSample, o.CallTimeout}
	if old := s.index.settings; old != nil && s.start > 0 {
		if err := cmp.Or(old.checkEqual(s.dir, o), old.checkFiles(s.dir, boardFiles)); err != nil {
			return err
		}

		current = *old
		current.Boards, current.CallTimeout = map[string]string{}, max(o.CallTimeout, old.CallTimeout)
		maps.Copy(current.Boards, old.Boards)
		maps.Copy(current.Boards, boardFiles)
		if reflect.DeepEqual(current, *old) {
			return nil
		}
	}
	return s.append(resultLine{Settings: &current})
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
