// Package cache keeps what has been built: small trees of files under the hash of a sentence about all that made them, and
// images under the hash of their own bytes.
//
// It does not know how anything is built, holds nothing that cannot be built again (the folder may be deleted at
// any time), and never says that an entry is right for more than its key. Several processes may share one cache.
package cache

import (
	"archive/tar"
	"bytes"
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sort"

	"github.com/moby/sys/atomicwriter"
)

// maxEntryBytes bounds one entry as it is read back; the largest sensible one is a few MiB.
const maxEntryBytes = 256 << 20

// A File is one file of an entry. Name is a slash path below the folder it belongs to.
type File struct {
	Name string
	Data []byte
}

// A Cache is a folder of entries. The zero value is not usable. It may be used from several goroutines.
type Cache struct {
	dir    string
	verify bool
	limit  int64
}

// Options of a cache; the zero value is the normal case.
type Options struct {
	Verify bool  // Get always misses, and Put compares what was built with what is stored: *MismatchError
	Limit  int64 // bytes that all entries may take together; 0 means DefaultLimit
}

// DefaultLimit is how large a cache becomes, in bytes.
const DefaultLimit = 2 << 30

// New returns the cache in a folder, which need not exist yet.
func New(dir string, o Options) *Cache {
	return &Cache{dir: dir, verify: o.Verify, limit: cmp.Or(o.Limit, DefaultLimit)}
}

// DefaultDir is the user's cache folder for boardsmith: BOARDSMITH_HOME/cache where that is set, else boardsmith in
// XDG_CACHE_HOME or in the system's folder for caches.
func DefaultDir() (string, error) {
	if home := os.Getenv("BOARDSMITH_HOME"); home != "" {
		return filepath.Abs(filepath.Join(home, "cache"))
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("cache folder: %w", err)
	}
	return filepath.Join(dir, "boardsmith"), nil
}

// OrUsers is c, or the user's own for nil, or nil where the system has no place for one.
func OrUsers(c *Cache) *Cache {
	if c != nil {
		return c
	}
	dir, err := DefaultDir()
	if err != nil {
		return nil
	}
	return New(dir, Options{})
}

// A MismatchError is an entry that was built again and came out different: its key does not say all that matters.
type MismatchError struct {
	Key  Key
	Name string // the first file that differs
}

func (e *MismatchError) Error() string {
	return fmt.Sprintf("cache entry %x: built again, %s came out different", e.Key[:8], e.Name)
}

// Get returns the files stored under the key, sorted by name, or ok false. An entry that is damaged is removed and
// counts as absent; one that cannot be read now counts as absent, and stays.
func (c *Cache) Get(k Key) (files []File, ok bool) {
	if c.verify {
		return nil, false
	}
	return c.read(k)
}

func (c *Cache) read(k Key) ([]File, bool) {
	path := c.path(k)
	files, err := readEntry(path)
	if err != nil {
		removeDamaged(path, err)
		return nil, false
	}
	used(path)
	return files, true
}

// Put stores the files under the key. Whoever stores last wins; both built the same. The files appear whole or not
// at all.
func (c *Cache) Put(k Key, files []File) error {
	sort.Slice(files, func(i, j int) bool { return files[i].Name < files[j].Name })
	if c.verify {
		if old, ok := c.read(k); ok {
			return compare(k, old, files)
		}
	}
	data, err := writeEntry(files)
	if err != nil {
		return fmt.Errorf("cache entry: %w", err)
	}
	path := c.path(k)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("cache: %w", err)
	}
	if err := atomicwriter.WriteFile(path, data, 0o644); err != nil {
		if _, there := c.read(k); there {
			return nil // on Windows an entry that somebody reads cannot be replaced, and it is as good
		}
		return fmt.Errorf("cache: %w", err)
	}
	return c.swept()
}

func (c *Cache) path(k Key) string {
	hex := fmt.Sprintf("%x", k[:])
	return filepath.Join(c.dir, builtFolder, hex[:2], hex)
}

func compare(k Key, old, now []File) error {
	for i := range max(len(old), len(now)) {
		switch {
		case i >= len(old):
			return &MismatchError{k, now[i].Name}
		case i >= len(now) || old[i].Name != now[i].Name || !bytes.Equal(old[i].Data, now[i].Data):
			return &MismatchError{k, old[i].Name}
		}
	}
	return nil
}

// An entry is one file: the SHA-256 of all that follows, then a tar of the files. One file is whole or absent, and
// proves itself when read.
func writeEntry(files []File) ([]byte, error) {
	buf := bytes.NewBuffer(make([]byte, sha256.Size))
	w := tar.NewWriter(buf)
	for _, f := range files {
		h := &tar.Header{Typeflag: tar.TypeReg, Name: f.Name, Size: int64(len(f.Data)), Mode: 0o644}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.Data); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	data := buf.Bytes()
	sum := sha256.Sum256(data[sha256.Size:])
	copy(data, sum[:])
	return data, nil
}

// errDamaged is an entry whose bytes are not what its name or its own digest says. Only such a one is removed: any other error
// of reading is about this computer at this moment, as too many open files.
var errDamaged = errors.New("damaged")

func removeDamaged(path string, err error) {
	if errors.Is(err, errDamaged) {
		_ = os.Remove(path) // if it cannot be removed it stays damaged
	}
}

func readEntry(path string) ([]File, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxEntryBytes {
		return nil, errDamaged
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if len(data) < sha256.Size || sha256.Sum256(data[sha256.Size:]) != [sha256.Size]byte(data) {
		return nil, errDamaged
	}
	return parseEntry(data[sha256.Size:])
}

func parseEntry(data []byte) ([]File, error) {
	var files []File
	r := tar.NewReader(bytes.NewReader(data))
	for {
		h, err := r.Next()
		if err == io.EOF {
			return files, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errDamaged, err)
		}
		if h.Typeflag != tar.TypeReg || !filepath.IsLocal(filepath.FromSlash(h.Name)) {
			return nil, errDamaged
		}
		b, err := io.ReadAll(r)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errDamaged, err)
		}
		files = append(files, File{h.Name, b})
	}
}
