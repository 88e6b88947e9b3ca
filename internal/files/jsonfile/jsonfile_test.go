package jsonfile

import (
	"maps"
	"reflect"
	"strings"
	"testing"
)

func TestCheckFields(t *testing.T) {
	type file struct {
		Link  struct{} `json:"link"`
		Parts []struct {
			Name string `json:"name"`
		} `json:"parts"`
		Any map[string]string `json:"any"`
	}
	fields := Fields(reflect.TypeFor[file]())
	for _, c := range []struct{ text, want string }{
		{`{"parts": [{"name": "a"}], "any": {"x": "y"}}`, ""},
		{"{\n\"parst\": []}", `f.json:2: field "parst" is not known; did you mean "parts"?`},
		{"{\"parts\": [\n{\"nam\": \"a\"}]}", `f.json:2: field "parts[].nam" is not known; did you mean "parts[].name"?`},
		{`{"zzzzzzzzzz": 1}`, `f.json:1: field "zzzzzzzzzz" is not known`},
		{"{\"b\": 1,\n\"a\": 1}", `f.json:1: field "b" is not known`},
	} {
		keys, _, err := Scan([]byte(c.text))
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if err := CheckFields("f.json", keys, fields); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%s:\ngot  %s\nwant %s", c.text, got, c.want)
		}
	}
}

func TestTruncatedFiles(t *testing.T) {
	const whole = "{\"a\": [1, {\"b\": null}],\n\"c\": {\"d\": \"e\"}}"
	for n := range len(whole) {
		_, _, err := Scan([]byte(whole[:n]))
		if want := 1 + strings.Count(whole[:n], "\n"); err == nil || Line([]byte(whole[:n]), err) != want {
			t.Errorf("%q: got %v in line %d, want line %d", whole[:n], err, Line([]byte(whole[:n]), err), want)
		}
	}
}

// TestEncoding refuses what the decoder would replace or not read, and texts that no file or program takes.
func TestEncoding(t *testing.T) {
	for text, want := range map[string]string{
		"{\"a\": \"ü\"}":           "",
		"\ufeff{\"a\": \"ü\"}":     "the file is not UTF-8 without a byte order mark: save it as that",
		"{\"a\": \"\xfc\"}":        "the file is not UTF-8 without a byte order mark: save it as that",
		"{\"a\": [\n\"\\u0000\"]}": `a[]: "\x00": a text has no line break, tab or other control character`,
		`{"a": {"b": "x\ny"}}`:     `a.b: "x\ny": a text has no line break, tab or other control character`,
		`{"a": "-DX\t1"}`:          `a: "-DX\t1": a text has no line break, tab or other control character`,
		`{"a": "\u0085"}`:          `a: "\u0085": a text has no line break, tab or other control character`,
	} {
		_, _, err := Scan([]byte(text))
		if want == "" && err != nil || want != "" && (err == nil || err.Error() != want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func FuzzScan(f *testing.F) {
	f.Add([]byte(`{"a": [1, {"b": null}],` + "\n" + `"c": {"d": "e"}}`))
	f.Add([]byte("{\"a\": 1,\n\"a\": 2}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		last := 1 + strings.Count(string(data), "\n")
		lines, items, err := Scan(data)
		if err != nil {
			if n := Line(data, err); n < 0 || n > last {
				t.Errorf("%v was found on line %d of %d", err, n, last)
			}
			return
		}
		maps.Copy(lines, items)
		for field, n := range lines {
			if n < 1 || n > last {
				t.Errorf("%s was found on line %d of %d", field, n, last)
			}
		}
	})
}
