package targets

import (
	"os/exec"
	"strings"
	"testing"
)

// TestOwnFunctions runs the example repository's own test: Go calls C functions that its boards bring.
func TestOwnFunctions(t *testing.T) {
	s := openShop(t)
	cmd := exec.Command("go", "test", "-count=1", "-v", ".")
	cmd.Dir = absolute(t, "../examples/own-repo")
	cmd.Env = s.environment()
	said, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	for line := range strings.Lines(string(said)) {
		if strings.Contains(line, "not installed") {
			t.Log(strings.TrimSpace(line))
		}
	}
}
