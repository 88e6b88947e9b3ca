// This file defines what building and the use of devices share.

package device

import (
	"github.com/hashicorp/go-hclog"

	"github.com/boardsmith/boardsmith/cache"
)

// A Host is what building (project.Builder) and the use of devices (Desk) share of this computer. The zero value is the
// usual one. Its Progress must allow for calls from many goroutines.
type Host struct {
	// folders whose boards/, templates/ and libraries/ are searched before the shipped ones; nil: none. The command line
	// sets it from BOARDSMITH_PATH and boardsmith.json, which the libraries do not read
	Path     []string
	Log      hclog.Logger        // nil: no log
	Progress func(ProgressEvent) // called during steps, from any goroutine; nil: not called
	Cache    *cache.Cache        // builds and their images; nil: the user's, or none on a system without a cache folder
}

// A ProgressEvent is the progress of a step: generating, building, flashing, opening.
type ProgressEvent struct {
	Step   string // generate, build, flash, erase, power, open
	Detail string // the current action, in a few words
	Done   int    // of Total
	Total  int    // 0: unknown
}

// Report calls Progress, if it is set.
func (h *Host) Report(e ProgressEvent) {
	if h.Progress != nil {
		h.Progress(e)
	}
}
