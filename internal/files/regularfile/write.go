// This file writes files that users name.

package regularfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/moby/sys/atomicwriter"
)

// Write writes a file whole or not at all. A file that exists keeps its mode and, if this process may set it, its
// owner; mode is that of a new one. Of a symbolic link, it writes the file that the link leads to.
func Write(path string, data []byte, mode fs.FileMode) error {
	at, old, err := replaced(path)
	if err != nil {
		return err
	}
	if old != nil {
		mode = old.Mode().Perm()
	}
	if err := atomicwriter.WriteFile(at, data, mode); err != nil {
		return err
	}
	if old != nil {
		keepOwner(at, old)
	}
	return nil
}

// Writable returns the error that Write would return for a path, as far as this shows without writing the file.
func Writable(path string) error {
	at, _, err := replaced(path)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(at), ".boardsmith-*")
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// replaced returns the file that Write replaces or makes. old is nil if there is none yet.
func replaced(path string) (at string, old fs.FileInfo, err error) {
	old, err = os.Lstat(path)
	if err == nil && old.Mode()&fs.ModeSymlink != 0 {
		if path, err = filepath.EvalSymlinks(path); err != nil {
			return "", nil, fmt.Errorf("a symbolic link that leads nowhere: %w", err)
		}
		old, err = os.Lstat(path)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return path, nil, nil
	case err != nil:
		return "", nil, err
	case old.IsDir():
		return "", nil, &fs.PathError{Op: "write", Path: path, Err: ErrFolder}
	case !old.Mode().IsRegular():
		return "", nil, &fs.PathError{Op: "write", Path: path, Err: ErrSpecial}
	}
	return path, old, nil
}
