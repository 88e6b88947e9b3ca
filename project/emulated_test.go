package project

import (
	"testing"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/failure"
)

// NewEnough reports whether the installed emulator supports the board's machine. Tests of all emulated boards skip a
// board for which it does not, with the reason in their log.
func NewEnough(t *testing.T, b *boards.Board) bool {
	t.Helper()
	_, emulator, err := device.MissingTools(t.Context(), b)
	must(t, err)
	if len(emulator) > 0 && emulator[0].Needs != "" {
		t.Logf("without board %s: %v: %s", b.Name, emulator[0], failure.Next(emulator[0]))
		return false
	}
	return true
}
