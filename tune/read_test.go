package tune_test

import (
	"encoding/json"
	"errors"
	"io/fs"
	"path/filepath"
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
		writeFile(t, filepath.Join(dir, "results.jsonl"), string(file[:n]))
		got, err := tune.ReadResults(dir)
		if err != nil || len(got) != whole || whole > 0 && !reflect.DeepEqual(got, want[:whole]) {
			t.Fatalf("%d of %d bytes: %+v, %v", n, len(file), got, err)
		}
	}
	writeFile(t, filepath.Join(dir, "results.jsonl"), `{"my": "measurements"}`)
	_, err := tune.ReadResults(dir)
	wantError(t, err, failure.Config)
}

// TestReadResultsReturnsLastOfID reads a candidate that was measured twice.
func TestReadResultsReturnsLastOfID(t *testing.T) {
	dir := t.TempDir()
	const lines = `{"id": "a", "time": {"Median": 1}}
{"id": "b", "failure": {"class": "boot"}}
{"id": "a", "time": {"Median": 2}}
`
	writeFile(t, filepath.Join(dir, "results.jsonl"), lines)
	got, err := tune.ReadResults(dir)
	if err != nil || len(got) != 2 || got[0].ID != "b" || got[1].ID != "a" || got[1].Time.Median != 2 {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestReadResultsRejectsBadLines(t *testing.T) {
	dir := t.TempDir()
	if _, err := tune.ReadResults(dir); failure.Of(err) != failure.Config || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a folder without a run: %v", err)
	}
	for _, line := range []string{
		"", "{}", "null", "[]", `{"id": ""}`, `{"id": "a"}`, `{"id": "a", "time": {"Median": -1}}`,
		`{"id": "a", "time": {"Median": 1}, "failure": {"class": "link"}}`, `{"id": "a", "time": {"Median": 1e999}}`,
	} {
		t.Run(line, func(t *testing.T) {
			writeFile(t, filepath.Join(dir, "results.jsonl"), line+"\n")
			if got, err := tune.ReadResults(dir); failure.Of(err) != failure.Config || got != nil {
				t.Errorf("%q: %+v, %v", line, got, err)
			}
		})
	}
}
