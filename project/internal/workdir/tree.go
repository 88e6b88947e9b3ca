// Package workdir reads, changes and locks the files of a project's folder, and of folders in which projects are built.
// It never follows links out of a folder.
package workdir

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"sort"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/files/regularfile"
	"github.com/boardsmith/boardsmith/project/internal/templatefile"
)

// StageFolder is where new files are written before they are moved into place.
const StageFolder = templatefile.OwnPrefix + "stage"

// A Tree is an open folder. Files are named by slash paths in it. Many goroutines may use it.
type Tree struct {
	Dir  string
	Root *os.Root
}

// Open opens a folder. Close it.
func Open(dir string) (*Tree, error) {
	r, err := os.OpenRoot(dir)
	if err != nil {
		return nil, regularfile.Error("open", dir, err)
	}
	return &Tree{dir, r}, nil
}

// Close ends the use of the folder.
func (t *Tree) Close() { _ = t.Root.Close() } // no write through it can still fail

// Error returns an error of an operation on a file, or nil.
func (t *Tree) Error(op, name string, err error) error {
	path := filepath.Join(t.Dir, filepath.FromSlash(name))
	// of os.Root, which has no value for it
	if err != nil && strings.HasSuffix(err.Error(), "path escapes from parent") {
		return failure.New(failure.Config, "put the file or folder itself there",
			"%s %s: a symbolic link on its way leads out of the project", op, path)
	}
	return regularfile.Error(op, path, err)
}

// Digest returns the SHA-256 of a file, or "" if it is missing or not a plain file.
func (t *Tree) Digest(name string) (string, error) {
	f, err := t.Root.OpenFile(filepath.FromSlash(name), os.O_RDONLY|regularfile.NoWait, 0)
	if err != nil {
		// A link out of the folder cannot be opened either.
		link, linkErr := t.Root.Lstat(filepath.FromSlash(name))
		if IsMissing(err) || linkErr == nil && link.Mode()&fs.ModeSymlink != 0 {
			return "", nil
		}
		return "", t.Error("read", name, err)
	}
	defer f.Close()

	info, err := f.Stat()
	if err != nil {
		return "", t.Error("read", name, err)
	}
	if !info.Mode().IsRegular() {
		return "", nil
	}

	// io.Copy's own buffer of 32 KiB is more than most files take.
	h, buffer := sha256.New(), make([]byte, min(info.Size()+1, 32<<10))
	if _, err := io.CopyBuffer(h, struct{ io.Reader }{f}, buffer); err != nil {
		return "", t.Error("read", name, err)
	}

	return hex.EncodeToString(h.Sum(nil)), nil
}

// IsMissing reports whether the error is that a file, or a folder on its path, does not exist.
func IsMissing(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, regularfile.ErrNotFolder)
}

// Edited lists, sorted, the files of old that exist with a digest that is neither old's nor also's. It omits
// missing files, which will be written again.
func (t *Tree) Edited(old, also map[string]string) ([]string, error) {
	have, err := t.Digests(slices.Collect(maps.Keys(old)))
	if err != nil {
		return nil, err
	}
	return t.Differing(have, old, also), nil
}

// Differing is Edited for digests that are known.
func (t *Tree) Differing(have, old, also map[string]string) []string {
	var list []string
	for name, want := range old {
		if have[name] == want || have[name] != "" && have[name] == also[name] {
			continue
		}
		if _, err := t.Root.Lstat(filepath.FromSlash(name)); err == nil {
			list = append(list, name)
		}
	}

	sort.Strings(list)
	return list
}

// List returns the files at or below the paths, which need not all exist, without the copies that keep makes and files
// of editors.
func (t *Tree) List(paths []string) ([]string, error) {
	var names []string
	for _, p := range paths {
		err := fs.WalkDir(t.Root.FS(), p, func(name string, d fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err != nil {
				return err
			}
			if !d.IsDir() && !isKeptCopy(name) && !ofEditor.MatchString(path.Base(name)) {
				names = append(names, name)
			}
			return nil
		})
		if err != nil {
			return nil, t.Error("read", p, err)
		}
	}
	return names, nil
}

// Digests returns the digest of each file.
func (t *Tree) Digests(names []string) (map[string]string, error) {
	sums := make([]string, len(names))
	var reads errgroup.Group
	reads.SetLimit(runtime.NumCPU())
	for i, name := range names {
		reads.Go(func() (err error) { sums[i], err = t.Digest(name); return err })
	}

	err := reads.Wait()
	all := make(map[string]string, len(names))
	for i, name := range names {
		all[name] = sums[i]
	}
	return all, err
}

// Keep renames a file to NAME.orig or, if that exists, to NAME.orig.1 and so on.
func (t *Tree) Keep(name string) (string, error) {
	for i := range 1000 {
		to := name + ".orig"
		if i > 0 {
			to = fmt.Sprintf("%s.orig.%d", name, i)
		}

		if _, err := t.Root.Lstat(filepath.FromSlash(to)); err == nil {
			continue
		}

		return to, t.Error("keep a copy of", name, t.Root.Rename(filepath.FromSlash(name), filepath.FromSlash(to)))
	}
	return "", fmt.Errorf("%s: there are 1000 copies of it", filepath.Join(t.Dir, name))
}

// isKeptCopy reports whether keep made the name. Builds ignore such files.
func isKeptCopy(name string) bool {
	base := path.Base(name)
	if i := strings.LastIndex(base, ".orig."); i >= 0 && strings.Trim(base[i+len(".orig."):], "0123456789") == "" {
		return true
	}
	return strings.HasSuffix(base, ".orig")
}

// MakeFolders creates the files' folders.
func (t *Tree) MakeFolders(names []string) error {
	exists := map[string]bool{}
	for _, name := range names {
		dir := path.Dir(name)
		if exists[dir] {
			continue
		}
		exists[dir] = true

		if err := t.Root.MkdirAll(filepath.FromSlash(dir), 0o755); err != nil {
			return t.Error("make", dir, err)
		}
	}
	return nil
}

// Remove removes a file and the folders that are empty then.
func (t *Tree) Remove(name string) error {
	if err := t.Root.Remove(filepath.FromSlash(name)); err != nil && !IsMissing(err) {
		return t.Error("remove", name, err)
	}

	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if t.Root.Remove(filepath.FromSlash(dir)) != nil {
			break // not empty
		}
	}
	return nil
}

// IsOwn reports whether an entry of the folder is neither the user's nor part of a project: a lock file, or a
// file that a killed Generate may leave before it writes project.json.
func IsOwn(name string) bool {
	return name == LockFile || name == TurnFile || name == HolderFile || name == StageFolder || isTemporary(name)
}

// isTemporary reports whether a file is a new project.json that a killed run did not finish.
func isTemporary(name string) bool {
	return strings.HasPrefix(name, templatefile.TemporaryPrefix+templatefile.StateFile)
}

// Sweep removes temporary files of a killed run.
func (t *Tree) Sweep() error {
	entries, err := fs.ReadDir(t.Root.FS(), ".")
	if err != nil {
		return t.Error("read", ".", err)
	}

	for _, e := range entries {
		if isTemporary(e.Name()) {
			err = errors.Join(err, t.Root.Remove(e.Name()))
		}
	}
	return t.Error("sweep", ".", errors.Join(err, t.Root.RemoveAll(StageFolder)))
}

// CheckFree returns an error for a folder that is neither empty nor a project, which must not be changed. A missing
// folder may be used, and one with sources alone, which a user has added to a project that Clean then removed.
func CheckFree(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return regularfile.Error("use", dir, err)
	}

	for _, e := range entries {
		if e.Name() == templatefile.StateFile {
			return nil
		}
	}

	for _, e := range entries {
		// A killed Generate may leave files before there is a project.
		if !IsOwn(e.Name()) && e.Name() != sourceFolder {
			return notOurs(dir)
		}
	}
	return nil
}

// sourceFolder is the folder to which users add sources: a build compiles all in it.
const sourceFolder = "src"

func notOurs(dir string) error {
	return failure.New(failure.Config, "choose an empty folder, or one that does not exist yet",
		"%s holds files and is not a project: it has no %s", dir, templatefile.StateFile)
}

// ofEditor matches names of locks, swap files and backups that Emacs and Vim have beside a file that is being edited.
var ofEditor = regexp.MustCompile(`^\.#|^#.*#$|^\..*\.sw[a-z]$|~$`)

// IsSource reports whether a file is C or assembler.
func IsSource(name string) bool {
	return strings.HasSuffix(name, ".c") || strings.HasSuffix(name, ".S")
}

// ReadSome returns the first bytes of a plain file.
func (t *Tree) ReadSome(name string, limit int64) ([]byte, error) {
	f, err := t.Root.OpenFile(filepath.FromSlash(name), os.O_RDONLY|regularfile.NoWait, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()

	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(err, regularfile.ErrSpecial)
	}
	return io.ReadAll(io.LimitReader(f, limit))
}

// WriteFile writes a file and its folder, not atomically: without a record it is no result.
func (t *Tree) WriteFile(name string, data []byte) error {
	err := t.Root.MkdirAll(filepath.FromSlash(path.Dir(name)), 0o755)
	if err == nil {
		err = t.Root.WriteFile(filepath.FromSlash(name), data, 0o644)
	}
	return t.Error("write", name, err)
}

// Place moves a staged file to where it belongs, in a folder that exists.
func (t *Tree) Place(from, name string) error {
	return t.Error("write", name, t.Root.Rename(from, filepath.FromSlash(name)))
}

// CopyFile copies a file between two trees, with its content changed by edit unless that is nil. The copy's time is
// now: a file system's own clock may be behind, and give a file the same time as results that were made of its former
// content.
func CopyFile(from, to *Tree, name string, edit func([]byte) []byte) error {
	at := filepath.FromSlash(name)
	source, err := from.Root.Open(at)
	if err != nil {
		return from.Error("read", name, err)
	}
	defer source.Close()

	info, err := source.Stat()
	if err != nil {
		return from.Error("read", name, err)
	}

	mode := fs.FileMode(0o644)
	if info.Mode()&0o100 != 0 {
		mode = 0o755
	}

	var data io.Reader = source
	if edit != nil {
		text, err := io.ReadAll(source)
		if err != nil {
			return from.Error("read", name, err)
		}
		data = bytes.NewReader(edit(text))
	}

	target, err := to.Root.OpenFile(at, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, mode)
	if err != nil {
		return to.Error("write", name, err)
	}
	_, err = io.Copy(target, data)

	// A file that was there keeps its mode when it is opened.
	now := time.Now()
	err = errors.Join(err, target.Close(), to.Root.Chmod(at, mode), to.Root.Chtimes(at, now, now))
	return to.Error("write", name, err)
}

// CheckAbsent returns an error for a name of something that is no plain file, because a build command may read it.
func (t *Tree) CheckAbsent(name string) error {
	link, err := t.Root.Lstat(filepath.FromSlash(name))
	if IsMissing(err) {
		return nil
	}

	// Only a link that leads to a place in the folder can be followed.
	info, follow := t.Root.Stat(filepath.FromSlash(name))
	switch {
	case err == nil && link.Mode()&fs.ModeSymlink == 0:
		err = regularfile.ErrSpecial
	case IsMissing(follow):
		err = errors.New("a link that leads nowhere")
	case follow != nil:
		err = errors.New("a link out of the project, by an absolute path or in a circle")
	case info.IsDir():
		err = errors.New("a link to a folder")
	default:
		err = regularfile.ErrSpecial
	}

	return failure.New(failure.Config, "put files there, or links to files of the project", "%s cannot be an input: %w",
		filepath.Join(t.Dir, filepath.FromSlash(name)), err)
}
