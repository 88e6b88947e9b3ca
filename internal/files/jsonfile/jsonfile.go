// Package jsonfile decodes JSON files that people write, by one description of each field: that of a Go struct, with
// what a value must be in the tag "is". An error has a file and a line, and names the most similar field of an unknown
// one.
package jsonfile

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/files/regularfile"
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

// Lines are the lines of a file's fields and elements of lists, by their paths: "link.kind", "memory[2].name".
type Lines map[string]int

// At returns the line of a field, or else of the nearest one around it that is in the file; 0 if there is none.
func (l Lines) At(field string) int {
	for field != "" && l[field] == 0 {
		field = field[:max(strings.LastIndexAny(field, ".["), 0)]
	}
	return l[field]
}

// maxBytes limits a file; real ones have a few KiB.
const maxBytes = 1 << 20

// Read returns the text of a plain file of at most 1 MiB. Errors do not name the file.
func Read(files fs.FS, name string) ([]byte, error) {
	info, err := fs.Stat(files, name)
	var data []byte
	switch {
	case err != nil:
	case !info.Mode().IsRegular():
		return nil, regularfile.ErrSpecial
	case info.Size() > maxBytes:
		return nil, errors.New("larger than 1 MiB")
	default:
		data, err = fs.ReadFile(files, name)
	}

	if of := (*fs.PathError)(nil); errors.As(err, &of) {
		err = of.Err
	}
	return data, err
}

// Decode decodes the text of a file into v, a pointer to a struct, and checks its values (Check). Errors: *Error, or
// several, joined, of values.
func Decode(file string, data []byte, v any) (Lines, error) {
	return decode(file, data, v, &checker{})
}

// DecodePart is Decode for a file that is merged with others. What one field needs or excludes beside another is not
// checked.
func DecodePart(file string, data []byte, v any) (Lines, error) {
	return decode(file, data, v, &checker{isPart: true})
}

func decode(file string, data []byte, v any, c *checker) (Lines, error) {
	// Before decoding, which would accept a key twice and drop fields that it does not know.
	s := &scanner{data: data, dec: json.NewDecoder(bytes.NewReader(data)), lines: Lines{}}
	err := s.scan(reflect.TypeOf(v).Elem())

	if err == nil {
		dec := json.NewDecoder(bytes.NewReader(data))
		dec.UseNumber()
		err = dec.Decode(v)
	}
	if err != nil {
		return nil, &Error{file, lineOf(data, s.lines, err), err}
	}

	var faults []error
	c.value(reflect.ValueOf(v), "", "", "")
	for _, fault := range c.faults {
		faults = append(faults, &Error{file, s.lines.At(fault.Field), fault})
	}
	return s.lines, errors.Join(faults...)
}

// maxDepth limits nesting; the deepest field of a known file is at four.
const maxDepth = 16

// A scanner finds the lines of fields, unknown fields, and what encoding/json accepts and people do not mean.
type scanner struct {
	data  []byte
	dec   *json.Decoder
	lines Lines
}

// scan reads a file that is to be decoded into a type.
func (s *scanner) scan(t reflect.Type) error {
	if !utf8.Valid(s.data) || bytes.HasPrefix(s.data, []byte("\ufeff")) { // the decoder replaces what is not UTF-8
		return s.errorf("the file is not UTF-8 without a byte order mark: save it as that")
	}
	if err := s.value("", t, 0); err != nil {
		return err
	}

	if _, err := s.dec.Token(); err != io.EOF {
		return s.errorf("text after the closing brace")
	}
	return nil
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

// value reads the value of the field at a path, which is to be decoded into a type; nil is any.
func (s *scanner) value(at string, t reflect.Type, depth int) error {
	token, err := s.dec.Token()
	switch {
	case err != nil:
		return s.endTooEarly(err)
	case depth > maxDepth:
		return s.errorf("nested too deeply")
	case depth == 0 && token != json.Delim('{'):
		return s.errorf("the file is not one object in braces")
	case token == json.Delim('{'):
		return s.object(at, inner(t), depth)
	case token == json.Delim('['):
		return s.array(at, inner(t), depth)
	}

	if text, ok := token.(string); ok && strings.ContainsFunc(text, unicode.IsControl) {
		return s.errorf("%s: %q: a text has no line break, tab or other control character", at, text)
	}
	return nil
}

func (s *scanner) object(at string, t reflect.Type, depth int) error {
	fields := fieldsOf(t)
	seen := map[string]bool{}
	for s.dec.More() {
		token, err := s.dec.Token()
		if err != nil {
			return s.endTooEarly(err)
		}
		key, _ := token.(string) // inside an object the decoder gives keys as strings only
		if seen[key] {
			return s.errorf("%q is given twice", key)
		}
		seen[key] = true

		full := strings.TrimPrefix(at+"."+key, ".")
		s.lines[full] = line(s.data, s.dec.InputOffset())
		of, known := fields[key]
		switch {
		case t != nil && t.Kind() == reflect.Map:
			of = t.Elem()
		case fields != nil && !known:
			var names []string
			for _, name := range slices.Sorted(maps.Keys(fields)) {
				names = append(names, strings.TrimPrefix(at+"."+name, "."))
			}
			return s.errorf("field %q is not known%s", full, DidYouMean(full, names))
		}
		if err := s.value(full, of, depth+1); err != nil {
			return err
		}
	}
	_, err := s.dec.Token() // the closing brace
	return s.endTooEarly(err)
}

func (s *scanner) array(at string, t reflect.Type, depth int) error {
	var of reflect.Type
	if t != nil && t.Kind() == reflect.Slice {
		of = t.Elem()
	}
	for i := 0; s.dec.More(); i++ {
		begin := s.dec.InputOffset()
		// The decoder stands behind the last token, so a comma and blanks come first.
		begin += int64(len(s.data[begin:]) - len(bytes.TrimLeft(s.data[begin:], ", \t\r\n")))
		element := fmt.Sprintf("%s[%d]", at, i)
		s.lines[element] = line(s.data, begin)
		if err := s.value(element, of, depth+1); err != nil {
			return err
		}
	}

	_, err := s.dec.Token()
	return s.endTooEarly(err)
}

// inner returns the type without pointers; nil if it decodes itself.
func inner(t reflect.Type) reflect.Type {
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	// What such a type accepts is not in its fields.
	if t == nil || reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()) {
		return nil
	}

	return t
}

// fieldsOf returns the types of a struct's fields by their names in a file; nil of other types.
func fieldsOf(t reflect.Type) map[string]reflect.Type {
	if t == nil || t.Kind() != reflect.Struct {
		return nil
	}
	fields := map[string]reflect.Type{}
	for _, f := range reflect.VisibleFields(t) {
		if name := nameOf(f); name != "" {
			fields[name] = f.Type
		}
	}
	return fields
}

// nameOf returns the name of a field in a file; "" if it is in none.
func nameOf(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return strings.TrimPrefix(name, "-")
}

// endTooEarly returns the error of a file that ends within a value, and any other as it is.
func (s *scanner) endTooEarly(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return &placeError{int64(len(s.data)), "the file is truncated"}
	}
	return err
}

// line is the line, from 1, that the offset lies in.
func line(data []byte, offset int64) int {
	offset = max(0, min(offset, int64(len(data))))
	return 1 + bytes.Count(data[:offset], []byte("\n"))
}

// Line returns the line of an error of encoding/json; 0 if unknown.
func Line(data []byte, err error) int { return lineOf(data, nil, err) }

// lineOf returns the line of an error of encoding/json or of a scanner; 0 if unknown.
func lineOf(data []byte, lines Lines, err error) int {
	var syntax *json.SyntaxError
	var typ *json.UnmarshalTypeError
	var place *placeError
	switch {
	case errors.As(err, &syntax):
		return line(data, syntax.Offset)
	case errors.As(err, &typ) && typ.Offset == 0:
		return lines.ofType(typ.Field)
	case errors.As(err, &typ):
		return line(data, typ.Offset)
	case errors.As(err, &place):
		return line(data, place.offset)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return line(data, int64(len(data)))
	}
	return 0
}

var indexRE = regexp.MustCompile(`\[\d+\]`)

// ofType returns the first line of a field, named as encoding/json does, without the brackets of lists.
func (l Lines) ofType(field string) (first int) {
	for at, n := range l {
		if indexRE.ReplaceAllString(at, "") == field && (first == 0 || n < first) {
			first = n
		}
	}
	return first
}
