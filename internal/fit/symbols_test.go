package fit

import "testing"

func TestSourceName(t *testing.T) {
	for name, want := range map[string]string{
		"main": "main", "f.constprop.0": "f", "buffer.1234": "buffer", ".LC0": ".LC0", "": "",
	} {
		if got := sourceName(name); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}
