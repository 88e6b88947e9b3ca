package tune

import (
	"encoding/json"
	"time"
)

// A recorder writes the results of one kind of board into the run's folder. Many goroutines may use it.
type recorder struct {
	kind      string
	toolchain string
	o         *Options
	store     *store
}

// stamp sets the fields of a result that describe its candidate.
func (r *recorder) stamp(c Candidate, result *Result) {
	result.ID, result.Kind, result.Record, result.Finished = c.ID, r.kind, c.Record, time.Now().UTC()
	result.Content, result.Toolchain = c.content, r.toolchain
	// The result of an invalid record is a failure, and JSON could not contain the record.
	if !json.Valid(result.Record) {
		result.Record = nil
	}
}

// add writes the result of a candidate. A failure with Retry is not written.
func (r *recorder) add(c Candidate, result Result) (Result, error) {
	return r.write(c, result, func(result Result) error { return r.store.add(result, c.line) })
}

func (r *recorder) write(c Candidate, result Result, write func(Result) error) (Result, error) {
	r.stamp(c, &result)

	if result.Failure != nil && result.Failure.Retry {
		r.o.emit(Event{Board: result.Board, Text: "could not measure " + c.ID, Result: &result})
		return result, nil
	}

	if err := write(result); err != nil {
		return Result{}, err
	}

	r.o.emit(Event{Board: result.Board, Text: "finished " + c.ID, Result: &result})
	return result, nil
}

// share makes the candidate's ID a label of its content, gives this content the finished result of a key, and returns
// that result. own has the other fields of the label.
func (r *recorder) share(c Candidate, own Result, key string) (Result, error) {
	r.stamp(c, &own)
	result, added, err := r.store.share(own, c.line, key)
	if err == nil && added {
		r.o.emit(Event{Text: "finished " + c.ID, Result: &result})
	}
	return result, err
}

// finish writes the result of a job and delivers it.
func (r *recorder) finish(j *job, result Result) {
	result.Build, result.Confirms = j.build, j.confirms
	if j.outcomes != nil {
		result, err := r.add(j.candidate, result)
		j.outcomes <- outcome{result, err}
		return
	}

	// No caller waits for the error.
	if _, err := r.write(j.candidate, result, r.store.replace); err != nil {
		r.o.emit(Event{Text: "measured " + j.candidate.ID + " again", Err: err})
	}
}
