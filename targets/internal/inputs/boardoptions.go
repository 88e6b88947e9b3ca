// This file reads options of single boards.

package inputs

import (
	"slices"
	"strings"

	"github.com/boardsmith/boardsmith/boards"
)

// ParseBoardOptions parses words as boards.ParseOptions does. A word may also be BOARD:name=value, which is for that
// board alone, in place of an equal option without a board. The result has the options of each board that is named;
// those of all others are under "". Errors: those of boards.ParseOptions.
func ParseBoardOptions(words []string) (map[string]boards.Options, error) {
	of := map[string][]string{"": nil}
	for _, w := range words {
		board, option := boardOfOption(w)
		of[board] = append(of[board], option)
	}

	all := map[string]boards.Options{}
	for board, own := range of {
		for _, w := range of[""] {
			name, _, _ := strings.Cut(w, "=")
			if board != "" && !slices.ContainsFunc(own, func(w string) bool { return strings.HasPrefix(w, name+"=") }) {
				own = append(own, w)
			}
		}

		o, err := boards.ParseOptions(own)
		if err != nil {
			return nil, err
		}
		all[board] = o
	}

	return all, nil
}

// boardOfOption splits a word into the board that it is for alone, or "", and name=value.
func boardOfOption(word string) (board, option string) {
	// Only before the equal sign: a value may contain a colon.
	name, _, _ := strings.Cut(word, "=")
	at := strings.LastIndex(name, ":")
	return name[:max(at, 0)], word[at+1:]
}

// isOption reports whether a word sets the option of that name.
func isOption(word, name string) bool {
	_, option := boardOfOption(word)
	return strings.HasPrefix(option, name+"=")
}
