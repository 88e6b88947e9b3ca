//go:build !windows

package regularfile

import (
	"syscall"
)

// errQuota reports that the disk quota is used up.
const errQuota = syscall.EDQUOT

// ErrNotFolder reports a path with a component that is not a folder.
const ErrNotFolder = syscall.ENOTDIR
