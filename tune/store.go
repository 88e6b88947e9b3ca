// This file holds the results of a run, in its folder.

package tune

import (
	"bufio"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/filelock"
)

const (
	resultsFile = "results.jsonl"
	lockFile    = ".boardsmith.lock"
)

// A store is the folder of a run: a line of results.jsonl for each candidate that is finished, written before anybody
// learns of it. Others may read the file meanwhile. A result's key is the content of its candidate; its ID is a label,
// which stands for the content of the last line that has it.
type store struct {
	dir  string
	lock *os.File

	mu     sync.Mutex
	file   *os.File
	began  int64             // where the lines of this process begin
	index  map[string]int64  // where the last line of each key begins
	labels map[string]string // the key that each ID stands for
	// keys whose time the reference has not confirmed yet, with the results that share it
	unproven map[string][]Result

	sources    *os.File                     // candidates.jsonl
	candidates map[string]int64             // where its lines begin, by ID
	contents   map[string]int64             // the same by content
	blobs      map[[sha256.Size]byte]string // names of some that are there
}

// openStore locks the folder and reads what is finished. A last line that was cut off is of a process that was killed:
// it is taken away.
func openStore(dir string) (*store, error) {
	lock, err := filelock.Open(filepath.Join(dir, lockFile))
	if err != nil {
		return nil, err
	}
	if lock == nil {
		return nil, failure.New(failure.Config, "wait for it, or choose another folder",
			"another process uses the run in %s", dir)
	}
	s := &store{
		dir: dir, lock: lock, index: map[string]int64{}, labels: map[string]string{}, unproven: map[string][]Result{},
		candidates: map[string]int64{}, contents: map[string]int64{}, blobs: map[[sha256.Size]byte]string{},
	}
	s.file, err = os.OpenFile(filepath.Join(dir, resultsFile), os.O_RDWR|os.O_CREATE, 0o644)
	if err == nil {
		err = s.read()
	}
	if err == nil {
		err = s.openSources()
	}
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// read reads what is finished. A result that no reference confirmed before an earlier process ended is none.
func (s *store) read() error {
	unproven := map[string]bool{}
	whole, err := eachLine(s.file, s.file.Name(), func(at int64, l resultLine) {
		for _, key := range l.Proven {
			delete(unproven, key)
		}
		for _, id := range l.LeftOut {
			delete(s.labels, id)
		}
		if l.ID == "" {
			return
		}
		key := l.key()
		s.index[key], s.labels[l.ID] = at, key
		delete(unproven, key)
		if l.Unproven {
			unproven[key] = true
		}
	})
	if err != nil {
		return err
	}
	for key := range unproven {
		delete(s.index, key)
	}
	if err := s.file.Truncate(whole); err != nil {
		return err
	}
	s.began, err = s.file.Seek(whole, io.SeekStart)
	return err
}

// key is what a result is found by.
func (r *Result) key() string { return cmp.Or(r.Content, r.ID) }

// as returns the result under another label.
func (r Result) as(id string) Result {
	if r.ID == id {
		return r
	}
	r.of, r.Same, r.ID = r.key(), cmp.Or(r.Same, r.ID), id
	if r.Same == id {
		r.Same = ""
	}
	r.Build, r.Wait, r.Load, r.Run = 0, 0, 0, 0
	return r
}

// add writes a result. If it replaces one whose time others share, theirs are written as well.
func (s *store) add(r Result) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.of != "" {
		root := s.root(r.of)
		if r.Unproven = r.Unproven && root != ""; r.Unproven { // else it was confirmed meanwhile
			s.unproven[root] = append(s.unproven[root], r)
		}
		return s.write(r)
	}
	sharing, again := s.unproven[r.key()]
	if !again {
		if r.Unproven {
			s.unproven[r.key()] = nil
		}
		return s.write(r)
	}
	if !r.Unproven {
		delete(s.unproven, r.key())
	}
	if err := s.replace(r); err != nil {
		return err
	}
	for _, was := range sharing {
		is := r
		is.ID, is.Same, is.Build, is.Record, is.Finished = was.ID, was.Same, was.Build, was.Record, was.Finished
		is.Content, is.Wait, is.Load, is.Run = was.Content, 0, 0, 0
		if err := s.replace(is); err != nil {
			return err
		}
	}
	return nil
}

// replace writes a result that takes the place of an earlier one. Its label may stand for another candidate meanwhile.
// Its caller holds s.mu.
func (s *store) replace(r Result) error {
	key := s.labels[r.ID]
	if err := s.write(r); err != nil || key == r.key() {
		return err
	}
	of, _, ok, err := s.findLocked(key)
	if err != nil || !ok {
		return err
	}
	return s.write(of.as(r.ID))
}

// root returns the key of the result that is measured again if the reference is wrong, for one that shares its time or
// for its own key; "" if the reference has confirmed it. Its caller holds s.mu.
func (s *store) root(key string) string {
	if _, waits := s.unproven[key]; waits {
		return key
	}
	for root, sharing := range s.unproven {
		if slices.ContainsFunc(sharing, func(r Result) bool { return r.key() == key }) {
			return root
		}
	}
	return ""
}

// prove writes that the reference was right after candidates were measured.
func (s *store) prove(keys []string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []string
	for _, key := range keys {
		all = append(all, key)
		for _, r := range s.unproven[key] {
			all = append(all, r.key())
		}
	}
	if len(all) == 0 {
		return nil
	}
	if _, err := s.append(resultLine{Proven: all}); err != nil {
		return err
	}
	for _, key := range keys {
		delete(s.unproven, key)
	}
	return nil
}

// leaveOut writes that labels are no longer among the run's results.
func (s *store) leaveOut(ids []string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(ids) == 0 {
		return nil
	}
	_, err := s.append(resultLine{LeftOut: ids})
	for _, id := range ids {
		delete(s.labels, id)
	}
	return err
}

// write writes a result. Its caller holds s.mu.
func (s *store) write(r Result) error {
	at, err := s.append(r)
	if err == nil {
		s.index[r.key()], s.labels[r.ID] = at, r.key()
	}
	return err
}

// append writes a line, and returns where it begins. One that could not be written whole is taken away again.
func (s *store) append(v any) (at int64, err error) {
	line, err := json.Marshal(v)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", resultsFile, err)
	}
	if s.file == nil {
		return 0, failure.New(failure.Interrupted, "", "the run was closed")
	}
	if at, err = s.file.Seek(0, io.SeekCurrent); err != nil {
		return 0, err
	}
	if _, err := s.file.Write(append(line, '\n')); err != nil {
		cut := s.file.Truncate(at)
		_, back := s.file.Seek(at, io.SeekStart)
		return 0, errors.Join(err, cut, back)
	}
	return at, nil
}

// find returns the result of a key under its last label, false if it has none yet, and whether this process has
// written it. Results are in the file alone: a run may have many.
func (s *store) find(key string) (r Result, own, ok bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.findLocked(key)
}

// stands reports whether a label stands for a key.
func (s *store) stands(id, key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.labels[id] == key
}

// findLocked is find for a caller that holds s.mu.
func (s *store) findLocked(key string) (r Result, own, ok bool, err error) {
	at, ok := s.index[key]
	if !ok {
		return Result{}, false, false, nil
	}
	f, err := os.Open(filepath.Join(s.dir, resultsFile))
	if err != nil {
		return Result{}, false, false, err
	}
	defer f.Close() // it was only read
	line, err := bufio.NewReader(io.NewSectionReader(f, at, 1<<40)).ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &r)
	}
	if err == nil && r.key() != key {
		err = failure.New(failure.Config, "measure in another folder", "%s was changed by others", f.Name())
	}
	if r.Unproven && s.root(key) == "" {
		r.Unproven = false
	}
	return r, at >= s.began, err == nil, err
}

func (s *store) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var err error
	if s.file != nil {
		err = errors.Join(s.file.Sync(), s.file.Close())
		s.file = nil
	}
	if s.sources != nil {
		err = errors.Join(err, s.sources.Close())
		s.sources = nil
	}
	if s.lock != nil {
		err = errors.Join(err, s.lock.Close())
		s.lock = nil
	}
	return err
}
