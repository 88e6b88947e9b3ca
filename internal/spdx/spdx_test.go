package spdx

import "testing"

// TestAnd: AND binds tighter than OR in SPDX expressions.
func TestAnd(t *testing.T) {
	for want, of := range map[string][]string{
		"": {""}, "MIT OR Apache-2.0": {"MIT OR Apache-2.0"}, "0BSD AND MIT": {"MIT", "0BSD"},
		"GPL-2.0-only AND (MIT OR Apache-2.0)": {"GPL-2.0-only", "MIT OR Apache-2.0"},
	} {
		var s Set
		for _, e := range append(of, of...) {
			s.Add(e)
		}
		if got := s.And(); got != want {
			t.Errorf("%q: %q, want %q", of, got, want)
		}
	}
}
