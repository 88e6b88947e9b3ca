package tune

import "time"

// A job is a candidate in the queue, until a place has measured it.
type job struct {
	candidate Candidate
	load      load
	cancelled <-chan struct{} // closed when the caller of Measure is gone; nil: never
	outcomes  chan outcome    // receives one; nil: the job measures a candidate again that has a result
	build     time.Duration   // compiling and linking
	queued    time.Time
	confirms  string // ID of the candidate that is measured again in flash; "": none
	isLayout  bool   // there is no candidate: a place takes load.layout

	aloneInFirmware bool
	attempts        int // failed ones that may be the board's fault
	suspicions      int // attempts that may also be the candidate's fault
}

// An outcome is what Measure returns for a candidate.
type outcome struct {
	result Result
	err    error
}

func (j *job) fail(err error) {
	if j.outcomes != nil {
		j.outcomes <- outcome{err: err}
	}
}

// remeasure returns a job that measures the candidate again, without a caller that waits.
func (j *job) remeasure() *job {
	next := *j
	next.cancelled, next.outcomes, next.queued = nil, nil, time.Now()
	next.attempts, next.suspicions = 0, 0
	return &next
}
