package cmodel

import (
	"testing"

	"github.com/boardsmith/boardsmith/internal/testkit/drawn"
)

// TestPlan plans random buffers: those that live at once never overlap, all are aligned and inside, and the whole is
// not less than what lives at once.
func TestPlan(t *testing.T) {
	r := drawn.Rand(t, "plans")
	for range 300 {
		buffers := make([]buffer, r.IntN(20))
		for i := range buffers {
			first := r.IntN(15)
			buffers[i] = buffer{bytes: int64(r.IntN(200)), first: first, last: first + r.IntN(4)}
		}
		total := max(0, plan(buffers))
		if least := atOnce(buffers); total < least {
			t.Fatalf("%v in %d bytes, but %d are in use at once", buffers, total, least)
		}
		for i, a := range buffers {
			if a.offset%alignment != 0 || a.offset < 0 || a.offset+a.bytes > total {
				t.Fatalf("%v is not inside %d bytes", a, total)
			}
			for _, b := range buffers[:i] {
				if a.first <= b.last && b.first <= a.last && a.offset < b.offset+b.bytes && b.offset < a.offset+a.bytes {
					t.Fatalf("%v and %v overlap", a, b)
				}
			}
		}
	}
}
