// Package spelling compares names that people, models and generated C use for the same thing.
package spelling

import (
	"fmt"
	"slices"
	"strings"

	edlib "github.com/hbollon/go-edlib"
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

// keywords are those of C11, of GNU's C, and what compilers for Linux define as 1.
var keywords = strings.Fields(`asm auto break case char const continue default do double else enum extern float for goto
	if inline int long register restrict return short signed sizeof static struct switch typedef typeof union unsigned
	void volatile while _Alignas _Alignof _Atomic _Bool _Complex _Generic _Imaginary _Noreturn _Static_assert
	_Thread_local NULL linux unix i386`)

// IsKeyword reports whether C has another meaning for a name, which thus is no member of a struct.
func IsKeyword(name string) bool { return slices.Contains(keywords, name) }

// IsAlnum reports whether a byte is an ASCII letter or a digit.
func IsAlnum(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// Nearest returns an advice that names the most similar of the names, or "" if none is similar.
func Nearest(name string, names []string) string {
	if best := Similar(name, names); best != "" {
		return fmt.Sprintf("did you mean %q?", best)
	}
	return ""
}

// Similar returns the most similar of the names, whatever the case of letters; "" if none is similar. Of equally
// similar ones it returns the one with the longest common beginning, of these the first.
func Similar(name string, names []string) string {
	best, least, begin := "", 0, 0
	name = strings.ToLower(name)
	for _, n := range names {
		lower := strings.ToLower(n)
		d, b := Distance(name, lower), commonBeginning(name, lower)
		if 20*d >= 11*max(len(name), len(lower)) { // more than 9 of 20 letters must stay
			continue
		}
		if best == "" || d < least || d == least && b > begin {
			best, least, begin = n, d, b
		}
	}
	return best
}

func commonBeginning(a, b string) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

// Distance returns the least number of edits that turn a into b: a letter is added, removed or replaced, or two
// neighbours are swapped (the optimal string alignment).
func Distance(a, b string) int { return edlib.OSADamerauLevenshteinDistance(a, b) }
