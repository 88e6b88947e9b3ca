package emulated

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestKeeperOfDesk: a desk's function that has no path for the keeper leaves it to be found as without the function.
func TestKeeperOfDesk(t *testing.T) {
	named := filepath.Join(t.TempDir(), "mine")
	t.Setenv("BOARDSMITH_KEEPER", named)
	for name, find := range map[string]func(string) (string, error){
		"nil": nil, "no path": func(string) (string, error) { return "", nil },
	} {
		_, err := Probes().Start(t.Context(), filepath.Join(t.TempDir(), "chip"), "nrf51", find)
		if err == nil || !strings.Contains(err.Error(), "BOARDSMITH_KEEPER") {
			t.Errorf("%s: %v, want an error that names the variable", name, err)
		}
	}
}
