// This file reads variables into structs.

package console

import (
	"cmp"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/files/jsonfile"
)

// Read reads variables of the running target into the struct that variables points to. The tags of a field are:
//
//	var      the variable
//	default  its text if it is not set
//	range    the least and the greatest number
//	of       the words to choose from
//	between  what separates the words of a list in place of commas
//	write    the variable is a file that the target writes: its formats
//	else     the end of the error for another text: "is not a number of runs"
//	next     the advice of that error
//
// A bool is a switch; a list has commas between its words; a duration is 2m30s, or a number of seconds.
func (c *Console) Read(variables any) error {
	v := reflect.ValueOf(variables).Elem()
	for _, f := range reflect.VisibleFields(v.Type()) {
		name, ok := f.Tag.Lookup("var")
		text := cmp.Or(c.Env(name), f.Tag.Get("default"))
		if !ok || text == "" || !Reads(c.step, name) {
			continue
		}

		var err error
		switch to := v.FieldByIndex(f.Index).Addr().Interface().(type) {
		case *bool:
			*to = IsOn(text)
		case *[]string:
			// A comma separates them unless the tag has something else: a folder may have a space.
			*to = strings.FieldsFunc(text, func(r rune) bool {
				return strings.ContainsRune(cmp.Or(f.Tag.Get("between"), ","), r)
			})
		case *time.Duration:
			*to, err = Duration(name, text)
		case *string:
			*to, err = text, checkText(name, text, f.Tag)
		case *int:
			*to, err = strconv.Atoi(text)
		case *uint64:
			*to, err = strconv.ParseUint(text, 10, 64)
		case *float64:
			*to, err = strconv.ParseFloat(text, 64)
		}

		if bounds := f.Tag.Get("range"); bounds != "" && err == nil {
			var least, most float64
			_, _ = fmt.Sscan(bounds, &least, &most)
			if number, _ := strconv.ParseFloat(text, 64); !(number >= least && number <= most) {
				err = strconv.ErrRange
			}
		}

		if wrong := f.Tag.Get("else"); err != nil && wrong != "" {
			return failure.New(failure.Config, f.Tag.Get("next"), "%s=%s%s", name, text, wrong)
		}
		if err != nil {
			return err
		}
	}
	return c.CheckReplaced(variables)
}

// Complete sets the variables without a value in the struct that variables points to, from those fields of another
// struct that have the same variable in their tags.
func Complete(variables, from any) error {
	to, source := reflect.ValueOf(variables).Elem(), reflect.ValueOf(from)
	values := map[string]reflect.Value{}
	for _, f := range reflect.VisibleFields(source.Type()) {
		if value := source.FieldByIndex(f.Index); !value.IsZero() {
			values[f.Tag.Get("var")] = value
		}
	}

	for _, f := range reflect.VisibleFields(to.Type()) {
		field, name := to.FieldByIndex(f.Index), f.Tag.Get("var")
		value, ok := values[name]
		if name == "" || !ok || !field.IsZero() {
			continue
		}

		// A file has a duration as text.
		if field.Type() == reflect.TypeFor[time.Duration]() {
			d, err := Duration(name, value.String())
			if err != nil {
				return err
			}
			value = reflect.ValueOf(d)
		}
		field.Set(value.Convert(field.Type()))
	}
	return nil
}

// Duration parses a variable's 2m30s, or a plain number of seconds.
func Duration(name, text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if seconds, numErr := strconv.ParseFloat(text, 64); numErr == nil && seconds > 0 && seconds < math.MaxInt64/1e9 {
		d, err = time.Duration(seconds*float64(time.Second)), nil
	}

	if err != nil || d <= 0 {
		return 0, failure.New(failure.Config, fmt.Sprintf("write %[1]s=60 or %[1]s=2m30s", name),
			"%s=%s is not a positive duration of at most 292 years", name, text)
	}
	return d, nil
}

// checkText compares a variable's text with the tags of its field.
func checkText(name, text string, tag reflect.StructTag) error {
	words := strings.Fields(tag.Get("of"))
	if len(words) > 0 && !slices.Contains(words, text) {
		return failure.Errorf(failure.Config, "%s=%s is none of %s%s", name, text, strings.Join(words, ", "),
			jsonfile.DidYouMean(text, words))
	}

	if formats, ok := tag.Lookup("write"); ok {
		return CheckFile(name, text, strings.Fields(formats)...)
	}
	return nil
}
