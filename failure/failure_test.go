package failure_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/boardsmith/boardsmith/failure"
)

func TestOf(t *testing.T) {
	inner := failure.New(failure.Compile, "mend it", "lib1.c: %w", errors.New("boom"))
	outer := failure.New(failure.Link, "", "link: %w", inner)
	for _, c := range []struct {
		err  error
		want failure.Class
		next string
	}{
		{nil, "", ""},
		{errors.New("x"), failure.Internal, ""},
		{fmt.Errorf("op: %w", context.Canceled), failure.Interrupted, ""},
		{fmt.Errorf("op: %w", context.DeadlineExceeded), failure.Timeout, ""},
		{fmt.Errorf("op: %w", inner), failure.Compile, "mend it"},
		{outer, failure.Link, "mend it"},
		{failure.New(failure.Boot, "look", "op: %w", context.DeadlineExceeded), failure.Boot, "look"},
	} {
		if got := failure.Of(c.err); got != c.want {
			t.Errorf("Of(%v) = %q, want %q", c.err, got, c.want)
		}
		if got := failure.Next(c.err); got != c.next {
			t.Errorf("Next(%v) = %q, want %q", c.err, got, c.next)
		}
	}
}
