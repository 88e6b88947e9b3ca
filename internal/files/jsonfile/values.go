// This file checks values of fields by the tags of Go structs.

package jsonfile

import (
	"encoding/json"
	"fmt"
	"net"
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
	Field string // its path: "memory[2].name"; "" of the whole file
	Err   error
}

func (e *FieldError) Error() string { return strings.TrimPrefix(e.Field+": ", ": ") + e.Err.Error() }
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
//	either    of the fields of an object with this word, exactly one is set
//
// Of the fields of one object, "with" names those of which one is set beside the field, or has a value (NAME=VALUE):
// only then may it be set, or is it required. "needs" names those that all are set beside it. "key" is the Go name of
// the field in which the elements of a list differ.
//
// A field that is not set is checked for required and either only.
func Check(v any) []*FieldError {
	var c checker
	c.value(reflect.ValueOf(v), "", "", "")
	return c.faults
}

type checker struct {
	isPart bool // another file may set other fields
	faults []*FieldError
}

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
		// Sorted, so that equal files have equal errors.
		slices.SortFunc(names, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
		for _, name := range names {
			c.value(name, at+"."+name.String(), keys, "")
			c.value(v.MapIndex(name), at+"."+name.String(), is, "")
		}
	case reflect.Struct:
		c.fields(v, at, is)
	default:
		if err := CheckValue(v.Interface(), is); err != nil {
			c.fault(at, "%w", err)
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

	isNot := func(f reflect.StructField) bool { return nameOf(f) == "" }
	fields := slices.DeleteFunc(reflect.VisibleFields(v.Type()), isNot)
	given := map[string]bool{} // also an empty list; and NAME=VALUE
	for _, f := range fields {
		value := v.FieldByIndex(f.Index)
		given[nameOf(f)], given[fmt.Sprint(nameOf(f), "=", value)] = !value.IsZero(), true
	}
	isGiven := func(name string) bool { return given[name] }

	var either, set []string
	for _, f := range fields {
		name, value, rule := nameOf(f), v.FieldByIndex(f.Index), f.Tag.Get("is")
		full, words, with := strings.TrimPrefix(at+"."+name, "."), strings.Fields(rule), strings.Fields(f.Tag.Get("with"))
		isFor := len(with) == 0 || !c.isPart && slices.ContainsFunc(with, isGiven)
		isList := value.Kind() == reflect.Slice || value.Kind() == reflect.Map
		if given[name] && (!isList || value.Len() > 0) {
			c.value(value, full, rule, f.Tag.Get("keys"))
		} else if isFor && slices.Contains(words, "required") {
			c.fault(full, "missing")
		}

		if c.isPart {
			continue
		}
		if slices.Contains(words, "either") {
			either = append(either, name)
		}
		if given[name] {
			set = append(set, name)
			if !isFor {
				c.fault(full, "it is only for %s", strings.Join(with, ", "))
			}
			for _, need := range strings.Fields(f.Tag.Get("needs")) {
				if !given[need] {
					c.fault(full, "it needs %s", need)
				}
			}
			c.distinct(value, full, f.Tag.Get("key"))
		}
	}

	isNotEither := func(name string) bool { return !slices.Contains(either, name) }
	if n := len(slices.DeleteFunc(set, isNotEither)); n != 1 && len(either) > 0 {
		c.fault(at, "it must have one of %s; it has %d of them", strings.Join(either, ", "), n)
	}
}

func (c *checker) fault(at, format string, args ...any) {
	c.faults = append(c.faults, &FieldError{at, fmt.Errorf(format, args...)})
}

// distinct checks whether the elements of a list differ in a field.
func (c *checker) distinct(list reflect.Value, at, key string) {
	seen := map[any]bool{}
	for i := 0; key != "" && i < list.Len(); i++ {
		of := list.Index(i).FieldByName(key).Interface()
		if seen[of] {
			c.fault(fmt.Sprintf("%s[%d]", at, i), "%q is there twice", of)
		}
		seen[of] = true
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
	case rule == "required", rule == "either":
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

// positive matches a number above zero that a float64 can hold.
const positive = `(0*[1-9]\d{0,99}(\.\d*)?|0*\.\d*[1-9]\d*)([eE][+-]?\d{1,2})?`

const replaced = `\{(elf|bin|hex|out\.bin|out\.hex)\}|\{board\}/\w[\w./-]*`

func pattern(text, expression string) Form {
	return Form{Text: text, Pattern: regexp.MustCompile(expression)}
}

// Forms are the forms of texts by their names in tags. It must not be changed.
var Forms = map[string]Form{
	"text":       pattern("a text that is not empty", `.`),
	"identifier": pattern("a C identifier", `^[A-Za-z_][A-Za-z0-9_]*$`),
	"macro":      pattern("a name of capitals, digits and underscores, as in UART_BASE", `^[A-Z][A-Z0-9_]*$`),
	"function":   pattern("a name of letters, digits, dots and underscores", `^[A-Za-z_][A-Za-z0-9_.]*$`),
	"name":       pattern("a name of small letters, digits and underscores", `^[a-z][a-z0-9_]*$`),
	"version":    pattern("a version, as in 9.1", `^[0-9]{1,4}(\.[0-9]{1,4}){0,3}$`),
	"usb":        pattern("vendor:product in small hexadecimal digits, as in 0483:374b", `^[0-9a-f]{4}:[0-9a-f]{4}$`),
	// below the file's folder
	"path":   pattern("a relative path of plain names", `^([A-Za-z0-9_][A-Za-z0-9_.-]*/)*[A-Za-z0-9_][A-Za-z0-9_.-]*$`),
	"folder": pattern("a relative path of plain names, or .", `^(\.|([A-Za-z0-9_][A-Za-z0-9_.-]*/)*[A-Za-z0-9_][A-Za-z0-9_.-]*)$`),
	"define": pattern("a macro, as in N or N=2", `^[A-Za-z_][A-Za-z0-9_]*(=([ -~]*[ -\[\]-~])?)?$`),
	// of a command after the link, in which {board}/FILE and the files of the image are replaced
	"command": pattern("$NAME, or a word with no braces but {elf}, {bin}, {hex}, {out.bin}, {out.hex}, {board}/FILE",
		`^(\$[A-Za-z_]\w*|([^{}$]|`+replaced+`)([^{}]|`+replaced+`)*)$`),
	"library":  pattern("the name of a library, or its folder", `^((\./)?(\w[\w.-]*/)*\w[\w.-]*|[^ \\/]+|[^ \\]*:[^ \\]*)$`),
	"member":   pattern("the name of a member", `^(\[(0|[1-9]\d{0,2})\]|[A-Za-z_]\w*)(\.[A-Za-z_]\w*|\[(0|[1-9]\d{0,5})\])*$`),
	"commit":   pattern("a commit", `^[0-9a-f]{40}$`),
	"licence":  pattern("an SPDX expression", `^[\w.+() -]+$`),
	"word":     pattern("a text that make and a shell take as it is", `^[\w./=+,:-]+$`),
	"place":    pattern("a place that begins with $NAME, {above} or ~", `^(\$[^/]+|\{above\}|~)(/|$)`),
	"searched": pattern("a place that begins with {above} or ~", `^(\{above\}|~)(/|$)`),
	"readable": pattern("a place that begins with $NAME, {above}, ~ or /", `^((\$[^/]+|\{above\}|~)(/|$)|/)`),
	"input":    {Text: "a path or pattern inside the project", check: isInput},
	"line":     pattern("one line of C without comments", `^([^\\/]|/[^\\/*])*/?$`),
	"rule": pattern("exact, top1, abs=N, rel=N or abs=N,rel=N, of which N is above 0",
		`^(exact|top1|abs=`+positive+`(, ?rel=`+positive+`)?|rel=`+positive+`(, ?abs=`+positive+`)?)$`),
	"address": {Text: "host:port, as in 192.0.2.7:4000", check: isAddress},
	"inside":  {Text: "a path inside the project", check: isInside},
	"pattern": {Text: "a valid pattern", check: isPattern},
}

// isAddress accepts a host and the number of a port.
func isAddress(text string) bool {
	host, port, err := net.SplitHostPort(text)
	n, notNumber := strconv.ParseUint(port, 10, 16)
	return err == nil && host != "" && notNumber == nil && n > 0
}

func isInside(name string) bool {
	return filepath.IsLocal(filepath.FromSlash(name)) && path.Clean(name) == name && name != "."
}

// isInput accepts !PATTERN, too, which excludes files.
func isInput(name string) bool {
	name = strings.TrimPrefix(name, "!")
	return isInside(name) && isPattern(name)
}

func isPattern(name string) bool {
	_, err := path.Match(name, "")
	return err == nil
}
