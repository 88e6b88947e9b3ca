package transporttest

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"sync"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/transport"
)

// This file replays recordings of transport.Record.

type recordingHead struct {
	Version int  `json:"boardsmith_recording"`
	Lossy   bool `json:"lossy"`
}

type recordingLine struct {
	To  string `json:"to"`
	Hex string `json:"hex"`
	End string `json:"end"`
}

const (
	recordingVersion = 1

	toDevice = "device"
	toHost   = "host"
)

// recordedEnds are the ends of a wait, by their names in a recording.
var recordedEnds = map[string]error{
	"timeout": context.DeadlineExceeded, "canceled": context.Canceled, "closed": transport.ErrClosed,
}

// replayError reports the first difference between the host and the recording, after so many bytes from the host.
func replayError(after int, format string, args ...any) error {
	return failure.Errorf(failure.Transport, "replay: after %d bytes from the host: %s", after,
		fmt.Sprintf(format, args...))
}

// A replayed event is one read, or the end of a write.
type replayed struct {
	after int // bytes from the host that must precede it
	data  []byte
	end   error // nil if there is data
}

// A Replay is a Link that replays the device of a recording: it compares the host's bytes with the recording and
// returns the device's, without the recorded delays. A wait that ended without data ends at once.
type Replay struct {
	lossy     bool
	host      []byte // all recorded bytes from the host
	reads     []replayed
	writeEnds []replayed

	mu      sync.Mutex
	pos     int // in host
	failed  error
	closed  bool
	changed chan struct{} // closed and replaced at every change
}

// OpenReplay reads a whole recording.
func OpenReplay(from io.Reader) (*Replay, error) {
	dec := json.NewDecoder(from)
	var head recordingHead
	if err := dec.Decode(&head); err != nil {
		return nil, failure.Errorf(failure.Config, "recording: %w", err)
	}
	if head.Version != recordingVersion {
		return nil, failure.Errorf(failure.Config, "recording: version %d, know %d", head.Version, recordingVersion)
	}
	r := &Replay{lossy: head.Lossy, changed: make(chan struct{})}
	for line := 2; ; line++ {
		var l recordingLine
		err := dec.Decode(&l)
		if err == io.EOF {
			return r, nil
		}
		if err == nil {
			err = r.load(l)
		}
		if err != nil {
			return nil, failure.Errorf(failure.Config, "recording: entry %d: %w", line, err)
		}
	}
}

func (r *Replay) load(l recordingLine) error {
	data, err := hex.DecodeString(l.Hex)
	if err != nil {
		return err
	}
	event := replayed{after: len(r.host), data: data}
	if len(data) == 0 {
		if event.end = recordedEnds[l.End]; event.end == nil {
			return fmt.Errorf("neither bytes nor a known end %q", l.End)
		}
	}
	switch {
	case l.To == toHost:
		r.reads = append(r.reads, event)
	case l.To == toDevice && event.end == nil:
		r.host = append(r.host, data...)
	case l.To == toDevice:
		r.writeEnds = append(r.writeEnds, event)
	default:
		return fmt.Errorf("direction %q is neither %q nor %q", l.To, toDevice, toHost)
	}
	return nil
}

// Done returns nil if the host has sent all recorded bytes and read all of the device's.
func (r *Replay) Done() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.failed != nil:
		return r.failed
	case r.pos < len(r.host):
		return replayError(r.pos, "%d more bytes were recorded", len(r.host)-r.pos)
	case len(r.reads) > 0:
		return replayError(r.pos, "%d more reads were recorded", len(r.reads))
	}
	return nil
}

// Lossy returns the recorded value.
func (r *Replay) Lossy() bool { return r.lossy }

// Close ends the replay.
func (r *Replay) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.closed {
		r.closed = true
		r.signal()
	}
	return nil
}

func (r *Replay) signal() {
	close(r.changed)
	r.changed = make(chan struct{})
}

// Write compares p with what the host sent in the recording.
func (r *Replay) Write(ctx context.Context, p []byte) error {
	if ctx.Err() != nil {
		return ended(ctx, "write")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return transport.ErrClosed
	}
	if r.failed == nil {
		r.failed = r.compare(p)
	}
	if r.failed != nil {
		return r.failed
	}
	r.pos += len(p)
	r.signal()
	if len(r.writeEnds) > 0 && r.writeEnds[0].after <= r.pos {
		end := r.writeEnds[0].end
		r.writeEnds = r.writeEnds[1:]
		return replayedEnd(end, "write")
	}
	return nil
}

// compare returns an error if p is not what was recorded next.
func (r *Replay) compare(p []byte) error {
	want := r.host[r.pos:]
	same := 0
	for same < min(len(p), len(want)) && p[same] == want[same] {
		same++
	}
	if same == len(p) {
		return nil
	}
	what := "the host sends other bytes"
	if same == len(want) {
		what = "the host sends more"
	}
	excerpt := func(b []byte) []byte { return b[same:min(len(b), same+32)] }
	return replayError(r.pos+same, "%s: recorded % x, sent % x", what, excerpt(want), excerpt(p))
}

// Read returns the device's recorded bytes, after the host has sent the bytes that precede them.
func (r *Replay) Read(ctx context.Context, p []byte) (int, error) {
	for {
		if ctx.Err() != nil {
			return 0, ended(ctx, "read")
		}
		n, changed, err := r.tryRead(p)
		if changed == nil {
			if err != nil {
				return 0, replayedEnd(err, "read")
			}
			return n, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}

// tryRead returns a channel to wait for if nothing is due yet.
func (r *Replay) tryRead(p []byte) (int, <-chan struct{}, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.closed:
		return 0, nil, transport.ErrClosed
	case r.failed != nil:
		return 0, nil, r.failed
	case len(p) == 0:
		return 0, nil, nil
	case len(r.reads) == 0 && r.pos == len(r.host):
		return 0, nil, replayError(r.pos, "the recording has ended, but the host reads")
	case len(r.reads) == 0 || r.reads[0].after > r.pos:
		return 0, r.changed, nil
	}
	event := &r.reads[0]
	n := copy(p, event.data)
	event.data = event.data[n:]
	end := event.end
	if len(event.data) == 0 {
		r.reads = r.reads[1:]
	}
	return n, nil, end
}

// replayedEnd returns the error of a recorded end.
func replayedEnd(err error, op string) error {
	if err == context.DeadlineExceeded {
		return timeout(op, nil)
	}
	return err
}
