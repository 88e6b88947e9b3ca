package develop

import (
	"path/filepath"
	"slices"
	"testing"
)

// The lists of packages name packages with tests, and a plain run tries each of them once.
func TestListedPackages(t *testing.T) {
	for _, p := range slices.Concat(raced, longest) {
		files, err := filepath.Glob(filepath.Join("..", "..", p, "*_test.go"))
		if err != nil || len(files) == 0 || slices.Contains(raced, p) && slices.Contains(longest, p) {
			t.Errorf("%s has no tests, or is in both lists: %v", p, err)
		}
	}
}
