//go:build !windows

package project

import (
	"os"
	"os/exec"
	"syscall"
)

// systemVariables are what a program needs on this system besides PATH and HOME.
var systemVariables []string

// hold has the command and its children keep the file open, and with it a lock on it.
func hold(cmd *exec.Cmd, f *os.File) {
	if f != nil {
		cmd.ExtraFiles = []*os.File{f}
	}
}

// tryHold locks an open file until it and what inherited it are closed; false if somebody else has.
func tryHold(f *os.File) (bool, error) {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == syscall.EWOULDBLOCK {
		return false, nil
	}
	return err == nil, err
}

// interruptGroup asks all processes of the command to stop, as Ctrl-C does.
func interruptGroup(cmd *exec.Cmd) error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) }

// killGroup ends what is left of the command's group after its leader; most often that is nothing.
func killGroup(cmd *exec.Cmd) {
	if cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // an error means that it is empty
	}
}
