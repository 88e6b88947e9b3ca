package command

import (
	"fmt"
	"path"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Confines reports whether this system enforces Reads. Landlock can since Linux 5.19: before, it let no process move a
// file to another folder.
var Confines = sync.OnceValue(func() bool {
	version, _, err := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	return err == 0 && version >= 2
})

// confine lets the calling thread, and each process that it starts, read no file outside of these places. A place that
// is not there counts for nothing.
func confine(places []string) error {
	const read, move uint64 = unix.LANDLOCK_ACCESS_FS_READ_FILE, unix.LANDLOCK_ACCESS_FS_REFER
	handled := read | move // a prefix of LandlockRulesetAttr, of which a kernel knows as much as its version has
	rules, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&handled)),
		unsafe.Sizeof(handled), 0)
	if errno != 0 {
		return fmt.Errorf("landlock: %w", errno)
	}
	defer unix.Close(int(rules))

	allow := func(place string, access uint64) {
		at, err := unix.Open(place, unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			return
		}
		defer unix.Close(at)
		rule := unix.LandlockPathBeneathAttr{Allowed_access: access, Parent_fd: int32(at)}
		_, _, _ = unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, rules, unix.LANDLOCK_RULE_PATH_BENEATH,
			uintptr(unsafe.Pointer(&rule)), 0, 0, 0) // else, what is there cannot be read
	}
	allow("/", move)
	for _, place := range places {
		if !path.IsAbs(place) { // the command runs in another folder than this process
			return fmt.Errorf("landlock: the place %q is not absolute", place)
		}
		allow(place, read)
	}

	// Without this, only root may restrict itself: a program with more rights would not expect it.
	err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, rules, 0, 0); err == nil && errno != 0 {
		err = fmt.Errorf("landlock: %w", errno)
	}
	return err
}
