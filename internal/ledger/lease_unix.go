//go:build !windows

package ledger

import (
	"io/fs"
	"os"
	"syscall"
)

// openFlags are for files in a folder that anybody may write to: what is a link or a pipe now is neither followed nor waited for.
const openFlags = syscall.O_NOFOLLOW | syscall.O_NONBLOCK | syscall.O_CLOEXEC

func isShared(m fs.FileMode) bool { return m&sharedMode == sharedMode }

// LeaseDir is the folder for leases of what is attached to this computer, the same for each of its users:
// /run/lock/boardsmith, or /tmp/boardsmith where not every user may write to /run/lock.
func LeaseDir() (string, error) {
	return leaseDirIn("/run/lock", "/tmp"), nil
}

func leaseDirIn(lock, other string) string {
	if info, err := os.Stat(lock); err == nil && info.IsDir() && isShared(info.Mode()) {
		return lock + "/boardsmith"
	}
	return other + "/boardsmith"
}
