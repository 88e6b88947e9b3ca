//go:build unix

package plainfile

import "syscall"

const noWait = syscall.O_NONBLOCK
