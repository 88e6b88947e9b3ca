package project

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The lock says who has it, on every system, and leaves the next one nothing but its own file.
func TestLock(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for range 2 {
		l, err := takeLock(dir)
		must(t, err)
		var locked *LockedError
		who := fmt.Sprintf("process %d", os.Getpid())
		if _, err := takeLock(dir); !errors.As(err, &locked) || !strings.Contains(err.Error(), who) {
			t.Errorf("a second lock: %v", err)
		}
		if info, err := os.Stat(filepath.Join(dir, lockFile)); err != nil || info.Size() != 0 {
			t.Errorf("something was written to the locked file: %v, %v", info, err) // on Windows nothing can be
		}
		l.release()
		l.release()
		left, err := os.ReadDir(dir)
		if err != nil || len(left) != 1 || left[0].Name() != lockFile {
			t.Errorf("left behind: %v, %v", left, err)
		}
	}
}
