// Package cmacro computes the numbers that C macros stand for: register addresses, bit masks, interrupt numbers.
//
// It evaluates constant expressions. It expands no macros: a preprocessor does that, or the caller.
package cmacro

import (
	"errors"
	"fmt"
)

// A Value is the number that an expression stands for.
type Value struct {
	Number uint64
	// Access reports that the expression is the object at Number: the address of a register, as in
	// *(volatile uint32_t*)0x40000000U
	Access bool
	// Bits reports that the expression is composed by shifts or complements, as masks are, and addresses are not
	Bits bool
}

// An Evaluator computes expressions. The zero value computes with 32 bits.
type Evaluator struct {
	Width int // bits of arithmetic: 32 or 64; 0 means 32
}

// ErrNotConstant reports an expression whose value is not known before the program runs, or that is no number.
var ErrNotConstant = errors.New("not a constant number")

const (
	maxTokens = 4096 // of one expression; those of registers have fewer than 100
	maxDepth  = 64   // of parentheses and operators
)

// Evaluate computes an expression. Errors wrap ErrNotConstant.
func (e Evaluator) Evaluate(text string) (Value, error) {
	tokens, err := Tokens(text)
	if err != nil {
		return Value{}, err
	}
	v, used, err := e.Prefix(tokens)
	if err == nil && used < len(tokens) {
		err = fmt.Errorf("%w: %q after the expression", ErrNotConstant, tokens[used].Text)
	}
	return v, err
}

// Prefix computes the expression at the beginning of tokens, which ends before a comma, a semicolon, a brace or any
// other token that cannot continue it. used is the number of its tokens.
func (e Evaluator) Prefix(tokens []Token) (v Value, used int, err error) {
	return e.parse(tokens, (*parser).conditional)
}

// Object computes the object at the beginning of tokens: an operand with its prefix operators, such as
// *(volatile uint32_t*)(BASE + 4). What follows does not belong to it, as in *(T*)a + b.
func (e Evaluator) Object(tokens []Token) (v Value, used int, err error) {
	return e.parse(tokens, (*parser).unary)
}

func (e Evaluator) parse(tokens []Token, rule func(*parser) Value) (v Value, used int, err error) {
	p := &parser{Evaluator: e, tokens: tokens}
	v = rule(p)
	return v, p.at, p.err
}

// A parser is a recursive descent over one expression. After an error, it returns at once.
type parser struct {
	Evaluator
	tokens []Token
	at     int
	depth  int
	err    error
}

func (p *parser) fail(format string, args ...any) Value {
	if p.err == nil {
		p.err = fmt.Errorf("%w: %s", ErrNotConstant, fmt.Sprintf(format, args...))
	}
	p.at = len(p.tokens)
	return Value{}
}

func (p *parser) peek() string {
	if p.at < len(p.tokens) {
		return p.tokens[p.at].Text
	}
	return ""
}

// take passes over the token if it is this one.
func (p *parser) take(text string) bool {
	if p.peek() != text {
		return false
	}
	p.at++
	return true
}

// deeper limits the nesting; the caller calls the returned function at its end.
func (p *parser) deeper() func() {
	if p.depth++; p.depth > maxDepth || len(p.tokens) > maxTokens {
		p.fail("too long or too deeply nested")
	}
	return func() { p.depth-- }
}

// number makes a value of the evaluator's width.
func (p *parser) number(n uint64, bits bool) Value {
	if p.Width != 64 {
		n &= 1<<32 - 1
	}
	return Value{Number: n, Bits: bits}
}

func truth(is bool) uint64 {
	if is {
		return 1
	}
	return 0
}

func (p *parser) conditional() Value {
	defer p.deeper()()
	v := p.binary(0)
	if !p.take("?") {
		return v
	}
	yes := p.conditional()
	if !p.take(":") {
		return p.fail("a ? without a colon")
	}
	no := p.conditional()
	if v.Number != 0 {
		return yes
	}
	return no
}

// The levels of C's binary operators, the weakest first.
const (
	logicalOr = iota
	logicalAnd
	bitOr
	bitXor
	bitAnd
	equality
	order
	shift
	sum
	product
)

// operators are C's binary operators.
var operators = map[string]struct {
	level   int
	compute func(a, b uint64) uint64
}{
	"||": {logicalOr, func(a, b uint64) uint64 { return truth(a != 0 || b != 0) }},
	"&&": {logicalAnd, func(a, b uint64) uint64 { return truth(a != 0 && b != 0) }},
	"|":  {bitOr, func(a, b uint64) uint64 { return a | b }},
	"^":  {bitXor, func(a, b uint64) uint64 { return a ^ b }},
	"&":  {bitAnd, func(a, b uint64) uint64 { return a & b }},
	"==": {equality, func(a, b uint64) uint64 { return truth(a == b) }},
	"!=": {equality, func(a, b uint64) uint64 { return truth(a != b) }},
	"<":  {order, func(a, b uint64) uint64 { return truth(a < b) }},
	">":  {order, func(a, b uint64) uint64 { return truth(a > b) }},
	"<=": {order, func(a, b uint64) uint64 { return truth(a <= b) }},
	">=": {order, func(a, b uint64) uint64 { return truth(a >= b) }},
	"<<": {shift, func(a, b uint64) uint64 { return a << b }},
	">>": {shift, func(a, b uint64) uint64 { return a >> b }},
	"+":  {sum, func(a, b uint64) uint64 { return a + b }},
	"-":  {sum, func(a, b uint64) uint64 { return a - b }},
	"*":  {product, func(a, b uint64) uint64 { return a * b }},
	"/":  {product, func(a, b uint64) uint64 { return a / b }},
	"%":  {product, func(a, b uint64) uint64 { return a % b }},
}

// binary parses operands and the operators between them, from a level on.
func (p *parser) binary(level int) Value {
	v := p.unary()
	for p.err == nil {
		name := p.peek()
		op, ok := operators[name]
		if !ok || op.level < level {
			break
		}
		p.at++
		v = p.combine(name, v, p.binary(op.level+1))
	}
	return v
}

// combine computes x op y. What is read from a register is not constant.
func (p *parser) combine(name string, x, y Value) Value {
	op := operators[name]
	switch {
	case x.Access || y.Access:
		return p.fail("a register's content")
	case (name == "/" || name == "%") && y.Number == 0:
		return p.fail("a division by 0")
	}
	isOfBits := op.level == shift || op.level >= bitOr && op.level <= bitAnd && (x.Bits || y.Bits) ||
		op.level == sum && x.Bits && y.Bits
	return p.number(op.compute(x.Number, y.Number), isOfBits)
}

func (p *parser) unary() Value {
	defer p.deeper()()
	switch {
	case p.err != nil:
		return Value{}
	case p.take("~"):
		return p.content(p.unary(), func(n uint64) Value { return p.number(^n, true) })
	case p.take("-"):
		return p.content(p.unary(), func(n uint64) Value { return p.number(-n, false) })
	case p.take("!"):
		return p.content(p.unary(), func(n uint64) Value { return p.number(truth(n == 0), false) })
	case p.take("+"):
		return p.unary()
	case p.take("*"):
		return p.content(p.unary(), func(n uint64) Value { return Value{Number: n, Access: true} })
	case p.take("&"):
		v := p.unary()
		if !v.Access {
			return p.fail("the address of something that is not at a known one")
		}
		return p.number(v.Number, false)
	}
	if end := cast(p.tokens[p.at:]); end > 0 {
		p.at += end
		return p.unary() // the types of registers and addresses are as wide as the arithmetic
	}
	return p.operand()
}

// content applies an operator to a number; that of a register is not known.
func (p *parser) content(v Value, operator func(uint64) Value) Value {
	if v.Access {
		return p.fail("a register's content")
	}
	return operator(v.Number)
}

func (p *parser) operand() Value {
	if p.at == len(p.tokens) {
		return p.fail("nothing")
	}
	t := p.tokens[p.at]
	switch {
	case p.take("("):
		v := p.conditional()
		if !p.take(")") {
			return p.fail("a parenthesis that is not closed")
		}
		return v
	case t.Kind == Number:
		p.at++
		n, err := t.value()
		if err != nil {
			return p.fail("%q", t.Text)
		}
		return p.number(n, false)
	}
	return p.fail("%s", t.Text)
}
