// This file keeps a cache small and looks through it. The time of an entry's file is when it was last used; several
// processes may use, sweep and fill one cache at once, because an entry is one file that is whole or absent.

package cache

import (
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

const (
	sweepEvery = 64        // entries that one process stores between two looks at the size
	leftover   = time.Hour // the age at which a file that was never finished is one of a process that is gone
)

// An EntryInfo is what a cache says of an entry without reading it.
type EntryInfo struct {
	Key   Key
	Bytes int64     // of its file
	Used  time.Time // last
	path  string
}

// used notes that an entry was used now.
func used(path string) {
	now := time.Now()
	_ = os.Chtimes(path, now, now) // where that cannot be, the entry is only thought to be older
}

// List returns all entries, the one used last first.
func (c *Cache) List() ([]EntryInfo, error) {
	list, _, err := c.walk()
	slices.SortFunc(list, func(a, b EntryInfo) int {
		return cmp.Or(b.Used.Compare(a.Used), slices.Compare(a.Key[:], b.Key[:]))
	})
	return list, err
}

// walk finds the entries, and files that are none. What vanishes meanwhile was removed by another process.
func (c *Cache) walk() (list []EntryInfo, strange []string, err error) {
	root := filepath.Join(c.dir, "build")
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		e := EntryInfo{Bytes: info.Size(), Used: info.ModTime(), path: path}
		key, err := hex.DecodeString(d.Name())
		if err != nil || len(key) != len(e.Key) || c.path(Key(key)) != path {
			strange = append(strange, path)
			return nil
		}
		e.Key = Key(key)
		list = append(list, e)
		return nil
	})
	if err != nil {
		err = fmt.Errorf("cache: %w", err)
	}
	return list, strange, err
}

// A Sweep is what GC or Verify found and removed.
type Sweep struct {
	Entries int   // that are left
	Bytes   int64 // that these take
	Removed int   // entries
	Freed   int64 // bytes
}

// GC removes the entries that were not used for longest until all others take at most limit bytes, and what processes
// left behind that ended while they wrote.
func (c *Cache) GC(limit int64) (Sweep, error) {
	list, strange, err := c.walk()
	if err != nil {
		return Sweep{}, err
	}
	for _, path := range strange {
		if info, err := os.Stat(path); err == nil && time.Since(info.ModTime()) > leftover {
			_ = os.Remove(path) // the next sweep tries again
		}
	}
	slices.SortFunc(list, func(a, b EntryInfo) int { return b.Used.Compare(a.Used) })
	var s Sweep
	for _, e := range list {
		if s.Bytes+e.Bytes <= limit {
			s.Entries++
			s.Bytes += e.Bytes
			continue
		}
		limit = s.Bytes // an older, smaller one is not kept in its place
		if err := remove(e.path); err != nil {
			return s, err
		}
		s.Removed++
		s.Freed += e.Bytes
	}
	return s, nil
}

// remove removes a file that may be gone already.
func remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cache: %w", err)
	}
	return nil
}

// Verify reads every entry and removes those that are damaged; what uses them is built again. each is told of every entry
// after it was read; nil: nobody is. An error of each ends it.
func (c *Cache) Verify(each func(EntryInfo, bool) error) (Sweep, error) {
	list, err := c.List()
	var s Sweep
	for _, e := range list {
		_, bad := readEntry(e.path)
		if errors.Is(bad, fs.ErrNotExist) {
			continue
		}
		if bad == nil {
			s.Entries++
			s.Bytes += e.Bytes
		} else {
			s.Removed++
			s.Freed += e.Bytes
			err = errors.Join(err, remove(e.path))
		}
		if each != nil {
			if stop := each(e, bad == nil); stop != nil {
				return s, stop
			}
		}
	}
	return s, err
}
