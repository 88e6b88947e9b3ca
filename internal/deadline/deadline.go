// Package deadline limits the time of one call.
package deadline

import (
	"context"
	"fmt"
	"time"

	"github.com/boardsmith/boardsmith/failure"
)

// Call runs f, which ends with its context, for at most this time; 0 means without limit. An error names the step. It
// is of class timeout if the limit was exceeded, and its next step then is a higher Options.Timeout of the caller.
func Call(ctx context.Context, limit time.Duration, step string, f func(context.Context) error) error {
	limited, cancel := ctx, context.CancelFunc(func() {})
	if limit > 0 {
		limited, cancel = context.WithTimeout(ctx, limit)
	}
	defer cancel()
	err := f(limited)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return failure.Stopped(ctx, "%s: %w", step, err)
	case limited.Err() != nil:
		return failure.New(failure.Timeout, failure.Option("Options.Timeout", "2m")+" waits longer",
			"%s did not end within %v: %w", step, limit, err)
	}
	return fmt.Errorf("%s: %w", step, err)
}
