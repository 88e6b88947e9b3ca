// Package filelock locks open files: a lock belongs to the open file, and so to every process that has inherited it.
//
// A lock ends with Release, or when the last of these processes has closed the file or ended. On Windows child
// processes do not inherit the lock, but they end with this process (package command), so that none outlives it.
package filelock

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"time"
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

// poll is how often Wait tries.
const poll = 10 * time.Millisecond

// Wait opens or creates a file and locks it, after whoever else has locked it. unlock removes the file. It returns the
// cause of ctx if that ends first.
func Wait(ctx context.Context, name string) (unlock func() error, err error) {
	for {
		f, err := Open(name)
		if err != nil {
			return nil, err
		}
		if f != nil {
			current, err := IsAt(f, name) // false if it was removed since it was opened
			if err == nil && current {
				return func() error { return remove(f, name) }, nil
			}
			if err := errors.Join(err, f.Close()); err != nil {
				return nil, err
			}
			continue
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(poll):
		}
	}
}

// remove removes a locked file: before it is unlocked, so that nobody has locked it meanwhile. Windows does not remove
// an open file, and so none that somebody else has opened.
func remove(f *os.File, name string) error {
	early := os.Remove(name)
	err := f.Close()
	if early != nil {
		_ = os.Remove(name)
	}
	return err
}

// TryShared is Try for a lock that others may share. A file must not have both locks at once: systems differ in what
// the second one does.
func TryShared(f *os.File) (bool, error) { return try(f, shared) }

// Release ends the lock, also of every process that has inherited it, and closes the file. Close alone leaves the lock
// to a process that is being started at this moment, which has every open file until its program begins.
func Release(f *os.File) error { return errors.Join(unlock(f), f.Close()) }

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
