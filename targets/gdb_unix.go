//go:build !windows

package targets

import (
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// foreground lets a command have the terminal to itself, if there is one: what is typed there, Ctrl-C too, is its. The
// function that it returns takes the terminal back.
func foreground(cmd *exec.Cmd) (restore func()) {
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
