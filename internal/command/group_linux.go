package command

import (
	"os/exec"
	"syscall"
)

// ownGroup puts the command into a process group of its own, which the kernel ends with this process.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
