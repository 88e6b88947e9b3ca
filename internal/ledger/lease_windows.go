package ledger

import (
	"fmt"
	"io/fs"
	"path/filepath"

	"golang.org/x/sys/windows"
)

const openFlags = 0

// isShared says yes: who may write to a folder here, its mode does not say. All users may make files below ProgramData.
func isShared(fs.FileMode) bool { return true }

// LeaseDir is the folder for leases of what is attached to this computer, the same for each of its users: boardsmith\lease
// in ProgramData.
func LeaseDir() (string, error) {
	dir, err := windows.KnownFolderPath(windows.FOLDERID_ProgramData, 0)
	if err != nil {
		return "", fmt.Errorf("lease: %w", err)
	}
	return filepath.Join(dir, "boardsmith", "lease"), nil
}
