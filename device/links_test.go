package device

import (
	"maps"
	"slices"
	"testing"

	"github.com/boardsmith/boardsmith/boards"
)

// TestLinkKindsAreImplemented: each kind that a board file may name is implemented, and no other.
func TestLinkKindsAreImplemented(t *testing.T) {
	want := slices.Sorted(slices.Values(boards.LinkKinds()))
	if have := slices.Sorted(maps.Keys(linkers)); !slices.Equal(have, want) {
		t.Errorf("implemented are %q, board files may name %q", have, want)
	}
	for kind, l := range linkers {
		if l.start == nil && !l.keepsImage() {
			t.Errorf("a link of kind %s can be neither started nor opened", kind)
		}
	}
}
