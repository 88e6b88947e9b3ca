//go:build linux

package console

import (
	"os"
	"testing"

	"github.com/boardsmith/boardsmith/internal/testkit"
)

// TestDumbTerminal: progress is drawn on a terminal that can move its cursor.
func TestDumbTerminal(t *testing.T) {
	f, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip(err)
	}
	defer f.Close()
	for name, drawn := range map[string]bool{"xterm": true, "": true, "dumb": false} {
		testkit.Equal(t, name, New(func(string) string { return name }, f, f).terminal, drawn)
	}
}
