//go:build !windows

package command

import (
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// Foreground gives a command the terminal, if there is one, so that it gets all input and Ctrl-C. The returned
// function takes the terminal back.
func Foreground(cmd *exec.Cmd) (restore func()) {
	terminal := int(os.Stdin.Fd())
	if !term.IsTerminal(terminal) {
		return func() {}
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Foreground: true, Ctty: terminal}
	return func() {
		signal.Ignore(syscall.SIGTTOU) // else taking it back would stop this process
		_ = unix.IoctlSetPointerInt(terminal, unix.TIOCSPGRP, syscall.Getpgrp())
		signal.Reset(syscall.SIGTTOU)
	}
}

// HasInput reports whether this process may read a file: a terminal stops processes that read it in the background.
func HasInput(f *os.File) bool {
	fd := int(f.Fd())
	if !term.IsTerminal(fd) {
		return true
	}
	foreground, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP)
	return err == nil && foreground == unix.Getpgrp()
}
