package workdir

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/files/filelock"
	"github.com/boardsmith/boardsmith/internal/testkit"
)

var (
	must      = testkit.Must
	wantError = testkit.WantError
)

// TestLock checks that many can read, one can change, and the holder is named. Only the lock's own files remain, and
// they are empty: on Windows, a locked file cannot be written.
func TestLock(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for range 2 {
		l, err := Share(dir)
		must(t, err)
		other, err := Share(dir)
		must(t, err)
		other.Release()
		must(t, l.Change(t.Context()))
		var locked *LockedError
		const who = "another call of this process"
		if _, err := Share(dir); !errors.As(err, &locked) || !strings.Contains(err.Error(), who) {
			t.Errorf("read while it is changed: %v", err)
		}
		if err := NewLock(dir).Change(t.Context()); !errors.As(err, &locked) || !strings.Contains(err.Error(), who) {
			t.Errorf("changed twice: %v", err)
		}
		must(t, l.ShareAgain())
		other, err = Share(dir)
		must(t, err)
		other.Release()
		l.Release()
		l.Release()
		left, err := os.ReadDir(dir)
		if err != nil || len(left) != 2 {
			t.Errorf("left behind: %v, %v", left, err)
		}
		for _, e := range left {
			if info, err := e.Info(); err != nil || info.Size() != 0 {
				t.Errorf("something was written to %s (%v)", e.Name(), err)
			}
		}
	}
	l := NewLock(dir)
	must(t, l.Change(t.Context()))
	l.Discard()
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestLockWaits checks that a change waits for readers and then fails. If two readers both want to change something,
// one succeeds.
func TestLockWaits(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	reader, err := Share(dir)
	must(t, err)
	l, err := Share(dir)
	must(t, err)
	var locked *LockedError
	if err := l.Change(t.Context()); !errors.As(err, &locked) || locked.Holder != "" {
		t.Errorf("changed under a reader: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	wantError(t, l.Change(ctx), failure.Timeout)
	if err := NewLock(dir).Change(t.Context()); !errors.As(err, &locked) {
		t.Errorf("after the waits l reads no more: %v", err)
	}
	changed := make(chan error)
	go func() { changed <- l.Change(t.Context()) }()
	for {
		if note, err := os.ReadFile(l.note()); err == nil && len(note) > 0 {
			break
		}
		time.Sleep(time.Millisecond)
	}
	if err := reader.Change(t.Context()); !errors.As(err, &locked) || locked.Holder == "" {
		t.Errorf("changed while another one waits to: %v", err)
	}
	reader.Release()
	must(t, <-changed)
	l.Release()
}

// TestTurnOfReader: a reader that notes something waits for one who waits for it.
func TestTurnOfReader(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	reader, err := Share(dir)
	must(t, err)
	other := NewLock(dir)
	changed := make(chan error)
	go func() { changed <- other.Change(t.Context()) }()
	for !func() bool { _, err := os.Stat(filepath.Join(dir, HolderFile)); return err == nil }() {
		time.Sleep(time.Millisecond)
	}
	must(t, reader.TakeTurn(t.Context()))
	reader.EndTurn()
	reader.Release()
	var locked *LockedError
	if err := <-changed; !errors.As(err, &locked) {
		t.Errorf("changed while one reads: %v", err)
	}
}

// TestRemovedWhileLocked: a file that was removed after it was opened is no lock; a new one is made.
func TestRemovedWhileLocked(t *testing.T) {
	t.Parallel()
	l := NewLock(t.TempDir())
	opened := 0
	ok, err := l.files.tryAs(func(f *os.File) (bool, error) {
		if opened++; opened == 1 {
			must(t, os.Remove(l.files.path))
		}
		return filelock.Try(f)
	})
	if !ok || err != nil || opened != 2 {
		t.Errorf("%t, %v, opened %d times", ok, err, opened)
	}
	var locked *LockedError
	if _, err := Share(l.dir); !errors.As(err, &locked) {
		t.Errorf("shared beside the lock: %v", err)
	}
	l.Release()
}
