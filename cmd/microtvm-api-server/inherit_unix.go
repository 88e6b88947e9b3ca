//go:build !windows

package main

import "syscall"

// keepFromChildren lets compilers and emulators not inherit a pipe: its other end would not see this process's end.
func keepFromChildren(fd int) { syscall.CloseOnExec(fd) }
