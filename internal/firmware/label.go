package firmware

import (
	"regexp"
	"strings"
)

// Label returns an image's label in the cache, from its build id, its board and the digest of its landmarks, of which
// the first 16 digits count.
func Label(id, board, landmarks string) string {
	return id + "-" + strings.ReplaceAll(board, "/", slash) + "-" + landmarks[:16]
}

// slash stands for the slash of a board's name, which itself has no plus sign.
const slash = "+"

var labelRE = regexp.MustCompile(`^([0-9a-f]{32})-(.+)-([0-9a-f]{16})$`)

// ParseLabel is the inverse of Label. ok is false of a label that another version of boardsmith wrote.
func ParseLabel(label string) (id, board, landmarks string, ok bool) {
	m := labelRE.FindStringSubmatch(label)
	if m == nil {
		return "", "", "", false
	}
	return m[1], strings.ReplaceAll(m[2], slash, "/"), m[3], true
}
