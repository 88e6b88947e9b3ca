package device_test

import (
	"context"
	"testing"

	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit/failuretest"
)

// TestPartialBoardIsRefused: a board whose link only its build determines is refused before that build.
func TestPartialBoardIsRefused(t *testing.T) {
	b := findBoard(t, "zephyr/nucleo_f746zg")
	desk := &device.Desk{StateDir: t.TempDir()}
	for _, c := range []failuretest.Call{
		func(ctx context.Context) error { _, err := desk.Attach(ctx, b, ""); return err },
		func(ctx context.Context) error { _, err := desk.EraseCommands(ctx, b, ""); return err },
		failuretest.With(desk.StartEmulated, b),
	} {
		wantError(t, c(t.Context()), failure.Config, "only a build finds out how board "+b.Name+" is reached")
	}
}
