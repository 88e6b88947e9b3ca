//go:build !windows

package filelock

import (
	"os"
	"syscall"
)

// Try locks an open file for the caller and all who inherit it; false if somebody else has.
func Try(f *os.File) (bool, error) {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == syscall.EWOULDBLOCK {
		return false, nil
	}
	return err == nil, err
}
