// This file makes the errors about archives that cannot be used.

package mlf

import (
	"cmp"
	"fmt"

	"github.com/boardsmith/boardsmith/failure"
)

// fault returns an error of class config about a member, or about the archive as a whole if member is "". The advice is
// by default to export the model again.
func (a *Archive) fault(member, next, format string, args ...any) error {
	err := fmt.Errorf(format, args...)
	if member != "" {
		err = fmt.Errorf("%s: %w", member, err)
	}
	next = cmp.Or(next, "export the model again with TVM's export_model_library_format")
	return failure.New(failure.Config, next, "archive %s: %w", a.Path, err)
}
