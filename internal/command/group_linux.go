package command

import (
	"os/exec"
	"syscall"
)

// ownGroup puts the command into a process group of its own, and has the kernel end it when this process dies.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
