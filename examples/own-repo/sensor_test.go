// Package ownrepo_test calls the board's own C functions (boards/desk_sensor.c) from Go: on this computer, and on an
// emulated chip.
package ownrepo_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/ndarray"
	"github.com/boardsmith/boardsmith/project"
	"github.com/boardsmith/boardsmith/rpc"
)

func TestSensor(t *testing.T) {
	for _, board := range []string{"desk", "desk_chip"} {
		t.Run(board, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
			defer cancel()
			builder, err := project.Repository(ctx, ".")
			if err != nil {
				t.Fatal(err)
			}
			p, err := builder.Generate(ctx, t.TempDir(), project.Spec{
				Board: board, Model: "models/sine.aot_packed.tar",
			})
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			session, err := p.Run(ctx, nil, "") // builds, starts, opens
			var missing *failure.MissingToolError
			if errors.As(err, &missing) {
				t.Skip(missing, "; ", failure.Next(missing))
			}
			if err != nil {
				t.Fatal(err)
			}
			defer session.Close(ctx)
			captureAndScale(ctx, t, session)
		})
	}
}

// captureAndScale fills one tensor from the sensor and makes features of it in another; both stay on the device.
func captureAndScale(ctx context.Context, t *testing.T, session *rpc.Session) {
	t.Helper()
	capture, err := session.Function(ctx, "desk.capture")
	if err != nil {
		t.Fatal(err)
	}
	scale, err := session.Function(ctx, "desk.scale")
	if err != nil {
		t.Fatal(err)
	}
	samples, err := session.Empty(ctx, ndarray.DType{Code: ndarray.Int, Bits: 16, Lanes: 1}, []int64{32})
	if err != nil {
		t.Fatal(err)
	}
	features, err := session.Empty(ctx, ndarray.DType{Code: ndarray.Float, Bits: 32, Lanes: 1}, []int64{32})
	if err != nil {
		t.Fatal(err)
	}
	n, err := capture.Call(ctx, samples)
	if err != nil || n != int64(32) {
		t.Fatalf("desk.capture: %v, %v", n, err)
	}
	if _, err := scale.Call(ctx, samples, features); err != nil {
		t.Fatal(err)
	}
	got, err := features.Array(ctx)
	if err != nil {
		t.Fatal(err)
	}
	// The triangle's mean is 8000, and its ends are as far from it.
	for i, want := range map[int]string{0: "-1", 8: "0", 16: "1", 24: "0"} {
		if got.Text(i) != want {
			t.Errorf("feature %d is %s, want %s", i, got.Text(i), want)
		}
	}
	if _, err := capture.Call(ctx, features); err == nil {
		t.Error("desk.capture took a tensor of floats")
	}
}
