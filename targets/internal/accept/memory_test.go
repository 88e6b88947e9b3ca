package accept

import (
	"testing"

	"github.com/boardsmith/boardsmith/internal/testkit"
)

func TestGaps(t *testing.T) {
	whole := block{"ram", 0x1000, 0x1000}
	for _, c := range []struct {
		used []block
		want []block
	}{
		{nil, []block{{"ram", 0x1000, 0x1000}}},
		{[]block{{"", 0x0, 0x9000}}, nil},
		{[]block{{"", 0x1800, 0x100}}, []block{{"ram", 0x1000, 0x800}, {"ram", 0x1900, 0x700}}},
		{[]block{{"", 0x1801, 0x100}, {"", 0x0, 0x1003}}, []block{{"ram", 0x1008, 0x7F8}, {"ram", 0x1908, 0x6F8}}},
		{[]block{{"", 0x1F00, 0x1000}, {"", 0x1100, 0}}, []block{{"ram", 0x1000, 0xF00}}},
		{[]block{{"", 0x1010, 0xFE0}}, nil}, // too small to be worth it
		{[]block{{"", 0x1000, 0x800}, {"", 0x1100, 0x100}}, []block{{"ram", 0x1800, 0x800}}},
	} {
		testkit.Equal(t, c.used, gaps(whole, c.used), c.want)
	}
}

// TestPieces checks that pieces and corners lie in their block, and that pieces are all of it.
func TestPieces(t *testing.T) {
	for size := uint64(64); size < 1<<22; size = size*5/3 + 8 {
		b := block{"ram", 0x20000000, size}
		at := b.start
		for _, p := range pieces([]block{b}) {
			if p.start != at || p.size > fillBytes {
				t.Errorf("%v: %v", b, p)
			}
			at = p.end()
		}
		testkit.Equal(t, b, at, b.end())
		list := corners([]block{b})
		if list[0].start != b.start || list[len(list)-1].end() != b.end() {
			t.Errorf("%v: %v", b, list)
		}
		for i, c := range list {
			if c.start < b.start || c.end() > b.end() || i > 0 && c.start < list[i-1].end() {
				t.Errorf("%v: %v", b, list)
			}
		}
	}
}
