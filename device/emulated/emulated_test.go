package emulated

import (
	"path/filepath"
	"testing"

	"github.com/boardsmith/boardsmith/internal/testkit"
)

// TestKeeperOfDesk: a desk's function that has no path for the keeper leaves it to be found as without the function.
func TestKeeperOfDesk(t *testing.T) {
	named := filepath.Join(t.TempDir(), "mine")
	t.Setenv("BOARDSMITH_KEEPER", named)
	for _, find := range []func(string) (string, error){nil, func(string) (string, error) { return "", nil }} {
		_, err := Probes().Start(t.Context(), filepath.Join(t.TempDir(), "chip"), "nrf51", find)
		testkit.WantError(t, err, "", "BOARDSMITH_KEEPER")
	}
}
