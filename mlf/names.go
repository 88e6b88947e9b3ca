// This file matches the names that people, models and generated C use for the same tensor.

package mlf

import (
	"fmt"

	"github.com/boardsmith/boardsmith/internal/files/jsonfile"
)

// isIdentifier reports whether the name is a C identifier.
func isIdentifier(s string) bool { return jsonfile.CheckValue(s, "identifier") == nil }

// outputName returns TVM's default name of output i of n.
func outputName(i, n int) string {
	if n == 1 {
		return "output"
	}
	return fmt.Sprintf("output%d", i)
}
