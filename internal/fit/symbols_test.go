package fit

import (
	"debug/elf"
	"fmt"
	"testing"

	"github.com/boardsmith/boardsmith/internal/testkit"
)

func TestSourceName(t *testing.T) {
	for name, want := range map[string]string{
		"main": "main", "f.constprop.0": "f", "buffer.1234": "buffer", ".LC0": ".LC0", "": "",
	} {
		testkit.Equal(t, name, sourceName(name), want)
	}
}

// TestWithoutOverlaps: an alias and an entry into a function count with the function; what reaches beyond it counts for
// the rest.
func TestWithoutOverlaps(t *testing.T) {
	t.Parallel()
	symbol := func(name string, section elf.SectionIndex, at, size uint64) elf.Symbol {
		return elf.Symbol{Name: name, Section: section, Value: at, Size: size}
	}
	got := ""
	for _, s := range withoutOverlaps([]elf.Symbol{
		symbol("alias", 1, 100, 40), symbol("f", 1, 100, 60), symbol("entry", 1, 120, 40), symbol("beyond", 1, 150, 30),
		symbol("next", 1, 180, 8), symbol("other", 2, 100, 4),
	}) {
		got += fmt.Sprintf("%s %d+%d ", s.Name, s.Value, s.Size)
	}
	testkit.Equal(t, "symbols", got, "f 100+60 beyond 160+20 next 180+8 other 100+4 ")
}
