package flasher

import (
	"context"
	"errors"
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
)

func TestEveryBoardsRunnerExists(t *testing.T) {
	for _, name := range boards.List(nil) {
		b, err := boards.Find(name, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := New(b.Flash, hclog.NewNullLogger()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestNone(t *testing.T) {
	f, err := New(boards.Flash{Runner: "none"}, hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	r, err := f.Flash(t.Context(), "firmware.elf")
	if err != nil || r.Wrote != 0 || r.Erased != 0 || r.Why == "" {
		t.Errorf("got %+v, %v", r, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := f.Flash(ctx, "firmware.elf"); !errors.Is(err, context.Canceled) {
		t.Errorf("after a cancel: %v", err)
	}
}

func TestUnknownRunner(t *testing.T) {
	if _, err := New(boards.Flash{Runner: "openocd2"}, hclog.NewNullLogger()); failure.Of(err) != failure.Config {
		t.Errorf("got %v", err)
	}
}
