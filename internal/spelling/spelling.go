// Package spelling compares names that people, models and generated C use for the same thing.
package spelling

import (
	"fmt"
	"sort"

	"github.com/agext/levenshtein"
)

// Sanitize converts a name to a C identifier as TVM does: every byte but letters and digits becomes "_" (mlf.md
// §5).
func Sanitize(name string) string {
	b := []byte(name)
	for i, c := range b {
		if !IsAlnum(c) {
			b[i] = '_'
		}
	}
	return string(b)
}

// IsAlnum reports whether a byte is an ASCII letter or a digit.
func IsAlnum(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// Nearest returns an advice that names the most similar of the names, or "" if none is similar.
func Nearest(name string, names []string) string {
	names = append([]string(nil), names...)
	sort.SliceStable(names, func(i, j int) bool {
		return levenshtein.Distance(name, names[i], nil) < levenshtein.Distance(name, names[j], nil)
	})
	if len(names) == 0 || levenshtein.Distance(name, names[0], nil) > max(2, len(name)/2) {
		return ""
	}
	return fmt.Sprintf("did you mean %q?", names[0])
}
