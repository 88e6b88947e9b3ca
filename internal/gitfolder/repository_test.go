// This file makes repositories and servers for tests.

package gitfolder

import (
	"errors"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit"
)

var (
	must      = testkit.Must
	wantError = testkit.WantError
)

// A repository is a bare one, whose commits consist of any entries, also forbidden ones.
type repository struct {
	t    *testing.T
	dir  string
	repo *git.Repository
}

// An entry is a file of a commit. Its name is not split at slashes: folders are entries with files.
type entry struct {
	name   string
	text   string
	mode   filemode.FileMode // zero: regular, or a folder if there are files
	files  []entry
	commit string // of a submodule
}

func newRepository(t *testing.T) *repository {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	dir := filepath.Join(t.TempDir(), "kiln.git")
	repo, err := git.PlainInit(dir, true)
	must(t, err)
	return &repository{t, dir, repo}
}

func (r *repository) url() string { return "file://" + filepath.ToSlash(r.dir) }

// objects fetches a commit, and returns what came with it.
func (r *repository) objects(commit string) *objects {
	r.t.Helper()
	from, err := connect(r.t.Context(), r.url())
	must(r.t, err)
	_, store, err := from.fetch(r.t.Context(), commit, r.t.TempDir(), 1<<20)
	must(r.t, err)
	return store
}

// store writes an object.
func (r *repository) store(encode func(plumbing.EncodedObject) error) plumbing.Hash {
	r.t.Helper()
	o := r.repo.Storer.NewEncodedObject()
	must(r.t, encode(o))
	h, err := r.repo.Storer.SetEncodedObject(o)
	must(r.t, err)
	return h
}

func (r *repository) blob(text string) plumbing.Hash {
	return r.store(func(o plumbing.EncodedObject) error {
		o.SetType(plumbing.BlobObject)
		w, err := o.Writer()
		if err == nil {
			_, err = w.Write([]byte(text))
		}
		return errors.Join(err, w.Close())
	})
}

func (r *repository) tree(entries []entry) plumbing.Hash {
	var t object.Tree
	for _, e := range entries {
		te := object.TreeEntry{Name: e.name, Mode: e.mode}
		switch {
		case e.commit != "":
			te.Mode, te.Hash = filemode.Submodule, plumbing.NewHash(e.commit)
		case e.files != nil:
			te.Mode, te.Hash = filemode.Dir, r.tree(e.files)
		default:
			te.Hash = r.blob(e.text)
			if te.Mode == 0 {
				te.Mode = filemode.Regular
			}
		}
		t.Entries = append(t.Entries, te)
	}
	sort.Sort(object.TreeEntrySorter(t.Entries))
	// written by hand, as object.Tree does not encode what git would not either
	return r.store(func(o plumbing.EncodedObject) error {
		o.SetType(plumbing.TreeObject)
		w, err := o.Writer()
		for _, e := range t.Entries {
			text := strings.TrimLeft(e.Mode.String(), "0") + " " + e.Name + "\x00"
			_, failed := w.Write(append([]byte(text), e.Hash[:]...))
			err = errors.Join(err, failed)
		}
		return errors.Join(err, w.Close())
	})
}

// commit adds a commit to a branch and returns its digits.
func (r *repository) commit(branch string, entries ...entry) string {
	r.t.Helper()
	by := object.Signature{Name: "a", Email: "a@example.org", When: time.Unix(1e9, 0)}
	c := &object.Commit{Author: by, Committer: by, Message: "m", TreeHash: r.tree(entries)}
	name := plumbing.NewBranchReferenceName(branch)
	if before, err := r.repo.Reference(name, true); err == nil {
		c.ParentHashes = []plumbing.Hash{before.Hash()}
	}
	h := r.store(c.Encode)
	must(r.t, r.repo.Storer.SetReference(plumbing.NewHashReference(name, h)))
	must(r.t, r.repo.Storer.SetReference(plumbing.NewSymbolicReference("HEAD", name)))
	return h.String()
}

// write adds a commit to branch main, whose only file a.txt has a text.
func (r *repository) write(text string) string {
	r.t.Helper()
	return r.commit("main", entry{name: "a.txt", text: text})
}

func (r *repository) tag(name, commit string) {
	r.t.Helper()
	by := object.Signature{Name: "a", Email: "a@example.org", When: time.Unix(1e9, 0)}
	tag := &object.Tag{
		Name: name, Tagger: by, Message: "m\n", TargetType: plumbing.CommitObject, Target: plumbing.NewHash(commit),
	}
	must(r.t, r.repo.Storer.SetReference(plumbing.NewHashReference(plumbing.NewTagReferenceName(name),
		r.store(tag.Encode))))
}

// A server serves the repositories of a folder by HTTP, with git's own program.
type server struct {
	*httptest.Server
	packs atomic.Int32 // packs that were asked for
}

func serve(t *testing.T, dir string, wrap func(http.Handler) http.Handler) *server {
	t.Helper()
	path, err := exec.Command("git", "--exec-path").Output()
	must(t, err)
	backend := filepath.Join(strings.TrimSpace(string(path)), "git-http-backend")
	if _, err := os.Stat(backend); err != nil {
		t.Skip("git has no http-backend")
	}
	var h http.Handler = &cgi.Handler{
		Path: backend, Env: []string{"GIT_PROJECT_ROOT=" + dir, "GIT_HTTP_EXPORT_ALL=1"}, Stderr: t.Output(),
	}
	if wrap != nil {
		h = wrap(h)
	}
	s := &server{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Method == http.MethodPost {
			s.packs.Add(1)
		}
		h.ServeHTTP(w, req)
	}))
	t.Cleanup(s.Close)
	return s
}

func newStore(t *testing.T) *Store { return &Store{Dir: t.TempDir()} }

// wantText reports an opened folder that has not exactly one file a.txt with a text.
func wantText(t *testing.T, f *Folder, text string) {
	t.Helper()
	if got := content(t, f.Path); got["a.txt"] != text || len(got) != 1 {
		t.Errorf("%q, want a.txt with %q", got, text)
	}
}

// wantStep is wantError for an error with a next step, of a fetch that leaves nothing in a store.
func wantStep(t *testing.T, s *Store, err error, class failure.Class, texts ...string) {
	t.Helper()
	wantError(t, err, class, texts...)
	if failure.Next(err) == "" {
		t.Errorf("no next step: %v", err)
	}
	if left := leftovers(t, s); len(left) > 0 {
		t.Errorf("%v left %q", err, left)
	}
}

// opened opens a reference and returns the folder.
func opened(t *testing.T, s *Store, text string) *Folder {
	t.Helper()
	f, err := open1(t, s, text)
	must(t, err)
	return f
}

func open1(t *testing.T, s *Store, text string) (*Folder, error) {
	t.Helper()
	r, err := Parse(text)
	must(t, err)
	return s.Open(t.Context(), r)
}

// content returns the files of a folder, by slash path.
func content(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	must(t, filepath.WalkDir(dir, func(name string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		below, _ := filepath.Rel(dir, name)
		data, err := os.ReadFile(name)
		all[filepath.ToSlash(below)] = string(data)
		return err
	}))
	return all
}

// leftovers lists what a failed fetch has left in a store, besides locks.
func leftovers(t *testing.T, s *Store) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(s.Dir)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), lockSuffix) {
			names = append(names, e.Name())
		}
	}
	return names
}
