// This file reads and changes the files in a project's folder. It never follows links out of the folder.

package project

import (
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

	"golang.org/x/sync/errgroup"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/blueprint"
	"github.com/boardsmith/boardsmith/internal/files/plainfile"
)

// Names of boardsmith's own files in a project's folder, besides those of the locks and those that templates must know.
const (
	stageFolder = blueprint.OwnPrefix + "stage" // where new files are written before they are moved into place
)

type tree struct {
	dir  string
	root *os.Root
}

func openTree(dir string) (*tree, error) {
	r, err := os.OpenRoot(dir)
	if err != nil {
		return nil, plainfile.Error("open", dir, err)
	}
	return &tree{dir, r}, nil
}

func (t *tree) close() { _ = t.root.Close() } // no write through it can still fail

func (t *tree) error(op, name string, err error) error {
	return plainfile.Error(op, filepath.Join(t.dir, filepath.FromSlash(name)), err)
}

// digest returns the SHA-256 of a file, or "" if it is missing or not a plain file.
func (t *tree) digest(name string) (string, error) {
	f, err := t.root.OpenFile(filepath.FromSlash(name), os.O_RDONLY|plainfile.NoWait, 0)
	if err != nil {
		link, linkErr := t.root.Lstat(filepath.FromSlash(name))
		if notThere(err) || linkErr == nil && link.Mode()&fs.ModeSymlink != 0 {
			return "", nil
		}
		return "", t.error("read", name, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", t.error("read", name, err)
	}
	if !info.Mode().IsRegular() {
		return "", nil
	}
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", t.error("read", name, err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

func notThere(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, plainfile.ErrNotFolder)
}

// edited lists, sorted, the files of old that exist with a digest that is neither old's nor also's. It omits
// missing files, which will be written again.
func (t *tree) edited(old, also map[string]string) ([]string, error) {
	have, err := t.digests(slices.Collect(maps.Keys(old)))
	if err != nil {
		return nil, err
	}
	return t.differing(have, old, also), nil
}

// differing is edited for digests that are known.
func (t *tree) differing(have, old, also map[string]string) []string {
	var list []string
	for name, want := range old {
		if have[name] == want || have[name] != "" && have[name] == also[name] {
			continue
		}
		if _, err := t.root.Lstat(filepath.FromSlash(name)); err == nil {
			list = append(list, name)
		}
	}
	sort.Strings(list)
	return list
}

// list returns the files at or below the paths, which need not all exist, without the copies that keep makes and files
// of editors.
func (t *tree) list(paths []string) ([]string, error) {
	var names []string
	for _, p := range paths {
		err := fs.WalkDir(t.root.FS(), p, func(name string, d fs.DirEntry, err error) error {
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
			return nil, t.error("read", p, err)
		}
	}
	return names, nil
}

// digests returns the digest of each file.
func (t *tree) digests(names []string) (map[string]string, error) {
	sums := make([]string, len(names))
	var reads errgroup.Group
	reads.SetLimit(runtime.NumCPU())
	for i, name := range names {
		reads.Go(func() (err error) { sums[i], err = t.digest(name); return err })
	}
	err := reads.Wait()
	all := make(map[string]string, len(names))
	for i, name := range names {
		all[name] = sums[i]
	}
	return all, err
}

// keep renames a file to NAME.orig or, if that exists, to NAME.orig.1 and so on.
func (t *tree) keep(name string) (string, error) {
	for i := range 1000 {
		to := name + ".orig"
		if i > 0 {
			to = fmt.Sprintf("%s.orig.%d", name, i)
		}
		if _, err := t.root.Lstat(filepath.FromSlash(to)); err == nil {
			continue
		}
		return to, t.error("keep a copy of", name, t.root.Rename(filepath.FromSlash(name), filepath.FromSlash(to)))
	}
	return "", fmt.Errorf("%s: there are 1000 copies of it", filepath.Join(t.dir, name))
}

// isKeptCopy reports whether keep made the name. Builds ignore such files.
func isKeptCopy(name string) bool {
	base := path.Base(name)
	if i := strings.LastIndex(base, ".orig."); i >= 0 && strings.Trim(base[i+len(".orig."):], "0123456789") == "" {
		return true
	}
	return strings.HasSuffix(base, ".orig")
}

// makeFolders creates the files' folders.
func (t *tree) makeFolders(names []string) error {
	made := map[string]bool{}
	for _, name := range names {
		dir := path.Dir(name)
		if made[dir] {
			continue
		}
		made[dir] = true
		if err := t.root.MkdirAll(filepath.FromSlash(dir), 0o755); err != nil {
			return t.error("make", dir, err)
		}
	}
	return nil
}

// remove removes a file and the folders that are empty then.
func (t *tree) remove(name string) error {
	if err := t.root.Remove(filepath.FromSlash(name)); err != nil && !notThere(err) {
		return t.error("remove", name, err)
	}
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if t.root.Remove(filepath.FromSlash(dir)) != nil {
			break // not empty
		}
	}
	return nil
}

// scaffold reports whether an entry of the folder is neither the user's nor part of a project: a lock file, or a
// file that a killed Generate may leave before it writes project.json.
func scaffold(name string) bool {
	return name == lockFile || name == turnFile || name == holderFile || name == stageFolder || isTemporary(name)
}

// isTemporary reports whether a file is a new project.json that a killed run did not finish.
func isTemporary(name string) bool {
	return strings.HasPrefix(name, blueprint.TemporaryPrefix+blueprint.StateFile)
}

// sweep removes temporary files of a killed run.
func (t *tree) sweep() error {
	entries, err := fs.ReadDir(t.root.FS(), ".")
	if err != nil {
		return t.error("read", ".", err)
	}
	for _, e := range entries {
		if isTemporary(e.Name()) {
			err = errors.Join(err, t.root.Remove(e.Name()))
		}
	}
	return t.error("sweep", ".", errors.Join(err, t.root.RemoveAll(stageFolder)))
}

// mayUse returns an error for a folder that is neither empty nor a project, which must not be changed. A missing
// folder may be used.
func mayUse(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return plainfile.Error("use", dir, err)
	}
	for _, e := range entries {
		if e.Name() == blueprint.StateFile {
			return nil
		}
	}
	for _, e := range entries {
		if !scaffold(e.Name()) {
			return notOurs(dir)
		}
	}
	return nil
}

func notOurs(dir string) error {
	return failure.New(failure.Config, "choose an empty folder, or one that does not exist yet",
		"%s holds files and is not a project: it has no %s", dir, blueprint.StateFile)
}

// ofEditor matches names of locks, swap files and backups that Emacs and Vim have beside a file that is being edited.
var ofEditor = regexp.MustCompile(`^\.#|^#.*#$|^\..*\.sw[a-z]$|~$`)

func isSource(name string) bool {
	return strings.HasSuffix(name, ".c") || strings.HasSuffix(name, ".S")
}
