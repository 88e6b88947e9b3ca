package tune_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/tune"
)

// TestAutoTVMLogHasOneLinePerCandidate omits results of Confirm and candidates without a record.
func TestAutoTVMLogHasOneLinePerCandidate(t *testing.T) {
	a, none := timedResult("a", "k", 25e6, 1e-3), timedResult("none", "k", 25e6, 1e-3)
	a.Record, a.Samples = json.RawMessage(`{"input": [1], "config": {}}`), []float64{1e-3}
	again := a
	again.ID, again.Confirms, again.Samples = "a@flash", "a", []float64{9}
	var log strings.Builder
	if err := tune.WriteAutoTVM(&log, []tune.Result{a, again, none}, ""); err != nil {
		t.Fatal(err)
	}
	if text := log.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, `"result":[[0.001],`) {
		t.Error(text)
	}
}
