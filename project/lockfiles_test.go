//go:build linux

package project

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
	"github.com/boardsmith/boardsmith/internal/workdir"
)

// TestLockFilesAreOurs replaces the lock files by links and pipes: nothing is written through them, and no call blocks.
func TestLockFilesAreOurs(t *testing.T) {
	for _, name := range []string{workdir.LockFile, workdir.TurnFile, workdir.HolderFile} {
		for what, make := range map[string]func(path, victim string) error{
			"link": func(path, victim string) error { return os.Symlink(victim, path) },
			"pipe": func(path, _ string) error { return syscall.Mkfifo(path, 0o644) },
		} {
			dir := filepath.Join(t.TempDir(), "p")
			p := generated(t, dir, Spec{Board: "host", Model: mlftest.Tiny(t, nil)})
			must(t, p.Close())
			victim := filepath.Join(t.TempDir(), "victim")
			must(t, os.WriteFile(victim, []byte("precious"), 0o644))
			_ = os.Remove(filepath.Join(dir, name)) // it need not be there
			must(t, make(filepath.Join(dir, name), victim))
			err := clean(t.Context(), dir, false, testEnv())
			if failure.Of(err) != failure.Config || !strings.Contains(err.Error(), "is not a plain file") {
				t.Errorf("%s as a %s: %v", name, what, err)
			}
			if text, err := os.ReadFile(victim); err != nil || string(text) != "precious" {
				t.Errorf("%s as a %s: the file it leads to is %q, %v", name, what, text, err)
			}
		}
	}
}
