package transport

import (
	"context"

	"github.com/boardsmith/boardsmith/failure"
)

// A Process is a Link to a child process. Windows has none: its pipes have no deadlines.
type Process struct{}

// StartProcess returns an error on Windows.
func StartProcess(context.Context, ProcessConfig) (*Process, error) {
	return nil, failure.New(failure.Config, "use a QEMU board or real hardware",
		"a process as device is not supported on Windows")
}

// PID is 0.
func (*Process) PID() int { return 0 }

// Lossy returns false.
func (*Process) Lossy() bool { return false }

// Read reports that the link is closed.
func (*Process) Read(context.Context, []byte) (int, error) { return 0, ErrClosed }

// Write reports that the link is closed.
func (*Process) Write(context.Context, []byte) error { return ErrClosed }

// Close does nothing.
func (*Process) Close() error { return nil }
