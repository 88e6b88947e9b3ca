// Package filelock locks open files: a lock belongs to the open file, and so to every process that has inherited it.
//
// A lock ends with Unlock, or when the last of these processes has closed the file or ended. On Windows child processes
// do not inherit the lock, but they end with this process (package command), so that none outlives it.
package filelock

import (
	"errors"
	"io/fs"
	"os"
)

// Try locks an open file for this process and all that inherit it. It returns false if the file is locked elsewhere.
func Try(f *os.File) (bool, error) { return try(f, exclusive) }

// Open opens or creates a file and locks it. It returns nil if the file is locked elsewhere.
func Open(name string) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	held, err := Try(f)
	if err != nil || !held {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// TryShared is Try for a lock that others may share. A file must not have both locks at once: systems differ in what
// the second one does.
func TryShared(f *os.File) (bool, error) { return try(f, shared) }

// Unlock ends the lock of every process that has inherited it.
func Unlock(f *os.File) error { return unlock(f) }

// IsAt reports whether an open file is still the one at that path: whoever locked a file that was removed meanwhile
// shares its lock with nobody.
func IsAt(f *os.File, path string) (bool, error) {
	opened, err := f.Stat()
	if err != nil {
		return false, err
	}
	named, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && os.SameFile(opened, named), err
}
