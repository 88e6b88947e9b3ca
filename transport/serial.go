// This file opens serial ports.

package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"sync"
	"syscall"
	"time"

	"go.bug.st/serial"

	"github.com/boardsmith/boardsmith/failure"
)

// SerialConfig describes a serial port. Only Port must be set.
type SerialConfig struct {
	Port string // its name or path, as in "/dev/ttyACM0", "COM3"
	Baud int    // bits a second; 0 means 115200
}

const (
	defaultBaud = 115200
	readAhead   = 1 << 20 // maximum of unread bytes; beyond it the port is not read
	writePart   = 4096    // bytes per write to the driver, so that a cancel takes effect soon
)

// A serialError reports a port that cannot be opened, or that vanished while it was open. In the latter case
// errors.Is matches it with ErrClosed; after the device is plugged in again, the port can be opened under its new
// name.
type serialError struct {
	Port   string
	Gone   bool     // it was open
	Others []string // programs that have it open, if it cannot be opened for that reason
	Err    error
}

func (e *serialError) Error() string { return fmt.Sprintf("serial port %s: %v", e.Port, e.Err) }

// Unwrap returns the driver's error.
func (e *serialError) Unwrap() error { return e.Err }

// Is makes ErrClosed match a port that is gone.
func (e *serialError) Is(target error) bool { return e.Gone && target == ErrClosed }

// FailureClass returns failure.BoardLost for a port that vanished, else failure.ProbeMissing.
func (e *serialError) FailureClass() failure.Class {
	if e.Gone {
		return failure.BoardLost
	}
	return failure.ProbeMissing
}

// NextStep returns the next step for the user.
func (e *serialError) NextStep() string {
	var p *serial.PortError
	switch {
	case e.Gone:
		return "plug the board in again"
	case isBusy(e.Err) && len(e.Others) > 0:
		return "end the program that has it open: " + strings.Join(e.Others, ", ")
	case isBusy(e.Err):
		return "close the other program that has it open"
	case errors.As(e.Err, &p) && p.Code() == serial.PermissionDenied, errors.Is(e.Err, fs.ErrPermission):
		return "give this user access to it: " + failure.Target("doctor") + " shows how"
	default:
		return failure.Target("devices") + " lists the ports"
	}
}

// isBusy reports whether a port cannot be opened because another program has it for itself.
func isBusy(err error) bool {
	var p *serial.PortError
	return errors.Is(err, syscall.EBUSY) || errors.As(err, &p) && p.Code() == serial.PortBusy
}

// A SharedPortError reports a wait that ended, or data that arrived damaged, while another program had the serial port
// open: each byte reaches only one of them.
type SharedPortError struct {
	Port   string
	Others []string // the other programs, as in "screen (process 4711)"
	Err    error    // of the operation that failed
}

func (e *SharedPortError) Error() string {
	return fmt.Sprintf("another program reads serial port %s: %s: %v", e.Port, strings.Join(e.Others, ", "), e.Err)
}

// Unwrap returns the error of the operation.
func (e *SharedPortError) Unwrap() error { return e.Err }

// FailureClass returns failure.Transport.
func (e *SharedPortError) FailureClass() failure.Class { return failure.Transport }

// NextStep returns the next step for the user.
func (e *SharedPortError) NextStep() string {
	return "end the other program, and keep it from opening the port again: " + strings.Join(e.Others, ", ")
}

// Shared returns err as a *SharedPortError if link is a serial port that another program has open, else err unchanged.
// It finds programs on Linux, and those of other users only with the rights to examine them.
func Shared(link Link, err error) error {
	if r, ok := link.(*recorder); ok {
		link = r.link
	}
	s, ok := link.(*serialLink)
	if !ok || errors.As(err, new(*SharedPortError)) {
		return err
	}
	if others := s.others(); len(others) > 0 {
		return &SharedPortError{Port: s.name, Others: others, Err: err}
	}
	return err
}

// lookEvery is how long the list of the other programs with a port is used: to examine all processes takes
// milliseconds, and who waits for a silent board has a timeout every few.
const lookEvery = time.Second

// others lists the other programs that have the port open.
func (s *serialLink) others() []string {
	s.looking.Lock()
	defer s.looking.Unlock()
	if now := time.Now(); now.Sub(s.looked) >= lookEvery {
		s.found, s.looked = programsWith(s.name), now
	}
	return s.found
}

// A driver reads and writes a port. Close ends both.
type driver interface {
	io.ReadWriteCloser
	ResetOutputBuffer() error // drops bytes that were written and not sent yet
}

// A serialLink is a Link over a UART. It is Lossy: a UART has noise and no flow control.
type serialLink struct {
	name string
	port driver

	mu     sync.Mutex
	unread []byte
	err    error         // the port's error, if any
	change chan struct{} // signals that unread or err has changed
	room   chan struct{} // signals that unread was emptied
	closed chan struct{}
	done   chan struct{} // the reader has ended
	once   sync.Once

	writing chan struct{} // holds a token during a write

	looking sync.Mutex
	found   []string  // other programs that have the port open
	looked  time.Time // when
}

// OpenSerial opens a port exclusively: eight bits, no parity, one stop bit. Errors: class probe-missing. Once the
// port has vanished, errors of the link are of class board-lost and match ErrClosed. If another program opened the port
// before, a wait that its context's deadline ends is a *SharedPortError.
func OpenSerial(c SerialConfig) (Link, error) {
	if c.Baud == 0 {
		c.Baud = defaultBaud
	}
	port, err := openPort(c)
	if err != nil {
		e := &serialError{Port: c.Port, Err: err}
		if isBusy(err) {
			e.Others = programsWith(c.Port)
		}
		return nil, e
	}
	return newSerial(c.Port, port), nil
}

func newSerial(name string, port driver) *serialLink {
	s := &serialLink{
		name: name, port: port, change: make(chan struct{}, 1), room: make(chan struct{}, 1),
		closed: make(chan struct{}), done: make(chan struct{}), writing: make(chan struct{}, 1),
	}
	go s.read()
	return s
}

// Lossy returns true.
func (s *serialLink) Lossy() bool { return true }

// read reads the port until it vanishes or is closed.
func (s *serialLink) read() {
	defer close(s.done)
	buf := make([]byte, 16<<10)
	for {
		n, err := s.port.Read(buf)
		if n == 0 && err == nil { // the driver's result for a port that was closed or unplugged
			err = errors.New("no longer there")
		}
		s.mu.Lock()
		s.unread = append(s.unread, buf[:n]...)
		if err != nil {
			s.err = &serialError{Port: s.name, Gone: true, Err: err}
		}
		full := len(s.unread) > readAhead
		s.mu.Unlock()
		signal(s.change)
		if err != nil {
			return
		}
		if full {
			select {
			case <-s.room:
			case <-s.closed:
				return
			}
		}
	}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Read implements Link.
func (s *serialLink) Read(ctx context.Context, p []byte) (int, error) {
	start := time.Now()
	for {
		if ctx.Err() != nil {
			return 0, s.waitError(ctx, "read", start)
		}
		if n, err := s.take(p); n > 0 || err != nil || len(p) == 0 {
			return n, err
		}
		select {
		case <-s.change:
		case <-s.closed:
		case <-ctx.Done():
		}
	}
}

// waitError returns the error of a wait, and with a timeout the other programs that have the port open.
func (s *serialLink) waitError(ctx context.Context, op string, since time.Time) error {
	err := waitError(ctx, op, since)
	if errors.As(err, new(*TimeoutError)) {
		return Shared(s, err)
	}
	return err
}

func (s *serialLink) take(p []byte) (int, error) {
	select {
	case <-s.closed:
		return 0, ErrClosed
	default:
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	n := copy(p, s.unread)
	s.unread = s.unread[n:]
	if len(s.unread) == 0 {
		s.unread = nil
		signal(s.room)
	} else {
		signal(s.change) // for the next reader
	}
	if n == 0 {
		return 0, s.err
	}
	return n, nil
}

// Write implements Link. The driver may accept a part only, and may block while the other side does not read; after a
// deadline it still sends the bytes that it has accepted.
func (s *serialLink) Write(ctx context.Context, p []byte) error {
	start := time.Now()
	for len(p) > 0 {
		if ctx.Err() != nil {
			return s.waitError(ctx, "write", start)
		}
		select {
		case s.writing <- struct{}{}:
		case <-s.closed:
			return ErrClosed
		case <-ctx.Done():
			return s.waitError(ctx, "write", start)
		}
		part := append([]byte(nil), p[:min(len(p), writePart)]...) // the caller may use p again after a deadline
		type result struct {
			n   int
			err error
		}
		ended := make(chan result, 1)
		go func() {
			n, err := s.port.Write(part)
			<-s.writing
			ended <- result{n, err}
		}()
		select {
		case r := <-ended:
			if r.err != nil {
				return s.gone(r.err)
			}
			p = p[r.n:]
		case <-s.closed:
			return ErrClosed
		case <-ctx.Done():
			return s.waitError(ctx, "write", start)
		}
	}
	select {
	case <-s.closed:
		return ErrClosed
	default:
		return nil
	}
}

func (s *serialLink) gone(err error) error {
	select {
	case <-s.closed:
		return ErrClosed
	default:
		return &serialError{Port: s.name, Gone: true, Err: err}
	}
}

// Close implements Link.
func (s *serialLink) Close() error {
	var err error
	s.once.Do(func() {
		close(s.closed)
		s.mu.Lock()
		gone := s.err != nil // Close itself makes a read fail
		s.mu.Unlock()
		_ = s.port.ResetOutputBuffer() // unblocks a write; fails on a port that has vanished
		if e := s.port.Close(); e != nil && !gone {
			err = &serialError{Port: s.name, Err: e}
		}
		<-s.done
	})
	return err
}
