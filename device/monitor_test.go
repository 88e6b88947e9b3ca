package device

import (
	"strings"
	"testing"
	"time"

	"github.com/boardsmith/boardsmith/transport"
)

// TestWatchedInPieces cuts what comes in at every place: the same lines are shown.
func TestWatchedInPieces(t *testing.T) {
	t.Parallel()
	var f transport.Framer
	bytes := append([]byte("boot\r\n"), f.Append(nil, []byte{1, 2, 1, 1})...)
	bytes = append(bytes, "\xff\xfebetween\n"...)
	bytes = append(bytes, f.Append(nil, []byte{1, 2, 3}, []byte("hello \xff"))...)
	show := func(parts ...[]byte) string {
		var lines []string
		w := &watched{began: time.Now(), in: direction{sign: "<"}, show: func(s string) { lines = append(lines, s[8:]) }}
		for _, p := range parts {
			w.look(&w.in, p)
		}
		return strings.Join(lines, "\n")
	}
	whole := show(bytes)
	for _, want := range []string{
		`outside of frames: "boot"`, "between", "Init reply session 0102",
		"log        session 0102",
	} {
		if !strings.Contains(whole, want) {
			t.Errorf("%q is not shown:\n%s", want, whole)
		}
	}
	for i := range bytes {
		if got := show(bytes[:i], bytes[i:]); got != whole {
			t.Errorf("cut at %d:\n%s\nwant\n%s", i, got, whole)
		}
	}
}
