package ledger

import (
	"fmt"
	"io/fs"
	"path/filepath"

	"golang.org/x/sys/windows"
)

const openFlags = 0

// isShared returns true: on Windows a folder's mode does not show who may write, and all users may create files
// below ProgramData.
func isShared(fs.FileMode) bool { return true }

// LeaseDir returns the folder for leases of devices attached to this computer, the same for all users:
// boardsmith\lease in ProgramData.
func LeaseDir() (string, error) {
	dir, err := windows.KnownFolderPath(windows.FOLDERID_ProgramData, 0)
	if err != nil {
		return "", fmt.Errorf("lease: %w", err)
	}
	return filepath.Join(dir, "boardsmith", "lease"), nil
}
