package regularfile

import (
	"syscall"
)

// errQuota reports that the disk quota is used up (ERROR_DISK_QUOTA_EXCEEDED).
const errQuota = syscall.Errno(1295)

// ErrNotFolder reports a path with a component that is not a folder (ERROR_PATH_NOT_FOUND).
const ErrNotFolder = syscall.ERROR_PATH_NOT_FOUND
