// This file holds the results of a run, in its folder.

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
	"github.com/boardsmith/boardsmith/internal/files/filelock"
)

const (
	resultsFile = "results.jsonl"
	lockFile    = ".boardsmith.lock"
)

// A store is the folder of a run: lines of results.jsonl for each candidate that is finished, written before anybody
// learns of it. Others may read the file meanwhile.
type store struct {
	dir  string
	lock *os.File

	mu    sync.Mutex
	file  *os.File
	began int64 // where the lines of this process begin
	index index

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
		dir: dir, lock: lock, index: newIndex(), candidates: map[string]int64{}, contents: map[string]int64{},
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
	whole, err := eachLine(s.file, s.file.Name(), s.index.take)
	if err != nil {
		return err
	}
	for key := range s.index.unproven {
		delete(s.index.results, key)
	}
	clear(s.index.unproven)
	if err := s.file.Truncate(whole); err != nil {
		return err
	}
	s.began, err = s.file.Seek(whole, io.SeekStart)
	return err
}

// add writes the result of the candidate that its ID stands for from now on.
func (s *store) add(r Result) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.append(resultLine{Result: r})
}

// replace writes a result in place of an earlier one of its content. Its ID may stand for another content meanwhile.
func (s *store) replace(r Result) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.append(resultLine{Result: r, Again: true})
}

// share has an ID stand for its content, and that content have the result of a key. It returns this result under the
// ID, and whether that was not so before.
func (s *store) share(id Result, key string) (r Result, added bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if added = !s.index.stands(id.ID, id.Content, key); added {
		if err := s.append(resultLine{Result: id, Shares: key}); err != nil {
			return Result{}, false, err
		}
	}
	l, root := s.index.labels[id.ID], s.index.root(key)
	own, err := s.line(l.at, l.key)
	if err != nil {
		return Result{}, false, err
	}
	shared, err := s.line(s.index.results[root], root)
	return s.index.labelled(own, shared, shared.ID), added, err
}

// prove writes that the reference was right after candidates were measured.
func (s *store) prove(keys []string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(keys) == 0 {
		return nil
	}
	return s.append(resultLine{Proven: keys})
}

// leaveOut writes that labels are no longer among the run's results.
func (s *store) leaveOut(ids []string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(ids) == 0 {
		return nil
	}
	return s.append(resultLine{LeftOut: ids})
}

// append writes a line. One that could not be written whole is taken away again. Its caller holds s.mu.
func (s *store) append(l resultLine) error {
	text, err := json.Marshal(l)
	if err != nil {
		return fmt.Errorf("%s: %w", resultsFile, err)
	}
	if s.file == nil {
		return failure.Errorf(failure.Interrupted, "the run was closed")
	}
	at, err := s.file.Seek(0, io.SeekCurrent)
	if err != nil {
		return err
	}
	if _, err := s.file.Write(append(text, '\n')); err != nil {
		cut := s.file.Truncate(at)
		_, back := s.file.Seek(at, io.SeekStart)
		return errors.Join(err, cut, back)
	}
	return s.index.take(at, l)
}

// find returns the result of a key under the ID that it was measured with, false if it has none yet, and whether this
// process has written it. Results are in the file alone: a run may have many.
func (s *store) find(key string) (r Result, own, ok bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	root := s.index.root(key)
	at, ok := s.index.results[root]
	if !ok {
		return Result{}, false, false, nil
	}
	r, err = s.line(at, root)
	return r, at >= s.began, err == nil, err
}

// line reads the line of a key that begins at a byte of the file. Its caller holds s.mu.
func (s *store) line(at int64, key string) (Result, error) {
	f, err := os.Open(filepath.Join(s.dir, resultsFile))
	if err != nil {
		return Result{}, err
	}
	defer f.Close() // it was only read
	var l resultLine
	text, err := bufio.NewReader(io.NewSectionReader(f, at, 1<<40)).ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(text, &l)
	}
	if err == nil && l.key() != key {
		err = failure.New(failure.Config, "measure in another folder", "%s was changed by others", f.Name())
	}
	return l.Result, err
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
