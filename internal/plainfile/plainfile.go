// Package plainfile opens files that people name: what is no plain file is refused at once, where opening a pipe would wait
// for a writer, and reading a device might never end.
package plainfile

import (
	"errors"
	"io/fs"
	"os"
)

// What is there is no plain file.
var (
	ErrFolder  = errors.New("it is a folder")
	ErrSpecial = errors.New("it is not a file") // a pipe, a socket, a device
)

// NoWait is for os.OpenFile: opening a pipe does not wait for its other end.
const NoWait = noWait

// Open opens the file to read it. Errors are of type *fs.PathError.
func Open(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|NoWait, 0)
	if err != nil {
		return nil, err
	}
	if err := check(f); err != nil {
		f.Close()
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return f, nil
}

func check(f *os.File) error {
	info, err := f.Stat()
	switch {
	case err != nil:
		return err
	case info.IsDir():
		return ErrFolder
	case !info.Mode().IsRegular():
		return ErrSpecial
	}
	return nil
}
