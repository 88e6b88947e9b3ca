package flasher

import (
	"testing"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
)

func TestEveryBoardsRunnerExists(t *testing.T) {
	for _, name := range boards.List(nil) {
		b, err := boards.Find(name, nil)
		if err != nil {
			t.Fatal(err)
		}
		if b.Flash.Runner == "none" {
			continue
		}
		if _, err := New(b.Flash.Runner, Config{Flash: b.Flash}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestUnknownRunner(t *testing.T) {
	if _, err := New("openocd2", Config{}); failure.Of(err) != failure.Config {
		t.Errorf("got %v", err)
	}
}
