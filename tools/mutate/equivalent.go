package main

import (
	_ "embed"
	"fmt"
	"strings"
)

//go:embed equivalent.txt
var equivalentTxt string

// An equivalent is a change that makes no difference to users. It has the line and the one above it in place of a
// number, which changes.
type equivalent struct{ file, above, line, what string }

// equivalents has the reason for each.
var equivalents = parseEquivalents(equivalentTxt)

// parseEquivalents reads entries of five lines, with an empty line between them: file, line above, line, change
// and reason.
func parseEquivalents(text string) map[equivalent]string {
	all := map[equivalent]string{}
	for entry := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
		lines := strings.SplitN(entry, "\n", 5)
		if len(lines) != 5 {
			panic(fmt.Sprintf("equivalent.txt: not five lines: %q", entry))
		}
		all[equivalent{lines[0], lines[1], lines[2], lines[3]}] = strings.ReplaceAll(lines[4], "\n", " ")
	}
	return all
}

// stale returns the entries of these files that match no possible change.
func stale(all []mutant) []equivalent {
	files, possible := map[string]bool{}, map[equivalent]bool{}
	for _, m := range all {
		files[m.file] = true
		possible[m.key()] = true
	}

	var none []equivalent
	for e := range equivalents {
		if files[e.file] && !possible[e] {
			none = append(none, e)
		}
	}
	return none
}

func (m mutant) key() equivalent { return equivalent{m.file, m.above, m.text, m.what} }
