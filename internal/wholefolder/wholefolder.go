// Package wholefolder writes folders that appear with all their files or not at all.
package wholefolder

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/boardsmith/boardsmith/internal/plainfile"
)

// A File is one file of a folder.
type File struct {
	Name string // slash path in the folder
	Data []byte
}

// Has reports whether a folder has exactly these files.
func Has(dir string, files []File) bool {
	want := map[string][]byte{}
	for _, f := range files {
		want[f.Name] = f.Data
	}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		info, err := e.Info()
		w, ok := want[name]
		if err != nil || !ok || !info.Mode().IsRegular() || info.Size() != int64(len(w)) {
			return errors.Join(err, errors.New("differs"))
		}
		data, err := os.ReadFile(path)
		if err != nil || !bytes.Equal(data, w) {
			return errors.Join(err, errors.New("differs"))
		}
		delete(want, name)
		return nil
	})
	return err == nil && len(want) == 0
}

// HasFile reports whether a folder has a regular file of this name.
func HasFile(dir, name string) bool {
	info, err := os.Lstat(filepath.Join(dir, name))
	return err == nil && info.Mode().IsRegular()
}

// Write writes the files to a new folder. If one exists, it must be empty or replaceable must return nil; it is then
// removed.
func Write(dir string, files []File, replaceable func() error) error {
	dir = filepath.Clean(dir) // else the parent of "a/" is a
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return plainfile.Error("write", dir, err)
	}
	if len(entries) > 0 {
		if err := replaceable(); err != nil {
			return err
		}
	}
	parent := filepath.Dir(dir)
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return plainfile.Error("write", parent, err)
	}
	made, err := os.MkdirTemp(parent, ".new-")
	if err != nil {
		return plainfile.Error("write", parent, err)
	}
	defer os.RemoveAll(made)
	for _, f := range files {
		path := filepath.Join(made, "new", filepath.FromSlash(f.Name))
		if err := writeFile(path, f.Data); err != nil {
			return plainfile.Error("write", path, err)
		}
	}
	if len(entries) > 0 {
		err = swap(dir, filepath.Join(made, "new"), filepath.Join(made, "old"), made+"-old")
	} else if err = os.Remove(dir); err == nil || errors.Is(err, fs.ErrNotExist) {
		err = os.Rename(filepath.Join(made, "new"), dir)
	}
	if err != nil {
		return plainfile.Error("write", dir, err)
	}
	return nil
}

// swap puts the folder fresh in the place of dir, which becomes old. If that fails, dir is what it was; if somebody
// else has made a dir meanwhile, what was there becomes kept.
func swap(dir, fresh, old, kept string) error {
	if err := os.Rename(dir, old); err != nil {
		return err
	}
	err := os.Rename(fresh, dir)
	if err != nil && os.Rename(old, dir) != nil {
		err = errors.Join(err, os.Rename(old, kept), fmt.Errorf("what was there is in %s now", kept))
	}
	return err
}

// writeFile writes a file and its folders, and waits until the file is on the disk.
func writeFile(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Sync(), f.Close())
}
