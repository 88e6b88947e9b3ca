//go:build unix

package atomicfolder

import (
	"path/filepath"
	"syscall"
	"testing"
)

// TestPipe: a named pipe is no file of a folder, and is not read.
func TestPipe(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(dir, "c"), 0o600); err != nil {
		t.Skip(err)
	}
	if Has(dir, []File{{"c", nil}}) {
		t.Error("a pipe is a file")
	}
}
