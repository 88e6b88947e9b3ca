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
	"sync"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/filelock"
)

const (
	resultsFile = "results.jsonl"
	lockFile    = ".boardsmith.lock"
)

// A store is the folder of a run: a line of results.jsonl for each candidate that is finished, written before anybody
// learns of it. Others may read the file meanwhile.
type store struct {
	dir  string
	lock *os.File

	mu    sync.Mutex
	file  *os.File
	index map[string]int64 // where the last line of each candidate begins, by ID
	// those whose time the reference has not confirmed yet, with the IDs of candidates that share it
	unproven map[string][]string

	sources    *os.File                     // candidates.jsonl
	candidates map[string]int64             // where its lines begin, by ID
	blobs      map[[sha256.Size]byte]string // names of some that are there
}

// openStore locks the folder and reads what is finished. A last line that was cut off is of a process that was killed:
// it is taken away.
func openStore(dir string) (*store, error) {
	lock, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	ok, err := filelock.Try(lock)
	if err == nil && !ok {
		err = failure.New(failure.Config, "wait for it, or choose another folder", "another process uses the run in %s", dir)
	}
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	s := &store{
		dir: dir, lock: lock, index: map[string]int64{}, unproven: map[string][]string{}, candidates: map[string]int64{},
		blobs: map[[sha256.Size]byte]string{},
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
		for _, id := range l.Proven {
			delete(unproven, id)
		}
		if l.ID != "" {
			s.index[l.ID] = at
			delete(unproven, l.ID)
			if l.Unproven {
				unproven[l.ID] = true
			}
		}
	})
	if err != nil {
		return err
	}
	for id := range unproven {
		delete(s.index, id)
	}
	if err := s.file.Truncate(whole); err != nil {
		return err
	}
	_, err = s.file.Seek(whole, io.SeekStart)
	return err
}

// add writes a result. If it replaces one whose time others share, theirs are written as well.
func (s *store) add(r Result) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	twins, again := s.unproven[r.ID]
	if r.Unproven && r.Same != "" {
		if of, waits := s.unproven[r.Same]; waits {
			s.unproven[r.Same] = append(of, r.ID)
		} else {
			r.Unproven = false // it was confirmed meanwhile
		}
	}
	if err := s.write(r); err != nil {
		return err
	}
	switch {
	case r.Unproven && r.Same == "":
		s.unproven[r.ID] = twins
	case again:
		delete(s.unproven, r.ID)
	}
	for _, id := range twins {
		was, _, err := s.findLocked(id)
		if err != nil {
			return err
		}
		is := r
		is.ID, is.Same, is.Build, is.Record, is.Finished = id, r.ID, was.Build, was.Record, was.Finished
		is.Content, is.Wait, is.Load, is.Run = was.Content, 0, 0, 0
		if err := s.write(is); err != nil {
			return err
		}
	}
	return nil
}

// prove writes that the reference was right after candidates were measured.
func (s *store) prove(ids []string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []string
	for _, id := range ids {
		all = append(append(all, id), s.unproven[id]...)
	}
	if len(all) == 0 {
		return nil
	}
	if _, err := s.append(resultLine{Proven: all}); err != nil {
		return err
	}
	for _, id := range ids {
		delete(s.unproven, id)
	}
	return nil
}

// write writes a result. Its caller holds s.mu.
func (s *store) write(r Result) error {
	at, err := s.append(r)
	if err == nil {
		s.index[r.ID] = at
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

// find returns a candidate's result, false if it has none yet. Results are in the file alone: a run may have many.
func (s *store) find(id string) (r Result, ok bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.findLocked(id)
}

// findLocked is find for a caller that holds s.mu.
func (s *store) findLocked(id string) (r Result, ok bool, err error) {
	at, ok := s.index[id]
	if !ok {
		return Result{}, false, nil
	}
	f, err := os.Open(filepath.Join(s.dir, resultsFile))
	if err != nil {
		return Result{}, false, err
	}
	defer f.Close() // it was only read
	line, err := bufio.NewReader(io.NewSectionReader(f, at, 1<<40)).ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &r)
	}
	if err == nil && r.ID != id {
		err = failure.New(failure.Config, "measure in another folder", "%s was changed by others", f.Name())
	}
	if _, waits := s.unproven[cmp.Or(r.Same, r.ID)]; !waits {
		r.Unproven = false
	}
	return r, err == nil, err
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
