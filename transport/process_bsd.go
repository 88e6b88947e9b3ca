//go:build unix && !linux

package transport

import (
	"os/exec"
	"runtime"
	"syscall"
)

// childAttributes puts the child into a group of its own.
func childAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// awaitEnd waits for the child and reaps it.
func awaitEnd(cmd *exec.Cmd) { _ = cmd.Wait() }

func yield() { runtime.Gosched() }
