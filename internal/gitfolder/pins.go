// This file defines the lock file, which holds the commit that each branch and tag stands for.

package gitfolder

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/files/jsonfile"
	"github.com/boardsmith/boardsmith/internal/files/regularfile"
)

const pinsFormat = 1

// pins is the lock file.
type pins struct {
	Format  int               `json:"format" is:"required 1|"`
	Commits map[string]string `json:"commits" is:"commit"` // by URL@REVISION
}

// pinned returns the commit of a revision in the lock file, "" if it has none.
func (s *Store) pinned(r Ref) (string, error) {
	if r.isCommit() {
		return r.Revision, nil
	}
	if s.Pins == "" {
		return "", nil
	}

	p, err := readPins(s.Pins)
	return p.Commits[r.Key()], err
}

// Pinned lists the branches and tags in a lock file, URL@REVISION, sorted; none if there is no such file. Errors: class
// config.
func Pinned(file string) (places []string, err error) {
	p, err := readPins(file)
	if err != nil {
		return nil, err
	}

	for name := range p.Commits {
		if _, err := Parse(name); err != nil {
			return nil, failure.New(failure.Config, "remove the entry", "%s: %w", file, err)
		}
		places = append(places, name)
	}

	slices.Sort(places)
	return places, nil
}

// Key returns the revision's name in the lock file, URL@REVISION: folders of one repository have the same commit.
func (r Ref) Key() string { return Ref{URL: r.URL, Revision: r.Revision}.String() }

func readPins(file string) (pins, error) {
	const next = "restore it from version control, or remove it: then branches and tags are looked up again"
	p := pins{Format: pinsFormat, Commits: map[string]string{}}

	data, err := jsonfile.Read(os.DirFS(filepath.Dir(file)), filepath.Base(file))
	if errors.Is(err, fs.ErrNotExist) {
		return p, nil
	}
	if err != nil {
		return p, failure.New(failure.Config, next, "%s: %w", file, err)
	}
	if _, err := jsonfile.Decode(file, data, &p); err != nil {
		return p, failure.New(failure.Config, next, "%w", err)
	}
	if p.Commits == nil { // null
		p.Commits = map[string]string{}
	}
	return p, nil
}

// pin adds a revision's commit to the lock file.
func (s *Store) pin(ctx context.Context, r Ref, commit string) error {
	if s.Pins == "" || r.isCommit() {
		return nil
	}

	unlock, err := s.lock(ctx, "pins")
	if err != nil {
		return err
	}
	defer unlock()

	// Another process may have added an entry while this one waited.
	p, err := readPins(s.Pins)
	if err != nil {
		return err
	}

	if p.Commits[r.Key()] == commit {
		return nil
	}

	if info, err := os.Lstat(s.Pins); err == nil && !info.Mode().IsRegular() {
		return failure.New(failure.Config, "replace it by a file", "write %s: it is a link, or no file", s.Pins)
	}

	p.Commits[r.Key()] = commit
	data, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return fmt.Errorf("%s: %w", s.Pins, err)
	}

	if err := os.MkdirAll(filepath.Dir(s.Pins), 0o755); err != nil {
		return regularfile.Error("write", s.Pins, err)
	}
	return regularfile.Error("write", s.Pins, regularfile.Write(s.Pins, append(data, '\n'), 0o644))
}
