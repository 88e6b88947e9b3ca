//go:build unix

package sourcetree

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestAround: a folder that others may write to, or that another user owns, and those around it may hold anybody's
// programs.
func TestAround(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	open, inner := filepath.Join(top, "open"), filepath.Join(top, "open", "mine")
	dir := filepath.Join(inner, "project")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if got, want := Around(dir)[:4], []string{dir, inner, open, top}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	want := []string{dir, inner}
	if err := os.Chmod(open, 0o777); err != nil {
		t.Fatal(err)
	}
	if got := Around(dir); !slices.Equal(got, want) {
		t.Errorf("below a folder for all: %q, want %q", got, want)
	}
	if os.Geteuid() != 0 {
		return
	}
	for _, err := range []error{os.Chmod(open, 0o755), os.Chown(open, 65534, -1)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if got := Around(dir); !slices.Equal(got, want) {
		t.Errorf("below another user's folder: %q, want %q", got, want)
	}
}
