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
