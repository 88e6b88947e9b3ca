package transport

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

func dropOutput(fd int) error { return unix.IoctlSetInt(fd, unix.TCFLSH, unix.TCOFLUSH) }

// programsWith lists the other processes that have a port open, as far as this process may examine them.
func programsWith(port string) (list []string) {
	var p unix.Stat_t
	if unix.Stat(port, &p) != nil {
		return nil // it has vanished
	}

	processes, _ := os.ReadDir("/proc") // a system may have none
	for _, entry := range processes {
		pid := entry.Name()
		process := filepath.Join("/proc", pid)
		if n, err := strconv.Atoi(pid); err != nil || n == os.Getpid() || !hasOpen(filepath.Join(process, "fd"), p) ||
			isForked(process) {
			continue
		}

		name, _ := os.ReadFile(filepath.Join(process, "comm")) // it may have ended
		list = append(list, fmt.Sprintf("%s (process %s)", strings.TrimSpace(string(name)), pid))
	}

	slices.Sort(list)
	return list
}

// isForked reports whether a process, by its folder in /proc, is a child of this one with the same program. A child
// that starts another program has the files of this process until then.
func isForked(process string) bool {
	own, err := os.Readlink("/proc/self/exe")
	if program, failed := os.Readlink(filepath.Join(process, "exe")); err != nil || failed != nil || program != own {
		return false
	}

	stat, _ := os.ReadFile(filepath.Join(process, "stat")) // proc_pid_stat(5): pid (name) state parent …
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	return len(fields) > 1 && fields[1] == strconv.Itoa(os.Getpid())
}

// isPseudo reports whether a device is a pseudo-terminal, whose number is one of several in the system's containers
// (Documentation/admin-guide/devices.txt).
func isPseudo(device unix.Stat_t) bool {
	major := unix.Major(uint64(device.Rdev))
	return major >= 136 && major <= 143
}

// hasOpen reports whether one of a process's descriptors is the device, under any of its names.
func hasOpen(folder string, device unix.Stat_t) bool {
	files, err := os.ReadDir(folder)
	if err != nil {
		return false // another user's process, or one that has ended
	}

	for _, f := range files {
		path := filepath.Join(folder, f.Name())
		if to, err := os.Readlink(path); err != nil || !strings.HasPrefix(to, "/dev/") {
			continue // examine no other file: it may be on a server that does not answer
		}

		// The device's number identifies it under any name; a pseudo-terminal needs its file system, too.
		var s unix.Stat_t
		if unix.Stat(path, &s) == nil && s.Rdev == device.Rdev && (s.Dev == device.Dev || !isPseudo(device)) {
			return true
		}
	}
	return false
}
