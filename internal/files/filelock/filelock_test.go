package filelock

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/boardsmith/boardsmith/internal/testkit"
)

var must = testkit.Must

// TestLocks: many share a file or one has it, and Unlock lets the next one in.
func TestLocks(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "lock")
	open := func() *os.File {
		f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644)
		must(t, err)
		t.Cleanup(func() { f.Close() })
		return f
	}
	a, b, c := open(), open(), open()
	for i, step := range []struct {
		do   func() (bool, error)
		want bool
	}{
		{func() (bool, error) { return TryShared(a) }, true},
		{func() (bool, error) { return TryShared(b) }, true},
		{func() (bool, error) { return Try(c) }, false},
		{func() (bool, error) {
			err := errors.Join(Release(a), Release(b))
			a, b = open(), open()
			return true, err
		}, true},
		{func() (bool, error) { return Try(c) }, true},
		{func() (bool, error) { return TryShared(a) }, false},
		{func() (bool, error) { return Try(b) }, false},
		{func() (bool, error) { return true, c.Close() }, true},
		{func() (bool, error) { return Try(b) }, true},
	} {
		if got, err := step.do(); got != step.want || err != nil {
			t.Fatalf("step %d: %t, %v", i, got, err)
		}
	}
	if _, err := Try(c); err == nil {
		t.Error("a closed file was locked")
	}
}

// TestOpen gives the lock to one at a time.
func TestOpen(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "lock")
	f, err := Open(name)
	if err != nil || f == nil {
		t.Fatal(f, err)
	}
	if other, err := Open(name); err != nil || other != nil {
		t.Errorf("opened twice: %v, %v", other, err)
	}
	must(t, f.Close())
	again, err := Open(name)
	if err != nil || again == nil {
		t.Fatal(again, err)
	}
	again.Close()
	if none, err := Open(filepath.Join(name, "below")); err == nil {
		t.Error(none)
	}
}

// TestIsAt finds that a locked file was removed, or that another one has its name.
func TestIsAt(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "lock")
	f, err := os.Create(name)
	must(t, err)
	defer f.Close()
	check := func(want bool) {
		t.Helper()
		if got, err := IsAt(f, name); got != want || err != nil {
			t.Errorf("%t, %v", got, err)
		}
	}
	check(true)
	if err := os.Rename(name, name+".old"); err != nil {
		t.Skip("this system renames no open file: ", err)
	}
	check(false)
	must(t, os.WriteFile(name, nil, 0o644))
	check(false)
}
