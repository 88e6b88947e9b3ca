// This file lists and verifies entries and limits the cache's size. An entry's file time is the time of its last
// use. Several processes may read, fill and sweep one cache at once, because an entry is one file that is whole or
// absent.

package cache

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/boardsmith/boardsmith/internal/cachekey"
)

const (
	sweepEvery = 64        // entries that all processes store between two checks of the size
	storedFile = "stored"  // one byte for each entry stored since the last look
	leftover   = time.Hour // age at which a temporary file is considered abandoned
)

// An EntryInfo describes an entry that was not read.
type EntryInfo struct {
	Key    cachekey.Key // digest of an image
	Label  string       // label of an image; "" for a keyed entry
	Folder bool         // it is a build folder, see Lend
	Bytes  int64        // of its file or files
	Used   time.Time    // last
	path   string
}

// used marks an entry as used now.
func used(path string) {
	now := time.Now()
	_ = os.Chtimes(path, now, now) // if this fails, the entry only counts as older
}

// List returns all entries, the last used first.
func (c *Cache) List() ([]EntryInfo, error) {
	list, _, err := c.walk()
	lastUsedFirst(list)
	return list, err
}

func lastUsedFirst(list []EntryInfo) {
	slices.SortFunc(list, func(a, b EntryInfo) int {
		return cmp.Or(b.Used.Compare(a.Used), slices.Compare(a.Key[:], b.Key[:]), cmp.Compare(a.Label, b.Label))
	})
}

// walk finds the entries, and files that are not entries.
func (c *Cache) walk() (list []EntryInfo, strange []string, err error) {
	list, strange, err = c.walkFiles(builtFolder, imageFolder)
	if err != nil {
		return list, strange, err
	}

	folders, others, err := c.walkKept()
	if err != nil {
		return list, strange, fmt.Errorf("cache: %w", err)
	}
	return append(list, folders...), append(strange, others...), nil
}

// walkFiles finds the entries that are files in folders of the cache, and files that are not entries. It ignores files
// that another process removes meanwhile.
func (c *Cache) walkFiles(in ...string) (list []EntryInfo, strange []string, err error) {
	for _, folder := range in {
		err = filepath.WalkDir(filepath.Join(c.dir, folder), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return unlessGone(err)
			}
			info, err := d.Info()
			if err != nil {
				return unlessGone(err)
			}

			e, ok := c.entryOf(path)
			if !ok {
				strange = append(strange, path)
				return nil
			}

			e.Bytes, e.Used = info.Size(), info.ModTime()
			list = append(list, e)
			return nil
		})
		if err != nil {
			return list, strange, fmt.Errorf("cache: %w", err)
		}
	}

	return list, strange, nil
}

func unlessGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// swept sweeps after every sweepEvery-th entry that any process stores, because walking the folder costs more than
// storing an entry.
func (c *Cache) swept() error {
	name := filepath.Join(c.dir, storedFile)
	f, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return fmt.Errorf("cache: %w", err)
	}

	// Several processes append without a lock: the file's size is the count.
	_, err = f.Write([]byte{'.'})
	info, failed := f.Stat()
	if err = errors.Join(err, failed, f.Close()); err != nil {
		return fmt.Errorf("cache: %w", err)
	}

	if info.Size() < sweepEvery {
		return nil
	}

	if err := os.Truncate(name, 0); err != nil { // first, so that no other process sweeps too
		return fmt.Errorf("cache: %w", err)
	}

	_, err = c.GC(c.limit)
	return err
}

// A Sweep is the result of GC or Verify.
type Sweep struct {
	Entries int   `json:"entries"` // that are left
	Bytes   int64 `json:"bytes"`   // that these take
	Removed int   `json:"removed"` // entries
	Freed   int64 `json:"freed"`   // bytes
}

// GC removes the least recently used entries until the others take at most limit bytes, or are folders in use. It also
// removes abandoned temporary files.
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
		limit = s.Bytes // stop: do not keep an older, smaller one instead

		removed, err := e.remove()
		if err != nil {
			return s, err
		}
		if !removed {
			s.Entries++
			s.Bytes += e.Bytes
			limit = s.Bytes
			continue
		}

		s.Removed++
		s.Freed += e.Bytes
	}

	return s, nil
}

// remove removes an entry, unless it is a folder in use.
func (e EntryInfo) remove() (removed bool, err error) {
	if !e.Folder {
		return true, remove(e.path)
	}

	if removed, err = removeKept(e.path); err != nil {
		err = fmt.Errorf("cache: %w", err)
	}
	return removed, err
}

// remove removes a file that may be gone already.
func remove(path string) error {
	if err := unlessGone(os.Remove(path)); err != nil {
		return fmt.Errorf("cache: %w", err)
	}
	return nil
}

// Verify reads every entry, except folders, and removes damaged ones. After each entry it calls each, unless that is
// nil; an error of each ends Verify. An entry that cannot be read stays; Verify returns the error.
func (c *Cache) Verify(each func(EntryInfo, bool) error) (Sweep, error) {
	// Entries that were found are verified even if others could not be listed.
	list, err := c.List()
	var s Sweep

	for _, e := range list {
		bad := e.check()
		switch {
		case errors.Is(bad, fs.ErrNotExist):
			continue
		case bad == nil:
			s.Entries++
			s.Bytes += e.Bytes
		case errors.Is(bad, errDamaged):
			s.Removed++
			s.Freed += e.Bytes
			err = errors.Join(err, remove(e.path))
		default:
			err = errors.Join(err, fmt.Errorf("cache: %w", bad))
			continue
		}

		if each != nil {
			if stop := each(e, bad == nil); stop != nil {
				return s, stop
			}
		}
	}

	return s, err
}
