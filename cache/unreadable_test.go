//go:build unix

package cache

import (
	"errors"
	"syscall"
	"testing"
)

// withoutFiles runs f while this process cannot open files.
func withoutFiles(t *testing.T, f func()) {
	t.Helper()
	var limit syscall.Rlimit
	must(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit))
	none := limit
	none.Cur = 0
	must(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &none))
	defer func() {
		must(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit))
	}()
	f()
}

// An entry that cannot be read at the moment is not damaged.
func TestUnreadableEntryStays(t *testing.T) {
	c := newCache(t)
	keep(t, c, 1)
	must(t, c.PutImage("b", []byte("image")))
	image := labelled(t, c, "b")[0]
	entry := EntryInfo{Key: key(1), path: c.path(key(1))}
	withoutFiles(t, func() {
		if _, ok := c.Get(entry.Key); ok {
			t.Error("an entry was read without a file")
		}
		if _, ok := c.Image(image); ok {
			t.Error("an image was read without a file")
		}
		for _, e := range []EntryInfo{entry, image} {
			if err := e.check(); !errors.Is(err, syscall.EMFILE) || errors.Is(err, errDamaged) {
				t.Errorf("%s: %v", e.path, err)
			}
		}
	})
	if _, ok := c.Get(entry.Key); !ok {
		t.Error("the entry was removed")
	}
	if _, ok := c.Image(image); !ok {
		t.Error("the image was removed")
	}
}
