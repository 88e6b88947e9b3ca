//go:build !windows

package project

import (
	"os"
	"syscall"
)

// tryHold locks an open file until it and what inherited it are closed; false if somebody else has.
func tryHold(f *os.File) (bool, error) {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == syscall.EWOULDBLOCK {
		return false, nil
	}
	return err == nil, err
}
