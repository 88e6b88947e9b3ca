package flasher

import "context"

// Abilities of programmers as package device uses them.
type (
	flashReader interface {
		Read(ctx context.Context, ranges []Range) ([]Segment, error)
	}
	inspector interface {
		Inspect(ctx context.Context, ranges []Range) (uint32, []Segment, error)
	}
	debugServer interface {
		Serve(ctx context.Context, attach bool, port int, use func(context.Context) error) error
	}
	rttServer interface {
		ServeRTT(ctx context.Context, port int, ranges []Range, use func(context.Context) error) error
	}
)
