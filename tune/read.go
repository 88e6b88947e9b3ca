// This file reads the folder of a run that another process may be writing.

package tune

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/boardsmith/boardsmith/failure"
)

// ReadResults returns the results in a run's folder, in order of finishing: of each ID the last, without those that
// Run.LeaveOut left out, and of Confirm's only those of candidates that are in the results. The folder may be in use by
// a run, of this or of another process: a last line without a newline is still being written, and is left out.
// ReadResults locks and changes nothing. Its error is of class config for a folder without a run, and for a line that
// is not a result.
func ReadResults(dir string) ([]Result, error) {
	f, err := os.Open(filepath.Join(dir, resultsFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, failure.New(failure.Config, "choose the folder of a run", "%s: no run: %w", dir, err)
	}
	if err != nil {
		return nil, err
	}
	defer f.Close() // it was only read
	var results []Result
	proven := map[string]bool{}
	_, err = eachLine(f, f.Name(), func(_ int64, l resultLine) {
		for _, key := range l.Proven {
			proven[key] = true
		}
		if l.LeftOut != nil {
			gone := map[string]bool{}
			for _, id := range l.LeftOut {
				gone[id] = true
			}
			results = slices.DeleteFunc(results, func(r Result) bool { return gone[r.ID] })
		}
		if l.ID != "" {
			delete(proven, l.key())
			results = append(results, l.Result)
		}
	})
	results = latest(results)
	for i := range results {
		results[i].Unproven = results[i].Unproven && !proven[results[i].key()]
	}
	return results, err
}

// latest leaves the last result of each ID, and those of Confirm whose candidate is still the one of its ID.
func latest(results []Result) (last []Result) {
	at := map[string]int{}
	for i, r := range results {
		at[r.ID] = i
	}
	for i, r := range results {
		of, there := at[r.Of]
		gone := r.Of != "" && r.Content != "" && (!there || results[of].Content+inFlash != r.Content)
		if at[r.ID] == i && !gone {
			last = append(last, r)
		}
	}
	return last
}

// A resultLine is a line of results.jsonl: a result, the contents of those that the reference has confirmed, or the IDs
// of those that are no longer the run's.
type resultLine struct {
	Result
	Proven  []string `json:"proven,omitempty"`
	LeftOut []string `json:"left_out,omitempty"`
}

// MarshalJSON writes what the line holds: no result without an ID.
func (l resultLine) MarshalJSON() ([]byte, error) {
	if l.ID != "" {
		return json.Marshal(l.Result)
	}
	if l.Proven != nil {
		return json.Marshal(map[string]any{"proven": l.Proven})
	}
	return json.Marshal(map[string]any{"left_out": l.LeftOut})
}

// eachLine calls f with each line until the last newline, and where it begins. It returns how many bytes that is.
func eachLine(from io.Reader, name string, f func(at int64, l resultLine)) (whole int64, err error) {
	r := bufio.NewReader(from)
	for n := 1; ; n++ {
		line, err := r.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return whole, nil
		}
		if err != nil {
			return 0, err
		}
		var is resultLine
		if err = json.Unmarshal(line, &is); err == nil && is.Proven == nil && is.LeftOut == nil {
			err = is.check()
		}
		if err != nil {
			return 0, failure.New(failure.Config, "choose another folder, or repair the file",
				"%s:%d: not a result: %w", name, n, err)
		}
		f(whole, is)
		whole += int64(len(line))
	}
}

// check fails for what no run writes.
func (r *Result) check() error {
	if r.ID == "" {
		return errors.New("it has no id")
	}
	if (r.Time == nil) == (r.Failure == nil) {
		return errors.New("it has neither a time nor a failure, or both")
	}
	if r.Time != nil && r.Time.Median < 0 {
		return errors.New("its time is below 0")
	}
	return nil
}
