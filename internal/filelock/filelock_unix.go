//go:build !windows

package filelock

import (
	"os"
	"syscall"
)

// Try locks an open file for this process and all that inherit it. It returns false if the file is locked
// elsewhere.
func Try(f *os.File) (bool, error) {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == syscall.EWOULDBLOCK {
		return false, nil
	}
	return err == nil, err
}
