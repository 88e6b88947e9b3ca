package plainfile

import (
	"syscall"
)

// errQuota is a disk quota that is used up (ERROR_DISK_QUOTA_EXCEEDED).
const errQuota = syscall.Errno(1295)

// ErrNotFolder is a path through something that is no folder (ERROR_PATH_NOT_FOUND).
const ErrNotFolder = syscall.ERROR_PATH_NOT_FOUND
