package accept

import (
	"context"
	"slices"
)

// RunThrough is Run, but ends after a step.
func RunThrough(ctx context.Context, t Trial, last string) (*Report, error) {
	n := slices.IndexFunc(steps, func(s step) bool { return s.Name == last })
	return runSteps(ctx, t, steps[:n+1])
}
