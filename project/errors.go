// This file holds the errors that callers tell apart.

package project

import (
	"fmt"
	"strings"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/command"
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

// A MissingToolError is a program that is not installed, or is too old.
type MissingToolError = command.MissingToolError
