// This file records the traffic of a link.
//
// A recording is text, one JSON object per line. The first is {"boardsmith_recording":1,"lossy":false}. Each other
// is one read or write, in order: "us", microseconds since the recording began; "to", "device" or "host"; and
// either "hex", the bytes, or "end", its end without any: "timeout", "canceled" or "closed". A write is placed
// where it began.

package transport

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

const recordingVersion = 1

type recordingHead struct {
	Version int  `json:"boardsmith_recording"`
	Lossy   bool `json:"lossy"`
}

type recordingLine struct {
	Micros int64  `json:"us"`
	To     string `json:"to"`
	Hex    string `json:"hex,omitempty"`
	End    string `json:"end,omitempty"`
}

const (
	toDevice = "device"
	toHost   = "host"
)

// endNames maps the ends of a wait to their names.
var endNames = []struct {
	name string
	err  error
}{
	{"timeout", context.DeadlineExceeded},
	{"canceled", context.Canceled},
	{"closed", ErrClosed},
}

func endName(err error) string {
	for _, e := range endNames {
		if errors.Is(err, e.err) {
			return e.name
		}
	}
	return "closed"
}

// A recorder is a Link that records the traffic of another one.
type recorder struct {
	link  Link
	start time.Time
	mu    sync.Mutex
	to    *json.Encoder
	err   error // the first error of writing the recording
}

// Record returns a link that records the traffic of link to w. Closing it closes link, not w, and returns an error if
// the recording could not be written.
func Record(link Link, w io.Writer) Link {
	r := &recorder{link: link, start: time.Now(), to: json.NewEncoder(w)}
	r.err = r.to.Encode(recordingHead{recordingVersion, link.Lossy()})
	return r
}

func (r *recorder) add(to string, p []byte, end string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil {
		r.err = r.to.Encode(recordingLine{time.Since(r.start).Microseconds(), to, hex.EncodeToString(p), end})
	}
}

// Read reads from the recorded link.
func (r *recorder) Read(ctx context.Context, p []byte) (int, error) {
	late := ctx.Err() != nil
	n, err := r.link.Read(ctx, p)

	switch {
	case n > 0:
		r.add(toHost, p[:n], "")
	case err != nil && !late: // a read that did not begin is not recorded
		r.add(toHost, nil, endName(err))
	}
	return n, err
}

// Write writes to the recorded link.
func (r *recorder) Write(ctx context.Context, p []byte) error {
	// Before the write, since the answer may be read during it.
	if ctx.Err() == nil && len(p) > 0 {
		r.add(toDevice, p, "")
	}

	late := ctx.Err() != nil
	err := r.link.Write(ctx, p)
	if err != nil && !late {
		r.add(toDevice, nil, endName(err))
	}
	return err
}

// Lossy returns the recorded link's.
func (r *recorder) Lossy() bool { return r.link.Lossy() }

// Bounded returns the recorded link's.
func (r *recorder) Bounded() bool {
	b, ok := r.link.(bounded)
	return ok && b.Bounded()
}

// Close closes the recorded link. It returns an error if the recording could not be written.
func (r *recorder) Close() error {
	err := r.link.Close()

	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		err = errors.Join(err, fmt.Errorf("recording: %w", r.err))
		r.err = nil
	}
	return err
}
