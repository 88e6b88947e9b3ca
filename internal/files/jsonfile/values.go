// This file checks values of fields by the tags of Go structs.

package jsonfile

import (
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A FieldError reports the value of a field.
type FieldError struct {
	Field string // its path: "memory[2].name"
	Err   error
}

func (e *FieldError) Error() string { return e.Field + ": " + e.Err.Error() }
func (e *FieldError) Unwrap() error { return e.Err }

// Check returns errors for the values of a struct that are not what the tags of their fields demand: "is" for a value,
// for each element of a list and each value of a map, "keys" for the names in a map. A tag has one or more words:
//
//	required  the field is set
//	1..255    a number from one to the other
//	/8        a multiple of 8
//	2^n       a power of two
//	a|b       one of these
//	.c|.S     the name of a file with one of these extensions
//	FORM      a text of that form, one of Forms
//
// A field that is not set is checked for required only.
func Check(v any) []*FieldError {
	var c checker
	c.value(reflect.ValueOf(v), "", "", "")
	return c.faults
}

type checker struct{ faults []*FieldError }

func (c *checker) value(v reflect.Value, at, is, keys string) {
	switch v.Kind() {
	case reflect.Invalid: // null in a list
	case reflect.Pointer:
		c.value(v.Elem(), at, is, keys)
	case reflect.Slice:
		for i := range v.Len() {
			c.value(v.Index(i), fmt.Sprintf("%s[%d]", at, i), is, "")
		}
	case reflect.Map:
		names := v.MapKeys()
		slices.SortFunc(names, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
		for _, name := range names {
			c.value(name, at+"."+name.String(), keys, "")
			c.value(v.MapIndex(name), at+"."+name.String(), is, "")
		}
	case reflect.Struct:
		c.fields(v, at, is)
	default:
		if err := CheckValue(v.Interface(), is); err != nil {
			c.faults = append(c.faults, &FieldError{at, err})
		}
	}
}

// CheckValue returns an error for a value that is not what the words of a tag "is" demand.
func CheckValue(v any, is string) error {
	for rule := range strings.FieldsSeq(is) {
		if err := checkRule(v, rule); err != nil {
			return err
		}
	}
	return nil
}

// fields checks those of a struct. One that decodes itself is in the file what its first field holds.
func (c *checker) fields(v reflect.Value, at, is string) {
	if reflect.PointerTo(v.Type()).Implements(reflect.TypeFor[json.Unmarshaler]()) {
		c.value(v.Field(0), at, is, "")
		return
	}
	for _, f := range reflect.VisibleFields(v.Type()) {
		name := nameOf(f)
		if name == "" {
			continue
		}
		full, value, is := strings.TrimPrefix(at+"."+name, "."), v.FieldByIndex(f.Index), f.Tag.Get("is")
		isList := value.Kind() == reflect.Slice || value.Kind() == reflect.Map
		isSet := !value.IsZero() && (!isList || value.Len() > 0)
		if isSet {
			c.value(value, full, is, f.Tag.Get("keys"))
		} else if slices.Contains(strings.Fields(is), "required") {
			c.faults = append(c.faults, &FieldError{full, errors.New("missing")})
		}
	}
}

// checkRule returns an error for a value that breaks one rule of a tag.
func checkRule(v any, rule string) error {
	text := fmt.Sprint(v)
	shown := text
	if _, isText := v.(string); isText {
		shown = strconv.Quote(text)
	} else if data, err := json.Marshal(v); err == nil {
		shown = strings.Trim(string(data), `"`) // as it is in the file
	}
	choices := strings.Split(strings.Trim(rule, "|"), "|")
	least, most, isRange := strings.Cut(rule, "..")
	number, _ := strconv.ParseFloat(text, 64)

	form, isForm := Forms[rule]
	switch {
	case rule == "required":
	case isForm && !form.matches(text):
		return fmt.Errorf("%s is not %s", shown, form.Text)
	case isForm:
	case rule[0] == '.':
		if !slices.Contains(choices, path.Ext(text)) {
			return fmt.Errorf("%s is none of %s", shown, strings.Join(choices, ", "))
		}
	case isRange:
		low, _ := strconv.ParseFloat(least, 64)
		high, _ := strconv.ParseFloat(most, 64)
		if number < low || number > high {
			return fmt.Errorf("%s is not between %s and %s", shown, least, most)
		}
	case rule[0] == '/':
		unit, _ := strconv.ParseUint(rule[1:], 10, 64)
		if uint64(number)%unit != 0 {
			return fmt.Errorf("%s is not a multiple of %d", shown, unit)
		}
	case rule == "2^n":
		if n := uint64(number); n&(n-1) != 0 {
			return fmt.Errorf("%s is not a power of two", shown)
		}
	case !slices.Contains(choices, text):
		return fmt.Errorf("%s is none of %s%s", shown, strings.Join(choices, ", "), DidYouMean(text, choices))
	}
	return nil
}

// A Form is one that a text can have.
type Form struct {
	Text    string         // for messages: "a C identifier"
	Pattern *regexp.Regexp // nil if check has the rule
	check   func(string) bool
}

func (f Form) matches(text string) bool {
	if f.check != nil {
		return f.check(text)
	}
	return f.Pattern.MatchString(text)
}

// Forms are the forms of texts by their names in tags. It must not be changed.
var Forms = map[string]Form{
	"text":       {Text: "a text that is not empty", Pattern: regexp.MustCompile(`.`)},
	"identifier": {Text: "a C identifier", Pattern: regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)},
	"macro":      {Text: "a name of capitals, digits and underscores, as in UART_BASE", Pattern: regexp.MustCompile(`^[A-Z][A-Z0-9_]*$`)},
	"function":   {Text: "a name of letters, digits, dots and underscores", Pattern: regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.]*$`)},
	"region":     {Text: "a name of small letters, digits and underscores", Pattern: regexp.MustCompile(`^[a-z][a-z0-9_]*$`)},
	"version":    {Text: "a version, as in 9.1", Pattern: regexp.MustCompile(`^[0-9]{1,4}(\.[0-9]{1,4}){0,3}$`)},
	"usb": {
		Text:    "vendor:product in small hexadecimal digits, as in 0483:374b",
		Pattern: regexp.MustCompile(`^[0-9a-f]{4}:[0-9a-f]{4}$`),
	},
	// below the file's folder
	"path": {
		Text:    "a relative path of plain names",
		Pattern: regexp.MustCompile(`^([A-Za-z0-9_][A-Za-z0-9_.-]*/)*[A-Za-z0-9_][A-Za-z0-9_.-]*$`),
	},
	"folder": {
		Text:    "a relative path of plain names, or .",
		Pattern: regexp.MustCompile(`^(\.|([A-Za-z0-9_][A-Za-z0-9_.-]*/)*[A-Za-z0-9_][A-Za-z0-9_.-]*)$`),
	},
	"line":    {Text: "one line of C without comments", Pattern: regexp.MustCompile(`^([^\\/]|/[^\\/*])*/?$`)},
	"inside":  {Text: "a path inside the project", check: isInside},
	"pattern": {Text: "a valid pattern", check: isPattern},
}

func isInside(name string) bool {
	return filepath.IsLocal(filepath.FromSlash(name)) && path.Clean(name) == name && name != "."
}

func isPattern(name string) bool {
	_, err := path.Match(name, "")
	return err == nil
}
