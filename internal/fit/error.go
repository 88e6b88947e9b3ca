// This file has the error for a firmware or a model that does not fit.

package fit

import (
	"fmt"
	"strings"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/nextstep"
)

// HandlersStack is the Error.Part of the interrupt handlers' stack.
const HandlersStack = "interrupt handlers' stack"

// An Error reports a firmware or a model that does not fit.
type Error struct {
	Board  string
	Part   string // what is too small: "memory", "arena", "packet buffer", "stack" or "interrupt handlers' stack"
	Region string // the memory region; "" of the packet buffer, and on a board without a memory map
	Over   int64  // bytes too many
	Need   int64  // bytes; 0 if only Over is known
	Have   int64  // bytes; 0 if only Over is known
	Reason string // what needs them; may be ""
	Option string // what to change and to what, as in "arena_kib=40", separated by spaces; "" where no option helps
	Err    error  // the linker's; may be nil

	// of a memory that is too small: parts that the board or the project places there, as the option place names them
	Placed []string

	// "FILE: LINE", what Option would write: if one of these files was edited, so that generating would replace it, lines
	// to change by hand instead
	Lines []string
}

func (e *Error) Error() string {
	var w strings.Builder
	if e.Part == "memory" {
		fmt.Fprintf(&w, "region %s of board %s is %d bytes too small", e.Region, e.Board, e.Over)
	} else {
		fmt.Fprintf(&w, "the %s of board %s is %d bytes too small", e.Part, e.Board, e.Over)
	}

	if e.Need > 0 {
		fmt.Fprintf(&w, ": %d bytes are needed, there are %d", e.Need, e.Have)
	}

	if e.Reason != "" {
		fmt.Fprintf(&w, " (%s)", e.Reason)
	}

	return w.String()
}

// Unwrap returns the linker's error.
func (e *Error) Unwrap() error { return e.Err }

// FailureClass returns DoesNotFit.
func (e *Error) FailureClass() failure.Class { return failure.DoesNotFit }

// NextStep names the option to change.
func (e *Error) NextStep() string {
	switch {
	case e.Part == HandlersStack:
		return fmt.Sprintf("set BARE_HANDLER_STACK_BYTES to at least %d in the defines of the board file", e.Need)
	case e.Option == "" && len(e.Placed) > 0:
		return "place one of these in another region, or choose a smaller model: " + strings.Join(e.Placed, ", ")
	case e.Option == "":
		return "choose a smaller model, or a board with more memory"
	}

	if len(e.Lines) > 0 {
		return "generating again would replace files changed by hand, so change by hand: " + strings.Join(e.Lines, "; ")
	}
	return "generate again with " + nextstep.Option("Spec.Options", e.Option)
}
