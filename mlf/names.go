// This file matches the names that people, models and generated C use for the same tensor.

package mlf

import (
	"fmt"

	"github.com/boardsmith/boardsmith/internal/spelling"
)

// isIdentifier reports whether the name is a C identifier.
func isIdentifier(s string) bool {
	for i := 0; i < len(s); i++ {
		if c := s[i]; !spelling.IsAlnum(c) && c != '_' || i == 0 && c >= '0' && c <= '9' {
			return false
		}
	}
	return s != ""
}

// outputName returns TVM's default name of output i of n.
func outputName(i, n int) string {
	if n == 1 {
		return "output"
	}
	return fmt.Sprintf("output%d", i)
}
