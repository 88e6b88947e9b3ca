package device

import (
	"os/exec"
	"testing"
)

// TestToolOnPATH: a program for which Desk.Tool returns no path is searched on PATH.
func TestToolOnPATH(t *testing.T) {
	want, err := exec.LookPath("go")
	if err != nil {
		t.Skip("go is not on PATH")
	}
	k := &Desk{Tool: func(string) (string, error) { return "", nil }}
	if path, err := k.tool("go"); path != want || err != nil {
		t.Errorf("%s, %v, want %s", path, err, want)
	}
}
