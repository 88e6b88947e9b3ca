package project

import "testing"

// TestAllOf: AND binds tighter than OR in SPDX expressions.
func TestAllOf(t *testing.T) {
	for want, of := range map[string][]string{
		"": nil, "MIT OR Apache-2.0": {"MIT OR Apache-2.0"}, "0BSD AND MIT": {"0BSD", "MIT"},
		"GPL-2.0-only AND (MIT OR Apache-2.0)": {"GPL-2.0-only", "MIT OR Apache-2.0"},
	} {
		if got := allOf(of); got != want {
			t.Errorf("%q: %q, want %q", of, got, want)
		}
	}
}
