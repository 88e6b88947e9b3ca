// This file holds the error about archives that cannot be used.

package mlf

import (
	"fmt"
	"sort"

	"github.com/agext/levenshtein"

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

// Nearest returns an advice that names the most similar of the names, or "" if none is similar.
func Nearest(name string, names []string) string {
	names = append([]string(nil), names...)
	sort.SliceStable(names, func(i, j int) bool {
		return levenshtein.Distance(name, names[i], nil) < levenshtein.Distance(name, names[j], nil)
	})
	if len(names) == 0 || levenshtein.Distance(name, names[0], nil) > max(2, len(name)/2) {
		return ""
	}
	return fmt.Sprintf("did you mean %q?", names[0])
}
