// This file is what a keeper asks of the operating system, which here has no terminals of the kind that it makes:
// nothing is emulated on Windows.

package virtualprobe

import (
	"errors"
	"os"
	"os/exec"
)

func ownSession(*exec.Cmd) {}

func terminalOpen(*os.File) (bool, error) { return false, errors.ErrUnsupported }
