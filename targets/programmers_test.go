package targets

import (
	"slices"
	"testing"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/targets/internal/toolbox"
)

// TestProgrammersTools: each programmer of board files is a program that doctor looks for and that a variable can name.
func TestProgrammersTools(t *testing.T) {
	t.Parallel()
	for _, name := range boards.Programmers() {
		listed := slices.ContainsFunc(toolbox.Tools(), func(t toolbox.Tool) bool {
			return t.Command[0] == name && t.Path != ""
		})
		if listed == (name == boards.NoProgrammer) {
			t.Errorf("programmer %s: in the table of tools: %v", name, listed)
		}
	}
}
