// Package cmacro computes the numbers that C macros stand for: register addresses, bit masks, interrupt numbers.
//
// It evaluates constant expressions. It expands no macros: a preprocessor does that, or the caller's Names.
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

// An Evaluator computes expressions. The zero value computes with 32 bits and without names.
type Evaluator struct {
	Width int // bits of arithmetic: 32 or 64; 0 means 32
	// Portable makes it an error if the value depends on the width or the sign of a type: an operand or a result that is
	// negative or has more than 31 bits, a cast to a type that may not hold its operand. Only masks, such as ~31U, and
	// numbers that stand alone may be larger.
	Portable bool
	// Names returns what an identifier stands for, or a member such as "uart.base"; nil: nothing has a value
	Names func(name string) (Value, error)
	// Calls returns the value of a call of a macro or function with one argument; nil: no call has a value
	Calls func(name string, argument Value) (Value, error)
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
	return e.parse(tokens, func(p *parser) Value { return p.conditional() })
}

// Object computes the object at the beginning of tokens: an operand with its prefix operators, such as
// *(volatile uint32_t*)(BASE + 4). What follows does not belong to it, as in *(T*)a + b.
func (e Evaluator) Object(tokens []Token) (v Value, used int, err error) {
	return e.parse(tokens, func(p *parser) Value { return p.unary() })
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
	if p.peek() != text || p.tokens[p.at].Kind != Operator {
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

const mostPortable = 1<<31 - 1 // what every integer type of 32 bits holds

// checkPortable fails if a value may differ between types.
func (p *parser) checkPortable(values ...Value) {
	for _, v := range values {
		if p.Portable && v.Number > mostPortable {
			p.fail("%#x depends on its type", v.Number)
		}
	}
}

// portable returns a result that is the same for all types.
func (p *parser) portable(v Value) Value {
	p.checkPortable(v)
	return v
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
	p.checkPortable(v)
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

// operators are C's binary operators, the weakest first.
var operators = [][]string{
	{"||"}, {"&&"}, {"|"}, {"^"}, {"&"}, {"==", "!="}, {"<", ">", "<=", ">="}, {"<<", ">>"}, {"+", "-"}, {"*", "/", "%"},
}

// binary parses operators from a level on.
func (p *parser) binary(level int) Value {
	if level == len(operators) {
		return p.unary()
	}
	v := p.binary(level + 1)
	for p.err == nil {
		operator := ""
		for _, op := range operators[level] {
			if p.take(op) {
				operator = op
				break
			}
		}
		if operator == "" {
			break
		}
		v = p.combine(operator, v, p.binary(level+1))
	}
	return v
}

// combine computes x op y. What is read from a register is not constant.
func (p *parser) combine(op string, x, y Value) Value {
	if x.Access || y.Access {
		return p.fail("a register's content")
	}
	if op != "&" {
		p.checkPortable(x, y)
	}
	if p.Portable && (op == "<<" || op == ">>") && y.Number > 31 {
		return p.fail("a shift by %d bits", y.Number)
	}
	return p.portable(p.compute(op, x, y))
}

func (p *parser) compute(op string, x, y Value) Value {
	a, b := x.Number, y.Number
	switch op {
	case "||":
		return p.number(truth(a != 0 || b != 0), false)
	case "&&":
		return p.number(truth(a != 0 && b != 0), false)
	case "|":
		return p.number(a|b, x.Bits || y.Bits)
	case "^":
		return p.number(a^b, x.Bits || y.Bits)
	case "&":
		return p.number(a&b, x.Bits || y.Bits)
	case "==":
		return p.number(truth(a == b), false)
	case "!=":
		return p.number(truth(a != b), false)
	case "<":
		return p.number(truth(a < b), false)
	case ">":
		return p.number(truth(a > b), false)
	case "<=":
		return p.number(truth(a <= b), false)
	case ">=":
		return p.number(truth(a >= b), false)
	case "<<":
		return p.number(a<<min(b, 64), true)
	case ">>":
		return p.number(a>>min(b, 64), true)
	case "+":
		return p.number(a+b, x.Bits && y.Bits)
	case "-":
		return p.number(a-b, x.Bits && y.Bits)
	case "*":
		return p.number(a*b, false)
	}
	if b == 0 {
		return p.fail("a division by 0")
	}
	if op == "/" {
		return p.number(a/b, false)
	}
	return p.number(a%b, false)
}

func (p *parser) unary() Value {
	defer p.deeper()()
	switch {
	case p.err != nil:
		return Value{}
	case p.take("~"):
		return p.content(p.unary(), func(n uint64) Value { return p.number(^n, true) })
	case p.take("-"):
		return p.content(p.unary(), func(n uint64) Value { return p.portable(p.number(-n, false)) })
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
		words := p.tokens[p.at+1 : p.at+end-1]
		p.at += end
		v := p.unary() // the types of registers and addresses are as wide as the arithmetic
		if p.Portable && v.Number > mostOf(words) {
			return p.fail("%#x may not fit its type", v.Number)
		}
		return v
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
	case t.Kind == Name:
		p.at++
		return p.name(t.Text)
	}
	return p.fail("%q", t.Text)
}

// name computes an identifier, a member or a call.
func (p *parser) name(name string) Value {
	for p.peek() == "." || p.peek() == "->" {
		if p.at+1 == len(p.tokens) || p.tokens[p.at+1].Kind != Name {
			return p.fail("%q", p.peek())
		}
		name += "." + p.tokens[p.at+1].Text
		p.at += 2
	}
	if p.Calls != nil && p.take("(") {
		argument := p.conditional()
		if !p.take(")") {
			return p.fail("%s has not one argument", name)
		}
		return p.result(p.Calls(name, argument))
	}
	if p.Names == nil || p.peek() == "(" || p.peek() == "[" {
		return p.fail("%s", name)
	}
	return p.result(p.Names(name))
}

func (p *parser) result(v Value, err error) Value {
	if err != nil && p.err == nil {
		p.err = err
		p.at = len(p.tokens)
	}
	return v
}
