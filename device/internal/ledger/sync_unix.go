//go:build !windows

package ledger

import (
	"errors"
	"os"
	"syscall"
)

// syncDir syncs a folder's names to the disk: without it, a file that was renamed into it may have its old content
// after a power failure. File systems that need no sync may return an error, which is ignored.
func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Sync(); err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	return nil
}
