package space

import (
	"errors"
	"fmt"
	"go/ast"
	goparser "go/parser"
	"go/token"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

var abc = []string{"a", "b", "c"}

func abcIndex(name string) (int, error) {
	if k := slices.Index(abc, name); k >= 0 {
		return k, nil
	}
	return 0, fmt.Errorf("knob %q is not known", name)
}

func TestConditions(t *testing.T) {
	const top = math.MaxInt64
	for _, c := range []struct {
		text    string
		a, b, c int64
		want    span
	}{
		{"a + b * c == 7", 1, 2, 3, point(1)},
		{"(a + b) * c == 9", 1, 2, 3, point(1)},
		{"a - b - c == -4", 1, 2, 3, point(1)},
		{"a / b / c == 2", 12, 2, 3, point(1)},
		{"a % b == -1", -7, 2, 0, point(1)},
		{"a / b == -3", -7, 2, 0, point(1)},
		{"a < b && b < c", 1, 2, 3, point(1)},
		{"a > b || b >= c", 1, 2, 3, point(0)},
		{"!(a <= b) || a != b", 1, 1, 0, point(0)},
		{"!(a == b) && c == 0", 1, 2, 0, point(1)},
		{"--a == a", 5, 0, 0, point(1)},
		{"a == 1 || b == 1 && c == 1", 1, 0, 0, point(1)},
		{"a / b == 1", 1, 0, 0, noValue},
		{"!(a % b == 1)", 1, 0, 0, noValue},
		{"b == 0 || a / b == 1", 1, 0, 0, point(1)},
		{"b != 0 && a / b == 1", 1, 0, 0, point(0)},
		{"a + b > 0", top, 1, 0, noValue},
		{"a - b > 0", math.MinInt64, 1, 0, noValue},
		{"-a > 0", math.MinInt64, 0, 0, noValue},
		{"a * b > 0", math.MinInt64, -1, 0, noValue},
		{"a / b > 0", math.MinInt64, -1, 0, noValue},
		{"a % b == 0", math.MinInt64, -1, 0, point(1)},
		{"a * b == 9223372036854775807", top, 1, 0, point(1)},
	} {
		t.Run(c.text, func(t *testing.T) {
			n, err := parseCondition(c.text, abcIndex)
			if err != nil {
				t.Errorf("%s: %v", c.text, err)
				return
			}
			got := n.eval([]span{point(c.a), point(c.b), point(c.c)})
			if got != c.want && !(got.empty() && c.want.empty()) {
				t.Errorf("%s with %d, %d, %d: got %v, want %v", c.text, c.a, c.b, c.c, got, c.want)
			}
		})
	}
}

func TestBadConditions(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", "at byte 1: expected a number, a knob or a parenthesis"},
		{"a +", "at byte 4: expected a number, a knob or a parenthesis"},
		{"a + b", "at byte 1: a number instead of a condition"},
		{"a < b < c", "at byte 7: < needs a number on both sides"},
		{"a && b", "at byte 3: && needs a condition on both sides"},
		{"a + (b == c) == 1", "at byte 3: + needs a number on both sides"},
		{"(a == b) == (b == c)", "at byte 10: == needs a number on both sides"},
		{"!a", "at byte 1: ! needs a condition"},
		{"-(a < b) == 1", "at byte 1: - needs a number"},
		{"(a == b", "at byte 8: expected a closing parenthesis"},
		{"a == b)", `at byte 7: unexpected ")"`},
		{"a = b", `at byte 3: unexpected "="`},
		{"a & b", `at byte 3: unexpected "&"`},
		{"a == b c", `at byte 8: unexpected "c"`},
		{"a == 010", "at byte 6: 010 has leading zeros; numbers are decimal"},
		{"a == 0x10", "at byte 6: 0x10 is not a decimal number of 64 bits"},
		{"a == 9223372036854775808", "at byte 6: 9223372036854775808 is not a decimal number of 64 bits"},
		{"d == 1", `at byte 1: knob "d" is not known`},
		{"a == é", `at byte 6: unexpected "\xc3"`},
		{strings.Repeat("(", 4097), "a constraint of 4097 bytes"},
	} {
		t.Run(c.text, func(t *testing.T) {
			_, err := parseCondition(c.text, abcIndex)
			if err == nil || !strings.HasSuffix(err.Error(), c.want) && !strings.HasPrefix(err.Error(), c.want) {
				t.Errorf("%.40s: got %v, want %s", c.text, err, c.want)
			}
		})
	}
}

// FuzzCondition compares conditions with Go's parser and unlimited integers, and checks that the span of a condition
// over ranges of knobs holds its values at all points that were tried.
func FuzzCondition(f *testing.F) {
	for _, text := range []string{
		"a + b * c == 7", "!(a % b == 1) || c / b < a", "-a - -3 * (b - 1) >= c && a != b",
		"a * a * a * a > b", "a % -3 == b % c", "9223372036854775807 + a > b - 9223372036854775807",
	} {
		f.Add(text, int64(-3), int64(7), int64(0), uint8(3), uint64(1))
	}
	f.Fuzz(func(t *testing.T, text string, a, b, c int64, width uint8, seed uint64) {
		n, err := parseCondition(text, abcIndex)
		if err != nil {
			return
		}
		tree, err := goparser.ParseExpr(strings.NewReplacer("-", " - ").Replace(text)) // else -- and <- are tokens of Go
		if err != nil {
			t.Fatalf("%q is accepted, but not by Go: %v", text, err)
		}
		rng := rand.New(rand.NewPCG(seed, 0))
		ranges := make([]span, 3)
		for k, v := range []int64{a, b, c} {
			hi, ok := add(v, int64(rng.IntN(int(width)+1)))
			if !ok {
				hi = v
			}
			ranges[k] = span{v, hi}
		}
		whole := n.eval(ranges)
		for range 20 {
			points, values := make([]span, 3), map[string]*big.Int{}
			for k, r := range ranges {
				v := r.lo + rng.Int64N(r.hi-r.lo+1)
				points[k], values[abc[k]] = point(v), big.NewInt(v)
			}
			got := n.eval(points)
			want, err := reference(tree, values)
			if (err != nil) != got.empty() || err == nil && got != point(want.Int64()) {
				t.Fatalf("%q with %v: got %v, want %v, %v", text, points, got, want, err)
			}
			if !got.empty() && (got.lo < whole.lo || got.hi > whole.hi) {
				t.Fatalf("%q with %v: %v is not in %v, which it has over %v", text, points, got, whole, ranges)
			}
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
		if op == token.REM {
			return r, nil
		}
		return limited(q)
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
