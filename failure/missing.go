package failure

import (
	"fmt"
	"strings"
)

// A MissingToolError reports a program that is not installed or too old.
type MissingToolError struct {
	Tool    string
	Install string // a command that installs it, which may hold Target; "" if unknown
	Version string // the installed version, if Needs is set; "" if the program prints none
	Needs   string // the oldest supported version; "" if the program is not installed
}

func (e *MissingToolError) Error() string {
	switch {
	case e.Needs == "":
		return fmt.Sprintf("%s is not installed", e.Tool)
	case e.Version == "":
		return fmt.Sprintf("%s prints no version; %s or newer is required", e.Tool, e.Needs)
	default:
		return fmt.Sprintf("%s has version %s; %s or newer is required", e.Tool, e.Version, e.Needs)
	}
}

// FailureClass returns ToolMissing.
func (e *MissingToolError) FailureClass() Class { return ToolMissing }

// NextStep returns how to install it.
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
