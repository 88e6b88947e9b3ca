package ledger

import (
	"context"
	"errors"
	"os"
	"os/user"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/boardsmith/boardsmith/internal/testkit/failuretest"
)

func TestLease(t *testing.T) {
	dir := t.TempDir()
	ctx := t.Context()
	first, err := Take(ctx, dir, "chip:1", 0)
	must(t, err)
	between := time.Now()
	other := mustTake(t, dir, "chip:2")
	_, err = Take(ctx, dir, "chip:1", 120*time.Millisecond)
	var taken *LeaseError
	if !errors.As(err, &taken) || taken.Holder.PID != os.Getpid() || taken.Holder.Since.After(between) {
		t.Fatalf("a second lease: %v, and that of another device was taken at %v", err, between)
	}
	other.Release()
	done := make(chan error)
	go func() {
		l, err := Take(ctx, dir, "chip:1", time.Minute)
		l.Release()
		done <- err
	}()
	first.Release()
	first.Release()
	must(t, <-done)
	wantEqual(t, holder(filepath.Join(dir, deviceFile("chip:1"))), Holder{}, "a released lease still has a holder")
}

// mustTake takes a free lease.
func mustTake(t *testing.T, dir, device string) *Lease {
	t.Helper()
	l, err := Take(t.Context(), dir, device, 0)
	must(t, err)
	return l
}

// A lease whose holder cannot be written is not taken.
func TestLeaseWithoutNote(t *testing.T) {
	dir := t.TempDir()
	u, err := user.Current()
	must(t, err)
	note := filepath.Join(dir, "chip%3A1"+noteMark+deviceFile(u.Uid)+noteExtension)
	must(t, os.Mkdir(note, 0o755))
	if l, err := Take(t.Context(), dir, "chip:1", 0); err == nil {
		l.Release()
		t.Fatal("a lease without a holder file")
	}
	must(t, os.Remove(note))
	mustTake(t, dir, "chip:1").Release()
}

// The lock file may be removed by a cleanup of /tmp: a new lease then uses a new file, and the earlier lease can
// still be released.
func TestLeaseFileRemoved(t *testing.T) {
	dir := t.TempDir()
	old := mustTake(t, dir, "chip:1")
	if err := os.Remove(filepath.Join(dir, "chip%3A1.lease")); err != nil {
		old.Release()
		t.Skipf("an open file cannot be removed here: %v", err)
	}
	l := mustTake(t, dir, "chip:1")
	old.Release()
	wantError(t, last(Take(t.Context(), dir, "chip:1", 0)), "")
	l.Release()
}

// Other users' files in the folder are harmless: links are not followed, opening a pipe does not block, and control
// characters in a holder file are not printed.
func TestHostileLeaseFolder(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("on Windows only administrators can create links")
	}
	dir := t.TempDir()
	precious := filepath.Join(t.TempDir(), "precious")
	writeFile(t, precious, "kept")
	u, err := user.Current()
	must(t, err)
	for _, name := range []string{"chip%3A1.lease", "chip%3A2" + noteMark + deviceFile(u.Uid) + noteExtension} {
		if err := os.Symlink(precious, filepath.Join(dir, name)); err != nil {
			t.Skipf("this system has no links: %v", err)
		}
	}
	for _, device := range []string{"chip:1", "chip:2"} {
		if l, err := Take(t.Context(), dir, device, 0); err == nil {
			l.Release()
			t.Errorf("%s was taken through a link", device)
		}
	}
	if text, err := os.ReadFile(precious); err != nil || string(text) != "kept" {
		t.Errorf("the file holds %q, %v", text, err)
	}
	l := mustTake(t, dir, "chip:3")
	defer l.Release()
	later := `{"pid": 1, "name": "a\u001b[2Jb", "user": "c\n", "since": "2999-01-01T00:00:00Z"}`
	writeFile(t, filepath.Join(dir, "chip%3A3"+noteMark+"7"+noteExtension), later)
	_, err = Take(t.Context(), dir, "chip:3", 0)
	if err == nil || strings.ContainsAny(err.Error(), "\x1b\n") || !strings.Contains(err.Error(), "a[2Jb") {
		t.Errorf("%q", err)
	}
}

func TestShareLeases(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "not", "there")
	for range 2 {
		must(t, ShareLeases(dir))
	}
	mustTake(t, dir, "probe:"+strings.Repeat("\xff", 300)).Release() // longer than any USB serial
	info, err := os.Stat(dir)
	if err != nil || !isShared(info.Mode()) {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(dir), ".boardsmith-*")); left != nil {
		t.Errorf("it left %v", left)
	}
	file := filepath.Join(t.TempDir(), "file")
	writeFile(t, file, "")
	wantError(t, ShareLeases(filepath.Join(file, "below")), "")
}

func TestContexts(t *testing.T) {
	dir := t.TempDir()
	held, err := Take(t.Context(), dir, "held", 0)
	must(t, err)
	defer held.Release()
	take := func(device string) failuretest.Call {
		return func(ctx context.Context) error {
			l, err := Take(ctx, dir, device, time.Hour)
			l.Release()
			return err
		}
	}
	failuretest.Ended(t, failuretest.Calls{"Take": take("free")})
	failuretest.Waiting(t, failuretest.Calls{"Take": take("held")})
}
