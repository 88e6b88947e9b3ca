// This file keeps two processes from using one board at once: from flashing through the last call.

package cache

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"

	"github.com/boardsmith/boardsmith/failure"
)

// A Lease is the right to use a device. It ends with the process at the latest.
type Lease struct{ f *flock.Flock }

// A Holder is who has a lease.
type Holder struct {
	PID   int       `json:"pid"`
	Name  string    `json:"name"` // of the program
	Since time.Time `json:"since"`
}

func (h Holder) String() string {
	if h.PID == 0 {
		return "another process"
	}
	return fmt.Sprintf("process %d (%s), since %s", h.PID, h.Name, h.Since.Format(time.TimeOnly))
}

// A LeaseError is a device that somebody else uses.
type LeaseError struct {
	Device string
	Holder Holder
	Waited time.Duration
}

func (e *LeaseError) Error() string {
	s := fmt.Sprintf("%s is in use by %v", e.Device, e.Holder)
	if e.Waited > 0 {
		s += fmt.Sprintf(", and still was after %v", e.Waited.Round(time.Second))
	}
	return s
}

// FailureClass says that the board cannot be had.
func (e *LeaseError) FailureClass() failure.Class { return failure.ProbeMissing }

// NextStep is what helps.
func (e *LeaseError) NextStep() string {
	return "wait for it, with WAIT=60s for instance, or choose another device"
}

// waitStep is how often a lease is asked for again.
const waitStep = 50 * time.Millisecond

// Take takes the device's lease in dir, and waits for it at most so long: *LeaseError.
func Take(ctx context.Context, dir, device string, wait time.Duration) (*Lease, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("lease: %w", err)
	}
	f := flock.New(filepath.Join(dir, deviceFile(device)+".lease"), flock.SetPermissions(0o644))
	start := time.Now()
	for {
		ok, err := f.TryLock()
		if err != nil {
			return nil, fmt.Errorf("lease: %w", err)
		}
		if ok {
			return &Lease{f}, note(f.Path())
		}
		if time.Since(start) >= wait {
			return nil, &LeaseError{device, holder(f.Path()), wait}
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("lease: %w", context.Cause(ctx))
		case <-time.After(waitStep):
		}
	}
}

// note writes who has it, for other people's messages.
func note(path string) error {
	data, err := json.Marshal(Holder{os.Getpid(), filepath.Base(os.Args[0]), time.Now().Round(time.Second)})
	if err == nil {
		err = os.WriteFile(path, data, 0o644)
	}
	return err
}

func holder(path string) (h Holder) {
	data, err := os.ReadFile(path)
	if err == nil {
		_ = json.Unmarshal(data, &h) // half-written: nobody is named
	}
	return h
}

// Release gives it back. It may be called again, and on nil.
func (l *Lease) Release() {
	if l == nil || !l.f.Locked() {
		return
	}
	_ = os.Truncate(l.f.Path(), 0) // who had it matters to nobody now
	_ = l.f.Unlock()               // the lock ends with the process at the latest
}
