//go:build !windows

package chipkeeper

import (
	"os/exec"
	"syscall"
)

// ownSession detaches a process from the terminal that it was started from.
func ownSession(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }
