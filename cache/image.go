// This file stores images: files under the SHA-256 of their bytes, each with a label. Other programs read these
// files, so that they hold the image and nothing else.

package cache

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/moby/sys/atomicwriter"

	"github.com/boardsmith/boardsmith/internal/cachekey"
)

// The folders of both kinds of entry.
const (
	builtFolder = "build"
	imageFolder = "image"
)

// labelRE matches valid labels: they are part of a file name on any system.
var labelRE = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.+@-]{0,150}$`)

// PutImage stores an image and its label under the image's digest. A label consists of letters, digits, dots,
// dashes, underscores, plus and at signs.
func (c *Cache) PutImage(label string, data []byte) error {
	if !labelRE.MatchString(label) {
		return fmt.Errorf("cache: invalid image label %q", label)
	}

	path := c.imagePath(sha256.Sum256(data), label)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("cache: %w", err)
	}
	if err := atomicwriter.WriteFile(path, data, 0o755); err != nil {
		if checkImage(path, sha256.Sum256(data)) == nil {
			return nil // as in Put
		}
		return fmt.Errorf("cache: %w", err)
	}
	return c.swept()
}

// HasImage reports whether there is an image with that digest, label and size, and marks it as used. It does not
// read the image.
func (c *Cache) HasImage(digest cachekey.Key, label string, size int64) bool {
	path := c.imagePath(digest, label)
	info, err := os.Stat(path)
	if err != nil || info.Size() != size {
		return false
	}

	used(path)
	return true
}

// Image returns the path of an image's file after verifying its digest; ok is false if there is none. It removes a
// damaged image. An image that cannot be read at the moment counts as absent and stays. The cache may remove the
// file when it is full: copy it to keep it.
func (c *Cache) Image(e EntryInfo) (path string, ok bool) {
	if err := checkImage(e.path, e.Key); err != nil {
		removeDamaged(e.path, err)
		return "", false
	}

	used(e.path)
	return e.path, true
}

// Images lists the images for which fits returns true, the last used first.
func (c *Cache) Images(fits func(EntryInfo) bool) ([]EntryInfo, error) {
	all, _, err := c.walkFiles(imageFolder)
	lastUsedFirst(all)
	return slices.DeleteFunc(all, func(e EntryInfo) bool { return !fits(e) }), err
}

func (c *Cache) imagePath(digest cachekey.Key, label string) string {
	name := hex.EncodeToString(digest[:])
	return filepath.Join(c.dir, imageFolder, name[:2], name+"-"+label)
}

// checkImage returns an error if an image does not match its name.
func checkImage(path string, digest cachekey.Key) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() || info.Size() > maxEntryBytes {
		return errDamaged
	}

	data, err := os.ReadFile(path)
	if err == nil && sha256.Sum256(data) != digest {
		err = errDamaged
	}
	return err
}

// entryOf returns the entry that a file's name describes.
func (c *Cache) entryOf(path string) (e EntryInfo, ok bool) {
	name, label, image := strings.Cut(filepath.Base(path), "-")
	key, err := hex.DecodeString(name)
	if err != nil || len(key) != len(e.Key) || image && !labelRE.MatchString(label) {
		return e, false
	}

	e = EntryInfo{Key: cachekey.Key(key), Label: label, path: path}

	// A file at another path is not an entry: no lookup finds it.
	if image {
		return e, c.imagePath(e.Key, label) == path
	}
	return e, c.path(e.Key) == path
}

// check reads an entry and returns an error if it is damaged.
func (e EntryInfo) check() error {
	if e.Folder {
		return nil // Lend compares its content
	}
	if e.Label != "" {
		return checkImage(e.path, e.Key)
	}

	_, err := readEntry(e.path)
	return err
}
