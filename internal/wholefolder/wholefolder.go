// Package wholefolder writes folders that appear with all their files or not at all.
package wholefolder

import (
	"bytes"
	"errors"
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
		data, err := os.ReadFile(path)
		if w, ok := want[name]; err != nil || !e.Type().IsRegular() || !ok || !bytes.Equal(data, w) {
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
		err = os.Rename(dir, filepath.Join(made, "old"))
	} else if err = os.Remove(dir); errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err == nil {
		err = os.Rename(filepath.Join(made, "new"), dir)
	}
	if err != nil {
		return plainfile.Error("write", dir, err)
	}
	return nil
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
