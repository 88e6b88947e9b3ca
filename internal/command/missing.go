package command

import (
	"fmt"
	"os/exec"
	"strings"

	"github.com/boardsmith/boardsmith/failure"
)

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

// Find returns the path of a program: *MissingToolError.
func Find(name, install string) (string, error) {
	path, err := exec.LookPath(name)
	if err != nil {
		return "", &MissingToolError{Tool: name, Install: install}
	}
	return path, nil
}
