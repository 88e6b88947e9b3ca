package tune

import (
	"time"

	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/rpc"
)

// A load is the form in which a candidate comes onto a device: a program for its RAM, or a function of firmware. A load
// with neither waits until firmware is built.
type load struct {
	program  *rpc.Program
	function string       // name of the candidate in the firmware
	image    *image.Image // required firmware; nil: any of the layout
	reason   string       // for this form

	layout *layout
	args   digest        // of the candidate's arguments
	paused time.Duration // while its build waited for measurements

	// otherErr ended a call with other inputs than the candidate's own, which may be invalid ones: it is not called with
	// others again. nil: none
	otherErr error
}

func (l *load) needsFirmware() bool { return l.program == nil && l.function == "" }

// dropFirmware makes a load in firmware wait for other firmware, after its firmware did not start.
func (l *load) dropFirmware() {
	if l.program == nil {
		l.function, l.image = "", nil
	}
}
