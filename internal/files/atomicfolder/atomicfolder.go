// Package atomicfolder writes folders that appear with all their files or not at all.
package atomicfolder

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/files/regularfile"
	"github.com/boardsmith/boardsmith/internal/files/scratch"
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

	differs, err := find(dir, func(path, name string, e fs.DirEntry) (bool, error) {
		info, err := e.Info()
		w, ok := want[name]
		if err != nil || !ok || !info.Mode().IsRegular() || info.Size() != int64(len(w)) {
			return true, err
		}
		// What is left in want at the end is missing.
		delete(want, name)

		data, err := os.ReadFile(path)
		return !bytes.Equal(data, w), err
	})

	return err == nil && differs == "" && len(want) == 0
}

// HasFile reports whether a folder has a regular file of this name.
func HasFile(dir, name string) bool {
	info, err := os.Lstat(filepath.Join(dir, name))
	return err == nil && info.Mode().IsRegular()
}

// target returns the folder that a symbolic link refers to, dir itself if it is none or refers to nothing.
func target(dir string) string {
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		return real
	}
	return filepath.Clean(dir) // else the parent of "a/" is a
}

// The names beside a folder that is written: of a folder with the new files, and of the old folder.
const (
	newPrefix = ".boardsmith-new-"
	oldPrefix = ".boardsmith-old-"
)

// Write writes the files to a new folder, or to the one that a symbolic link refers to. If there is a folder, it must
// be empty or replaceable must return nil; it is then removed. Linux exchanges the two folders at once. On other
// systems, a process that is killed between two steps may leave the old folder beside it, which the next Write puts
// back. Once ctx ends, nothing is replaced. Errors have class config unless ctx ends.
func Write(ctx context.Context, dir string, files []File, replaceable func() error) error {
	dir = target(dir)
	if isLink(dir) {
		return failure.New(failure.Config, "remove the link, or create the folder", "%s is a link to no folder", dir)
	}

	parent := filepath.Dir(dir)
	old := filepath.Join(parent, oldPrefix+filepath.Base(dir))
	// An earlier process may have been killed between its two steps.
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		_ = os.Rename(old, dir) // usually there is none
	}

	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return regularfile.Error("write", dir, err)
	}

	if len(entries) > 0 {
		if err := replaceable(); err != nil {
			return err
		}
	}

	if err := os.MkdirAll(parent, 0o755); err != nil {
		return regularfile.Error("write", parent, err)
	}

	// Beside the folder, and so on the same file system: a rename there is one step.
	temporary, err := scratch.MakeIn(parent, newPrefix)
	if err != nil {
		return regularfile.Error("write", parent, err)
	}
	defer func() { _ = temporary.Remove() }() // else a later process does

	fresh := filepath.Join(temporary.Dir, "new")
	if err := writeFiles(ctx, fresh, files); err != nil {
		return err
	}
	// The last moment at which nothing has changed.
	if ctx.Err() != nil {
		return failure.Stopped(ctx, "write %s", dir)
	}

	if len(entries) > 0 {
		err = replace(dir, fresh, old)
	} else if err = os.Remove(dir); err == nil || errors.Is(err, fs.ErrNotExist) {
		err = os.Rename(fresh, dir)
	}

	return regularfile.Error("write", dir, err)
}

func isLink(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.Mode()&fs.ModeSymlink != 0
}

// writeFiles writes files to a new folder.
func writeFiles(ctx context.Context, dir string, files []File) error {
	for _, f := range files {
		if ctx.Err() != nil {
			return failure.Stopped(ctx, "write %s", dir)
		}

		path := filepath.Join(dir, filepath.FromSlash(f.Name))
		if err := writeFile(path, f.Data); err != nil {
			return regularfile.Error("write", path, err)
		}
	}
	return nil
}

// replace puts the folder fresh in the place of dir. What was there is then fresh, or removed.
func replace(dir, fresh, old string) error {
	if err := exchange(dir, fresh); !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	return swap(dir, fresh, old)
}

// swap is replace in two steps. If the second fails, dir is what it was, or, if somebody else has made a dir
// meanwhile, what was there stays in old.
func swap(dir, fresh, old string) error {
	if err := os.RemoveAll(old); err != nil { // an earlier process was killed while it removed it
		return err
	}

	if err := os.Rename(dir, old); err != nil {
		return err
	}
	// Better the old folder than none.
	if err := os.Rename(fresh, dir); err != nil {
		if back := os.Rename(old, dir); back != nil {
			err = errors.Join(err, errors.New("what was there is in "+old+" now"))
		}
		return err
	}

	return os.RemoveAll(old)
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
	// Before the rename, so that a crash of the computer leaves no empty files.
	_, err = f.Write(data)
	return errors.Join(err, f.Sync(), f.Close())
}
