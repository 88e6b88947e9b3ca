// This file keeps fetched folders: each is whole or absent.

package gitfolder

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/files/abspath"
	"github.com/boardsmith/boardsmith/internal/files/filelock"
	"github.com/boardsmith/boardsmith/internal/files/regularfile"
)

// A Store is a folder of fetched commits. Several processes may use it at once. It may be deleted at any time: what is
// needed is then fetched again.
type Store struct {
	Dir      string        // of the fetched folders
	Pins     string        // the lock file, see Open; "" means none
	Timeout  time.Duration // of one fetch; 0 means 10 minutes
	MaxBytes int64         // of a fetch, and of its files; 0 means 2 GiB
}

const (
	defaultTimeout  = 10 * time.Minute
	defaultMaxBytes = 2 << 30
	lockEvery       = 50 * time.Millisecond
)

// A Folder has the files of a commit. Do not change them.
type Folder struct {
	Path   string // absolute; a file if the Ref names one
	Ref    Ref
	Commit string // 40 digits
}

// fetched.json, beside the files, describes them.
const (
	filesFolder = "files"
	recordFile  = "fetched.json"
)

type record struct {
	URL    string `json:"url"`
	Commit string `json:"commit"`
	Digest string `json:"digest"` // of the files
}

// Open returns the folder of a Ref. It needs no network if the commit was fetched before and is known: from the Ref,
// or from the lock file, to which Open adds the commit of a branch or tag. After a failure or the end of the process,
// no part of a fetch is used. Errors: class network if the server is not reached, timeout if it does not respond in
// time, else class config.
func (s *Store) Open(ctx context.Context, r Ref) (*Folder, error) {
	if ctx.Err() != nil {
		return nil, failure.Stopped(ctx, "fetch %s", r)
	}

	commit, err := s.pinned(r)
	if err != nil {
		return nil, err
	}

	if !s.has(r.URL, commit) { // nor has it one that is not known
		if commit, err = s.get(ctx, r.URL, r.Revision, commit); err != nil {
			return nil, err
		}
		if err := s.pin(ctx, r, commit); err != nil {
			return nil, err
		}
	}

	dir := abspath.Of(filepath.Join(s.place(r.URL, commit), filesFolder))
	f := &Folder{Path: filepath.Join(dir, filepath.FromSlash(r.Dir)), Ref: r, Commit: commit}
	if _, err := os.Stat(f.Path); err != nil {
		return nil, failure.New(failure.Config, "check what follows // in the URL", "%s at commit %s has no %s", r.URL,
			commit[:12], r.Dir)
	}

	// git fetches only the pointers of Git LFS.
	pointer, err := pointerIn(f.Path)
	if err == nil && pointer != "" {
		err = failure.New(failure.Config, "clone it with Git LFS and name that folder, or keep the file in git itself: "+
			"git lfs migrate export", "%s at commit %s: %s is a Git LFS pointer, whose content is not in the repository",
			r.URL, commit[:12], path.Join(r.Dir, pointer))
	}
	if err != nil {
		return nil, err
	}
	return f, nil
}

// A Git LFS pointer begins with this line, and has less than 1 KiB (the specification of Git LFS). Only git lfs
// replaces it by the content that it names.
const (
	pointerLine = "version https://git-lfs.github.com/spec/"
	maxPointer  = 1 << 10
)

// IsPointer reports whether a file is a Git LFS pointer: what it stands for was not fetched.
func IsPointer(data []byte) bool {
	return len(data) < maxPointer && bytes.HasPrefix(data, []byte(pointerLine))
}

// pointerIn returns the slash path of a Git LFS pointer in a folder, "" without one; of a file, "." in its place.
func pointerIn(dir string) (pointer string, err error) {
	err = filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := os.Stat(name) // a link may lead to one elsewhere in the repository
		if err != nil || !info.Mode().IsRegular() || info.Size() >= maxPointer {
			return nil
		}

		data, err := os.ReadFile(name)
		if err != nil || !IsPointer(data) {
			return err
		}
		below, err := filepath.Rel(dir, name)
		pointer = filepath.ToSlash(below)
		return cmp.Or(err, fs.SkipAll)
	})
	return pointer, regularfile.Error("read", dir, err)
}

// Update looks up the commit that a branch or tag has on its server, fetches it unless it is there, and replaces the
// one in the lock file. It returns both. Errors: as of Open.
func (s *Store) Update(ctx context.Context, r Ref) (old, commit string, err error) {
	if ctx.Err() != nil {
		return "", "", failure.Stopped(ctx, "update %s", r)
	}
	if old, err = s.pinned(r); err != nil || r.isCommit() {
		return old, old, err
	}

	if commit, err = s.get(ctx, r.URL, r.Revision, ""); err != nil {
		return old, "", err
	}
	return old, commit, s.pin(ctx, r, commit)
}

// Holds reports whether a folder or file is one that a Store has fetched, which nobody may change.
func Holds(name string) bool {
	name = abspath.Of(name)
	for ; filepath.Dir(name) != name; name = filepath.Dir(name) {
		if filepath.Base(name) != filesFolder {
			continue
		}
		if info, err := os.Lstat(filepath.Join(filepath.Dir(name), recordFile)); err == nil && info.Mode().IsRegular() {
			return true
		}
	}
	return false
}

func key(url string) string {
	sum := sha256.Sum256([]byte(url))
	return hex.EncodeToString(sum[:16])
}

func (s *Store) place(url, commit string) string { return filepath.Join(s.Dir, key(url)+"-"+commit) }

// has reports whether a commit is there, with all its files as they were fetched.
func (s *Store) has(url, commit string) bool {
	dir := s.place(url, commit)
	data, err := os.ReadFile(filepath.Join(dir, recordFile))
	if err != nil {
		return false
	}

	var r record
	if json.Unmarshal(data, &r) != nil || r.Commit != commit {
		return false
	}

	// Somebody may have changed the files since.
	sum, err := digest(filepath.Join(dir, filesFolder))
	return err == nil && sum == r.Digest
}

// digest returns a digest of all files, links and folders in a folder, and of which files their owner may run.
func digest(dir string) (string, error) {
	h := sha256.New()
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		below, err := filepath.Rel(dir, name)
		if err != nil {
			return err
		}

		fmt.Fprintf(h, "%q %v\n", filepath.ToSlash(below), d.Type())
		switch {
		case d.IsDir():
			return nil
		case d.Type()&fs.ModeSymlink != 0:
			target, err := os.Readlink(name)
			fmt.Fprintf(h, "%q\n", target)
			return err
		}

		f, err := regularfile.Open(name)
		if err != nil {
			return err
		}
		defer f.Close()
		info, err := f.Stat()
		if err != nil {
			return err
		}

		sum := sha256.New()
		n, err := io.Copy(sum, f)
		fmt.Fprintf(h, "%d %v %x\n", n, info.Mode()&0o100 != 0, sum.Sum(nil))
		return err
	})

	return hex.EncodeToString(h.Sum(nil)), err
}

// get fetches a revision, or the commit that it stands for, unless another process has done so meanwhile.
func (s *Store) get(ctx context.Context, url, revision, commit string) (string, error) {
	unlock, err := s.lock(ctx, key(url))
	if err != nil {
		return "", err
	}
	defer unlock()
	if err := s.sweep(); err != nil {
		return "", err
	}

	// Another process may have fetched it while this one waited.
	if commit != "" && s.has(url, commit) {
		return commit, nil
	}

	limit := cmp.Or(s.Timeout, defaultTimeout)
	limited, end := context.WithTimeoutCause(ctx, limit, fmt.Errorf("%w: over %v", errSlow, limit))
	defer end()

	got, err := s.fetch(limited, url, revision, commit)
	if err != nil && limited.Err() != nil {
		err = context.Cause(limited) // the transport's errors only repeat it
	}

	// The commit is from the lock file, not from the user.
	if e, ok := errors.AsType[*missingCommit](err); ok && commit != revision && *e == (missingCommit{url, commit}) {
		err = failure.New(failure.Config, fmt.Sprintf("remove the entry %s@%s from %s: its commit is then looked up again",
			url, revision, s.Pins), "%w; the lock file has it for %s", e, revision)
	}

	return got, classed(ctx, url, err)
}

func (s *Store) fetch(ctx context.Context, url, revision, commit string) (string, error) {
	r, err := connect(ctx, url)
	if err != nil {
		return "", err
	}

	if commit == "" {
		if commit, err = r.resolve(revision); err != nil {
			return "", err
		}
		if s.has(url, commit) {
			return commit, nil
		}
	}

	temporary := filepath.Join(s.Dir, key(url)+temporarySuffix)
	if err := os.RemoveAll(temporary); err != nil { // a killed process left it
		return "", regularfile.Error("remove", temporary, err)
	}
	defer os.RemoveAll(temporary)
	if err := s.write(ctx, r, commit, temporary); err != nil {
		return "", err
	}

	// After a cancel nothing more changes.
	if ctx.Err() != nil {
		return "", ctx.Err()
	}

	to := s.place(url, commit)
	if err := os.RemoveAll(to); err != nil { // damaged
		return "", regularfile.Error("replace", to, err)
	}
	return commit, regularfile.Error("write", to, os.Rename(filepath.Join(temporary, "whole"), to))
}

// write makes the folder temporary, with the files and their record in whole.
func (s *Store) write(ctx context.Context, r *remote, commit, temporary string) error {
	whole := filepath.Join(temporary, "whole")
	files := filepath.Join(whole, filesFolder)
	if err := os.MkdirAll(files, 0o755); err != nil {
		return regularfile.Error("write", files, err)
	}

	root, err := os.OpenRoot(files)
	if err != nil {
		return regularfile.Error("write", files, err)
	}

	c := &checkout{root: root, objects: temporary, left: cmp.Or(s.MaxBytes, defaultMaxBytes), links: map[string]string{}}
	err = c.from(ctx, r, commit, "", 0)
	if err == nil {
		err = c.makeLinks()
	}
	if err = errors.Join(err, root.Close()); err != nil {
		return err
	}

	sum, err := digest(files)
	if err != nil {
		return regularfile.Error("read", files, err)
	}
	data, err := json.MarshalIndent(record{r.url, commit, sum}, "", "  ")
	if err != nil {
		return err
	}

	at := filepath.Join(whole, recordFile)
	return regularfile.Error("write", at, os.WriteFile(at, append(data, '\n'), 0o644))
}

const (
	temporarySuffix = ".part"
	lockSuffix      = ".lock"
)

// sweep removes what killed processes have left of other URLs.
func (s *Store) sweep() error {
	entries, err := os.ReadDir(s.Dir)
	if err != nil {
		return regularfile.Error("read", s.Dir, err)
	}

	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), temporarySuffix)
		if !ok {
			continue
		}

		// With this lock, no other process writes to the folder.
		if f, err := filelock.Open(s.lockOf(name)); err == nil && f != nil {
			_ = os.RemoveAll(filepath.Join(s.Dir, e.Name())) // the next sweep tries again
			_ = filelock.Release(f)
		}
	}
	return nil
}

// lock waits for a lock in the store's folder.
func (s *Store) lock(ctx context.Context, name string) (unlock func(), err error) {
	if err := os.MkdirAll(s.Dir, 0o755); err != nil {
		return nil, regularfile.Error("make", s.Dir, err)
	}

	for {
		f, err := filelock.Open(s.lockOf(name))
		if err != nil {
			return nil, regularfile.Error("lock", s.Dir, err)
		}
		if f != nil {
			return func() { _ = filelock.Release(f) }, nil
		}

		select {
		case <-ctx.Done():
			return nil, failure.Stopped(ctx, "wait for another fetch")
		case <-time.After(lockEvery):
		}
	}
}

func (s *Store) lockOf(name string) string { return filepath.Join(s.Dir, name+lockSuffix) }
