//go:build !windows

package plainfile

import (
	"syscall"
)

// errQuota is a disk quota that is used up.
const errQuota = syscall.EDQUOT

// ErrNotFolder is a path through something that is no folder.
const ErrNotFolder = syscall.ENOTDIR
