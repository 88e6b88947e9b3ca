package atomicfolder

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/failuretest"
)

var must = testkit.Must

// TestWrite replaces a folder only if it may, and leaves nothing else behind.
func TestWrite(t *testing.T) {
	one := []File{{"a/b", []byte("1")}, {"c", []byte("2")}}
	two := []File{{"c", []byte("3")}}
	dir := filepath.Join(t.TempDir(), "new", "folder")
	slash := dir + string(filepath.Separator)
	never := errors.New("never")
	err := Write(t.Context(), slash, one, func() error { return never })
	if err != nil || !Has(dir, one) || Has(dir, two) {
		t.Fatal(err)
	}
	if err := Write(t.Context(), dir, two, func() error { return never }); !errors.Is(err, never) || !Has(dir, one) {
		t.Error(err)
	}
	if err := Write(t.Context(), slash, two, func() error { return nil }); err != nil || !Has(dir, two) || Has(dir, one) {
		t.Error(err)
	}
	if HasFile(dir, "a/b") || !HasFile(dir, "c") || HasFile(filepath.Dir(dir), "folder") {
		t.Error("HasFile is wrong")
	}
	if left, err := os.ReadDir(filepath.Dir(dir)); err != nil || len(left) != 1 {
		t.Errorf("%v, %v", left, err)
	}
	if err := os.Symlink("c", filepath.Join(dir, "link")); err != nil {
		t.Skip(err)
	}
	if Has(dir, append(two, File{"link", []byte("3")})) {
		t.Error("a link is no file")
	}
	if err := Write(t.Context(), filepath.Join(dir, "c", "below"), one, nil); err == nil {
		t.Error("a folder below a file")
	}
}

// TestSwapFails: a folder that cannot be replaced stays.
func TestSwapFails(t *testing.T) {
	at := t.TempDir()
	dir, one := filepath.Join(at, "dir"), []File{{"c", []byte("1")}}
	must(t, Write(t.Context(), dir, one, nil))
	err := swap(dir, filepath.Join(at, "none"), filepath.Join(at, "old"))
	if err == nil || !Has(dir, one) {
		t.Errorf("%v; the folder is there: %v", err, Has(dir, one))
	}
}

// TestSwap replaces a folder where the system cannot exchange two, also after a process was killed while it did.
func TestSwap(t *testing.T) {
	at := t.TempDir()
	dir, fresh, old := filepath.Join(at, "dir"), filepath.Join(at, "fresh"), filepath.Join(at, oldPrefix+"dir")
	one, two := []File{{"c", []byte("1")}}, []File{{"d", []byte("2")}}
	must(t, Write(t.Context(), dir, one, nil))
	must(t, Write(t.Context(), fresh, two, nil))
	must(t, Write(t.Context(), old, two, nil))
	if err := swap(dir, fresh, old); err != nil || !Has(dir, two) {
		t.Errorf("%v; the new folder is there: %v", err, Has(dir, two))
	}
	if left, err := os.ReadDir(at); err != nil || len(left) != 1 {
		t.Errorf("%v, %v", left, err)
	}
	must(t, os.Rename(dir, old))
	never := errors.New("never")
	if err := Write(t.Context(), dir, one, func() error { return never }); !errors.Is(err, never) || !Has(dir, two) {
		t.Errorf("%v; the old folder is back: %v", err, Has(dir, two))
	}
}

// TestLink replaces the folder that a symbolic link refers to.
func TestLink(t *testing.T) {
	at := t.TempDir()
	dir, link := filepath.Join(at, "dir"), filepath.Join(at, "link")
	one, two := []File{{"c", []byte("1")}}, []File{{"d", []byte("2")}}
	must(t, Write(t.Context(), dir, one, nil))
	if err := os.Symlink("dir", link); err != nil {
		t.Skip(err)
	}
	if found, err := Foreign(link, map[string]string{}); !Has(link, one) || err != nil || found != "c" {
		t.Errorf("the link's folder has %q, %v", found, err)
	}
	if err := Write(t.Context(), link, two, func() error { return nil }); err != nil || !Has(dir, two) {
		t.Errorf("%v; the folder is new: %v", err, Has(dir, two))
	}
	if to, err := os.Readlink(link); err != nil || to != "dir" {
		t.Errorf("the link is %q, %v", to, err)
	}
	must(t, os.RemoveAll(dir))
	if err := Write(t.Context(), link, one, nil); failure.Of(err) != failure.Config || failure.Next(err) == "" {
		t.Errorf("a link to nothing: %v", err)
	}
}

// TestEnded replaces nothing once its context has ended.
func TestEnded(t *testing.T) {
	at := t.TempDir()
	dir, one := filepath.Join(at, "dir"), []File{{"c", []byte("1")}}
	must(t, Write(t.Context(), dir, one, nil))
	ctx, cancel := context.WithCancel(t.Context())
	err := Write(ctx, dir, []File{{"c", []byte("2")}}, func() error { cancel(); return nil })
	if failure.Of(err) != failure.Interrupted || !Has(dir, one) {
		t.Errorf("%v; the folder is the old one: %v", err, Has(dir, one))
	}
	if left, err := os.ReadDir(at); err != nil || len(left) != 1 {
		t.Errorf("%v, %v", left, err)
	}
}

// TestContexts: Write stops when its context ends.
func TestContexts(t *testing.T) {
	failuretest.Ended(t, failuretest.Calls{"Write": func(ctx context.Context) error {
		return Write(ctx, filepath.Join(t.TempDir(), "dir"), []File{{"c", nil}}, nil)
	}})
}

// TestKilled removes what a killed process has left, but no folder of another program.
func TestKilled(t *testing.T) {
	at := t.TempDir()
	left, other := filepath.Join(at, newPrefix+"1"), filepath.Join(at, newPrefix+"2")
	must(t, os.MkdirAll(filepath.Join(left, "new"), 0o755))
	must(t, os.WriteFile(filepath.Join(left, ".lock"), nil, 0o600))
	must(t, os.Mkdir(other, 0o755))
	must(t, Write(t.Context(), filepath.Join(at, "dir"), []File{{"c", nil}}, nil))
	if HasFile(left, ".lock") {
		t.Error("what the killed process left is still there")
	}
	if _, err := os.Stat(other); err != nil {
		t.Error(err)
	}
}
