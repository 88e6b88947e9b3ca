// Package spdx reads SPDX licence expressions, as files state them in SPDX-License-Identifier (SPDX specification 2.3,
// annexes D and E). It does not know which licences there are.
package spdx

import (
	"bufio"
	"errors"
	"io"
	"regexp"
	"slices"
	"strings"
)

// head is the number of lines that are searched: a comment's, behind the lines that cmodel puts before TVM's C.
const head = 20

// tag matches a line that begins with a tag, behind the signs of a comment.
var tag = regexp.MustCompile("^[^\\w\"'`]*SPDX-License-Identifier:(.*)$")

// Sidecar is what the name of a file that states the licence of another has behind the other's (REUSE specification
// 3.3).
const Sidecar = ".license"

// Of returns the expression in the first lines of a file, or "" if there is none. Several are joined with AND: each
// applies to some of the file.
func Of(file io.Reader) (string, error) {
	var all []string
	lines := bufio.NewScanner(file)
	for n := 0; n < head && lines.Scan(); n++ {
		if m := tag.FindStringSubmatch(lines.Text()); m != nil {
			licence := m[1]
			for _, end := range []string{"*/", "-->"} {
				licence = strings.TrimSuffix(strings.TrimSpace(licence), end)
			}
			licence = strings.TrimSpace(licence)
			if !slices.ContainsFunc(all, func(l string) bool { return strings.EqualFold(l, licence) }) {
				all = append(all, licence)
			}
		}
	}
	if err := lines.Err(); err != nil && !errors.Is(err, bufio.ErrTooLong) { // a line of that length is data
		return "", err
	}
	return and(all), nil
}

// and joins expressions, each in parentheses that has an operator.
func and(all []string) string {
	for i, licence := range all {
		if len(all) > 1 && strings.Contains(licence, " ") {
			all[i] = "(" + licence + ")"
		}
	}
	return strings.Join(all, " AND ")
}

// NoAssertion is the licence of files that name none (SPDX specification 2.3, 7.13).
const NoAssertion = "NOASSERTION"

// words matches an expression's words: identifiers, operators, and parentheses.
var words = regexp.MustCompile(`^(?:[A-Za-z0-9.:+-]+|[() ])+$`)

// IsExpression reports whether a licence can be an SPDX expression: other texts and NoAssertion cannot.
func IsExpression(licence string) bool {
	if licence == NoAssertion || !words.MatchString(licence) {
		return false
	}
	operand, open := true, 0 // an operand is next
	for _, word := range strings.Fields(strings.NewReplacer("(", " ( ", ")", " ) ").Replace(licence)) {
		switch {
		case word == "(" && operand:
			open++
		case word == ")" && !operand && open > 0:
			open--
		case isOperator(word) && !operand, !isOperator(word) && word != "(" && word != ")" && operand:
			operand = !operand
		default:
			return false
		}
	}
	return !operand && open == 0
}

func isOperator(word string) bool { return word == "AND" || word == "OR" || word == "WITH" }

// IDs returns the identifiers of licences and exceptions in an expression, without a "+" behind them; nil of a text
// that is none.
func IDs(expression string) (ids []string) {
	if !IsExpression(expression) {
		return nil
	}
	for _, word := range strings.FieldsFunc(expression, func(c rune) bool { return c == ' ' || c == '(' || c == ')' }) {
		if id := strings.TrimSuffix(word, "+"); !isOperator(word) && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids
}
