// This file splits C into tokens.

package cmacro

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A Kind is the kind of a token.
type Kind int

// The kinds of tokens.
const (
	Operator Kind = iota // also a bracket, a comma
	Name
	Number // also a character
	String
)

// A Token is a token of C.
type Token struct {
	Kind Kind
	Text string
}

const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_$"

// longOperators have more than one character; a longer one is before its beginning.
var longOperators = []string{
	"<<=", ">>=", "...", "<<", ">>", "<=", ">=", "==", "!=", "&&", "||", "->", "++", "--", "##",
	"+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=",
}

// Tokens splits a text without comments. It returns an error for a string or character that does not end.
func Tokens(text string) (list []Token, err error) {
	for {
		text = strings.TrimLeft(text, " \t\r\n\f\v\\")
		if text == "" {
			return list, nil
		}
		t := Token{Operator, text[:1]}
		switch c := text[0]; {
		case strings.IndexByte(letters, c) >= 0:
			t = Token{Name, spanned(text, letters+"0123456789")}
		case c >= '0' && c <= '9':
			t = Token{Number, spanned(text, letters+"0123456789.")}
		case c == '"' || c == '\'':
			end := quoted(text)
			if end == 0 {
				return nil, fmt.Errorf("%w: a %c that does not end", ErrNotConstant, c)
			}
			t = Token{String, text[:end]}
			if c == '\'' {
				t.Kind = Number
			}
		default:
			if i := slices.IndexFunc(longOperators, func(o string) bool { return strings.HasPrefix(text, o) }); i >= 0 {
				t.Text = longOperators[i]
			}
		}
		list = append(list, t)
		text = text[len(t.Text):]
	}
}

// spanned returns the beginning of text that consists of these characters.
func spanned(text, of string) string {
	return text[:len(text)-len(strings.TrimLeft(text, of))]
}

// quoted returns the length of the string or character at the beginning of text, or 0 if it does not end.
func quoted(text string) int {
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case text[0]:
			return i + 1
		}
	}
	return 0
}

// value computes a number or a character.
func (t Token) value() (uint64, error) {
	if t.Text[0] == '\'' {
		s, err := strconv.Unquote(t.Text)
		if err != nil || len(s) != 1 {
			return 0, ErrNotConstant
		}
		return uint64(s[0]), nil
	}
	return strconv.ParseUint(strings.TrimRight(t.Text, "uUlL"), 0, 64)
}

// typeWords are words of types beside those that end in _t.
var typeWords = []string{
	"volatile", "const", "unsigned", "signed", "int", "char", "short", "long", "void", "struct", "__IO", "__I", "__O",
}

// cast returns the number of tokens of the cast at the beginning of tokens, 0 if there is none. A name in parentheses
// is a type if C or its library has it; a name before an asterisk and the parenthesis is one in any case.
func cast(tokens []Token) int {
	if len(tokens) < 3 || tokens[0].Text != "(" {
		return 0
	}
	isType := true
	for i, t := range tokens[1:] {
		switch {
		case t.Text == ")" && i > 0:
			if isType || tokens[i].Text == "*" {
				return i + 2
			}
			return 0
		case t.Kind == Name:
			isType = isType && (strings.HasSuffix(t.Text, "_t") || slices.Contains(typeWords, t.Text))
		case t.Text == "*" && i > 0:
		default:
			return 0
		}
	}
	return 0
}

// IsAccess reports whether tokens begin with the dereference of a cast, as every access to a register of a fixed
// address does.
func IsAccess(tokens []Token) bool {
	if len(tokens) < 2 || tokens[0].Text != "*" {
		return false
	}
	n := cast(tokens[1:])
	return n > 2 && tokens[n-1].Text == "*"
}
