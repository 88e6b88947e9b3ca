package command

import (
	"os"
	"os/exec"
	"syscall"
)

// systemVariables are what a program needs on this system besides PATH and HOME.
var systemVariables = []string{"SystemRoot", "TEMP", "TMP", "PATHEXT", "USERPROFILE"}

func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}

func hold(*exec.Cmd, []*os.File) {}

// interruptGroup ends the command: there is no signal that asks a program without a console.
func interruptGroup(cmd *exec.Cmd) error { return cmd.Process.Kill() }

func killGroup(*exec.Cmd) {}
