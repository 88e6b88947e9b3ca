// Package cmacro computes the numbers of bytes that C macros stand for.
//
// It needs no compiler, and reads only what people write for a size: numbers with + - * / % << >> and parentheses.
package cmacro

import (
	"go/constant"
	"go/token"
	"go/types"
	"regexp"
	"strings"
)

var (
	arithmetic = regexp.MustCompile(`^[\da-fA-FxXuUlL()*/%+<>\s-]+$`)
	suffix     = regexp.MustCompile(`\b(0[xX][\da-fA-F]+|\d+)[uUlL]+\b`)

	// C's order of operators as parentheses: Go's shifts bind more tightly.
	ordered = strings.NewReplacer("(", "(((", ")", ")))", "*", ")*(", "/", ")/(", "%", ")%(", "+", "))+((", "-", "))-((",
		"<<", ")))<<(((", ">>", ")))>>(((")
)

// Number computes an expression; ok is false for any other text, and for a number below 0 or above 63 bits.
func Number(text string) (n int64, ok bool) {
	if !arithmetic.MatchString(text) {
		return 0, false
	}
	text = "(((" + ordered.Replace(suffix.ReplaceAllString(text, "$1")) + ")))"
	v, err := types.Eval(token.NewFileSet(), nil, token.NoPos, text)
	if err != nil || v.Value == nil {
		return 0, false
	}
	n, ok = constant.Int64Val(constant.ToInt(v.Value))
	return n, ok && n >= 0
}
