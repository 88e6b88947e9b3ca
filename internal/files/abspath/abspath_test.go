package abspath

import (
	"path/filepath"
	"slices"
	"testing"
)

// TestPaths: paths become absolute in the working folder of the call; names, nothing and absolute paths stay.
func TestPaths(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	in := func(name string) string { return filepath.Join(dir, name) }
	for path, want := range map[string]string{"": "", "a b": in("a b"), "./a/../b": in("b"), in("c"): in("c")} {
		if got := Of(path); got != want {
			t.Errorf("Of(%q) is %q, want %q", path, got, want)
		}
	}
	for word, want := range map[string]string{"": "", "name": "name", "./a": in("a"), "a/b": in("a/b")} {
		if got := OfWord(word); got != want {
			t.Errorf("OfWord(%q) is %q, want %q", word, got, want)
		}
	}
	a, b := "a", ""
	Fix(&a, &b)
	if a != in("a") || b != "" {
		t.Errorf("Fix: %q, %q", a, b)
	}
	list := []string{"a", in("b")}
	same := list
	FixEach(&list)
	if !slices.Equal(list, []string{in("a"), in("b")}) || same[0] != "a" {
		t.Errorf("FixEach: %q, and the caller's list is %q", list, same)
	}
	t.Chdir(t.TempDir())
	Fix(&a)
	FixEach(&list)
	if a != in("a") || list[0] != in("a") {
		t.Errorf("in another working folder: %q, %q", a, list)
	}
}
