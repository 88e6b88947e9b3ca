//go:build unix

package regularfile

import "syscall"

const noWait = syscall.O_NONBLOCK
