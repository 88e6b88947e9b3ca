package tune

import (
	"bufio"
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
		dir: dir, lock: lock, index: map[string]int64{}, candidates: map[string]int64{},
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

func (s *store) read() error {
	whole, err := eachResult(s.file, s.file.Name(), func(at int64, r Result) { s.index[r.ID] = at })
	if err != nil {
		return err
	}
	if err := s.file.Truncate(whole); err != nil {
		return err
	}
	_, err = s.file.Seek(whole, io.SeekStart)
	return err
}

// add writes a result. A line that could not be written whole is taken away again.
func (s *store) add(r Result) error {
	line, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("result %s: %w", r.ID, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file == nil {
		return failure.New(failure.Interrupted, "", "the run was closed")
	}
	at, err := s.file.Seek(0, io.SeekCurrent)
	if err != nil {
		return err
	}
	if _, err := s.file.Write(append(line, '\n')); err != nil {
		cut := s.file.Truncate(at)
		_, back := s.file.Seek(at, io.SeekStart)
		return errors.Join(err, cut, back)
	}
	s.index[r.ID] = at
	return nil
}

// find returns a candidate's result, false if it has none yet. Results are in the file alone: a run may have many.
func (s *store) find(id string) (r Result, ok bool, err error) {
	s.mu.Lock()
	at, ok := s.index[id]
	s.mu.Unlock()
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
