// Package regularfile opens and writes regular files that users name. It rejects anything else at once: opening a pipe
// would wait for a writer, and reading a device might never end. It also adds advice to file system errors.
package regularfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/boardsmith/boardsmith/failure"
)

// What is there is no plain file.
var (
	ErrFolder  = errors.New("it is a folder")
	ErrSpecial = errors.New("it is not a file") // a pipe, a socket, a device
)

// NoWait is a flag for os.OpenFile: opening a pipe does not wait for its other end.
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

// Error wraps a file system error with the operation, the file and an advice. It does not repeat the operation and
// path of an *fs.PathError.
func Error(op, path string, err error) error {
	if err == nil {
		return nil
	}
	class, next := failure.Internal, ""
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, errQuota), errors.Is(err, syscall.EFBIG):
		class, next = failure.Host, "make room on the disk that holds "+filepath.Dir(path)
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		class, next = failure.Config, "choose a folder that can be written to, or change its permissions"
	case errors.Is(err, ErrFolder), errors.Is(err, ErrSpecial), errors.Is(err, syscall.ENOTDIR),
		errors.Is(err, fs.ErrExist), errors.Is(err, syscall.EISDIR):
		class, next = failure.Config, "move away what is in the way, or choose another folder"
	case errors.Is(err, syscall.EBUSY), errors.Is(err, syscall.EXDEV): // such as the root of a mounted file system
		class, next = failure.Config, "choose a folder inside of it, or beside it"
	}
	var pe *fs.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	return failure.New(class, next, "%s %s: %w", op, path, err)
}
