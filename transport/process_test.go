//go:build unix

package transport_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/transporttest"
	"github.com/boardsmith/boardsmith/transport"
)

// This test binary is also the device process: with childVariable set it plays that part instead.
const childVariable = "TRANSPORT_TEST_CHILD"

func TestMain(m *testing.M) {
	play := parts[os.Getenv(childVariable)]
	if play == nil {
		os.Exit(m.Run())
	}
	play()
	os.Exit(0)
}

var parts = map[string]func(){
	"echo":  func() { _, _ = io.Copy(os.Stdout, os.Stdin) },
	"serve": func() { transporttest.Answer(stdio{}) },
	"die": func() {
		fmt.Fprintln(os.Stderr, "first line\nassertion failed: \x1b[1mx > 0")
		os.Exit(3)
	},
	"mute": func() { os.Stdout.Close(); sleep() },
	"hang": func() { signal.Ignore(syscall.SIGTERM); sleep() },
	"family": func() { // a child of its own, which holds the pipes too
		child := valueOf(os.StartProcess(os.Args[0], os.Args, &os.ProcAttr{
			Env: []string{childVariable + "=hang"}, Files: []*os.File{os.Stdin, os.Stdout, os.Stderr},
		}))
		fmt.Println(child.Pid)
	},
	"flood": func() {
		block := bytes.Repeat([]byte{0xff, 0xfd, 3}, 1000)
		for {
			if _, err := os.Stdout.Write(block); err != nil {
				return
			}
		}
	},
	"shout": func() {
		go func() {
			for {
				fmt.Fprintln(os.Stderr, strings.Repeat("no newline ", 1000))
			}
		}()
		transporttest.Answer(stdio{})
	},
	"die in answer":  func() { answer(func() { os.Exit(4) }) },
	"hang in answer": func() { answer(sleep) },
	"reset in answer": func() {
		answer(func() { transporttest.Answer(stdio{}) }) // sends Terminate first, as after a boot
	},
	"parent": func() {
		p := valueOf(transport.StartProcess(context.Background(), child("hang")))
		fmt.Println(p.PID())
		sleep()
	},
}

func valueOf[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func sleep() { time.Sleep(time.Minute) }

// answer reads one message, sends half a frame, and continues with then.
func answer(then func()) {
	link := &stdio{}
	s := valueOf(transporttest.Boot(context.Background(), link, 0))
	valueOf(s.Recv(context.Background()))
	link.half = true
	_ = s.Send(context.Background(), make([]byte, 1<<10))
	then()
}

// stdio is the device process's end of its pipes. It waits without a deadline.
type stdio struct{ half bool }

func (stdio) Read(_ context.Context, p []byte) (int, error) { return os.Stdin.Read(p) }
func (stdio) Close() error                                  { return nil }
func (stdio) Lossy() bool                                   { return false }

func (l stdio) Write(_ context.Context, p []byte) error {
	if l.half {
		p = p[:len(p)/2]
	}
	_, err := os.Stdout.Write(p)
	return err
}

func child(part string) transport.ProcessConfig {
	return transport.ProcessConfig{
		Path: os.Args[0], Env: []string{childVariable + "=" + part}, Grace: 100 * time.Millisecond,
	}
}

func start(t testing.TB, part string) *transport.Process {
	t.Helper()
	p, err := transport.StartProcess(context.Background(), child(part))
	must(t, err)
	t.Cleanup(func() { p.Close() })
	return p
}

func TestProcessContract(t *testing.T) {
	transporttest.Run(t, func(t *testing.T) transport.Link { return start(t, "echo") })
}

func TestMissingProgramIsConfigError(t *testing.T) {
	_, err := transport.StartProcess(t.Context(), transport.ProcessConfig{Path: "/nonexistent/firmware"})
	wantError(t, err, failure.Config)
}

// A device process that misbehaves in any way is an error of its kind in time, and leaves nothing behind.
func TestFailingProcessIsTypedError(t *testing.T) {
	for part, want := range map[string]error{
		"die":             transport.ErrClosed,
		"mute":            transport.ErrClosed,
		"hang":            context.DeadlineExceeded,
		"flood":           context.DeadlineExceeded,
		"die in answer":   transport.ErrClosed,
		"hang in answer":  context.DeadlineExceeded,
		"reset in answer": transport.ErrTerminated,
	} {
		t.Run(part, func(t *testing.T) {
			before, routines := openFiles(), runtime.NumGoroutine()
			p := start(t, part)
			began := time.Now()
			deadline := 20 * time.Second
			if want == context.DeadlineExceeded {
				deadline = 600 * time.Millisecond
			}
			err := exchange(within(t, deadline), p)
			if !errors.Is(err, want) || want == transport.ErrClosed && !errors.As(err, new(*transport.ProcessError)) {
				t.Errorf("got %v, want %v", err, want)
			}
			if c := failure.Of(err); c == failure.Internal || c == "" {
				t.Errorf("class %q of %v", c, err)
			}
			p.Close()
			if d := time.Since(began); d > deadline+5*time.Second {
				t.Errorf("took %v", d)
			}
			checkGone(t, p.PID())
			checkLeaks(t, before, routines)
		})
	}
}

func exchange(ctx context.Context, link transport.Link) error {
	s, err := transport.Dial(ctx, link, transport.SessionOptions{})
	if err != nil {
		return err
	}
	if err := s.Send(ctx, []byte("hello")); err != nil {
		return err
	}
	_, err = s.Recv(ctx)
	return err
}

// checkGone checks that a process has ended. One that its new parent has not reaped yet has.
func checkGone(t *testing.T, pid int) {
	t.Helper()
	testkit.Await(t, "the end of a process", func() bool { return !running(pid) })
}

func running(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)) // "pid (name) state ..."
	return err != nil || !bytes.Contains(stat, []byte(") Z "))
}

// openFiles lists this process's file descriptors.
func openFiles() (open []int) {
	for fd := range 1024 {
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil {
			open = append(open, fd)
		}
	}
	return open
}

func checkLeaks(t *testing.T, before []int, routines int) {
	t.Helper()
	if after := openFiles(); len(after) > len(before) {
		t.Errorf("open files %v, before %v", after, before)
	}
	testkit.Await(t, "the end of goroutines", func() bool { return runtime.NumGoroutine() <= routines })
}

func TestProcessError(t *testing.T) {
	var out logBuffer
	c := child("die")
	c.Log = hclog.New(&hclog.LoggerOptions{Output: &out, DisableTime: true})
	p, err := transport.StartProcess(context.Background(), c)
	must(t, err)
	defer p.Close()
	_, err = p.Read(testkit.Context(t), make([]byte, 1))
	var e *transport.ProcessError
	if !errors.As(err, &e) || !errors.Is(err, transport.ErrClosed) {
		t.Fatalf("got %v", err)
	}
	if e.State == nil || e.State.ExitCode() != 3 || !strings.HasPrefix(string(e.Tail), "first line\nassertion failed") {
		t.Errorf("state %v, tail %q", e.State, e.Tail)
	}
	wantError(t, err, "", "ended: exit status 3: first line; assertion failed: .[1mx > 0")
	wantEqual(t, out.String(), "[INFO]  stderr: first line\n[INFO]  stderr: assertion failed: .[1mx > 0\n")
	if err := p.Write(testkit.Context(t), []byte{1}); !errors.As(err, &e) {
		t.Errorf("write: %v", err)
	}
}

// TestProcessEndedBySignal: whether a process ended itself, or was ended from outside.
func TestProcessEndedBySignal(t *testing.T) {
	for signal, c := range map[syscall.Signal]struct {
		class  failure.Class
		gaveUp bool
	}{
		syscall.SIGKILL: {failure.Host, false},
		syscall.SIGTERM: {failure.Host, false},
		syscall.SIGABRT: {failure.Transport, true},
		syscall.SIGSEGV: {failure.Transport, false},
	} {
		p, err := transport.StartProcess(t.Context(), transport.ProcessConfig{
			Path: "/bin/sh", Args: []string{"-c", fmt.Sprintf("kill -%d $$", signal)},
		})
		must(t, err)
		defer p.Close()
		_, err = p.Read(testkit.Context(t), make([]byte, 1))
		var e *transport.ProcessError
		if !errors.As(err, &e) || e.FailureClass() != c.class || e.GaveUp() != c.gaveUp {
			t.Errorf("%v: %v", signal, err)
		}
	}
}

type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// Standard error without end or newline neither stops the session nor fills the memory.
func TestEndlessStderrIsDrained(t *testing.T) {
	p := start(t, "shout")
	must(t, exchange(testkit.Context(t), p))
}

// Close takes the whole process group with it.
func TestCloseEndsProcessGroup(t *testing.T) {
	before, routines := openFiles(), runtime.NumGoroutine()
	p := start(t, "family")
	grandchild := readPID(t, p)
	must(t, syscall.Kill(grandchild, 0))
	// The child has left, its own child holds the pipes: the link ends all the same.
	var e *transport.ProcessError
	if _, err := p.Read(testkit.Context(t), make([]byte, 1)); !errors.As(err, &e) {
		t.Errorf("got %v", err)
	}
	p.Close()
	checkGone(t, p.PID())
	checkGone(t, grandchild)
	checkLeaks(t, before, routines)
}

func readPID(t *testing.T, p *transport.Process) int {
	t.Helper()
	var text []byte
	for buf := make([]byte, 64); !slices.Contains(text, '\n'); {
		n, err := p.Read(testkit.Context(t), buf)
		must(t, err)
		text = append(text, buf[:n]...)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	must(t, err)
	return pid
}

// The kernel ends the device process of a host that was killed.
func TestProcessDiesWithItsHost(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has a parent death signal")
	}
	host := start(t, "parent")
	device := readPID(t, host)
	must(t, syscall.Kill(host.PID(), syscall.SIGKILL))
	checkGone(t, device)
}

// The device process does not die with the thread that started it.
func TestProcessOutlivesItsThread(t *testing.T) {
	started := make(chan *transport.Process)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with this goroutine
		started <- start(t, "serve")
	}()
	p := <-started
	time.Sleep(50 * time.Millisecond)
	must(t, exchange(testkit.Context(t), p))
}

func BenchmarkProcessRoundTrip(b *testing.B) {
	p := start(b, "echo")
	msg, buf := make([]byte, 40), make([]byte, 4096)
	for b.Loop() {
		must(b, p.Write(b.Context(), msg))
		must(b, last(p.Read(b.Context(), buf)))
	}
}

// StartProcess closes what it has opened if the system has no more file descriptors, whichever of them is missing.
func TestProcessWithoutFiles(t *testing.T) {
	var whole syscall.Rlimit
	must(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &whole))
	runtime.GC() // closes what other tests left, so that it does not free descriptors now
	before := openFiles()
	for room := 0; ; room++ {
		limit := 0
		for free := 0; free < room || slices.Contains(before, limit); limit++ {
			if !slices.Contains(before, limit) {
				free++
			}
		}
		few := whole
		few.Cur = uint64(limit)
		must(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &few))
		p, err := transport.StartProcess(t.Context(), child("echo"))
		must(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &whole))
		if err == nil {
			p.Close()
			if room < 6 {
				t.Errorf("started with %d file descriptors", room)
			}
			return
		}
		wantIs(t, err, syscall.EMFILE, room)
		if after := openFiles(); len(after) > len(before) {
			t.Errorf("%d file descriptors: %v were open, %v are", room, before, after)
		}
	}
}

// TestProcessRelative: a program's relative path is relative to this process's working folder, not to the program's.
func TestProcessRelative(t *testing.T) {
	self := valueOf(os.Executable())
	t.Chdir(t.TempDir())
	valueOf(0, os.Mkdir("a folder", 0o755))
	valueOf(0, os.Symlink(self, "a folder/program"))
	ctx := t.Context()
	p := valueOf(transport.StartProcess(ctx, transport.ProcessConfig{
		Path: "a folder/program", Dir: t.TempDir(), Env: []string{childVariable + "=echo"},
	}))
	valueOf(0, p.Write(ctx, []byte("x")))
	wantEqual(t, valueOf(p.Read(ctx, make([]byte, 8))), 1, "read")
	valueOf(0, p.Close())
}
