package spdx

import (
	"slices"
	"testing"
)

// TestIDs lists the licences and exceptions of expressions; other texts have none.
func TestIDs(t *testing.T) {
	for text, want := range map[string][]string{
		"MIT": {"MIT"}, "MIT OR Apache-2.0": {"MIT", "Apache-2.0"}, "GPL-2.0+": {"GPL-2.0"},
		"(MIT AND MIT) OR LicenseRef-a":             {"MIT", "LicenseRef-a"},
		"GPL-2.0-only WITH Classpath-exception-2.0": {"GPL-2.0-only", "Classpath-exception-2.0"},
		"": nil, "ask us": nil, "MIT AND": nil, "AND MIT": nil, "(MIT": nil, "MIT)": nil, "()": nil, "MIT (MIT)": nil,
		NoAssertion: nil, "../MIT": nil, "MIT\nMIT": nil, "MIT, Apache-2.0": nil,
	} {
		if got := IDs(text); !slices.Equal(got, want) || IsExpression(text) != (want != nil) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
