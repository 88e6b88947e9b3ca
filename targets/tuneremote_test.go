package targets

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/internal/boardclient"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/trackertest"
)

// TestTuneAtATracker measures on a board of another process, as typed.
func TestTuneAtATracker(t *testing.T) {
	s, k := openShop(t), trackertest.Start(t)
	server := s.mage(t.TempDir(), []string{"BOARD=host", "TRACKER=" + k.Address(), "FORCE=1"}, "serve")
	var served bytes.Buffer
	server.Stdout, server.Stderr = &served, &served
	testkit.Must(t, server.Start())
	defer func() {
		_ = server.Process.Signal(os.Interrupt)
		if err := server.Wait(); err != nil {
			t.Errorf("serve: %v\n%s", err, served.String())
		}
	}()
	waitFor(t, "the board at the tracker", func() bool {
		keys, err := boardclient.Keys(t.Context(), k.Address())
		testkit.Must(t, err)
		return keys["host"] == 1
	})
	dir, tracker := t.TempDir(), "TRACKER="+k.Address()
	model := " SPACE= PROPOSER= MODEL=" + absolute(t, "../examples/samples/digits_i8.aot_packed.tar")
	for wrong, want := range map[string]string{
		"KEY=host":                                   "KEY=host has no effect without TRACKER",
		tracker + " KEY=kiln":                        `no board of key "kiln"; its keys: host`,
		tracker + " BOARD=host=A":                    "the tracker chooses the device",
		tracker + " PRIORITY=highly":                 "PRIORITY=highly is no number",
		tracker + " BOARD=host,mps2_an386 KEY=a,b,c": "KEY has 3 keys for 2 boards",
		tracker + model:                              "is for CANDIDATES and SPACE, not for MODEL",
	} {
		cmd := tuningSpace(t, s, dir, strings.Fields(wrong)...)
		output, _ := cmd.CombinedOutput()
		if code := cmd.ProcessState.ExitCode(); code != 2 || !strings.Contains(string(output), want) {
			t.Errorf("%s: status %d, want %s\n%s", wrong, code, want, output)
		}
	}
	machine, err := os.Hostname()
	testkit.Must(t, err)
	lines := testkit.Output(t, tuningSpace(t, s, dir, "TRIALS=4", "JSON=1", tracker, "KEY=host"))
	if place := `"place":"host@` + machine + ":"; strings.Count(lines, place) != 3 { // one does not compile
		t.Errorf("no three candidates with %s in\n%s", place, lines)
	}
}
