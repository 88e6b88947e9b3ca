package tune

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"github.com/boardsmith/boardsmith/failure"
)

// failedCost is AutoTVM's time of a failed candidate, in seconds (autotvm.md §4).
const failedCost = 1e9

// AutoTVM's error numbers (autotvm.md §3).
const (
	noError       = 0
	compileHost   = 2
	runtimeDevice = 4
	wrongAnswer   = 5
	buildTimeout  = 6
	runTimeout    = 7
)

// WriteAutoTVM writes results that have a Record as AutoTVM's JSON lines, which its tools read (autotvm.md §4). It
// omits results of Run.Confirm, whose candidates have a line already. Like TVM, it omits the smallest and the largest
// of three samples or more.
func WriteAutoTVM(w io.Writer, results []Result, tvmVersion string) error {
	for _, r := range results {
		if r.Record == nil || r.Confirms != "" {
			continue
		}
		var record struct{ Input, Config json.RawMessage }
		if err := json.Unmarshal(r.Record, &record); err != nil {
			return failure.Errorf(failure.Config, "candidate %s: its record is no object with input and config: %w", r.ID, err)
		}

		costs, number := []float64{failedCost}, noError
		if r.Failure == nil {
			costs = slices.Sorted(slices.Values(r.Samples))
			if len(costs) > 2 {
				costs = costs[1 : len(costs)-1]
			}
		} else {
			number = r.errorNumber()
		}

		total := (r.Build + r.Load + r.Run).Seconds()
		line, err := json.Marshal(struct {
			Input      json.RawMessage `json:"input"`
			Config     json.RawMessage `json:"config"`
			Result     []any           `json:"result"`
			Version    float64         `json:"version"`
			TVMVersion string          `json:"tvm_version"`
		}{
			record.Input, record.Config,
			[]any{costs, number, total, float64(r.Finished.UnixNano()) / 1e9},
			0.2,
			cmp.Or(tvmVersion, "0.14.0"),
		})
		if err != nil {
			return fmt.Errorf("candidate %s: %w", r.ID, err)
		}

		if _, err := w.Write(append(line, '\n')); err != nil {
			return err
		}
	}
	return nil
}

// errorNumber returns AutoTVM's number for the class of a failure.
func (r Result) errorNumber() int {
	switch r.Failure.Class {
	case failure.Compile, failure.Link, failure.DoesNotFit, failure.Config:
		return compileHost
	case failure.WrongAnswer:
		return wrongAnswer
	case failure.Timeout:
		if r.Bytes == 0 { // not linked
			return buildTimeout
		}
		return runTimeout
	}
	return runtimeDevice
}
