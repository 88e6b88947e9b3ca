//go:build !windows && !linux

package command

import (
	"os/exec"
	"syscall"
)

// ownGroup puts the command into a process group of its own.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
