//go:build !windows

package ledger

import (
	"io/fs"
	"os"
	"syscall"
)

// openFlags are for files in a folder that any user may write to: do not follow links or wait for pipes.
const openFlags = syscall.O_NOFOLLOW | syscall.O_NONBLOCK | syscall.O_CLOEXEC

func isShared(m fs.FileMode) bool { return m&sharedMode == sharedMode }

// LeaseDir returns the folder for leases of devices attached to this computer, the same for all users:
// /run/lock/boardsmith, or /tmp/boardsmith if not every user may write to /run/lock.
func LeaseDir() (string, error) {
	return leaseDirIn("/run/lock", "/tmp"), nil
}

func leaseDirIn(lock, other string) string {
	if info, err := os.Stat(lock); err == nil && info.IsDir() && isShared(info.Mode()) {
		return lock + "/boardsmith"
	}
	return other + "/boardsmith"
}
