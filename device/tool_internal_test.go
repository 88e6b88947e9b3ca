package device

import (
	"errors"
	"os/exec"
	"testing"
)

// TestToolBeforePATH: a program for which Desk.Tool returns a path or an error is not searched on PATH.
func TestToolBeforePATH(t *testing.T) {
	t.Parallel()
	onPath, err := exec.LookPath("go")
	if err != nil {
		t.Skip("go is not on PATH")
	}
	none := errors.New("none")
	k := &Desk{Tool: func(program string) (string, error) {
		switch program {
		case "west":
			return "/own/west", nil
		case "openocd":
			return "", none
		}
		return "", nil
	}}
	for program, want := range map[string]string{"west": "/own/west", "go": onPath} {
		if path, err := k.tool(program); path != want || err != nil {
			t.Errorf("%s: %s, %v, want %s", program, path, err, want)
		}
	}
	if _, err := k.tool("openocd"); !errors.Is(err, none) {
		t.Errorf("openocd: %v", err)
	}
}
