// This file matches the names that people, models and generated C use for the same tensor.

package mlf

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/boardsmith/boardsmith/failure"
)

// Sanitize converts a name to a C identifier as TVM does: every byte but letters and digits becomes "_" (mlf.md
// §5).
func Sanitize(name string) string {
	b := []byte(name)
	for i, c := range b {
		if !isAlnum(c) {
			b[i] = '_'
		}
	}
	return string(b)
}

func isAlnum(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// Lookup finds a tensor by its name, or by its name in C if that is unique. kind, "input" or "output", is for the
// error, which lists the tensors and names the most similar one.
func Lookup(kind string, tensors []Tensor, name string) (int, error) {
	match := -1
	for i, t := range tensors {
		if t.Name == name {
			return i, nil
		}
		if Sanitize(t.Name) == Sanitize(name) && (Sanitize(name) == name || Sanitize(t.Name) == t.Name) {
			if match >= 0 {
				match = len(tensors)
			} else {
				match = i
			}
		}
	}
	if match >= 0 && match < len(tensors) {
		return match, nil
	}
	names, list := make([]string, len(tensors)), make([]string, len(tensors))
	for i, t := range tensors {
		names[i], list[i] = t.Name, t.String()
	}
	next := cmp.Or(Nearest(name, names), "use the name of an "+kind)
	return -1, failure.New(failure.Config, next, "the model has no %s %q; its %ss are: %s", kind, name, kind,
		strings.Join(list, "; "))
}

// isIdentifier reports whether the name is a C identifier.
func isIdentifier(s string) bool {
	for i := 0; i < len(s); i++ {
		if c := s[i]; !isAlnum(c) && c != '_' || i == 0 && c >= '0' && c <= '9' {
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
