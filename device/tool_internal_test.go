package device

import (
	"errors"
	"os/exec"
	"testing"
)

// TestTool: a desk's function finds the programs that it has a path or an error for; others are on PATH.
func TestTool(t *testing.T) {
	t.Parallel()
	onPath, err := exec.LookPath("go")
	if err != nil {
		t.Skip("go is not on PATH")
	}
	none := errors.New("none")
	k := &Desk{Tool: func(program string) (string, error) {
		switch program {
		case "west":
			return "/mine/west", nil
		case "openocd":
			return "", none
		}
		return "", nil
	}}
	for program, want := range map[string]string{"west": "/mine/west", "go": onPath} {
		if path, err := k.tool(program); path != want || err != nil {
			t.Errorf("%s: %s, %v, want %s", program, path, err, want)
		}
	}
	if _, err := k.tool("openocd"); !errors.Is(err, none) {
		t.Errorf("openocd: %v", err)
	}
}
