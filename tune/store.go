// This file writes the results of a run into its folder.

package tune

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/files/filelock"
	"github.com/boardsmith/boardsmith/internal/files/plainfile"
)

const lockFile = ".boardsmith.lock"

// A LockedError reports the folder of a run or a search that is in use, by another process or another part of this one.
type LockedError struct{ Dir string }

func (e *LockedError) Error() string { return "the run in " + e.Dir + " is in use" }

// FailureClass returns failure.Config.
func (e *LockedError) FailureClass() failure.Class { return failure.Config }

// NextStep returns how to go on.
func (e *LockedError) NextStep() string { return "wait until it has ended, or choose another folder" }

// A store is the folder of an open run. A result is a line of results.jsonl before it is returned to a caller; other
// processes may read the file at any time. Many goroutines may use a store.
type store struct {
	dir  string
	lock *os.File

	mu    sync.Mutex
	file  *os.File // nil: closed
	start int64    // offset of the first line of this process
	index index
}

// openStore locks the folder and reads its results. It truncates a last line without a newline, which a process wrote
// that was killed.
func openStore(dir string) (*store, error) {
	lock, err := filelock.Open(filepath.Join(dir, lockFile))
	if err != nil {
		return nil, plainfile.Error("lock", dir, err)
	}
	if lock == nil {
		return nil, &LockedError{dir}
	}
	s := &store{dir: dir, lock: lock, index: newIndex()}
	s.file, err = os.OpenFile(filepath.Join(dir, resultsFile), os.O_RDWR|os.O_CREATE, 0o644)
	if err == nil {
		err = s.read()
	}
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// read reads the results. It drops those that the reference did not confirm before an earlier process ended.
func (s *store) read() error {
	size, err := eachLine(s.file, s.file.Name(), s.index.add)
	if err != nil {
		return err
	}
	for key := range s.index.unproven {
		delete(s.index.results, key)
	}
	clear(s.index.unproven)
	if err := s.file.Truncate(size); err != nil {
		return err
	}
	s.start, err = s.file.Seek(size, io.SeekStart)
	return err
}

// add writes a result and makes its ID a label of its content, which c describes.
func (s *store) add(r Result, c *candidateLine) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.append(resultLine{Result: r, Candidate: c})
}

// replace writes a result in place of an earlier one of its content. It sets no label, since the ID may be the label of
// another content meanwhile.
func (s *store) replace(r Result) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.append(resultLine{Result: r, Again: true})
}

// share makes r's ID a label of r's content, which c describes, and gives this content the result of a key. It returns
// that result under the ID, and whether a line was written for it.
func (s *store) share(r Result, c *candidateLine, key string) (result Result, added bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	own := r.label()
	if added = !s.index.hasLabel(own, r.Content, key); added {
		if err := s.append(resultLine{Result: r, Candidate: c, Shares: key}); err != nil {
			return Result{}, false, err
		}
	}

	l, root := s.index.labels[own], s.index.root(key)
	line, err := s.line(l.offset, l.key)
	if err != nil {
		return Result{}, false, err
	}
	measured, err := s.line(s.index.results[root], root)
	if err != nil {
		return Result{}, false, err
	}
	id := s.index.measuredID(measured.label(), own, root)
	return s.index.under(line.Result, measured.Result, id), added, nil
}

// prove writes that the reference confirmed the results of keys.
func (s *store) prove(keys []string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(keys) == 0 {
		return nil
	}
	return s.append(resultLine{Proven: keys})
}

// leaveOut writes that labels are no longer among the run's results.
func (s *store) leaveOut(labels []label) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(labels) == 0 {
		return nil
	}
	return s.append(resultLine{LeftOut: labels})
}

// append writes a line, whole or not at all. The caller holds s.mu.
func (s *store) append(l resultLine) error {
	if _, known := s.index.candidates[l.Content]; known {
		l.Candidate = nil
	}
	text, err := json.Marshal(l)
	if err != nil {
		return fmt.Errorf("%s: %w", resultsFile, err)
	}
	if s.file == nil {
		return failure.Errorf(failure.Interrupted, "the run was closed")
	}
	offset, err := s.file.Seek(0, io.SeekCurrent)
	if err != nil {
		return err
	}
	if _, err := s.file.Write(append(text, '\n')); err != nil {
		truncateErr := s.file.Truncate(offset)
		_, seekErr := s.file.Seek(offset, io.SeekStart)
		return errors.Join(err, truncateErr, seekErr)
	}
	return s.index.add(offset, l)
}

// find returns the result of a key under the ID that it was measured with, and whether this process has written it. ok
// is false if there is none. find reads the file each time, since a run may have many results.
func (s *store) find(key string) (r Result, own, ok bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	root := s.index.root(key)
	offset, ok := s.index.results[root]
	if !ok {
		return Result{}, false, false, nil
	}
	l, err := s.line(offset, root)
	return l.Result, offset >= s.start, err == nil, err
}

// candidate returns the candidate of a result, as it was measured in RAM.
func (s *store) candidate(r Result) (Candidate, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	content := strings.TrimSuffix(r.Content, flashSuffix)
	offset, ok := s.index.candidates[content]
	if !ok {
		return Candidate{}, noCandidate(s.dir, r.ID)
	}
	l, err := s.line(offset, content)
	if err != nil {
		return Candidate{}, err
	}
	return l.Candidate.candidate(s.dir, r)
}

// line reads the line of a key at an offset. The caller holds s.mu.
func (s *store) line(offset int64, key string) (l resultLine, err error) {
	f, err := os.Open(filepath.Join(s.dir, resultsFile))
	if err != nil {
		return l, err
	}
	defer f.Close() // only read
	text, err := bufio.NewReader(io.NewSectionReader(f, offset, 1<<40)).ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(text, &l)
	}
	if err == nil && l.key() != key {
		err = failure.New(failure.Config, "measure in another folder", "%s was changed by others", f.Name())
	}
	return l, err
}

func (s *store) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var err error
	if s.file != nil {
		err = errors.Join(s.file.Sync(), s.file.Close())
		s.file = nil
	}
	if s.lock != nil {
		err = errors.Join(err, s.lock.Close())
		s.lock = nil
	}
	return err
}
