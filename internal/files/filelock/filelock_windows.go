package filelock

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

const (
	shared    = 0
	exclusive = windows.LOCKFILE_EXCLUSIVE_LOCK
)

func try(f *os.File, kind uint32) (bool, error) {
	flags := kind | windows.LOCKFILE_FAIL_IMMEDIATELY
	err := windows.LockFileEx(windows.Handle(f.Fd()), flags, 0, 1, 0, &windows.Overlapped{})
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) || errors.Is(err, windows.ERROR_IO_PENDING) {
		return false, nil
	}
	return err == nil, err
}

func unlock(f *os.File) error {
	return windows.UnlockFileEx(windows.Handle(f.Fd()), 0, 1, 0, &windows.Overlapped{})
}
