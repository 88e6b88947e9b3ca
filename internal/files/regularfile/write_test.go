//go:build unix

package regularfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestWrite: a file that exists keeps mode and owner, a link stays, and Writable has the errors of Write.
func TestWrite(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	err := errors.Join(os.WriteFile(at("old"), []byte("old"), 0o600), os.Chmod(at("old"), 0o640),
		os.Symlink("old", at("link")), os.Symlink("none", at("dangling")), syscall.Mkfifo(at("pipe"), 0o644))
	must(t, err)
	isRoot := os.Getuid() == 0
	if isRoot {
		must(t, os.Chown(at("old"), 1234, 1235))
	}
	for _, name := range []string{"old", "link", "new"} {
		if err := errors.Join(Writable(at(name)), Write(at(name), []byte(name), 0o644)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if text, err := os.ReadFile(at(name)); err != nil || string(text) != name {
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}
	for name, want := range map[string]fs.FileMode{"old": 0o640, "new": 0o644, "link": 0o777 | fs.ModeSymlink} {
		if info, err := os.Lstat(at(name)); err != nil || info.Mode() != want {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
	info, err := os.Stat(at("old"))
	must(t, err)
	if s := info.Sys().(*syscall.Stat_t); isRoot && (s.Uid != 1234 || s.Gid != 1235) {
		t.Errorf("owner %d, group %d", s.Uid, s.Gid)
	}
	for name, want := range map[string]error{
		".": ErrFolder, "pipe": ErrSpecial, "dangling": fs.ErrNotExist, "none/x": fs.ErrNotExist, "old/x": ErrNotFolder,
	} {
		if err := Writable(at(name)); !errors.Is(err, want) {
			t.Errorf("%s: %v", name, err)
		}
		if err := Write(at(name), nil, 0o644); !errors.Is(err, want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 5 {
		t.Errorf("files stay: %v, %v", entries, err)
	}
}
