package targets

import (
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/failure"
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
		if failure.Of(err) != failure.Config || !strings.Contains(failure.Next(err), "QEMU") {
			t.Errorf("%s: %v", system, err)
		}
	}
}
