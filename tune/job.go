package tune

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"time"

	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/rpc"
)

// A job is a candidate on its way to a board: first it is built, then it waits until a board has measured it.
//
// It comes onto the board as a program for its RAM, or as a function of firmware. A job with neither waits until
// firmware is built.
type job struct {
	candidate Candidate
	outcomes  chan outcome    // receives one; nil: the job measures a candidate again that has a result
	cancelled <-chan struct{} // closed when the caller of Measure is gone; nil: never
	confirms  string          // ID of the candidate that is measured again in flash; "": none
	isLayout  bool            // there is no candidate: a board takes layout
	queued    time.Time

	layout   *layout
	program  *rpc.Program
	function string        // name of the candidate in the firmware
	image    *image.Image  // required firmware; nil: any of the layout
	reason   string        // for this form
	args     digest        // of the candidate's arguments
	build    time.Duration // compiling and linking

	// otherErr ended a call with other inputs than the candidate's own, which may be invalid ones: it is not called with
	// others again. nil: none
	otherErr error

	aloneInFirmware bool
	attempts        int // failed ones that may be the board's fault
	suspicions      int // attempts that may also be the candidate's fault
}

// An outcome is what Measure returns for a candidate.
type outcome struct {
	result Result
	err    error
}

// newJob returns a job whose caller waits for its outcome until ctx ends.
func newJob(ctx context.Context, c Candidate) *job {
	return &job{candidate: c, args: argsDigest(c.Args), cancelled: ctx.Done(), outcomes: make(chan outcome, 1)}
}

// twinKey returns the digest of all that determines a measurement: linked bytes, addresses, entry and arguments.
func (j *job) twinKey() string {
	h, p := sha256.New(), j.program
	hashPart(h, p.Bytes)
	_ = binary.Write(h, binary.LittleEndian, []uint64{p.Base, p.Zero, p.Registry}) // a hash returns no error
	hashPart(h, []byte(j.candidate.Entry))
	hashPart(h, j.args[:])
	return string(h.Sum(nil))
}

func (j *job) needsFirmware() bool { return j.program == nil && j.function == "" }

// dropFirmware makes a job in firmware wait for other firmware, after its firmware did not start.
func (j *job) dropFirmware() {
	if j.program == nil {
		j.function, j.image = "", nil
	}
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
