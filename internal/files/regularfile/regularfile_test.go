//go:build unix

package regularfile

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/boardsmith/boardsmith/internal/testkit"
)

var must = testkit.Must

func TestOpen(t *testing.T) {
	dir := t.TempDir()
	file, pipe := filepath.Join(dir, "file"), filepath.Join(dir, "pipe")
	must(t, errors.Join(os.WriteFile(file, []byte("text"), 0o644), syscall.Mkfifo(pipe, 0o644)))
	f, err := Open(file)
	must(t, err)
	defer f.Close()
	if text, err := io.ReadAll(f); err != nil || string(text) != "text" {
		t.Errorf("%q, %v", text, err)
	}
	for path, want := range map[string]error{
		dir: ErrFolder, pipe: ErrSpecial, "/dev/zero": ErrSpecial,
		filepath.Join(dir, "none"): fs.ErrNotExist,
	} {
		if f, err := Open(path); !errors.Is(err, want) {
			t.Errorf("%s: %v, %v", path, f, err)
		}
	}
}
