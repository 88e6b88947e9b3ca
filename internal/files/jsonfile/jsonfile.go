// Package jsonfile checks JSON files that people write: an error has a file and a line, and an unknown field is an
// error that names the most similar known one.
//
// It decodes nothing; encoding/json does.
package jsonfile

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"sort"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/spelling"
)

// An Error reports an error in a file, with its line.
type Error struct {
	File string
	Line int // from 1; 0 for the whole file
	Err  error
}

func (e *Error) Error() string {
	err := Plain(e.Err)
	if e.Line == 0 {
		return fmt.Sprintf("%s: %v", e.File, err)
	}
	return fmt.Sprintf("%s:%d: %v", e.File, e.Line, err)
}
func (e *Error) Unwrap() error { return e.Err }

// FailureClass returns failure.Config.
func (e *Error) FailureClass() failure.Class { return failure.Config }

// Plain returns an error of encoding/json without names of Go's types: of a value of another kind than the field's, it
// returns one with the field and both kinds, any other as it is.
func Plain(err error) error {
	if typ, ok := err.(*json.UnmarshalTypeError); ok {
		return mistyped(typ)
	}
	return err
}

// mistyped returns the error of a value of another kind than the field's, in the words of the pages.
func mistyped(e *json.UnmarshalTypeError) error {
	parts := slices.DeleteFunc(strings.Split(e.Field, "."), func(part string) bool {
		return part == "" || strings.ToLower(part[:1]) != part[:1] // an embedded struct of ours
	})
	kind, number, _ := strings.Cut(e.Value, " ")
	kinds := map[string]string{"string": "a text", "number": "a number", "array": "a list", "bool": "true or false"}
	got := cmp.Or(number, kinds[kind], "an object")
	field := ""
	if len(parts) > 0 {
		field = strings.Join(parts, ".") + ": "
	}
	return fmt.Errorf("%s%s, where %s belongs", field, got, kindName(e.Type))
}

// kindName returns what stands in a file for a value of a type.
func kindName(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Pointer:
		return kindName(t.Elem())
	case reflect.String:
		return "a text"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice, reflect.Array:
		return "a list"
	case reflect.Struct, reflect.Map:
		return "an object"
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "a whole number without a sign"
	}
	return "a whole number"
}

// DidYouMean returns `; did you mean "x"?` for the known name that is most similar to name, or "" if none is similar.
func DidYouMean(name string, known []string) string {
	best := spelling.Similar(name, known)
	if best == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %q?", best)
}

// maxDepth limits nesting; the deepest field of a known file is at four.
const maxDepth = 16

// Scan returns the line of each key, by its path ("link.kind"; keys of objects in arrays as "memory[].name", the line
// of the first), and that of each element of an array ("memory[2]", "arguments[1].members[0]"). It returns an error for
// a key that occurs twice in one object.
func Scan(data []byte) (keys, items map[string]int, err error) {
	s := scanner{data: data, dec: json.NewDecoder(bytes.NewReader(data)), lines: map[string]int{}, items: map[string]int{}}
	if !utf8.Valid(data) || bytes.HasPrefix(data, []byte("\ufeff")) { // the decoder replaces what is not UTF-8
		return nil, nil, s.errorf("the file is not UTF-8 without a byte order mark: save it as that")
	}
	if err := s.value("", "", 0); err != nil {
		return nil, nil, err
	}
	if _, err := s.dec.Token(); err != io.EOF {
		return nil, nil, s.errorf("text after the closing brace")
	}
	return s.lines, s.items, nil
}

type scanner struct {
	data  []byte
	dec   *json.Decoder
	lines map[string]int // of keys
	items map[string]int // of elements
}

// A placeError is an error at an offset.
type placeError struct {
	offset int64
	msg    string
}

func (e *placeError) Error() string { return e.msg }

func (s *scanner) errorf(format string, args ...any) error {
	return &placeError{s.dec.InputOffset(), fmt.Sprintf(format, args...)}
}

// value reads a value. at is its path for keys, item that for elements.
func (s *scanner) value(at, item string, depth int) error {
	t, err := s.dec.Token()
	switch {
	case err == io.EOF:
		return s.errorf("the file is truncated")
	case err != nil:
		return err
	case depth > maxDepth:
		return s.errorf("nested too deeply")
	case depth == 0 && t != json.Delim('{'):
		return s.errorf("the file is not one object in braces")
	case t == json.Delim('{'):
		return s.object(at, item, depth)
	case t == json.Delim('['):
		return s.array(at, item, depth)
	}
	if text, ok := t.(string); ok && strings.ContainsFunc(text, unicode.IsControl) {
		return s.errorf("%s: %q: a text has no line break, tab or other control character", at, text)
	}
	return nil
}

func (s *scanner) object(at, item string, depth int) error {
	seen := map[string]bool{}
	for s.dec.More() {
		t, err := s.dec.Token()
		if err != nil {
			return endTooEarly(err)
		}
		key, _ := t.(string) // inside an object the decoder gives keys as strings only
		if seen[key] {
			return s.errorf("%q is given twice", key)
		}
		seen[key] = true
		full, inner := key, key
		if at != "" {
			full, inner = at+"."+key, item+"."+key
		}
		if _, ok := s.lines[full]; !ok {
			s.lines[full] = line(s.data, s.dec.InputOffset())
		}
		if err := s.value(full, inner, depth+1); err != nil {
			return err
		}
	}
	_, err := s.dec.Token() // the closing brace
	return endTooEarly(err)
}

func (s *scanner) array(at, item string, depth int) error {
	for i := 0; s.dec.More(); i++ {
		begin := s.dec.InputOffset()
		begin += int64(len(s.data[begin:]) - len(bytes.TrimLeft(s.data[begin:], ", \t\r\n")))
		element := fmt.Sprintf("%s[%d]", item, i)
		s.items[element] = line(s.data, begin)
		if err := s.value(at+"[]", element, depth+1); err != nil {
			return err
		}
	}
	_, err := s.dec.Token()
	return endTooEarly(err)
}

func endTooEarly(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// line is the line, from 1, that the offset lies in.
func line(data []byte, offset int64) int {
	offset = max(0, min(offset, int64(len(data))))
	return 1 + bytes.Count(data[:offset], []byte("\n"))
}

// Line returns the line of an error of encoding/json or of Scan; 0 if unknown.
func Line(data []byte, err error) int {
	var syntax *json.SyntaxError
	var typ *json.UnmarshalTypeError
	var place *placeError
	switch {
	case errors.As(err, &syntax):
		return line(data, syntax.Offset)
	case errors.As(err, &typ) && typ.Offset == 0:
		return lineOfField(data, typ.Field)
	case errors.As(err, &typ):
		return line(data, typ.Offset)
	case errors.As(err, &place):
		return line(data, place.offset)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return line(data, int64(len(data)))
	}
	return 0
}

// lineOfField returns the first line of a field, named as encoding/json does, without the brackets of lists.
func lineOfField(data []byte, field string) int {
	keys, _, err := Scan(data)
	if err != nil {
		return 0
	}
	for key, n := range keys {
		if strings.ReplaceAll(key, "[]", "") == field {
			return n
		}
	}
	return 0
}

// Fields returns the paths that a file decoded into a struct of type t may use, as Scan writes them, sorted. Below one
// that ends in ".*" any name may stand.
func Fields(t reflect.Type) []string { return fieldsOf(t, "") }

func fieldsOf(t reflect.Type, at string) []string {
	switch t.Kind() {
	case reflect.Slice:
		t, at = t.Elem(), at+"[]"
	case reflect.Pointer:
		t = t.Elem()
	case reflect.Map:
		return []string{at + ".*"} // any name; check validates them
	}
	if t.Kind() != reflect.Struct || reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()) {
		return nil
	}
	var all []string
	for i := range t.NumField() {
		tag, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		if tag == "-" || !t.Field(i).IsExported() && !t.Field(i).Anonymous {
			continue
		}
		if t.Field(i).Anonymous && tag == "" { // its fields are those of t
			all = append(all, fieldsOf(t.Field(i).Type, at)...)
			continue
		}
		name := strings.TrimPrefix(at+"."+tag, ".")
		all = append(all, name)
		all = append(all, fieldsOf(t.Field(i).Type, name)...)
	}
	sort.Strings(all)
	return all
}

// isField reports whether a file with these fields may use the path.
func isField(f string, fields []string) bool {
	if _, ok := slices.BinarySearch(fields, f); ok {
		return true
	}
	for at, c := range f {
		if c != '.' {
			continue
		}
		if _, ok := slices.BinarySearch(fields, f[:at]+".*"); ok {
			return true
		}
	}
	return false
}

// CheckFields returns an *Error for the first unknown field, with the most similar known one. keys are those of Scan,
// fields those of Fields.
func CheckFields(file string, keys map[string]int, fields []string) error {
	var unknown []string
	for f := range keys {
		if !isField(f, fields) {
			unknown = append(unknown, f)
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	sort.Slice(unknown, func(i, j int) bool {
		if a, b := keys[unknown[i]], keys[unknown[j]]; a != b {
			return a < b
		}
		return unknown[i] < unknown[j]
	})
	f := unknown[0]
	return &Error{file, keys[f], fmt.Errorf("field %q is not known%s", f, DidYouMean(f, fields))}
}
