package atomicfolder

import (
	"errors"

	"golang.org/x/sys/unix"
)

// exchange gives each of two folders the other's name, in one step. The error is errors.ErrUnsupported where the file
// system or the kernel cannot (renameat2(2): EINVAL, ENOSYS).
func exchange(a, b string) error {
	err := unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) {
		return errors.ErrUnsupported
	}
	return err
}
