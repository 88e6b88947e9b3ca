package generator

import (
	"testing"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/internal/blueprint"
)

// TestForBoard: every file that a template may request is generated for a board with a memory map.
func TestForBoard(t *testing.T) {
	t.Parallel()
	b, err := boards.Find("mps2_an385", nil)
	if err != nil {
		t.Fatal(err)
	}
	o, err := b.Settle(boards.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range blueprint.GeneratedFiles {
		if file == blueprint.LibrariesFile {
			continue // of projects with libraries
		}
		if ForBoard(file, &blueprint.Blueprint{}, b, o) == nil {
			t.Errorf("%s is not generated", file)
		}
	}
}
