// Package statedir names the folder in which boardsmith keeps what must outlast any cache.
package statedir

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/boardsmith/boardsmith/internal/files/abspath"
)

// Path returns the folder of state that outlasts any cache (ledger, emulated chips and their leases,
// installed tools): BOARDSMITH_HOME/state if that variable is set, else boardsmith in XDG_STATE_HOME or in
// ~/.local/state.
func Path() (string, error) {
	if home := os.Getenv("BOARDSMITH_HOME"); home != "" {
		return abspath.Of(filepath.Join(home, "state")), nil
	}
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "boardsmith"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("state folder: %w", err)
	}
	return filepath.Join(home, ".local", "state", "boardsmith"), nil
}
