//go:build !windows

package command

import (
	"os"
	"os/exec"
	"syscall"
)

// systemVariables are what a program needs on this system besides PATH and HOME.
var systemVariables []string

// hold has the command and its children keep the files open, and with them a lock on them.
func hold(cmd *exec.Cmd, files []*os.File) { cmd.ExtraFiles = files }

// interruptGroup asks all processes of the command to stop, as Ctrl-C does.
func interruptGroup(cmd *exec.Cmd) error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) }

// killGroup ends what is left of the command's group after its leader; most often that is nothing.
func killGroup(cmd *exec.Cmd) {
	if cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // an error means that it is empty
	}
}
