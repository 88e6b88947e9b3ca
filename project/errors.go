// This file holds the errors that callers tell apart, and how errors of the file system are worded.

package project

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/plainfile"
)

// An EditedError lists files of a project that a person has changed: Generate would have to overwrite them.
type EditedError struct {
	Dir   string
	Files []string // slash paths in Dir, sorted
}

func (e *EditedError) Error() string {
	return fmt.Sprintf("project %s: changed by hand since they were generated: %s", e.Dir, strings.Join(e.Files, ", "))
}

// FailureClass says that the input is at fault.
func (e *EditedError) FailureClass() failure.Class { return failure.Config }

// NextStep says how to go on.
func (e *EditedError) NextStep() string {
	return "build uses the changed files as they are; to replace them and keep a copy of each, generate with FORCE=1"
}

// A LockedError is a project that another process, or another part of this one, has in use.
type LockedError struct {
	Dir    string
	Holder string // who, as it said of itself; "" if it did not
}

func (e *LockedError) Error() string {
	who := e.Holder
	if who == "" {
		who = "another process"
	}
	return fmt.Sprintf("project %s is in use by %s", e.Dir, who)
}

// FailureClass says that the input is at fault.
func (e *LockedError) FailureClass() failure.Class { return failure.Config }

// NextStep says how to go on.
func (e *LockedError) NextStep() string {
	return "wait until it has ended, or choose another project folder"
}

// A MissingToolError is a program that is not installed, or is too old.
type MissingToolError struct {
	Tool    string
	Install string // one command that installs it; "" if unknown
	Version string // the installed one's, where Needs is set; "" if it names none
	Needs   string // the oldest version that will do; "" where none is installed
}

func (e *MissingToolError) Error() string {
	switch {
	case e.Needs == "":
		return fmt.Sprintf("%s is not installed", e.Tool)
	case e.Version == "":
		return fmt.Sprintf("%s names no version, and %s or newer is needed", e.Tool, e.Needs)
	default:
		return fmt.Sprintf("%s is version %s, and %s or newer is needed", e.Tool, e.Version, e.Needs)
	}
}

// FailureClass says that a tool is missing.
func (e *MissingToolError) FailureClass() failure.Class { return failure.ToolMissing }

// NextStep says how to install it.
func (e *MissingToolError) NextStep() string {
	if e.Install == "" {
		return "install it, or put its folder on PATH"
	}
	how := e.Install
	if strings.HasPrefix(how, "apt-get ") {
		how = "on Debian: " + how
	}
	return "install it (" + how + "), or put its folder on PATH"
}

// An ObjectError is an object in the archive that was made for something else than the board.
type ObjectError struct {
	Object string // its name in the archive
	Is     string // what it is for
	Board  string
	Wants  string // what the board takes
}

func (e *ObjectError) Error() string {
	return fmt.Sprintf("%s is for %s, but board %s takes %s", e.Object, e.Is, e.Board, e.Wants)
}

// FailureClass says that the input is at fault.
func (e *ObjectError) FailureClass() failure.Class { return failure.Config }

// NextStep says how to go on.
func (e *ObjectError) NextStep() string {
	return "compile the model for this board's processor, or choose a board that has the object's"
}

// A WrongImageError is a device that runs something else than the image that was asked for.
type WrongImageError struct {
	Device string
	Want   string // build ids in hexadecimal
	Got    string // "" if the device has none; as Want where its bytes have changed since they were flashed
}

func (e *WrongImageError) Error() string {
	if e.Got == e.Want {
		return fmt.Sprintf("%s runs build %s, but its flash has changed since: its CRC-32 is another", e.Device, e.Want)
	}
	got := "a firmware without a build id"
	if e.Got != "" {
		got = "build " + e.Got
	}
	return fmt.Sprintf("%s runs %s, not build %s", e.Device, got, e.Want)
}

// FailureClass says that what was read back differs.
func (e *WrongImageError) FailureClass() failure.Class { return failure.Verify }

// NextStep says how to go on.
func (e *WrongImageError) NextStep() string { return "build and flash again" }

// fileError words an error of the file system: what was done to which file, and what to do about it. It does not
// repeat the operation and path that the error itself names.
func fileError(op, path string, err error) error {
	if err == nil {
		return nil
	}
	class, next := failure.Internal, ""
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, errQuota), errors.Is(err, syscall.EFBIG):
		next = "make room on the disk that holds " + filepath.Dir(path)
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		class, next = failure.Config, "choose a folder that can be written to, or change its permissions"
	case errors.Is(err, plainfile.ErrFolder), errors.Is(err, plainfile.ErrSpecial), errors.Is(err, syscall.ENOTDIR), errors.Is(err, fs.ErrExist), errors.Is(err, syscall.EISDIR):
		class, next = failure.Config, "move away what is in the way, or choose another folder"
	}
	var pe *fs.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	return failure.New(class, next, "%s %s: %w", op, path, err)
}
