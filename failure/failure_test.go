package failure_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/nextstep"
)

func TestOf(t *testing.T) {
	inner := failure.New(failure.Compile, "mend it", "lib1.c: %w", errors.New("boom"))
	outer := failure.Errorf(failure.Link, "link: %w", inner)
	canceled, cancel := context.WithCancelCause(context.Background())
	cancel(errors.New("no more"))
	expired, cancel2 := context.WithTimeout(context.Background(), 0)
	defer cancel2()
	for _, c := range []struct {
		err  error
		want failure.Class
		next string
	}{
		{nil, "", ""},
		{errors.New("x"), failure.Internal, ""},
		{fmt.Errorf("op: %w", context.Canceled), failure.Interrupted, ""},
		{fmt.Errorf("op: %w", context.DeadlineExceeded), failure.Timeout, ""},
		{fmt.Errorf("op: %w", inner), failure.Compile, "mend it"},
		{outer, failure.Link, "mend it"},
		{failure.New(failure.Boot, "look", "op: %w", context.DeadlineExceeded), failure.Boot, "look"},
		{failure.New(failure.Boot, "look", "op: %w", failure.Stopped(canceled, "wait")), failure.Interrupted, ""},
		{failure.New(failure.Boot, "look", "op: %w", failure.Stopped(expired, "wait")), failure.Timeout, "look"},
		{failure.New(failure.Compile, "look", "cc: %w", failure.New(failure.Host, "wait", "killed")), failure.Host, "wait"},
		{
			failure.New(failure.Config, "look", "f: %w", &fs.PathError{Op: "write", Path: "f", Err: syscall.ENOSPC}),
			failure.Host, "make room on the disk that holds .",
		},
		{
			&fs.PathError{Op: "write", Path: filepath.Join(os.TempDir(), "a", "f"), Err: syscall.EDQUOT}, failure.Host,
			"make room on the disk that holds " + filepath.Join(os.TempDir(), "a") +
				", or set TMPDIR to a folder on another one, and repeat",
		},
		{
			errors.Join(inner, &os.SyscallError{Syscall: "pipe2", Err: syscall.EMFILE}),
			failure.Host, "raise the limit of open files, as by ulimit -n 4096, and repeat",
		},
		{failure.Stopped(canceled, "write: %w", syscall.ENOSPC), failure.Interrupted, ""},
		{&fs.PathError{Op: "open", Path: "f", Err: syscall.ENOENT}, failure.Internal, ""},
		{
			fmt.Errorf("run: %w", &fs.PathError{Op: "mkdir", Path: "f", Err: syscall.EACCES}), failure.Config,
			"change the permissions or the kind of f, or choose another place",
		},
		{&fs.PathError{Op: "fork/exec", Path: "f", Err: syscall.EACCES}, failure.Internal, ""},
	} {
		if got := failure.Of(c.err); got != c.want {
			t.Errorf("Of(%v) = %q, want %q", c.err, got, c.want)
		}
		if got := failure.Next(c.err); got != c.next {
			t.Errorf("Next(%v) = %q, want %q", c.err, got, c.next)
		}
	}
}

// TestAdvice: a Go program gets options by their Go names; a command line gets what its user types.
func TestAdvice(t *testing.T) {
	next := "use " + nextstep.Option("Desk.Wait", "}=60 s%") + ", " + nextstep.Option("DeskFile.Note", "") + " or " +
		nextstep.Target("cache:list") + "; {it}"
	err := fmt.Errorf("outer: %w", failure.New(failure.Config, next, "x"))
	if got, want := failure.Next(err), "use Desk.Wait=}=60 s%, DeskFile.Note or mage cache:list; {it}"; got != want {
		t.Errorf("next step %q, want %q", got, want)
	}
	got := failure.NextFor(err, func(name, value string) string { return "<" + name + "|" + value + ">" },
		func(name string) string { return "./ci " + name })
	if want := "use <Desk.Wait|}=60 s%>, <DeskFile.Note|> or ./ci cache:list; {it}"; got != want {
		t.Errorf("next step %q, want %q", got, want)
	}
}

func TestStopped(t *testing.T) {
	why := errors.New("no more")
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(why)
	inner := errors.New("inner")
	err := fmt.Errorf("outer: %w", failure.Stopped(ctx, "read: %w", inner))
	if !errors.Is(err, context.Canceled) || !errors.Is(err, why) || !errors.Is(err, inner) ||
		err.Error() != "outer: read: inner: no more" {
		t.Errorf("got %v", err)
	}
	if err := failure.Stopped(ctx, "read: %w", why); err.Error() != "read: no more" {
		t.Errorf("got %v", err)
	}
}
