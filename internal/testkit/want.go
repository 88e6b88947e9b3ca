// This file compares results with wanted ones. What is tested can be named: the words of a message.

package testkit

import (
	"errors"
	"fmt"
	"reflect"
	"testing"
)

// Last returns the error of a call that has another result, too.
func Last(_ any, err error) error { return err }

// WantEqual reports a value that differs from another one.
func WantEqual(t testing.TB, got, want any, what ...any) {
	t.Helper()
	if !equal(got, want) {
		t.Errorf("%sgot %s\nwant %s", words(what), shown(got), shown(want))
	}
}

// WantResult returns a function that reports a call's error, or a result that differs from a value.
func WantResult(t testing.TB, want any, what ...any) func(got any, err error) {
	return func(got any, err error) {
		t.Helper()
		if err != nil || !equal(got, want) {
			t.Errorf("%sgot %s, %v\nwant %s", words(what), shown(got), err, shown(want))
		}
	}
}

// WantLen returns a function that reports a call's error, or a result of another length.
func WantLen(t testing.TB, want int, what ...any) func(got any, err error) {
	return func(got any, err error) {
		t.Helper()
		if n := reflect.ValueOf(got).Len(); err != nil || n != want {
			t.Errorf("%sgot %d, want %d: %s, %v", words(what), n, want, shown(got), err)
		}
	}
}

// WantIs reports an error that is not one of a kind.
func WantIs(t testing.TB, err, kind error, what ...any) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Errorf("%sgot the error %v\nwant %v", words(what), err, kind)
	}
}

// equal compares values as == does, but pointers, slices and the like by their contents. Slices without elements are
// equal.
func equal(got, want any) bool {
	g, w := reflect.ValueOf(got), reflect.ValueOf(want)
	if !g.IsValid() || !w.IsValid() {
		return !w.IsValid() && (!g.IsValid() || g.Kind() >= reflect.Chan && g.IsZero())
	}
	if w.CanInt() || w.CanFloat() || w.Kind() == reflect.String { // an untyped constant has another type here
		if g.CanConvert(w.Type()) && w.CanConvert(g.Type()) && g.Convert(w.Type()).Equal(w) {
			w = w.Convert(g.Type())
		}
	}
	switch {
	case g.Kind() == reflect.Slice && w.Kind() == reflect.Slice && g.Len()+w.Len() == 0:
		return true
	case g.Comparable() && g.Kind() != reflect.Pointer:
		return g.Equal(w)
	}
	return reflect.DeepEqual(g.Interface(), w.Interface())
}

func words(what []any) string {
	if len(what) == 0 {
		return ""
	}
	return fmt.Sprintln(what...)
}

func shown(v any) string {
	switch v := v.(type) {
	case string:
		return fmt.Sprintf("%q", v)
	case []byte:
		return fmt.Sprintf("% x", v)
	}
	return fmt.Sprintf("%+v", v)
}
