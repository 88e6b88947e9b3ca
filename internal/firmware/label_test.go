package firmware

import (
	"strings"
	"testing"
)

func TestParseLabel(t *testing.T) {
	id := strings.Repeat("0f", 16)
	for label, want := range map[string][2]string{
		id + "-a-board-0123456789abcdef": {id, "a-board"}, id + "-a+b@1+c-0123456789abcdef": {id, "a/b@1/c"},
		id[1:] + "-b-0123456789abcdef": {},
		id + "-b-0123456789abcde":      {}, id + "--0123456789abcdef": {}, "0" + id + "-b-0123456789abcdef": {},
		id + "-b-0123456789abcdef0": {}, "landmarks": {},
	} {
		got, board, _, ok := ParseLabel(label)
		if got != want[0] || board != want[1] || ok != (want[0] != "") {
			t.Errorf("%s: %q, %q, %v", label, got, board, ok)
		}
	}
}
