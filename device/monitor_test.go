package device

import (
	"strings"
	"testing"
	"time"

	"github.com/boardsmith/boardsmith/internal/framing"
)

// TestMonitorOfPieces: the same lines are shown wherever the received bytes are divided.
func TestMonitorOfPieces(t *testing.T) {
	t.Parallel()
	var f framing.Framer
	bytes := append([]byte("boot\r\n"), f.Append(nil, []byte{1, 2, 1, 1})...)
	bytes = append(bytes, "\xff\xfebetween\n"...)
	bytes = append(bytes, f.Append(nil, []byte{1, 2, 3}, []byte("hello \xff"))...)
	show := func(parts ...[]byte) string {
		var lines []string
		add := func(s string) { lines = append(lines, s[8:]) }
		w := &monitoredLink{start: time.Now(), in: direction{sign: "<"}, show: add}
		for _, p := range parts {
			w.decode(&w.in, p)
		}
		return strings.Join(lines, "\n")
	}
	all := show(bytes)
	for _, want := range []string{
		`outside of frames: "boot"`, "between", "Init reply session 0102",
		"log        session 0102",
	} {
		if !strings.Contains(all, want) {
			t.Errorf("%q is not shown:\n%s", want, all)
		}
	}
	for i := range bytes {
		if got := show(bytes[:i], bytes[i:]); got != all {
			t.Errorf("cut at %d:\n%s\nwant\n%s", i, got, all)
		}
	}
}
