// This file starts programs, and configures them.

package transport

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/boardsmith/boardsmith/failure"
)

// ProcessConfig describes the program to run. Only Path must be set.
type ProcessConfig struct {
	Path  string   // a name without a separator is searched on PATH; else relative to this process's working folder
	Args  []string // without the program's own name
	Env   []string // "NAME=value"; nil means an empty environment, not this process's
	Dir   string   // working folder; "" means this process's
	Grace time.Duration
	// Grace is the time that Close waits for the process to end after closing its input, and again after asking it
	// to stop, before it kills the process group; 0 means 500 ms.
	StaysOnEOF bool         // it does not end when its input is closed: Close asks it to stop at once
	Left       string       // a file that it may leave when it ends, for ProcessError.Left; "": none
	Log        hclog.Logger // logs the lines of its standard error, named "stderr"; nil drops them
}

const defaultGrace = 500 * time.Millisecond

// A ProcessError reports a device process that ended, or closed its output, during use. errors.Is matches it with
// ErrClosed.
type ProcessError struct {
	Path  string
	State *os.ProcessState // nil if it has not ended
	Tail  []byte           // the last 4 KiB of its standard error
	Left  []byte           // the content of the file that it left
}

func (e *ProcessError) Error() string {
	end := "closed its output"
	if e.State != nil {
		end = "ended: " + e.State.String()
	}

	s := fmt.Sprintf("device process %s %s", e.Path, end)
	if said := strings.TrimSpace(string(e.Tail)); said != "" {
		s += ": " + printable([]byte(strings.ReplaceAll(said, "\n", "; ")))
	}
	return s
}

// Is makes ErrClosed match.
func (e *ProcessError) Is(target error) bool { return target == ErrClosed }

// FailureClass returns failure.Transport; failure.Host if a signal from outside ended the process.
func (e *ProcessError) FailureClass() failure.Class {
	if e.endedBy(syscall.SIGKILL) || e.endedBy(syscall.SIGTERM) {
		return failure.Host
	}
	return failure.Transport
}

// NextStep returns what to do about its end.
func (e *ProcessError) NextStep() string {
	if e.FailureClass() == failure.Host {
		return "another program, or the system for lack of memory, ended it: repeat"
	}
	return "run " + e.Path + " by itself to see why it ends"
}

// GaveUp reports whether the process ended itself by a signal, as QEMU does when the core that it emulates locks up.
func (e *ProcessError) GaveUp() bool { return e.endedBy(syscall.SIGABRT) }

func (e *ProcessError) endedBy(signal syscall.Signal) bool {
	if e.State == nil {
		return false
	}
	status, _ := e.State.Sys().(syscall.WaitStatus)
	return status.Signaled() && status.Signal() == signal
}

// A tail keeps the last bytes written to it.
type tail struct{ bytes []byte }

const tailSize = 4 << 10

func (t *tail) add(p []byte) {
	t.bytes = append(t.bytes, p...)
	if extra := len(t.bytes) - tailSize; extra > 0 {
		t.bytes = append(t.bytes[:0], t.bytes[extra:]...)
	}
}
