package cmacro_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/internal/cmacro"
)

func TestEvaluate(t *testing.T) {
	for text, want := range map[string]cmacro.Value{
		"0x40023800U":                   {Number: 0x40023800},
		"(0x40021000U + 0x0CU)":         {Number: 0x4002100C},
		"(1U << 31)":                    {Number: 1 << 31, Bits: true},
		"(0x7FU << 8) | (3U << 0)":      {Number: 0x7F03, Bits: true},
		"~0x3U":                         {Number: 0xFFFFFFFC, Bits: true},
		"0x40000000U + (1U << 4)":       {Number: 0x40000010},
		"010":                           {Number: 8},
		"-1":                            {Number: 0xFFFFFFFF},
		"7 - 2 - 1":                     {Number: 4},
		"2 + 3 * 4 % 5":                 {Number: 4},
		"1 << 2 + 1":                    {Number: 8, Bits: true},
		"6 & 3 == 3":                    {Number: 0},
		"1 ? 2 : 0 ? 3 : 4":             {Number: 2},
		"0 ? 2 : 0 ? 3 : 4":             {Number: 4},
		"!0 + !5":                       {Number: 1},
		"(4 > 3) && (3 <= 3) || 0":      {Number: 1},
		"'A'":                           {Number: 65},
		"(uint32_t)(0x10UL)":            {Number: 16},
		"&(*(volatile uint32_t*)0x40)":  {Number: 0x40},
		"3 ^ 1":                         {Number: 2},
		"1U<<64":                        {Number: 0, Bits: true},
		"((UART_TypeDef*)0x40004000UL)": {Number: 0x40004000},
		"(*(volatile uint16_t*)(0x4U))": {Number: 4, Access: true},
		"(*(volatile uint32_t*)(uintptr_t)(0x40000000U + 0x4U))": {Number: 0x40000004, Access: true},
	} {
		got, err := cmacro.Evaluator{}.Evaluate(text)
		if err != nil || got != want {
			t.Errorf("%s is %+v, %v; want %+v", text, got, err, want)
		}
	}
}

// TestNotConstant evaluates what is no number: each is an error, none is taken for another number.
func TestNotConstant(t *testing.T) {
	for _, text := range []string{
		"", "(", "(1", "1 +", "1 2", "name", "f(1)", "a.b", "{1, 2}", "\"text\"", "'", "1 / 0", "1 % 0", "0x", "12ab",
		"1.5", "a.", "a->1", "'ab'", "do { } while (0)", "&5", "1 ? 2", "09", "*(volatile uint32_t*)4U | 1U",
		"~*(uint32_t*)4U", "(a * b)", "(a) + 1", "(a *",
		strings.Repeat("(", 100000) + "1" + strings.Repeat(")", 100000), strings.Repeat("-", 5000) + "1",
		strings.Repeat("1+", 5000) + "1",
	} {
		if v, err := (cmacro.Evaluator{}).Evaluate(text); !errors.Is(err, cmacro.ErrNotConstant) {
			t.Errorf("%.40q is %+v, %v", text, v, err)
		}
	}
}

// TestObject reads accesses in code: the expression ends where the object does.
func TestObject(t *testing.T) {
	for code, want := range map[string]uint64{
		"*(volatile uint32_t*)(uintptr_t)(0x40000000U + 8U) |= 1U;": 0x40000008,
		"*(volatile const unsigned char*)5 + 7":                     5,
		"*(uint32_t volatile * const)0x20U;":                        0,
	} {
		tokens, err := cmacro.Tokens(code)
		if err != nil {
			t.Fatal(err)
		}
		if is := cmacro.IsAccess(tokens); is != (want != 0) {
			t.Errorf("%s is an access: %v", code, is)
		}
		if v, _, err := (cmacro.Evaluator{}).Object(tokens); want != 0 && (err != nil || v.Number != want || !v.Access) {
			t.Errorf("%s is %+v, %v", code, v, err)
		}
	}
	for _, code := range []string{"*p", "a * (b)", "*(p)", "(volatile uint32_t*)4", "*(uint32_t)4", "*"} {
		if tokens, err := cmacro.Tokens(code); err != nil || cmacro.IsAccess(tokens) {
			t.Errorf("%s is taken for an access", code)
		}
	}
}

// FuzzEvaluate evaluates any text: it ends, without a panic.
func FuzzEvaluate(f *testing.F) {
	for _, seed := range []string{"(1U << 3) | 2", "*(volatile uint32_t*)(4)", "a ? b : c", "'\\n'", "f(g(1))", "((((("} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		v, err := cmacro.Evaluator{}.Evaluate(text)
		if err == nil && v.Number>>32 != 0 {
			t.Errorf("%q is %#x, which has more than 32 bits", text, v.Number)
		}
		if err != nil && !errors.Is(err, cmacro.ErrNotConstant) {
			t.Errorf("%q: %v", text, err)
		}
	})
}
