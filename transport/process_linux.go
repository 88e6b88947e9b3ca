package transport

import (
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// childAttributes puts the child into a process group of its own, and makes the kernel kill it when this process
// dies.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// awaitEnd waits until the child has ended, without reaping it, so that its PID stays in use.
func awaitEnd(cmd *exec.Cmd) {
	for {
		err := unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if err != unix.EINTR {
			return
		}
	}
}

// yield lets another thread that waits for this core run, such as the device's.
func yield() { _, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0) }
