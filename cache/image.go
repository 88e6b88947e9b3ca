// This file keeps images: files under the SHA-256 of their own bytes, each with a label that says what it is. Programs read
// them where they lie, so the file is the image and nothing else.

package cache

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/moby/sys/atomicwriter"
)

// The folders of both kinds of entry.
const (
	builtFolder = "build"
	imageFolder = "image"
)

// labelRE is what a label may be: part of a file's name on any system.
var labelRE = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,150}$`)

// PutImage stores an image under its content. The label stays with it; it is of letters, digits, dots, dashes and underscores.
func (c *Cache) PutImage(label string, data []byte) error {
	if !labelRE.MatchString(label) {
		return fmt.Errorf("cache: %q cannot be an image's label", label)
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

// HasImage says whether an image of that digest, label and size is there, and notes that it was used. It is not read.
func (c *Cache) HasImage(digest Key, label string, size int64) bool {
	path := c.imagePath(digest, label)
	info, err := os.Stat(path)
	if err != nil || info.Size() != size {
		return false
	}
	used(path)
	return true
}

// Image returns the path of an image's file, whose bytes have just been found to be those that its digest says; ok is false
// where there is none. A damaged one is removed; one that cannot be read now counts as none, and stays. The file stays until
// the cache is short of room: who needs it longer copies it.
func (c *Cache) Image(e EntryInfo) (path string, ok bool) {
	if err := checkImage(e.path, e.Key); err != nil {
		removeDamaged(e.path, err)
		return "", false
	}
	used(e.path)
	return e.path, true
}

// Images lists the images for which fits says yes, the one used last first.
func (c *Cache) Images(fits func(EntryInfo) bool) ([]EntryInfo, error) {
	all, err := c.List()
	var list []EntryInfo
	for _, e := range all {
		if e.Label != "" && fits(e) {
			list = append(list, e)
		}
	}
	return list, err
}

func (c *Cache) imagePath(digest Key, label string) string {
	name := hex.EncodeToString(digest[:])
	return filepath.Join(c.dir, imageFolder, name[:2], name+"-"+label)
}

// checkImage reports an image that is not what its name says.
func checkImage(path string, digest Key) error {
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

// entryOf is the entry that a file of the cache is by its name.
func (c *Cache) entryOf(path string) (e EntryInfo, ok bool) {
	name, label, image := strings.Cut(filepath.Base(path), "-")
	key, err := hex.DecodeString(name)
	if err != nil || len(key) != len(e.Key) || image && !labelRE.MatchString(label) {
		return e, false
	}
	e = EntryInfo{Key: Key(key), Label: label, path: path}
	if image {
		return e, c.imagePath(e.Key, label) == path
	}
	return e, c.path(e.Key) == path
}

// check reads an entry and reports what is wrong with it.
func (e EntryInfo) check() error {
	if e.Label != "" {
		return checkImage(e.path, e.Key)
	}
	_, err := readEntry(e.path)
	return err
}
