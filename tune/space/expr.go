// This file compiles constraints: conditions on the numbers of knobs.

package space

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"math"
	"regexp"
	"strings"
)

// maxConstraintBytes limits a constraint and with it the depth of its parentheses.
const maxConstraintBytes = 4096

// A term returns the value of an expression for a configuration, given by the index of each knob's value. A condition
// is 0 or 1. ok is false if there is no value, because of a division by zero or an overflow.
type term func(index []int) (v int64, ok bool)

// parseCondition compiles a constraint, which has the operators of C. knob returns the term of a knob with numbers.
func parseCondition(text string, knob func(name string) (term, error)) (term, error) {
	if len(text) > maxConstraintBytes {
		return nil, fmt.Errorf("a constraint of %d bytes; at most %d are supported", len(text), maxConstraintBytes)
	}
	if mark := skipped.FindString(text); mark != "" {
		return nil, fmt.Errorf("constraint %q: %s is not an operator of constraints", text, mark)
	}
	e, err := parser.ParseExpr(asGo(text))
	var list scanner.ErrorList
	if errors.As(err, &list) {
		err = errors.New(strings.NewReplacer("'EOF'", "the end", "newline", "the end").Replace(asC(list[0].Msg)))
	}
	var t term
	condition := true
	if err == nil {
		t, condition, err = compiler{knob}.compile(e)
	}
	if err == nil && !condition {
		err = errors.New("a number instead of a condition")
	}
	if err != nil {
		return nil, fmt.Errorf("constraint %q: %w", text, err)
	}
	return t, nil
}

// A letter of Go's names, but not of C's, follows a knob's name that is one of Go's keywords.
const keywordMark = "ʼ"

// skipped is what Go's parser or asC drops: comments, and marks that asGo did not add.
var skipped = regexp.MustCompile("//|/[*]|\ufeff|" + keywordMark)

var word = regexp.MustCompile(`[A-Za-z_]\w*`)

// asGo returns an expression in Go: there, two minus signs, or one behind <, are other operators, and a line may be an
// expression's end.
func asGo(text string) string {
	text = word.ReplaceAllStringFunc(text, func(name string) string {
		if token.IsKeyword(name) {
			return name + keywordMark
		}
		return name
	})
	return strings.NewReplacer("-", " - ", "\n", " ").Replace(text)
}

func asC(text string) string { return strings.ReplaceAll(text, keywordMark, "") }

type compiler struct {
	knob func(name string) (term, error)
}

// compile returns the term of an expression, and whether it is a condition.
func (c compiler) compile(e ast.Expr) (t term, condition bool, err error) {
	switch e := e.(type) {
	case *ast.ParenExpr:
		return c.compile(e.X)
	case *ast.Ident:
		t, err = c.knob(asC(e.Name))
		return t, false, err
	case *ast.BasicLit:
		t, err = literal(e.Value)
		return t, false, err
	case *ast.UnaryExpr:
		return c.unary(e)
	case *ast.BinaryExpr:
		return c.binary(e)
	}
	return nil, false, errors.New("it has more than numbers, knobs, operators and parentheses")
}

func literal(text string) (term, error) {
	v, ok := parseNumber(text)
	if !ok {
		return nil, fmt.Errorf("%s is not a decimal number of 64 bits without leading zeros", text)
	}
	return func([]int) (int64, bool) { return v, true }, nil
}

func (c compiler) unary(e *ast.UnaryExpr) (term, bool, error) {
	x, condition, err := c.compile(e.X)
	switch {
	case err != nil:
		return nil, false, err
	case e.Op == token.NOT && condition:
		return func(index []int) (int64, bool) {
			v, ok := x(index)
			return 1 - v, ok
		}, true, nil
	case e.Op == token.NOT:
		return nil, false, errors.New("! needs a condition")
	case e.Op == token.SUB && !condition:
		return func(index []int) (int64, bool) {
			v, ok := x(index)
			return -v, ok && v != math.MinInt64
		}, false, nil
	case e.Op == token.SUB:
		return nil, false, errors.New("- needs a number")
	}
	return nil, false, fmt.Errorf("%s has no meaning in front of a number", e.Op)
}

func (c compiler) binary(e *ast.BinaryExpr) (term, bool, error) {
	logic := e.Op == token.LAND || e.Op == token.LOR
	operator := operators[e.Op]
	if operator == nil && !logic {
		return nil, false, fmt.Errorf("%s is not an operator of constraints", e.Op)
	}
	x, isCondition, err := c.compile(e.X)
	if err != nil {
		return nil, false, err
	}
	y, isConditionToo, err := c.compile(e.Y)
	if err != nil {
		return nil, false, err
	}
	if isCondition != logic || isConditionToo != logic {
		needed := map[bool]string{true: "condition", false: "number"}[logic]
		return nil, false, fmt.Errorf("%s needs a %s on both sides", e.Op, needed)
	}

	if !logic {
		return func(index []int) (int64, bool) {
			a, ok := x(index)
			b, okToo := y(index)
			if !ok || !okToo {
				return 0, false
			}
			return operator(a, b)
		}, e.Op.Precedence() == token.EQL.Precedence(), nil
	}
	decides := truth(e.Op == token.LOR)
	return func(index []int) (int64, bool) {
		if v, ok := x(index); !ok || v == decides { // then C does not evaluate the right side
			return v, ok
		}
		return y(index)
	}, true, nil
}

func truth(v bool) int64 {
	if v {
		return 1
	}
	return 0
}

// operators are the binary operators on numbers. They compute with 64 bits, and return false if the result has more.
var operators = map[token.Token]func(a, b int64) (int64, bool){
	token.ADD: func(a, b int64) (int64, bool) { return a + b, (a+b > a) == (b > 0) },
	token.SUB: func(a, b int64) (int64, bool) { return a - b, (a-b < a) == (b > 0) },
	token.MUL: func(a, b int64) (int64, bool) {
		p := a * b
		return p, a == 0 || p/a == b && (a != -1 || b != math.MinInt64)
	},
	token.QUO: func(a, b int64) (int64, bool) {
		if b == 0 || a == math.MinInt64 && b == -1 {
			return 0, false
		}
		return a / b, true
	},
	token.REM: func(a, b int64) (int64, bool) {
		if b == 0 {
			return 0, false
		}
		return a % b, true
	},
	token.LSS: func(a, b int64) (int64, bool) { return truth(a < b), true },
	token.GTR: func(a, b int64) (int64, bool) { return truth(a > b), true },
	token.LEQ: func(a, b int64) (int64, bool) { return truth(a <= b), true },
	token.GEQ: func(a, b int64) (int64, bool) { return truth(a >= b), true },
	token.EQL: func(a, b int64) (int64, bool) { return truth(a == b), true },
	token.NEQ: func(a, b int64) (int64, bool) { return truth(a != b), true },
}
