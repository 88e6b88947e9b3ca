// This file recognises faults of the computer by its system's errors.

package failure

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// hostErrors are errors of the operating system that are never the fault of an input, a tool or a board, with advice.
var hostErrors = []struct {
	err  syscall.Errno
	next string
}{
	{syscall.ENOSPC, freeSpace},
	{syscall.EDQUOT, freeSpace},
	{syscall.EMFILE, "raise the limit of open files, as by ulimit -n 4096, and repeat"},
	{syscall.ENFILE, "close other programs and repeat"},
	{syscall.EFBIG, "raise the limit of a file's size, as by ulimit -f unlimited, and repeat"},
	{syscall.ENOMEM, "close other programs, or give this one more memory, and repeat"},
}

const freeSpace = "make room on the disk, or set TMPDIR to a folder on another one, and repeat"

// freeSpaceOf is freeSpace for a file that could not be written.
func freeSpaceOf(file string) string {
	next := "make room on the disk that holds " + filepath.Dir(file)
	if beyond, err := filepath.Rel(os.TempDir(), file); err == nil && filepath.IsLocal(beyond) {
		next += ", or set TMPDIR to a folder on another one, and repeat"
	}
	return next
}

func ofHost(err error) bool {
	_, fault := faultOfHost(err)
	return fault != nil
}

// faultOfHost returns the fault of the computer in err's chain, with its advice, whatever wraps it; nil if there is
// none.
func faultOfHost(err error) (next string, fault error) {
	if err == nil {
		return "", nil
	}
	if c, ok := err.(classed); ok && c.FailureClass() == Host {
		if a, ok := err.(advised); ok {
			next = a.NextStep()
		}
		return next, err
	}
	for _, h := range hostErrors {
		if err == h.err {
			return h.next, err
		}
	}
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		next, fault = faultOfHost(e.Unwrap())
		if file, ok := err.(*fs.PathError); ok && next == freeSpace {
			next = freeSpaceOf(file.Path)
		}
		return next, fault
	case interface{ Unwrap() []error }:
		for _, each := range e.Unwrap() {
			if next, fault = faultOfHost(each); fault != nil {
				return next, fault
			}
		}
	}
	return "", nil
}
