package project

import "syscall"

// errQuota is a disk quota that is used up (ERROR_DISK_QUOTA_EXCEEDED).
const errQuota = syscall.Errno(1295)

// errNotFolder is a path through something that is no folder (ERROR_PATH_NOT_FOUND).
const errNotFolder = syscall.ERROR_PATH_NOT_FOUND
