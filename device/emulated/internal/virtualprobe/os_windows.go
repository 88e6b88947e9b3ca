// Windows has no terminals of the kind that a keeper creates, so nothing is emulated there.

package virtualprobe

import (
	"errors"
	"os"
)

func terminalOpen(*os.File) (bool, error) { return false, errors.ErrUnsupported }
