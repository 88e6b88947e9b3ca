//go:build !windows

// This file has the operating system's functions that a keeper needs.

package virtualprobe

import (
	"os"

	"golang.org/x/sys/unix"
)

// terminalOpen reports whether a program has the other side of a terminal open.
func terminalOpen(f *os.File) (bool, error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return false, err
	}

	open := false
	control := raw.Control(func(fd uintptr) {
		// POLLHUP shows that no program has the other side open.
		p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		if _, err = unix.Poll(p, 0); err == nil || err == unix.EINTR {
			open, err = p[0].Revents&unix.POLLHUP == 0, nil
		}
	})

	if control != nil {
		return false, control
	}
	return open, err
}
