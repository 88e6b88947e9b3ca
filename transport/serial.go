// This file opens serial ports.

package transport

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"strings"
	"sync"
	"syscall"
	"time"

	"go.bug.st/serial"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/nextstep"
)

const (
	defaultBaud = 115200
	readAhead   = 1 << 20 // maximum of unread bytes; beyond it the port is not read
	writePart   = 4096    // bytes per write to the driver, so that a cancel takes effect soon
)

// notOpened returns the error, of class probe-missing, of a port that cannot be opened or closed.
func notOpened(port string, err error) error {
	var p *serial.PortError
	next := nextstep.Target("devices") + " lists the ports"

	switch {
	case isBusy(err):
		next = "close the other program that has it open"
		if others := programsWith(port); len(others) > 0 {
			next = "end the program that has it open: " + strings.Join(others, ", ")
		}
	case errors.As(err, &p) && p.Code() == serial.PermissionDenied, errors.Is(err, fs.ErrPermission):
		next = "give this user access to it: " + nextstep.Target("doctor") + " shows how"
	}

	return failure.New(failure.ProbeMissing, next, "serial port %s: %w", port, err)
}

// vanished returns ErrClosed, of class board-lost, for a port that was open. After the device is plugged in again, it
// can be opened under its new name.
func vanished(port string, err error) error {
	return failure.New(failure.BoardLost, "plug the board in again", "serial port %s: %w%.0w", port, err, ErrClosed)
}

// isBusy reports whether a port cannot be opened because another program has it for itself.
func isBusy(err error) bool {
	var p *serial.PortError
	return errors.Is(err, syscall.EBUSY) || errors.As(err, &p) && p.Code() == serial.PortBusy
}

// ErrSharedPort is wrapped by the error, of class transport, of a wait that ended, or of data that arrived damaged,
// while another program had the serial port open: each byte reaches only one of them.
var ErrSharedPort = failure.Errorf(failure.Transport, "another program reads serial port")

// Shared returns err as ErrSharedPort if link is a serial port that another program has open, else err unchanged.
// It finds programs on Linux, and those of other users only with the rights to examine them.
func Shared(link Link, err error) error {
	if r, ok := link.(*recorder); ok {
		link = r.link
	}

	s, ok := link.(*serialLink)
	if !ok || errors.Is(err, ErrSharedPort) {
		return err
	}

	if others := strings.Join(s.others(), ", "); others != "" {
		return failure.New(failure.Transport, "end the other program, and keep it from opening the port again: "+others,
			"%w %s: %s: %w", ErrSharedPort, s.name, others, err)
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

// OpenSerial opens a port exclusively: eight bits, no parity, one stop bit. name is as in "/dev/ttyACM0" or "COM3";
// baud is in bits a second, 0 means 115200. Errors: class probe-missing. Once the port has vanished, errors of the link
// are of class board-lost and match ErrClosed. If another program opened the port before, a wait that its context's
// deadline ends is ErrSharedPort.
func OpenSerial(name string, baud int) (Link, error) {
	port, err := openPort(name, cmp.Or(baud, defaultBaud))
	if err != nil {
		return nil, notOpened(name, err)
	}
	return newSerial(name, port), nil
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
			s.err = vanished(s.name, err)
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
	if errors.Is(err, context.DeadlineExceeded) {
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
		// Releases the memory, which an empty slice of it would keep.
		s.unread = nil
		signal(s.room)
	} else {
		signal(s.change) // for the next reader
	}

	// Bytes that arrived before an error are read first.
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

		// A write of an earlier call may still block in the driver, after that call's deadline.
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
		return vanished(s.name, err)
	}
}

// Close implements Link.
func (s *serialLink) Close() error {
	var err error
	s.once.Do(func() {
		// First, so that calls in other goroutines return ErrClosed.
		close(s.closed)
		s.mu.Lock()
		gone := s.err != nil // Close itself makes a read fail
		s.mu.Unlock()

		_ = s.port.ResetOutputBuffer() // unblocks a write; fails on a port that has vanished
		if e := s.port.Close(); e != nil && !gone {
			err = notOpened(s.name, e)
		}
		<-s.done
	})
	return err
}
