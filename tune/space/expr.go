// This file parses and evaluates constraints: conditions on the numbers of knobs.

package space

import (
	"fmt"
	"math"
	"slices"
	"strconv"
)

// maxConstraintBytes limits a constraint and with it the depth of its parentheses.
const maxConstraintBytes = 4096

// A span is the range of numbers from lo to hi that an expression may have. A condition has 0 (false), 1 (true) or
// both. The span is empty if the expression has no value, because of a division by zero or an overflow.
type span struct{ lo, hi int64 }

var (
	noValue = span{1, 0}
	either  = span{0, 1}
)

func point(v int64) span { return span{v, v} }

func truth(v bool) span {
	if v {
		return point(1)
	}
	return point(0)
}

func (s span) empty() bool   { return s.lo > s.hi }
func (s span) isPoint() bool { return s.lo == s.hi }

// A node is an expression: a number, a knob, or an operator with its operands.
type node struct {
	op        string // "number", "knob", "!" (of x), or a binary operator
	x, y      *node
	number    int64
	knob      int
	condition bool // not a number
}

// eval returns the values that the expression may have if each knob has any number of its span. If each span is a
// point, so is the result, or it is empty. Otherwise it contains all possible values, and perhaps others.
func (n *node) eval(knobs []span) span {
	switch n.op {
	case "number":
		return point(n.number)
	case "knob":
		return knobs[n.knob]
	case "&&", "||":
		return n.logic(knobs)
	}
	x := n.x.eval(knobs)
	if n.op == "!" {
		return not(x)
	}
	y := n.y.eval(knobs)
	if x.empty() || y.empty() {
		return noValue
	}
	return operators[n.op](x, y)
}

// logic evaluates && and ||. As in C, it evaluates the right side only if the left one does not determine the result.
func (n *node) logic(knobs []span) span {
	absorbing := truth(n.op == "||")
	x := n.x.eval(knobs)
	if x.empty() || x == absorbing {
		return x
	}
	y := n.y.eval(knobs)
	switch {
	case x.isPoint():
		return y
	case y.empty():
		return absorbing
	}
	return hull(y, absorbing)
}

func not(x span) span {
	if x.empty() {
		return noValue
	}
	return span{1 - x.hi, 1 - x.lo}
}

func hull(x, y span) span { return span{min(x.lo, y.lo), max(x.hi, y.hi)} }

// operators are the binary operators on numbers. Their operands are not empty.
var operators = map[string]func(x, y span) span{
	"+":  func(x, y span) span { return corners(x, y, add) },
	"-":  func(x, y span) span { return corners(x, y, subtract) },
	"*":  func(x, y span) span { return corners(x, y, multiply) },
	"/":  divide,
	"%":  remainder,
	"<":  less,
	">":  func(x, y span) span { return less(y, x) },
	"<=": func(x, y span) span { return not(less(y, x)) },
	">=": func(x, y span) span { return not(less(x, y)) },
	"==": equal,
	"!=": func(x, y span) span { return not(equal(x, y)) },
}

// corners evaluates an operator that is monotone in each operand at the ends of both spans. f returns false and the
// nearest number if its result is not an int64.
func corners(x, y span, f func(a, b int64) (int64, bool)) span {
	first, ok := f(x.lo, y.lo)
	if x.isPoint() && y.isPoint() {
		if !ok {
			return noValue
		}
		return point(first)
	}
	result := point(first)
	for _, c := range [][2]int64{{x.lo, y.hi}, {x.hi, y.lo}, {x.hi, y.hi}} {
		v, _ := f(c[0], c[1])
		result = hull(result, point(v))
	}
	return result
}

func add(a, b int64) (int64, bool) {
	switch {
	case b > 0 && a > math.MaxInt64-b:
		return math.MaxInt64, false
	case b < 0 && a < math.MinInt64-b:
		return math.MinInt64, false
	}
	return a + b, true
}

func subtract(a, b int64) (int64, bool) {
	switch {
	case b < 0 && a > math.MaxInt64+b:
		return math.MaxInt64, false
	case b > 0 && a < math.MinInt64+b:
		return math.MinInt64, false
	}
	return a - b, true
}

func multiply(a, b int64) (int64, bool) {
	p := a * b
	switch {
	case a == 0 || (p/a == b && !(a == -1 && b == math.MinInt64)):
		return p, true
	case (a < 0) == (b < 0):
		return math.MaxInt64, false
	}
	return math.MinInt64, false
}

// divide truncates towards zero. It omits zero from y: the quotient is monotone on each side of zero.
func divide(x, y span) span {
	all := noValue
	for _, part := range []span{{y.lo, min(y.hi, -1)}, {max(y.lo, 1), y.hi}} {
		switch {
		case part.empty():
		case all.empty():
			all = corners(x, part, quotient)
		default:
			all = hull(all, corners(x, part, quotient))
		}
	}
	return all
}

func quotient(a, b int64) (int64, bool) {
	if a == math.MinInt64 && b == -1 {
		return math.MaxInt64, false
	}
	return a / b, true
}

// remainder returns the remainders of divide: each has the sign of x, or is zero.
func remainder(x, y span) span {
	switch {
	case y == point(0):
		return noValue
	case x.isPoint() && y.isPoint():
		return point(x.lo % y.lo)
	}
	limit := max(-(y.lo + 1), y.hi-1) // the largest |y| less one, without overflow
	return span{max(min(x.lo, 0), -limit), min(max(x.hi, 0), limit)}
}

func less(x, y span) span {
	switch {
	case x.hi < y.lo:
		return point(1)
	case x.lo >= y.hi:
		return point(0)
	}
	return either
}

func equal(x, y span) span {
	switch {
	case x.hi < y.lo || y.hi < x.lo:
		return point(0)
	case x.isPoint() && y.isPoint():
		return point(1)
	}
	return either
}

// levels are the binary operators in order of precedence, lowest first, as in C.
var levels = [][]string{{"||"}, {"&&"}, {"==", "!=", "<", "<=", ">", ">="}, {"+", "-"}, {"*", "/", "%"}}

// parseCondition parses a constraint. knob returns the index of a knob with numbers.
func parseCondition(text string, knob func(name string) (int, error)) (*node, error) {
	if len(text) > maxConstraintBytes {
		return nil, fmt.Errorf("a constraint of %d bytes; at most %d are supported", len(text), maxConstraintBytes)
	}
	p := &parser{text: text, knob: knob}
	p.next()
	n := p.binary(0)
	if p.token != "" {
		p.fail("unexpected %q", p.token)
	}
	if !n.condition {
		p.failAt(0, "a number instead of a condition")
	}
	if p.err != nil {
		return nil, fmt.Errorf("constraint %q: %w", text, p.err)
	}
	return n, nil
}

// A parser parses one constraint. After an error it is at the end of the text.
type parser struct {
	text  string
	knob  func(name string) (int, error)
	token string // current one; "" at the end
	start int    // of token
	end   int    // of token
	err   error  // first one
}

func (p *parser) fail(format string, args ...any) { p.failAt(p.start, format, args...) }

func (p *parser) failAt(offset int, format string, args ...any) {
	if p.err == nil {
		p.err = fmt.Errorf("at byte %d: %w", offset+1, fmt.Errorf(format, args...))
	}
	p.token, p.end = "", len(p.text)
}

// next advances to the next token and returns the previous one.
func (p *parser) next() string {
	previous := p.token
	for p.end < len(p.text) && (p.text[p.end] == ' ' || p.text[p.end] == '\t') {
		p.end++
	}
	p.start = p.end
	for p.end < len(p.text) && isWord(p.text[p.end]) {
		p.end++
	}
	rest := p.text[p.start:]
	switch {
	case rest == "" || p.end > p.start:
	case len(rest) > 1 && slices.Contains([]string{"||", "&&", "==", "!=", "<=", ">="}, rest[:2]):
		p.end += 2
	default:
		p.end++
	}
	p.token = p.text[p.start:p.end]
	return previous
}

func isWord(c byte) bool {
	return c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// binary parses operators of a level and of higher ones.
func (p *parser) binary(level int) *node {
	if level == len(levels) {
		return p.unary()
	}
	x := p.binary(level + 1)
	for slices.Contains(levels[level], p.token) {
		start := p.start
		op := p.next()
		y := p.binary(level + 1)
		if logic := level < 2; x.condition != logic || y.condition != logic {
			p.failAt(start, "%s needs a %s on both sides", op, map[bool]string{true: "condition", false: "number"}[logic])
		}
		x = &node{op: op, x: x, y: y, condition: level < 3}
	}
	return x
}

func (p *parser) unary() *node {
	start := p.start
	switch p.token {
	case "!":
		p.next()
		x := p.unary()
		if !x.condition {
			p.failAt(start, "! needs a condition")
		}
		return &node{op: "!", x: x, condition: true}
	case "-":
		p.next()
		x := p.unary()
		if x.condition {
			p.failAt(start, "- needs a number")
		}
		return &node{op: "-", x: &node{op: "number"}, y: x}
	}
	return p.primary()
}

func (p *parser) primary() *node {
	switch {
	case p.token == "":
		p.fail("expected a number, a knob or a parenthesis")
	case p.token == "(":
		p.next()
		n := p.binary(0)
		if p.token != ")" {
			p.fail("expected a closing parenthesis")
		}
		p.next()
		return n
	case p.token[0] >= '0' && p.token[0] <= '9':
		return p.literal()
	case isWord(p.token[0]):
		k, err := p.knob(p.token)
		if err != nil {
			p.fail("%w", err)
		}
		p.next()
		return &node{op: "knob", knob: k}
	default:
		p.fail("unexpected %q", p.token)
	}
	return &node{op: "number"}
}

func (p *parser) literal() *node {
	v, err := strconv.ParseInt(p.token, 10, 64)
	switch {
	case err != nil:
		p.fail("%s is not a decimal number of 64 bits", p.token)
	case len(p.token) > 1 && p.token[0] == '0':
		p.fail("%s has leading zeros; numbers are decimal", p.token)
	}
	p.next()
	return &node{op: "number", number: v}
}
