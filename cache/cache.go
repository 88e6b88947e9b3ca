// Package cache stores build results: small trees of files, under the hash of everything that determines them, and
// images, under the hash of their bytes. It also keeps build folders, for the next build in them.
//
// Everything in it can be built again: the folder may be deleted at any time. Several processes may share one
// cache. It builds nothing itself.
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

	"github.com/boardsmith/boardsmith/internal/cachekey"
	"github.com/boardsmith/boardsmith/internal/files/abspath"
	"github.com/boardsmith/boardsmith/internal/files/tarfile"
)

// maxEntryBytes limits the size of an entry that is read; real ones have at most a few MiB.
const maxEntryBytes = 256 << 20

// A Cache is a folder of entries, made by New. Its methods may be called from several goroutines.
type Cache struct {
	dir    string
	verify bool
	limit  int64
}

// Options configure a cache. The zero value is the usual one.
type Options struct {
	Verify bool  // Get always misses, and Put compares what was built with what is stored: a difference is an error
	Limit  int64 // size of all entries in bytes; 0 means 2 GiB
}

// defaultLimit is Options.Limit for 0.
const defaultLimit = 2 << 30

// New returns the cache in a folder, whose path becomes absolute. The first Put creates the folder.
func New(dir string, o Options) *Cache {
	return &Cache{dir: abspath.Of(dir), verify: o.Verify, limit: cmp.Or(o.Limit, defaultLimit)}
}

// DefaultDir returns the user's cache folder: BOARDSMITH_HOME/cache if that variable is set, else boardsmith in
// XDG_CACHE_HOME or in the system's cache folder.
func DefaultDir() (string, error) {
	if home := os.Getenv("BOARDSMITH_HOME"); home != "" {
		return abspath.Of(filepath.Join(home, "cache")), nil
	}

	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("cache folder: %w", err)
	}
	return filepath.Join(dir, "boardsmith"), nil
}

// Fetched returns the folder for fetched git repositories. They do not count to the cache's limit: the cache cannot
// make them again without a network.
func (c *Cache) Fetched() string { return filepath.Join(c.dir, "fetched") }

// OrDefault returns c or, for nil, the user's cache, which is nil on a system without a cache folder.
func OrDefault(c *Cache) *Cache {
	if c != nil {
		return c
	}

	dir, err := DefaultDir()
	if err != nil {
		return nil
	}
	return New(dir, Options{})
}

// Get returns the files stored under the key, sorted by name, or ok false. It removes a damaged entry. An entry
// that cannot be read at the moment counts as absent and stays.
func (c *Cache) Get(k cachekey.Key) (files []tarfile.File, ok bool) {
	if c.verify {
		return nil, false
	}
	return c.read(k)
}

func (c *Cache) read(k cachekey.Key) ([]tarfile.File, bool) {
	path := c.path(k)
	files, err := readEntry(path)
	if err != nil {
		removeDamaged(path, err)
		return nil, false
	}

	used(path)
	return files, true
}

// Put stores the files under the key, atomically. If two processes store one key, the last wins: their files are
// equal.
func (c *Cache) Put(k cachekey.Key, files []tarfile.File) error {
	// Get returns them in this order, and compare goes by position.
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
			return nil // Windows does not replace an open file; its content is the same
		}
		return fmt.Errorf("cache: %w", err)
	}

	return c.swept()
}

func (c *Cache) path(k cachekey.Key) string {
	hex := fmt.Sprintf("%x", k[:])
	return filepath.Join(c.dir, builtFolder, hex[:2], hex)
}

// compare returns an error for an entry whose second build gave other bytes: its key does not cover everything that
// determines it.
func compare(k cachekey.Key, old, now []tarfile.File) error {
	for i := range max(len(old), len(now)) {
		name := ""
		switch {
		case i >= len(old):
			name = now[i].Name
		case i >= len(now) || old[i].Name != now[i].Name || !bytes.Equal(old[i].Data, now[i].Data):
			name = old[i].Name
		default:
			continue
		}

		return fmt.Errorf("cache entry %x: a second build gave a different %s", k[:8], name)
	}
	return nil
}

// An entry is one file: the SHA-256 of all that follows, then a tar of the files. One file is whole or absent, and
// can be verified when it is read.
func writeEntry(files []tarfile.File) ([]byte, error) {
	data, err := tarfile.Of(files)
	sum := sha256.Sum256(data)
	return append(sum[:], data...), err
}

// errDamaged reports an entry whose bytes do not match its digest. Only such entries are removed: other read
// errors, such as too many open files, may be temporary.
var errDamaged = errors.New("damaged")

func removeDamaged(path string, err error) {
	if errors.Is(err, errDamaged) {
		_ = os.Remove(path) // if this fails, the next reader tries again
	}
}

func readEntry(path string) ([]tarfile.File, error) {
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

func parseEntry(data []byte) ([]tarfile.File, error) {
	var files []tarfile.File
	r := tar.NewReader(bytes.NewReader(data))
	for {
		h, err := r.Next()
		if err == io.EOF {
			return files, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errDamaged, err)
		}
		// No entry that Put writes has such a file.
		if h.Typeflag != tar.TypeReg || !filepath.IsLocal(filepath.FromSlash(h.Name)) {
			return nil, errDamaged
		}

		b, err := io.ReadAll(r)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errDamaged, err)
		}
		files = append(files, tarfile.File{Name: h.Name, Data: b})
	}
}
