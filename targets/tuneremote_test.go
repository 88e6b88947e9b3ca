package targets

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/internal/boardclient"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/trackertest"
)

// TestTuneAtATracker measures on boards of two other processes, as typed.
func TestTuneAtATracker(t *testing.T) {
	s, k := openShop(t), trackertest.Start(t)
	for range 2 {
		cmd := s.mage(t.TempDir(), []string{"BOARD=host", "TRACKER=" + k.Address(), "FORCE=1"}, "serve")
		var output bytes.Buffer
		cmd.Stdout, cmd.Stderr = &output, &output
		testkit.Must(t, cmd.Start())
		defer func() {
			_ = cmd.Process.Signal(os.Interrupt)
			if err := cmd.Wait(); err != nil {
				t.Errorf("serve: %v\n%s", err, output.String())
			}
		}()
	}
	waitFor(t, "two boards at the tracker", func() bool {
		keys, err := boardclient.Keys(t.Context(), k.Address())
		testkit.Must(t, err)
		return keys["host"] == 2
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
	cmd := tuningSpace(t, s, dir, "TRACKER=127.0.0.1:1")
	if output, _ := cmd.CombinedOutput(); cmd.ProcessState.ExitCode() != 7 {
		t.Errorf("without a tracker: status %d, not 7\n%s", cmd.ProcessState.ExitCode(), output)
	}
	cmd = tuningSpace(t, s, dir, "TRIALS=4", tracker, "KEY=host")
	testkit.Output(t, cmd)
	machine, err := os.Hostname()
	testkit.Must(t, err)
	// On a loaded computer the second board comes late: the run goes on until both have measured.
	cmd = tuningSpace(t, s, dir, "TRIALS=4000", "REPEAT=20", tracker, "KEY=host", "JSON=1")
	var errors bytes.Buffer
	cmd.Stderr = &errors
	output, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	testkit.Must(t, err)
	isInterrupted := false
	places := map[string]int{}
	for dec := json.NewDecoder(output); dec.More(); {
		var line struct{ Place string }
		testkit.Must(t, dec.Decode(&line))
		if line.Place == "" { // of the run, or of a candidate that does not compile
			continue
		}
		places[line.Place]++
		if len(places) == 2 && !isInterrupted { // a second signal would not wait for the cleanup
			isInterrupted = true
			_ = cmd.Process.Signal(os.Interrupt)
		}
	}
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 130 {
		t.Errorf("ended by Ctrl-C: %v\n%s", err, &errors)
	}
	for place := range places {
		if !strings.HasPrefix(place, "host@"+machine+":") {
			t.Errorf("a candidate was measured at %s", place)
		}
	}
	if len(places) != 2 {
		t.Errorf("the candidates were measured at %v, want two places\n%s", places, &errors)
	}
}
