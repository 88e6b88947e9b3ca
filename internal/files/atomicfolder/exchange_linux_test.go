package atomicfolder

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/boardsmith/boardsmith/failure"
)

// TestAlwaysThere: a folder that is replaced is there at all times.
func TestAlwaysThere(t *testing.T) {
	at := t.TempDir()
	dir, files := filepath.Join(at, "dir"), []File{{"c", nil}}
	must(t, Write(t.Context(), dir, files, nil))
	other := filepath.Join(at, "other")
	must(t, Write(t.Context(), other, files, nil))
	if err := exchange(dir, other); err != nil {
		t.Skipf("the file system of %s cannot exchange folders: %v", at, err)
	}
	done, missed := make(chan struct{}), make(chan int)
	go func() {
		n := 0
		for {
			select {
			case <-done:
				missed <- n
				return
			default:
				if _, err := os.Stat(filepath.Join(dir, "c")); err != nil {
					n++
				}
			}
		}
	}()
	for range 300 {
		if err := replace(dir, other, filepath.Join(at, "old")); err != nil {
			t.Error(err)
			break
		}
	}
	close(done)
	if n := <-missed; n > 0 {
		t.Errorf("the folder was missing %d times", n)
	}
}

// TestMount: the root of a file system cannot be replaced, and a small one gets full. Both errors name a next step.
func TestMount(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("none", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("mount: %v", err)
	}
	t.Cleanup(func() { must(t, unix.Unmount(dir, unix.MNT_DETACH)) })
	for _, to := range []struct {
		dir   string
		files []File
		class failure.Class
	}{
		{dir, []File{{"c", nil}}, failure.Config},
		{filepath.Join(dir, "below"), []File{{"c", make([]byte, 1<<20)}}, failure.Host},
	} {
		err := Write(t.Context(), to.dir, to.files, nil)
		if failure.Of(err) != to.class || failure.Next(err) == "" {
			t.Errorf("%v, class %s, next %q", err, failure.Of(err), failure.Next(err))
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("left %v, %v", left, err)
		}
	}
}
