// Package spdx reads and joins SPDX licence expressions, as files state them in SPDX-License-Identifier
// (SPDX specification 2.3, annexes D and E). It does not check them.
package spdx

import (
	"bufio"
	"errors"
	"io"
	"slices"
	"strings"
)

// head is the number of lines that are searched: a comment's, behind the lines that cmodel puts before TVM's C.
const head = 20

// Of returns the expression in the first lines of a file, or "" if there is none.
func Of(file io.Reader) (string, error) {
	lines := bufio.NewScanner(file)
	for n := 0; n < head && lines.Scan(); n++ {
		if _, after, ok := strings.Cut(lines.Text(), "SPDX-License-Identifier:"); ok {
			return strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(after), "*/")), nil
		}
	}
	if err := lines.Err(); err != nil && !errors.Is(err, bufio.ErrTooLong) { // a line of that length is data
		return "", err
	}
	return "", nil
}

// A Set collects expressions. The zero Set is empty.
type Set struct{ all []string }

// Add adds an expression, unless it is "" or in the set.
func (s *Set) Add(expression string) {
	if expression != "" && !slices.Contains(s.all, expression) {
		s.all = append(s.all, expression)
	}
}

// And returns the expressions, sorted and joined by AND, which binds tighter than OR; "" for none.
func (s *Set) And() string {
	slices.Sort(s.all)
	if len(s.all) == 1 {
		return s.all[0]
	}
	var parts []string
	for _, e := range s.all {
		if strings.Contains(e, " ") {
			e = "(" + e + ")"
		}
		parts = append(parts, e)
	}
	return strings.Join(parts, " AND ")
}
