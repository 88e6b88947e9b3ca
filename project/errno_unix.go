//go:build !windows

package project

import "syscall"

// errQuota is a disk quota that is used up.
const errQuota = syscall.EDQUOT

// errNotFolder is a path through something that is no folder.
const errNotFolder = syscall.ENOTDIR
