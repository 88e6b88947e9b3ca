// This file evaluates constraints: conditions on the numbers of knobs.

package space

import (
	"cmp"
	"errors"
	"fmt"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/scanner"
	"go/token"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/boardsmith/boardsmith/internal/files/jsonfile"
)

// maxConstraintBytes limits a constraint and with it the depth of its parentheses.
const maxConstraintBytes = 4096

// A value is a number, or a condition, which holds or not.
type value struct {
	number           int64
	condition, holds bool
	exists           bool // false after a division by zero or an overflow
}

// kinds are the names of values by their condition.
var kinds = map[bool]string{true: "condition", false: "number"}

// An evaluation evaluates expressions for a configuration, given by the index of each knob's value. Whether there is an
// error does not depend on the configuration.
type evaluation struct {
	space *Space
	index []int
	err   error // the first
}

var (
	name = regexp.MustCompile(`\b[A-Za-z_]\w*`)
	// foreign matches what constraints do not have: Go's parser skips comments, and knows other letters.
	foreign = regexp.MustCompile(`//|/[*]|[^\w\s()!*/%+=<>&|-]`)
)

// nameMark begins each name in Go, where names of knobs may be keywords. It is a letter of Go's names, but not of C's.
const nameMark = "ʼ"

// parseCondition parses and checks a constraint, which has the operators of C.
func (s *Space) parseCondition(text string) (ast.Expr, error) {
	if len(text) > maxConstraintBytes {
		return nil, fmt.Errorf("%d bytes; at most %d are supported", len(text), maxConstraintBytes)
	}
	if mark := foreign.FindString(text); mark != "" {
		return nil, fmt.Errorf("%s is not an operator of constraints", mark)
	}

	// In Go, two minus signs, or one behind <, are another operator.
	e, err := parser.ParseExpr(strings.ReplaceAll(name.ReplaceAllString(text, nameMark+"$0"), "-", " - "))
	if list, ok := err.(scanner.ErrorList); ok {
		inC := strings.NewReplacer("'EOF'", "the end", "newline", "the end", nameMark, "")
		return nil, errors.New(inC.Replace(list[0].Msg))
	}

	// Errors do not depend on the configuration: one evaluation finds them all.
	v := evaluation{space: s, index: make([]int, len(s.knobs))}
	if !v.of(e).condition {
		v.fail("a number instead of a condition")
	}

	return e, v.err
}

func (v *evaluation) fail(format string, args ...any) value {
	v.err = cmp.Or(v.err, fmt.Errorf(format, args...))
	return value{}
}

// of returns the value of an expression.
func (v *evaluation) of(e ast.Expr) value {
	switch e := e.(type) {
	case *ast.ParenExpr:
		return v.of(e.X)
	case *ast.Ident:
		return v.knob(strings.TrimPrefix(e.Name, nameMark))
	case *ast.BasicLit:
		n, err := strconv.ParseInt(e.Value, 10, 64)
		if err != nil || e.Value != strconv.FormatInt(n, 10) {
			v.fail("%s is not a decimal number of 64 bits without leading zeros", e.Value)
		}

		return value{number: n, exists: true}
	case *ast.UnaryExpr:
		x := v.of(e.X)
		switch {
		case e.Op == token.SUB && !x.condition:
			// Zero minus x, so that its overflow counts.
			return v.binary(value{exists: true}, e.Op, x)
		case e.Op != token.NOT || !x.condition:
			v.fail("%s has no meaning in front of a %s", e.Op, kinds[x.condition])
		}

		x.holds = !x.holds
		return x
	case *ast.BinaryExpr:
		return v.binary(v.of(e.X), e.Op, v.of(e.Y))
	}
	return v.fail("it has more than numbers, knobs, operators and parentheses")
}

func (v *evaluation) knob(name string) value {
	k, known := v.space.byName[name]
	switch {
	case !known:
		names := slices.Sorted(maps.Keys(v.space.byName))
		return v.fail("knob %q is not known%s", name, jsonfile.DidYouMean(name, names))
	case !v.space.knobs[k].numeric:
		return v.fail("knob %s is not a number in all its values", name)
	}

	return value{number: v.space.knobs[k].value(v.index[k]).(int64), exists: true}
}

// binary computes with 64 bits.
func (v *evaluation) binary(x value, op token.Token, y value) value {
	logic, divides := op == token.LAND || op == token.LOR, op == token.QUO || op == token.REM

	exists := x.exists && y.exists
	a, b := constant.MakeInt64(x.number), constant.MakeInt64(y.number)

	switch {
	case !strings.Contains(" || && == != < <= > >= + - * / % ", " "+op.String()+" "):
		return v.fail("%s is not an operator of constraints", op)
	case x.condition != logic || y.condition != logic:
		return v.fail("%s needs a %s on both sides", op, kinds[logic])
	case logic && (!x.exists || x.holds == (op == token.LOR)): // then C does not evaluate the right side
		return x
	case logic:
		return y
	case op.Precedence() == token.EQL.Precedence():
		return value{condition: true, holds: constant.Compare(a, op, b), exists: exists}
	// C has no result of these, either.
	case divides && (y.number == 0 || y.number == -1 && x.number == math.MinInt64):
		return value{}
	case op == token.QUO:
		op = token.QUO_ASSIGN // the constant package's name of a division that truncates
	}

	n, fits := constant.Int64Val(constant.BinaryOp(a, op, b))
	return value{number: n, exists: exists && fits}
}
