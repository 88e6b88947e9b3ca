//go:build unix

package transport

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/files/abspath"
)

// A Process is a Link to a child process by its standard input and output. The child leads a process group of its
// own, which ends with the link and, on Linux, with this process.
type Process struct {
	path  string
	left  string // file that it may leave
	grace time.Duration
	stays bool     // it does not end when its input is closed
	in    *pipeEnd // the child's standard input
	out   *pipeEnd // its standard output
	errs  *stderrReader

	pid    int
	exited chan struct{}    // closed when the child has been reaped
	state  *os.ProcessState // valid after exited
	close  sync.Once
	closed atomic.Bool
}

// StartProcess starts a device process and returns a link to it. ctx only limits the start: Close ends the process.
// Errors: those of the start; ctx's.
func StartProcess(ctx context.Context, c ProcessConfig) (*Process, error) {
	if ctx.Err() != nil {
		return nil, failure.Stopped(ctx, "start %s", c.Path)
	}
	c.Path = abspath.OfWord(c.Path) // not relative to Dir

	pipes, err := openPipes()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", c.Path, err)
	}
	defer pipes.closeChildEnds()

	cmd := exec.Command(c.Path, c.Args...)
	cmd.Dir, cmd.Env = c.Dir, c.Env
	// To os/exec, nil means this process's environment.
	if cmd.Env == nil {
		cmd.Env = []string{}
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = pipes.stdin[0], pipes.stdout[1], pipes.stderr[1]
	cmd.SysProcAttr = childAttributes()

	p := &Process{path: c.Path, left: c.Left, grace: c.Grace, stays: c.StaysOnEOF, exited: make(chan struct{})}
	if p.grace == 0 {
		p.grace = defaultGrace
	}
	if err := p.run(cmd); err != nil {
		pipes.closeOurEnds()
		return nil, startError(c.Path, err)
	}

	p.in, p.out = newWriteEnd(pipes.stdin[1]), newReadEnd(pipes.stdout[0])
	p.errs = readStderr(pipes.stderr[0], c.Log)
	return p, nil
}

func startError(path string, err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return failure.New(failure.Config, "build the firmware again", "start %s: %w", path, err)
	}
	return fmt.Errorf("start %s: %w", path, err)
}

// run starts cmd on an operating system thread of its own that lives until cmd has ended, because the kernel's
// parent death signal follows the thread that started the child, not the process.
func (p *Process) run(cmd *exec.Cmd) error {
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()

		err := cmd.Start()
		if err == nil {
			p.pid = cmd.Process.Pid
		}
		started <- err
		if err != nil {
			return
		}

		awaitEnd(cmd)
		p.signalGroup(unix.SIGKILL) // the child's remaining children; its PID is in use until Wait
		_ = cmd.Wait()              // the state has the result
		p.state = cmd.ProcessState
		close(p.exited)
	}()
	return <-started
}

func (p *Process) signalGroup(s unix.Signal) { _ = unix.Kill(-p.pid, s) } // an error means that the group is empty

// PID returns the PID of the process and of its group.
func (p *Process) PID() int { return p.pid }

// Lossy returns false: a pipe loses no bytes.
func (p *Process) Lossy() bool { return false }

// Read implements Link. It returns a *ProcessError at the end of the child's output.
func (p *Process) Read(ctx context.Context, buf []byte) (int, error) {
	n, err := p.out.read(ctx, buf)
	return n, p.explain(err)
}

// Write implements Link.
func (p *Process) Write(ctx context.Context, data []byte) error {
	return p.explain(p.in.write(ctx, data))
}

// explain converts the end of a pipe to the process's end.
func (p *Process) explain(err error) error {
	switch {
	case err == nil:
		return nil
	case p.closed.Load() || errors.Is(err, os.ErrClosed):
		return ErrClosed
	case errors.Is(err, io.EOF) || errors.Is(err, syscall.EPIPE):
		return p.endError()
	}
	return err
}

// endError returns the error of a process that ended. It waits briefly, because a pipe's end precedes the exit.
func (p *Process) endError() error {
	e := &ProcessError{Path: p.path}
	timer := time.NewTimer(250 * time.Millisecond)
	defer timer.Stop()

	select {
	case <-p.exited:
		e.State = p.state
		// What it wrote last may still be in the pipe.
		p.errs.wait(timer.C)
	case <-timer.C:
	}

	e.Tail = p.errs.tail()
	if p.left != "" {
		e.Left, _ = os.ReadFile(p.left) // usually it has left none
	}
	return e
}

// Close ends the process and waits for it: it closes the input, asks the process to stop, then kills its process
// group. It takes at most twice ProcessConfig.Grace.
func (p *Process) Close() error {
	p.close.Do(func() {
		p.closed.Store(true)
		p.in.f.Close()
		p.out.f.Close() // before the wait, so that a child that writes endlessly gets an error

		if p.stays || !p.exitsWithin(p.grace) {
			p.signalGroup(unix.SIGTERM)
		}
		if !p.exitsWithin(p.grace) {
			p.signalGroup(unix.SIGKILL)
		}

		<-p.exited
		p.errs.stop()
	})
	return nil
}

func (p *Process) exitsWithin(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-p.exited:
		return true
	case <-timer.C:
		return false
	}
}

// The three pipes of a child, each a read and a write end.
type pipes struct{ stdin, stdout, stderr [2]*os.File }

func openPipes() (*pipes, error) {
	var p pipes
	for _, pair := range []*[2]*os.File{&p.stdin, &p.stdout, &p.stderr} {
		r, w, err := os.Pipe()
		if err != nil {
			p.closeChildEnds()
			p.closeOurEnds()
			return nil, err
		}
		pair[0], pair[1] = r, w
	}
	return &p, nil
}

// Closing a nil *os.File only returns an error.
func (p *pipes) closeChildEnds() { p.stdin[0].Close(); p.stdout[1].Close(); p.stderr[1].Close() }
func (p *pipes) closeOurEnds()   { p.stdin[1].Close(); p.stdout[0].Close(); p.stderr[0].Close() }

// A pipeEnd is this side's end of a pipe, read or written in the caller's goroutine.
type pipeEnd struct {
	f    *os.File
	conn syscall.RawConn
	waiter

	// The arguments of transfer: fields instead of a closure's variables, so that a call does not allocate.
	transfer func(fd uintptr)
	p        []byte
	n        int
	err      error
}

func newReadEnd(f *os.File) *pipeEnd {
	e := newPipeEnd(f)
	e.transfer = e.readSoon
	return e
}

func newWriteEnd(f *os.File) *pipeEnd {
	e := newPipeEnd(f)
	e.transfer = e.writeAvailable
	return e
}

func newPipeEnd(f *os.File) *pipeEnd {
	e := &pipeEnd{f: f, waiter: newWaiter(f.SetDeadline)}
	e.conn, _ = f.SyscallConn() // fails on a closed file only
	return e
}

// tryTransfer transfers what is possible without waiting, or almost.
func (e *pipeEnd) tryTransfer(p []byte) (int, error) {
	e.p, e.n, e.err = p, 0, nil
	if err := e.conn.Control(e.transfer); err != nil {
		return 0, err
	}
	// The caller's memory is not kept.
	e.p = nil
	return e.n, e.err
}

func (e *pipeEnd) read(ctx context.Context, p []byte) (int, error) {
	if ctx.Err() != nil {
		return 0, waitError(ctx, "read", time.Now())
	}
	if len(p) == 0 {
		return 0, nil
	}

	// Before a wait, which takes longer than a device's short answer.
	if n, err := e.tryTransfer(p); n > 0 || err != nil {
		return n, err
	}
	return e.wait(ctx, "read", func() (int, error) { return e.f.Read(p) })
}

// spinTime is the time for which a read polls the kernel before it sleeps. The device answers an empty call in a few
// microseconds; putting this thread to sleep and waking it takes ten times as long, on a virtual machine more.
const spinTime = 100 * time.Microsecond

// readSoon reads data that is available or arrives within spinTime. It returns 0 and no error if none arrived.
func (e *pipeEnd) readSoon(fd uintptr) {
	for start := time.Now(); ; yield() {
		n, err := unix.Read(int(fd), e.p)
		switch {
		case n > 0:
			e.n = n
			return
		case n == 0:
			e.err = io.EOF
			return
		case err != unix.EAGAIN && err != unix.EINTR:
			e.err = err
			return
		case time.Since(start) > spinTime:
			return
		}
	}
}

func (e *pipeEnd) write(ctx context.Context, p []byte) error {
	if ctx.Err() != nil {
		return waitError(ctx, "write", time.Now())
	}

	n, err := e.tryTransfer(p)
	for p = p[n:]; len(p) > 0 && err == nil; p = p[n:] {
		n, err = e.wait(ctx, "write", func() (int, error) { return e.f.Write(p) })
	}
	return err
}

// writeAvailable writes the bytes that the pipe accepts without waiting.
func (e *pipeEnd) writeAvailable(fd uintptr) {
	n, err := unix.Write(int(fd), e.p)
	switch {
	case n > 0:
		e.n = n
	case err != unix.EAGAIN && err != unix.EINTR:
		e.err = err
	}
}

// A stderrReader logs the lines of a child's standard error and keeps the last bytes.
type stderrReader struct {
	f    *os.File
	done chan struct{}
	mu   sync.Mutex
	last tail
}

func (r *stderrReader) tail() []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	return bytes.Clone(r.last.bytes)
}

// wait waits until everything has been read, or for end.
func (r *stderrReader) wait(end <-chan time.Time) {
	select {
	case <-r.done:
	case <-end:
	}
}

// stop ends the reading, even if another process holds the other end.
func (r *stderrReader) stop() {
	_ = r.f.SetReadDeadline(time.Now().Add(50 * time.Millisecond)) // time for the bytes in the pipe
	<-r.done
	r.f.Close()
}

func readStderr(f *os.File, log hclog.Logger) *stderrReader {
	r := &stderrReader{f: f, done: make(chan struct{})}
	if log == nil {
		log = hclog.NewNullLogger()
	}

	go r.run(log.Named("stderr"))
	return r
}

func (r *stderrReader) run(log hclog.Logger) {
	defer close(r.done)

	lines := bufio.NewReaderSize(r.f, tailSize)
	for {
		line, err := lines.ReadSlice('\n') // a longer line is logged in pieces
		if len(line) > 0 {
			r.mu.Lock()
			r.last.add(line)
			r.mu.Unlock()
			log.Info(printable(line))
		}

		if err != nil && err != bufio.ErrBufferFull {
			return
		}
	}
}
