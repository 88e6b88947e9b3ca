package jsonfile

import (
	"errors"
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
	for _, c := range []struct{ text, want string }{
		{`{"parts": [{"name": "a"}], "any": {"x": "y"}}`, ""},
		{"{\n\"parst\": []}", `f.json:2: field "parst" is not known; did you mean "parts"?`},
		{"{\"parts\": [\n{\"nam\": \"a\"}]}", `f.json:2: field "parts[0].nam" is not known; did you mean "parts[0].name"?`},
		{`{"zzzzzzzzzz": 1}`, `f.json:1: field "zzzzzzzzzz" is not known`},
		{"{\"b\": 1,\n\"a\": 1}", `f.json:1: field "b" is not known`},
	} {
		got := ""
		if _, err := Decode("f.json", []byte(c.text), new(file)); err != nil {
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
		_, err := Decode("f.json", []byte(whole[:n]), &map[string]any{})
		var at *Error
		if want := 1 + strings.Count(whole[:n], "\n"); !errors.As(err, &at) || at.Line != want {
			t.Errorf("%q: got %v, want line %d", whole[:n], err, want)
		}
	}
}

// TestEncoding refuses what the decoder would replace or not read, and texts that no file or program takes.
func TestEncoding(t *testing.T) {
	for text, want := range map[string]string{
		"{\"a\": \"ü\"}":           "",
		"\ufeff{\"a\": \"ü\"}":     "the file is not UTF-8 without a byte order mark: save it as that",
		"{\"a\": \"\xfc\"}":        "the file is not UTF-8 without a byte order mark: save it as that",
		"{\"a\": [\n\"\\u0000\"]}": `a[0]: "\x00": a text has no line break, tab or other control character`,
		`{"a": {"b": "x\ny"}}`:     `a.b: "x\ny": a text has no line break, tab or other control character`,
		`{"a": "-DX\t1"}`:          `a: "-DX\t1": a text has no line break, tab or other control character`,
		`{"a": "\u0085"}`:          `a: "\u0085": a text has no line break, tab or other control character`,
	} {
		_, err := Decode("f.json", []byte(text), &map[string]any{})
		if want == "" && err != nil || want != "" && (err == nil || !strings.HasSuffix(err.Error(), ": "+want)) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func FuzzScan(f *testing.F) {
	f.Add([]byte(`{"a": [1, {"b": null}],` + "\n" + `"c": {"d": "e"}}`))
	f.Add([]byte("{\"a\": 1,\n\"a\": 2}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		last := 1 + strings.Count(string(data), "\n")
		lines, err := Decode("f.json", data, &map[string]any{})
		var at *Error
		if errors.As(err, &at) && (at.Line < 0 || at.Line > last) {
			t.Errorf("%v is on a line of %d", err, last)
		}
		for field, n := range lines {
			if n < 1 || n > last {
				t.Errorf("%s was found on line %d of %d", field, n, last)
			}
		}
	})
}

// TestValues: a value that breaks a rule of its field's tag is an error with its line; one that is not set is none.
func TestValues(t *testing.T) {
	type part struct {
		Name string `json:"name" is:"required name"`
		Size uint64 `json:"size" is:"8..64 /8"`
	}
	type file struct {
		Parts  []part            `json:"parts"`
		Kind   string            `json:"kind" is:"little|big"`
		Files  []string          `json:"files" is:"path .c|.S"`
		Macros map[string]string `json:"macros" keys:"macro" is:"text"`
		Wait   *int              `json:"wait" is:"0..3"`
	}
	for _, c := range []struct{ text, want string }{
		{`{"parts": [{"name": "a", "size": 16}], "kind": "big", "files": ["a/b.c"], "macros": {"A": "1"}, "wait": 0}`, ""},
		{`{"kind": "", "parts": [{"name": "a"}]}`, ""},
		{"{\"parts\": [{\"name\": \"a\"},\n{}]}", "2: parts[1].name: missing"},
		{"{\"parts\": [{\"name\": \"a\"},\n{\"name\":\n\"A\"}]}", `2: parts[1].name: "A" is not a name of small letters`},
		{`{"parts": [{"name": "a", "size": 72}]}`, "1: parts[0].size: 72 is not between 8 and 64"},
		{`{"parts": [{"name": "a", "size": 9}]}`, "1: parts[0].size: 9 is not a multiple of 8"},
		{`{"kind": "bug"}`, `1: kind: "bug" is none of little, big; did you mean "big"?`},
		{"{\"files\": [\"a.c\",\n\"../b.c\"]}", `2: files[1]: "../b.c" is not a relative path of plain names`},
		{`{"files": ["a.h"]}`, `1: files[0]: "a.h" is none of .c, .S`},
		{`{"macros": {"a": "1"}}`, `1: macros.a: "a" is not a name of capitals`},
		{`{"macros": {"A": ""}}`, `1: macros.A: "" is not a text that`},
		{`{"wait": -1}`, `1: wait: -1 is not between 0 and 3`},
		{"{\"wait\": 4,\n\"kind\": \"x\"}", "f.json:1: wait: 4 is not between 0 and 3"},
	} {
		_, err := Decode("f.json", []byte(c.text), new(file))
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s:\ngot  %v\nwant %s", c.text, err, c.want)
		}
	}
}
