// This file holds the error about archives that cannot be used.

package mlf

import (
	"fmt"

	"github.com/boardsmith/boardsmith/failure"
)

// A FormatError reports an archive that cannot be used.
type FormatError struct {
	Archive string // its path
	Member  string // the member at fault; "" for the archive as a whole
	Next    string
	Err     error
}

func (e *FormatError) Error() string {
	if e.Member == "" {
		return fmt.Sprintf("archive %s: %v", e.Archive, e.Err)
	}
	return fmt.Sprintf("archive %s: %s: %v", e.Archive, e.Member, e.Err)
}

// Unwrap returns the reason.
func (e *FormatError) Unwrap() error { return e.Err }

// FailureClass returns failure.Config.
func (e *FormatError) FailureClass() failure.Class { return failure.Config }

// NextStep returns the advice, by default to export the model again.
func (e *FormatError) NextStep() string {
	if e.Next == "" {
		return "export the model again with TVM's export_model_library_format"
	}
	return e.Next
}

func (a *Archive) fault(member, next, format string, args ...any) error {
	return &FormatError{a.Path, member, next, fmt.Errorf(format, args...)}
}
