//go:build !windows

// This file has this test program run steps in a second process, which is then killed or watched.

package device_test

import (
	"os"
	"os/exec"
	"testing"
)

const childMode = "DEVICE_TEST_CHILD"

// child is the main function of the second process. childMode selects what it does.
func child() int {
	switch os.Getenv(childMode) {
	case "flash":
		return flashingChild(os.Args[1])
	case "attach":
		return attachingChild()
	}
	return 3
}

func childCommand(t *testing.T, mode string, args ...string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	must(t, err)
	cmd := exec.Command(exe, args...)
	cmd.Env = append(os.Environ(), childMode+"="+mode)
	return cmd
}
