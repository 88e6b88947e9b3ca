package device

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/boards"
)

// TestLinkKindsAreImplemented: each kind that a board file may name is implemented, and no other.
func TestLinkKindsAreImplemented(t *testing.T) {
	field, _ := reflect.TypeFor[boards.Link]().FieldByName("Kind")
	want := slices.Sorted(strings.SplitSeq(field.Tag.Get("is"), "|"))
	if have := slices.Sorted(maps.Keys(linkers)); !slices.Equal(have, want) {
		t.Errorf("implemented are %q, board files may name %q", have, want)
	}
	for kind, l := range linkers {
		if l.start == nil && !l.keepsImage() {
			t.Errorf("a link of kind %s can be neither started nor opened", kind)
		}
	}
}
