package ledger

import (
	"context"
	"testing"
	"time"

	"github.com/boardsmith/boardsmith/internal/testkit/failuretest"
)

func TestContexts(t *testing.T) {
	dir := t.TempDir()
	held, err := Take(t.Context(), dir, "held", 0)
	must(t, err)
	defer held.Release()
	take := func(device string) failuretest.Call {
		return func(ctx context.Context) error {
			l, err := Take(ctx, dir, device, time.Hour)
			l.Release()
			return err
		}
	}
	failuretest.Ended(t, failuretest.Calls{"Take": take("free")})
	failuretest.Waiting(t, failuretest.Calls{"Take": take("held")})
}
