// This file keeps build folders, so that later builds reuse their objects. A key has as many folders as builders that
// used it at once. Beside a folder are its lock, which its user and the tools it started hold, and, while nobody uses
// it, a file that describes what the last user left. A folder without that file, or with other content, is emptied.

package cache

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/moby/sys/atomicwriter"

	"github.com/boardsmith/boardsmith/internal/cachekey"
	"github.com/boardsmith/boardsmith/internal/files/filelock"
	"github.com/boardsmith/boardsmith/internal/files/scratch"
)

const (
	keptFolder  = "kept"
	lockSuffix  = ".lock"
	wholeSuffix = ".whole"
	maxFolders  = 256 // of one key
)

// A Folder is borrowed until Return or Discard.
type Folder struct {
	Dir    string   // its absolute path
	Lock   *os.File // locked and empty; tools that work in the folder inherit it; nil for a temporary folder
	Intact bool     // the folder has what the last user left; else it is empty

	cache     *Cache
	isNew     bool
	temporary *scratch.Folder // contains Dir; nil for a folder of a cache
}

// Borrow returns a folder of the key that nobody uses, a new one if all are in use. If the last user was killed or did
// not return it, or if the cache verifies, the folder is empty. That of a nil cache is a temporary one, which Return
// and Discard remove.
func (c *Cache) Borrow(k cachekey.Key) (*Folder, error) {
	if c == nil {
		return temporary()
	}

	dir := filepath.Join(c.dir, keptFolder, hex.EncodeToString(k[:]))
	for n := range maxFolders {
		path := filepath.Join(dir, strconv.Itoa(n))
		lock, err := lockFolder(path)
		if err != nil {
			return nil, fmt.Errorf("cache: %w", err)
		}
		if lock == nil {
			continue
		}

		f := &Folder{Dir: path, Lock: lock, cache: c}
		if err := f.open(); err != nil {
			f.Discard()
			return nil, fmt.Errorf("cache: %w", err)
		}
		return f, nil
	}

	return nil, fmt.Errorf("cache: %d builds use %s", maxFolders, dir)
}

func temporary() (*Folder, error) {
	around, err := scratch.Make("boardsmith-build-")
	if err != nil {
		return nil, fmt.Errorf("a build folder: %w", err)
	}

	f := &Folder{Dir: filepath.Join(around.Dir, "build"), temporary: around}
	if err := os.Mkdir(f.Dir, 0o755); err != nil {
		return nil, errors.Join(fmt.Errorf("a build folder: %w", err), around.Remove())
	}
	return f, nil
}

// lockFolder returns the locked file beside a folder, or nil if another one holds it.
func lockFolder(path string) (*os.File, error) {
	name := path + lockSuffix

	for lacked := false; ; {
		f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644)
		if errors.Is(err, fs.ErrNotExist) && !lacked { // the second time, the lock is a link to nowhere
			lacked = true
			if err = os.MkdirAll(filepath.Dir(name), 0o755); err == nil {
				continue
			}
		}
		if err != nil {
			return nil, err
		}

		if ok, err := filelock.Try(f); err != nil || !ok {
			return nil, errors.Join(err, f.Close())
		}

		held, err := filelock.IsAt(f, name)
		if err == nil && held {
			return f, nil
		}
		f.Close() // a sweep removed it in between
		if err != nil {
			return nil, err
		}
	}
}

// open makes the folder ready. From now on it counts as damaged until Return.
func (f *Folder) open() error {
	left, err := os.ReadFile(f.Dir + wholeSuffix)
	if err == nil {
		content, failed := f.content()
		f.Intact = failed == nil && content == string(left) && !f.cache.verify
	}

	if _, err := os.Lstat(f.Dir); err != nil {
		f.isNew = true
	}

	used(f.Dir + lockSuffix)
	if err := unlessGone(os.Remove(f.Dir + wholeSuffix)); err != nil {
		return err
	}

	if f.Intact {
		return nil
	}
	return f.Empty()
}

// Empty removes what is in the folder.
func (f *Folder) Empty() error {
	f.Intact = false
	return errors.Join(os.RemoveAll(f.Dir), os.MkdirAll(f.Dir, 0o755))
}

// Return gives the folder back as it is, for the next user. If it is a new one, others that were not used for longest
// may be removed. It is kept even if that fails.
func (f *Folder) Return() error {
	defer f.Discard()
	if f.cache == nil {
		return nil
	}

	content, err := f.content()
	if err == nil {
		err = atomicwriter.WriteFile(f.Dir+wholeSuffix, []byte(content), 0o644)
	}
	if err != nil {
		return fmt.Errorf("cache: the folder is not kept: %w", err)
	}

	if f.isNew {
		if _, err := f.cache.GC(f.cache.limit); err != nil {
			return fmt.Errorf("cache: %w", err)
		}
	}
	return nil
}

// Discard gives the folder back without its content. After Return it does nothing.
func (f *Folder) Discard() {
	if f.temporary != nil {
		_ = f.temporary.Remove() // if this fails, a later process does it
		f.temporary = nil
	}
	if f.Lock != nil {
		f.Lock.Close()
		f.Lock = nil
	}
}

// content describes the folder's files, and begins with their size in bytes. A file that is newer than now would hide
// later changes from tools that compare times: with one, the content differs each time.
func (f *Folder) content() (string, error) {
	h, size := sha256.New(), int64(0)
	newest, err := walkFolder(f.Dir, func(name string, info fs.FileInfo) {
		size += info.Size()
		fmt.Fprintf(h, "%q %v %d %d\n", name, info.Mode(), info.Size(), info.ModTime().UnixNano())
	})

	if now := time.Now(); newest.After(now) {
		fmt.Fprintf(h, "now %d\n", now.UnixNano())
	}
	return fmt.Sprintf("%d %x", size, h.Sum(nil)), err
}

// walkFolder calls each for a folder's files, by their names below it, and returns the newest time.
func walkFolder(dir string, each func(name string, info fs.FileInfo)) (newest time.Time, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if info.ModTime().After(newest) {
			newest = info.ModTime()
		}
		each(strings.TrimPrefix(path, dir), info)
		return nil
	})

	return newest, err
}

// walkKept adds the folders to those that walk finds.
func (c *Cache) walkKept() (list []EntryInfo, strange []string, err error) {
	top := filepath.Join(c.dir, keptFolder)
	keys, err := os.ReadDir(top)
	if err != nil {
		return nil, nil, unlessGone(err)
	}

	for _, k := range keys {
		key, err := hex.DecodeString(k.Name())
		names, failed := os.ReadDir(filepath.Join(top, k.Name()))
		if err != nil || len(key) != len(cachekey.Key{}) || failed != nil {
			continue // another program's, or gone
		}

		for _, d := range names {
			path := filepath.Join(top, k.Name(), d.Name())
			// counted by its lock: a folder in use has no description
			number, isLock := strings.CutSuffix(path, lockSuffix)
			if isLock {
				list = append(list, keptEntry(cachekey.Key(key), number))
			} else if !d.IsDir() && !strings.HasSuffix(path, wholeSuffix) {
				strange = append(strange, path)
			}
		}
	}

	return list, strange, nil
}

// keptEntry describes a folder. Only one that is in use, or damaged, is read for its size; files that its user removes
// meanwhile do not count.
func keptEntry(k cachekey.Key, path string) EntryInfo {
	e := EntryInfo{Key: k, Folder: true, path: path}
	// the time of the last return, or of the lock while the folder is in use
	for _, name := range []string{path + wholeSuffix, path + lockSuffix} {
		if info, err := os.Stat(name); err == nil && e.Used.IsZero() {
			e.Used = info.ModTime()
		}
	}

	if left, err := os.ReadFile(path + wholeSuffix); err == nil {
		size, _, _ := strings.Cut(string(left), " ")
		if e.Bytes, err = strconv.ParseInt(size, 10, 64); err == nil && e.Bytes >= 0 {
			return e
		}
		e.Bytes = 0
	}

	_ = filepath.WalkDir(path, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil
		}
		if info, err := d.Info(); err == nil {
			e.Bytes += info.Size()
		}
		return nil
	})

	return e
}

// removeKept removes a folder unless it is in use.
func removeKept(path string) (removed bool, err error) {
	lock, err := lockFolder(path)
	if lock == nil {
		return false, err
	}
	defer lock.Close()

	// The description goes first: without it, a folder that is removed in part counts as damaged.
	err = errors.Join(unlessGone(os.Remove(path+wholeSuffix)), os.RemoveAll(path))
	if err != nil {
		return false, err
	}

	_ = os.Remove(path + lockSuffix)  // Windows does not remove an open file: an empty one stays
	_ = os.Remove(filepath.Dir(path)) // fails, as intended, if the key has other folders
	return true, nil
}
