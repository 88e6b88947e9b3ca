package cache

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/boardsmith/boardsmith/internal/cachekey"
	"github.com/boardsmith/boardsmith/internal/testkit"
)

func lend(t *testing.T, c *Cache, n int) *Folder {
	t.Helper()
	f, err := c.Borrow(key(n))
	must(t, err)
	t.Cleanup(f.Discard)
	return f
}

func (f *Folder) with(t *testing.T, name, text string) *Folder {
	t.Helper()
	path := filepath.Join(f.Dir, filepath.FromSlash(name))
	writeFile(t, path, text)
	return f
}

func giveBack(t *testing.T, f *Folder) {
	t.Helper()
	must(t, f.Return())
}

// TestLend: a folder that was returned is lent again as it is; two users at once have two; another key has others.
func TestLend(t *testing.T) {
	c := newCache(t)
	first := lend(t, c, 1)
	if first.Intact || !filepath.IsAbs(first.Dir) {
		t.Errorf("a new folder: %+v", first)
	}
	second := lend(t, c, 1)
	if second.Dir == first.Dir {
		t.Fatal("two have one folder")
	}
	giveBack(t, second.with(t, "b", "2"))
	giveBack(t, first.with(t, "deep/a", "1"))
	again := lend(t, c, 1)
	data, err := os.ReadFile(filepath.Join(again.Dir, "deep", "a"))
	if !again.Intact || again.Dir != first.Dir || string(data) != "1" {
		t.Errorf("%+v has %q, %v", again, data, err)
	}
	if b := lend(t, c, 1); !b.Intact || b.Dir != second.Dir {
		t.Errorf("%+v", b)
	}
	if other := lend(t, c, 2); other.Intact || filepath.Dir(other.Dir) == filepath.Dir(first.Dir) {
		t.Errorf("another key: %+v", other)
	}
	giveBack(t, again)
	if v := lend(t, New(c.dir, Options{Verify: true}), 1); v.Intact {
		t.Error("a cache that verifies lends what was built before")
	}
}

// TestLendDamaged: a folder that its user did not return, or that changed since, is empty.
func TestLendDamaged(t *testing.T) {
	for name, damage := range map[string]func(c *Cache, path string) error{
		"not returned":   func(c *Cache, _ string) error { lend(t, c, 1).Discard(); return nil },
		"a file is gone": func(_ *Cache, path string) error { return os.Remove(path) },
		"a file changed": func(_ *Cache, path string) error { return os.WriteFile(path, []byte("other"), 0o644) },
		"a file came":    func(_ *Cache, path string) error { return os.WriteFile(path+"2", nil, 0o644) },
		"a link came":    func(_ *Cache, path string) error { return os.Symlink("/", path+"2") },
		"no folder":      func(_ *Cache, path string) error { return os.RemoveAll(filepath.Dir(path)) },
	} {
		t.Run(name, func(t *testing.T) {
			c := newCache(t)
			f := lend(t, c, 1).with(t, "a", "1")
			giveBack(t, f)
			if err := damage(c, filepath.Join(f.Dir, "a")); err != nil {
				t.Skip(err)
			}
			again := lend(t, c, 1)
			entries, err := os.ReadDir(again.Dir)
			if again.Intact || again.Dir != f.Dir || err != nil || len(entries) != 0 {
				t.Errorf("%+v has %v, %v", again, entries, err)
			}
		})
	}
	c := newCache(t)
	f := lend(t, c, 1).with(t, "a", "1")
	usedAgo(t, filepath.Join(f.Dir, "a"), -time.Hour)
	giveBack(t, f)
	if lend(t, c, 1).Intact {
		t.Error("files of the future are kept")
	}
}

// TestGCOfFolders: folders count to the cache's size. Those that were not used for longest are removed, and those in
// use are not.
func TestGCOfFolders(t *testing.T) {
	c := newCache(t)
	var dirs []string
	for n := range 4 {
		f := lend(t, c, n).with(t, "a", string(make([]byte, 1000)))
		dirs = append(dirs, f.Dir)
		giveBack(t, f)
		usedAgo(t, f.Dir+wholeSuffix, time.Duration(10-n)*time.Minute)
	}
	keep(t, c, 9)
	list, err := c.List()
	if err != nil || len(list) != 5 || list[0].Folder {
		t.Fatalf("%+v, %v", list, err)
	}
	if e := list[1]; !e.Folder || e.Key != key(3) || e.Bytes != 1000 {
		t.Errorf("%+v", e)
	}
	checkSizes(t, c, dirs[3])
	if s, err := c.Verify(nil); err != nil || s.Entries != 5 || s.Removed != 0 {
		t.Errorf("%+v, %v", s, err)
	}
	kept := lend(t, c, 0) // the one not used for longest until now
	s, err := c.GC(list[0].Bytes + 2100)
	if err != nil || s.Removed != 2 || s.Freed != 2000 || s.Entries != 3 {
		t.Errorf("%+v, %v", s, err)
	}
	for n, want := range []bool{true, false, false, true} {
		if _, err := os.Stat(dirs[n]); (err == nil) != want {
			t.Errorf("folder %d: %v", n, err)
		}
	}
	if s, err := c.GC(0); err != nil || s.Entries != 1 {
		t.Errorf("all but that in use: %+v, %v", s, err)
	}
	giveBack(t, kept)
	if again := lend(t, c, 0); !again.Intact {
		t.Error("the folder in use was removed")
	}
	if f := lend(t, c, 1); f.Intact {
		t.Error("a removed folder is whole")
	}
	wantLen(t, 2, "what is left of others")(os.ReadDir(filepath.Join(c.dir, keptFolder)))
}

// checkSizes: the size of a folder that was returned is read from the file beside it, and not from its files; if that
// file has no size, it is that of the files.
func checkSizes(t *testing.T, c *Cache, dir string) {
	t.Helper()
	left := testkit.ReadFile(t, dir+wholeSuffix)
	for text, want := range map[string]int64{"7 of another": 7, "": 1000, "-7 x": 1000, "x": 1000, string(left): 1000} {
		writeFile(t, dir+wholeSuffix, text)
		if e := keptEntry(key(3), dir); e.Bytes != want {
			t.Errorf("%q: %+v, want %d bytes", text, e, want)
		}
	}
	writeFile(t, dir+wholeSuffix, string(left))
	usedAgo(t, dir+wholeSuffix, 7*time.Minute)
}

// TestGCClosesFiles: removing folders leaves no file open.
func TestGCClosesFiles(t *testing.T) {
	open, err := os.ReadDir("/dev/fd")
	if err != nil {
		t.Skip("this system does not list open files")
	}
	c := newCache(t)
	const folders = 12
	for n := range folders {
		giveBack(t, lend(t, c, n).with(t, "a", "1"))
	}
	if s, err := c.GC(0); err != nil || s.Removed != folders {
		t.Errorf("%+v, %v", s, err)
	}
	if now, err := os.ReadDir("/dev/fd"); err != nil || len(now) > len(open)+folders/2 {
		t.Errorf("%d files were open, %d are, %v", len(open), len(now), err)
	}
}

// TestLimitOfFolders: new folders are removed again when the cache is full, without a call of GC.
func TestLimitOfFolders(t *testing.T) {
	c := New(t.TempDir(), Options{Limit: 10 << 10})
	for n := range 30 {
		giveBack(t, lend(t, c, n).with(t, "a", string(make([]byte, 1<<10))))
	}
	if list, err := c.List(); err != nil || len(list) > 10 {
		t.Errorf("%d folders, %v", len(list), err)
	}
}

// TestFoldersAtOnce: while folders are lent, returned, dropped and removed, no two users have one.
func TestFoldersAtOnce(t *testing.T) {
	c := newCache(t)
	var users sync.Map
	var all sync.WaitGroup
	for worker := range 8 {
		all.Go(func() {
			for round := range 30 {
				f, err := c.Borrow(key(round % 2))
				if err != nil {
					t.Error(err)
					return
				}
				if other, taken := users.LoadOrStore(f.Dir, worker); taken {
					t.Errorf("%s is lent to %v and %v", f.Dir, other, worker)
				}
				err = os.WriteFile(filepath.Join(f.Dir, strconv.Itoa(worker)), nil, 0o644)
				if err != nil {
					t.Error(err)
				}
				users.Delete(f.Dir)
				if (worker+round)%5 == 0 {
					f.Discard()
				} else if err := f.Return(); err != nil {
					t.Error(err)
				}
				if round%10 == worker {
					if _, err := c.GC(0); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	all.Wait()
}

// TestLendDangling: a lock that is a link to nowhere is an error, not a loop.
func TestLendDangling(t *testing.T) {
	t.Parallel()
	c := newCache(t)
	f, err := c.Borrow(cachekey.Key{1})
	must(t, err)
	f.Discard()
	lock := f.Dir + lockSuffix
	if err := os.Remove(lock); err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(t.TempDir(), "gone", "lock"), lock); err != nil {
		t.Skip(err)
	}
	wantIs(t, last(c.Borrow(cachekey.Key{1})), fs.ErrNotExist)
}
