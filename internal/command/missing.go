// This file finds programs, and reports those that are not installed.

package command

import (
	"os/exec"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/files/abspath"
)

// Find returns the absolute path of a program, by its name or path. Errors: *failure.MissingToolError.
func Find(name, install string) (string, error) {
	path, err := exec.LookPath(name)
	if err != nil {
		return "", &failure.MissingToolError{Tool: name, Install: install}
	}
	return abspath.Of(path), nil
}
