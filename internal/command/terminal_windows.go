package command

import (
	"os"
	"os/exec"
)

// Foreground does nothing: there are no process groups of a terminal.
func Foreground(*exec.Cmd) (restore func()) { return func() {} }

// HasInput returns true: no process is stopped when it reads.
func HasInput(*os.File) bool { return true }
