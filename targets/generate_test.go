package targets

import (
	"testing"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/targets/internal/inputs"
)

func TestRunsHere(t *testing.T) {
	in := &inputs.Inputs{}
	in.Board = "host"
	if err := runsHere("linux", in); err != nil {
		t.Errorf("linux: %v", err)
	}
	for _, system := range []string{"darwin", "windows"} {
		err := runsHere(system, in)
		testkit.WantError(t, err, failure.Config, "QEMU")
	}
}
