package tune_test

import (
	"encoding/json"
	"errors"
	"io/fs"
	"reflect"
	"testing"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/rpc"
	"github.com/boardsmith/boardsmith/tune"
)

var (
	must      = testkit.Must
	writeFile = testkit.WriteFile
	readFile  = testkit.ReadFile
	wantError = testkit.WantError
)

// TestReadResultsIgnoresUnfinishedLine reads a file that ends at each of its bytes, and refuses what no run began.
func TestReadResultsIgnoresUnfinishedLine(t *testing.T) {
	dir := t.TempDir()
	reset := rpc.ResetCause(3)
	var want []tune.Result
	var file []byte
	var ends []int
	for _, id := range []string{"a", "b\n", "c"} {
		r := timedResult(id, "k", 25e6, 1e-3)
		r.Platform.Reset, r.Platform.ChipID = &reset, []byte{1, 255}
		line, err := json.Marshal(r)
		must(t, err)
		want, file = append(want, r), append(append(file, line...), '\n')
		ends = append(ends, len(file))
	}
	whole := 0
	for n := range len(file) + 1 {
		if whole < len(ends) && n == ends[whole] {
			whole++
		}
		writeFile(t, dir+"/results.jsonl", string(file[:n]))
		got, err := tune.ReadResults(dir)
		if err != nil || len(got) != whole || whole > 0 && !reflect.DeepEqual(got, want[:whole]) {
			t.Fatalf("%d of %d bytes: %+v, %v", n, len(file), got, err)
		}
	}
	writeFile(t, dir+"/results.jsonl", `{"my": "measurements"}`)
	_, err := tune.ReadResults(dir)
	wantError(t, err, failure.Config)
	_, err = tune.ReadResults(t.TempDir())
	wantError(t, err, failure.Config)
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a folder without a run: %v", err)
	}
}
