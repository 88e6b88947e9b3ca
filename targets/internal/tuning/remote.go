// This file reads which boards of other computers a run uses.

package tuning

import (
	"strings"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/boardfile"
	"github.com/boardsmith/boardsmith/tune"
)

// keyOf returns the key of a board at a tracker if the user names none.
func keyOf(board string) string {
	return strings.NewReplacer(":", "-", " ", "-").Replace(boardfile.FileName(board))
}

// readRemotes reads the boards at TRACKER: those of KEY, of the kinds in BOARD.
func (t *Job) readRemotes() error {
	if t.Tracker == "" {
		for _, name := range []string{"KEY", "PRIORITY"} {
			if text := t.Env(name); text != "" {
				return failure.New(failure.Config, "set TRACKER to HOST:PORT of TVM's tracker", "%s=%s has no effect without "+
					"TRACKER", name, text)
			}
		}
		return nil
	}

	if _, err := trackerHost(t.Tracker); err != nil {
		return err
	}

	keys := strings.Split(t.Key, ",")
	switch {
	case t.Key == "":
		keys = nil
		for _, word := range t.boards {
			keys = append(keys, keyOf(word))
		}
	// Without BOARD, the keys are the boards' names.
	case t.In.NamedBoard == "":
		t.boards = keys
		t.In.Board = t.Key
	// One board and several keys: several devices of one kind.
	case len(t.boards) == 1:
		for range keys[1:] {
			t.boards = append(t.boards, t.boards[0])
		}
	}

	if len(keys) != len(t.boards) {
		return failure.New(failure.Config, "separate the keys by commas, in the order of BOARD",
			"KEY has %d keys for %d boards", len(keys), len(t.boards))
	}

	for i, word := range t.boards {
		if strings.Contains(word, "=") {
			return failure.New(failure.Config, "give the device a KEY of its own where it is served",
				"BOARD=%s: the tracker chooses the device", word)
		}
		t.remotes = append(t.remotes, tune.Remote{Tracker: t.Tracker, Key: keys[i], Board: word, Priority: t.Priority})
	}

	return nil
}
