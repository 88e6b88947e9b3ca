// Package command runs external programs: in an environment made for them, in a process group of their own, and
// with a deadline. A program ends with this process. So do its children, if the run holds files; on Windows always.
//
// It prints nothing.
package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/files/abspath"
)

const (
	tailBytes    = 4 << 10         // bytes kept of the end of a program's output
	headBytes    = 64 << 10        // bytes kept of its beginning, which has the first error
	defaultGrace = 3 * time.Second // to clean up after a cancel
)

// A Command is one run of a program. Only Path must be set.
type Command struct {
	Path    string        // of the program
	Args    []string      // without the program's own name
	Dir     string        // working folder; "" means this process's
	Env     []string      // "NAME=value", added to the environment that Environment makes
	Held    []*os.File    // kept open, with locks on them, by all processes of the run; the first must be empty
	Files   []*os.File    // inherited by the command, from descriptor 3 + len(Held) on; not on Windows
	Reads   []string      // the only files and folders that the run may read, if Confines; nil: any
	Out     func(string)  // takes the lines of standard output, and a last line without newline; nil drops them
	Err     func(string)  // takes the lines of standard error; nil drops them. Of a line, Out and Err get 64 KiB
	Stdin   io.Reader     // standard input; nil means none. Not with Held
	Stdout  io.Writer     // takes standard output whole, as it is; nil drops it
	Grace   time.Duration // time to stop after ctx has ended, before the group is killed; 0 means 3 s
	Timeout time.Duration // maximum run time; 0 means that only ctx limits it
}

// An Error reports a program that failed or exceeded its Timeout.
type Error struct {
	Tool    string // the program's name
	Text    string // output: the first 64 KiB and the last 4 KiB of both streams
	Stderr  string // the same of standard error only
	Command string // a shell command that runs it again
	Err     error  // exit status, also as a *HostError, or ErrTooLong
}

// Error returns the tool's name and the last line that it printed.
func (e *Error) Error() string {
	if last := e.LastLine(); last != "" {
		return e.Tool + ": " + e.Err.Error() + ": " + last
	}
	return e.Tool + ": " + e.Err.Error()
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// LastLine returns the last line that is not empty.
func (e *Error) LastLine() string {
	lines := strings.Split(strings.TrimSpace(e.Text), "\n")
	return strings.TrimSpace(lines[len(lines)-1])
}

// ErrTooLong reports a run that exceeded its Timeout.
var ErrTooLong = errors.New("time limit exceeded")

// Environment returns the environment of a program with working folder dir.
func Environment(dir string) []string {
	env := []string{"LC_ALL=C", "PWD=" + dir}
	for _, name := range append([]string{"PATH", "HOME", "TMPDIR"}, systemVariables...) {
		if v, ok := os.LookupEnv(name); ok {
			if name == "TMPDIR" {
				v = abspath.Of(v) // the program may run in another folder than this process
			}
			env = append(env, name+"="+v)
		}
	}
	return env
}

// Run runs the command to its end. Errors: *Error; for a program that cannot be started of class tool-missing or host;
// a file system error; ctx's after a cancel. When Run returns, the whole process group has ended, also after success.
func (c Command) Run(ctx context.Context) error {
	_, _, err := c.Capture(ctx)
	return err
}

// Capture is Run, and returns the first 64 KiB of each stream, also after a failure.
func (c Command) Capture(ctx context.Context) (stdout, stderr string, err error) {
	var both, out, errs excerpt
	err = c.run(ctx, &both, &out, &errs)
	return string(out.head), string(errs.head), err
}

func (c Command) run(ctx context.Context, both, out, errs *excerpt) error {
	inner, cancel := ctx, context.CancelFunc(func() {})
	if c.Timeout > 0 {
		inner, cancel = context.WithTimeoutCause(ctx, c.Timeout, ErrTooLong)
	}
	defer cancel()

	cmd := exec.CommandContext(inner, c.Path, c.Args...)
	cmd.Dir, cmd.Env = c.Dir, append(Environment(c.Dir), c.Env...)
	cmd.Stdin = c.Stdin

	streams := []*stream{both.stream(c.Out), both.stream(c.Err), out.stream(nil), errs.stream(nil)}
	cmd.Stdout, cmd.Stderr = io.MultiWriter(streams[0], streams[2]), io.MultiWriter(streams[1], streams[3])
	if c.Stdout != nil {
		cmd.Stdout = io.MultiWriter(cmd.Stdout, c.Stdout)
	}

	cmd.WaitDelay = c.Grace
	if cmd.WaitDelay == 0 {
		cmd.WaitDelay = defaultGrace
	}

	ownGroup(cmd)
	err := pinned(c.Reads, func() error { return runGroup(cmd, c.Held, c.Files) })
	for _, s := range streams {
		s.end()
	}

	if err == nil {
		return nil
	}

	if ctx.Err() != nil {
		return failure.Stopped(ctx, "%s", Name(c.Path))
	}

	if inner.Err() != nil {
		err = fmt.Errorf("%w: %v", ErrTooLong, c.Timeout)
	}

	// Any other error is one of starting the program.
	var exit *exec.ExitError
	if !errors.As(err, &exit) && !errors.Is(err, exec.ErrWaitDelay) && !errors.Is(err, ErrTooLong) {
		return fmt.Errorf("run %s: %w", c.Path, c.notStarted(err))
	}

	// An end by our own limit is no fault of the computer.
	if !errors.Is(err, ErrTooLong) {
		err = ofHost(err, both.text(), c.Dir)
	}

	return &Error{Tool: Name(c.Path), Text: both.text(), Stderr: errs.text(), Command: c.Typed(), Err: err}
}

// runGroup runs the command and then ends processes that outlived the group's leader.
func runGroup(cmd *exec.Cmd, held, files []*os.File) error {
	g, err := newGroup(cmd, held)
	if err != nil {
		return err
	}

	cmd.ExtraFiles = append(slices.Clip(cmd.ExtraFiles), files...)

	defer g.end()

	cmd.Cancel = g.interrupt
	if err := cmd.Start(); err != nil {
		return err
	}

	// A program outside of its group could not be ended with it.
	if err := g.started(); err != nil {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()
		return err
	}

	return cmd.Wait()
}

// pinned runs a command on a thread of its own: the kernel ends a child with the thread that started it (ownGroup), and
// a child may read what that thread may. A thread with such a limit ends with the run.
func pinned(reads []string, run func() error) error {
	ended := make(chan error)
	go func() {
		runtime.LockOSThread()
		var err error
		if reads == nil {
			defer runtime.UnlockOSThread()
		} else {
			err = confine(reads)
		}

		if err == nil {
			err = run()
		}
		ended <- err
	}()
	return <-ended
}

// Name returns the name of the program at a path.
func Name(path string) string {
	return strings.TrimSuffix(path[strings.LastIndexAny(path, `/\`)+1:], ".exe")
}

// Typed returns the command as typed in a shell. It omits the program's folder if PATH leads to it.
func (c Command) Typed() string {
	var words []string
	if c.Dir != "" {
		words = append(words, "cd", Quote(c.Dir), "&&")
	}

	program := Name(c.Path)
	if path, err := exec.LookPath(program); strings.ContainsAny(c.Path, `/\`) && (err != nil || path != c.Path) {
		program = c.Path
	}

	words = append(words, Quote(program))
	for _, a := range c.Args {
		words = append(words, Quote(a))
	}
	return strings.Join(words, " ")
}

// Quote quotes a word for a shell if necessary.
func Quote(s string) string {
	plain := func(r rune) bool {
		if r >= utf8.RuneSelf {
			return unicode.IsPrint(r)
		}
		return unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("-_=+.,/:@%", r)
	}
	if s != "" && strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
