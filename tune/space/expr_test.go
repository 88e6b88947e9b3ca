package space

import (
	"errors"
	"fmt"
	"go/ast"
	"go/token"
	"math"
	"math/big"
	"strings"
	"testing"
)

// abc is a space of the knobs a, b and c with one value each.
func abc(values ...int64) *Space {
	s := &Space{byName: map[string]int{"a": 0, "b": 1, "c": 2}}
	for _, v := range append(values, 0, 0, 0)[:3] {
		s.knobs = append(s.knobs, knob{numeric: true, count: 1, value: func(int) any { return v }})
	}
	return s
}

// TestKeywordsAreKnobs: names that mean something in Go, and nothing in C.
func TestKeywordsAreKnobs(t *testing.T) {
	s := parse(t, `{"name": "type", "define": [1, 2]}, {"name": "range", "range": {"from": 1, "to": 4}}`,
		`"type*range == 4", "type>-range", "type--range == 4 || range<4"`)
	if all := everything(s); len(all) != 1 || all[0].String() != "type=2 range=2" {
		t.Errorf("%v", all)
	}
}

func TestBadConditions(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", "expected operand, found the end"},
		{"a + b", "a number instead of a condition"},
		{"a < b < c", "< needs a number on both sides"},
		{"(a == b) == (b == c)", "== needs a number on both sides"},
		{"!a", "! has no meaning in front of a number"},
		{"-(a < b) == 1", "- has no meaning in front of a condition"},
		{"(a == b", "expected ')', found the end"},
		{"a == b)", "expected the end, found ')'"},
		{"a = b", "expected '==', found '='"},
		{"a & b", "& is not an operator of constraints"},
		{"a == b // 2", "// is not an operator of constraints"},
		{"aʼ == b", "ʼ is not an operator of constraints"},
		{"a == *b", "it has more than numbers, knobs, operators and parentheses"},
		{"a(b) == 1", "it has more than numbers, knobs, operators and parentheses"},
		{"a == 010", "010 is not a decimal number of 64 bits without leading zeros"},
		{"a == 1.5", ". is not an operator of constraints"},
		{"a == 9223372036854775808", "9223372036854775808 is not a decimal number of 64 bits without leading zeros"},
		{"d == 1", `knob "d" is not known`},
		{strings.Repeat("(", 4097), "4097 bytes; at most 4096"},
	} {
		_, err := abc().parseCondition(c.text)
		wantError(t, err, "", c.want)
	}
}

// FuzzCondition compares conditions with unlimited integers.
func FuzzCondition(f *testing.F) {
	for _, c := range []struct {
		text    string
		a, b, c int64
	}{
		{"(a + b) * c == 9", 1, 2, 3},
		{"a / b / c == 2", 12, 2, 3},
		{"a % b == -1", -7, 2, 0},
		{"a / b == -3", -7, 2, 0},
		{"a < b && b < c", 1, 2, 3},
		{"!(a <= b) || a != b", 1, 1, 0},
		{"a / b == 1", 1, 0, 0},
		{"b == 0 || a / b == 1", 1, 0, 0},
		{"b != 0 && a / b == 1", 1, 0, 0},
		{"a + b > 0", math.MaxInt64, 1, 0},
	} {
		f.Add(c.text, c.a, c.b, c.c)
	}
	for _, text := range []string{
		"a + b * c == 7", "!(a % b == 1) || c / b < a", "-a - -3 * (b - 1) >= c && a != b",
		"a * a * a * a > b", "a % -3 == b % c", "9223372036854775807 + a > b - 9223372036854775807",
	} {
		f.Add(text, int64(-3), int64(7), int64(0))
	}
	for _, text := range []string{"a - 1 > 0", "-a > 0", "a * b > 0", "a / b > 0", "a % b == 0"} {
		f.Add(text, int64(math.MinInt64), int64(-1), int64(0))
	}
	f.Fuzz(func(t *testing.T, text string, a, b, c int64) {
		space := abc(a, b, c)
		condition, err := space.parseCondition(text)
		if err != nil {
			return
		}
		values := map[string]*big.Int{}
		for name, v := range map[string]int64{"a": a, "b": b, "c": c} {
			values[nameMark+name] = big.NewInt(v)
		}
		got := (&evaluation{space: space, index: make([]int, 3)}).of(condition)
		want, err := reference(condition, values)
		if got.exists != (err == nil) || got.exists && got.holds != (want.Int64() == 1) {
			t.Fatalf("%q with %d, %d, %d: got %+v, want %v, %v", text, a, b, c, got, want, err)
		}
	})
}

var errNoValue = errors.New("no value")

// reference evaluates an expression with unlimited integers, of which only those of 64 bits are values.
func reference(e ast.Expr, knobs map[string]*big.Int) (*big.Int, error) {
	switch e := e.(type) {
	case *ast.ParenExpr:
		return reference(e.X, knobs)
	case *ast.BasicLit:
		v, _ := new(big.Int).SetString(e.Value, 10)
		return v, nil
	case *ast.Ident:
		return knobs[e.Name], nil
	case *ast.UnaryExpr:
		x, err := reference(e.X, knobs)
		if err != nil {
			return nil, err
		}
		if e.Op == token.NOT {
			return big.NewInt(1 - x.Int64()), nil
		}
		return limited(new(big.Int).Neg(x))
	case *ast.BinaryExpr:
		x, err := reference(e.X, knobs)
		if err != nil || e.Op == token.LAND && x.Sign() == 0 || e.Op == token.LOR && x.Sign() != 0 {
			return x, err
		}
		y, err := reference(e.Y, knobs)
		if err != nil {
			return nil, err
		}
		return referenceOp(e.Op, x, y)
	}
	return nil, fmt.Errorf("unexpected %T", e)
}

func referenceOp(op token.Token, x, y *big.Int) (*big.Int, error) {
	order := x.Cmp(y)
	switch op {
	case token.LAND, token.LOR:
		return y, nil
	case token.ADD:
		return limited(new(big.Int).Add(x, y))
	case token.SUB:
		return limited(new(big.Int).Sub(x, y))
	case token.MUL:
		return limited(new(big.Int).Mul(x, y))
	case token.QUO, token.REM:
		if y.Sign() == 0 {
			return nil, errNoValue
		}
		q, r := new(big.Int).QuoRem(x, y, new(big.Int))
		if _, err := limited(q); err != nil || op == token.QUO {
			return q, err
		}
		return r, nil
	}
	holds := map[token.Token]bool{
		token.EQL: order == 0, token.NEQ: order != 0, token.LSS: order < 0,
		token.LEQ: order <= 0, token.GTR: order > 0, token.GEQ: order >= 0,
	}[op]
	if holds {
		return big.NewInt(1), nil
	}
	return new(big.Int), nil
}

func limited(v *big.Int) (*big.Int, error) {
	if !v.IsInt64() {
		return nil, errNoValue
	}
	return v, nil
}
