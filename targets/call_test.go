package targets

import (
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/ndarray"
)

// TestArguments: each word of ARGS is what it looks like, or an error: never another number, nor silently a text.
func TestArguments(t *testing.T) {
	file := filepath.Join(t.TempDir(), "my data", "a b.npy")
	header := "{'descr': '|i1', 'fortran_order': False, 'shape': (3,), }\n"
	npy := "\x93NUMPY\x01\x00" + string([]byte{byte(len(header)), 0}) + header + "\x01\x02\x03"
	testkit.WriteFile(t, file, npy)
	for text, want := range map[string]string{
		"20 -22  +3":                "int64 20, int64 -22, int64 3",
		"0x10 0b11 0o17 010 -0x1":   "int64 16, int64 3, int64 15, int64 10, int64 -1",
		"9223372036854775807":       "int64 9223372036854775807",
		"-9223372036854775808":      "int64 -9223372036854775808",
		"1.5 1e3 0x1p-2 -.5 1e-999": "float64 1.5, float64 1000, float64 0.25, float64 -0.5, float64 0",
		"nan inf -inf":              "float64 NaN, float64 +Inf, float64 -Inf",
		"a 'b c' '1' 'x.npy' 0x":    "string a, string b c, string 1, string x.npy, string 0x",
		`"` + file + `" 2`:          "*ndarray.Array int8 (3,), int64 2",
		`"a b" int8(2,3)`:           "string a b, *ndarray.Array int8 (2, 3)",
		"":                          "",
	} {
		args, err := parseArguments(text)
		var got []string
		for _, arg := range args {
			value := fmt.Sprint(arg)
			if a, ok := arg.(*ndarray.Array); ok {
				value = fmt.Sprintf("%v %s", a.DType, ndarray.ShapeString(a.Shape))
			}
			got = append(got, fmt.Sprintf("%T %s", arg, value))
		}
		testkit.Must(t, err)
		testkit.Equal(t, text, strings.Join(got, ", "), want)
	}
	for text, want := range map[string]string{
		"9223372036854775808":  fmt.Sprintf("not in the range of integers of a call, %d to", math.MinInt64),
		"18446744073709551615": "not in the range", "0xffffffffffffffff": "not in the range",
		"-9223372036854775809": "not in the range", "1e999": "larger than any number", "-1e400": "larger than any number",
		"'a": "no second quote", `"a`: "no second quote", "int8(-1)": "", "int9000(1)": "", "int9(3)": `unknown data type "int9"`, "float99(1)": "unknown data type", "handle(1)": "unknown", "missing.npy": "missing.npy",
	} {
		_, err := parseArguments(text)
		testkit.WantError(t, err, failure.Config, want)
	}
}

// TestCommentedForm: the folder of a project may have the name of one that is skipped in it.
func TestCommentedForm(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "model")
	for _, folder := range []string{"src", "model"} {
		testkit.WriteFile(t, filepath.Join(dir, folder, "a.c"), "// kiln.add("+folder+") -> sum\n")
	}
	form, err := commentedForm(dir, "kiln.add")
	testkit.Must(t, err)
	testkit.Equal(t, "form", form, "kiln.add(src) -> sum")
}
