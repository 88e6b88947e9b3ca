// This file writes the results of a run into its folder and reads them, also while another process writes: results and
// descriptions of candidates as lines of one file, and under blobs the content of files and arguments, each once.

package tune

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/files/filelock"
	"github.com/boardsmith/boardsmith/internal/files/jsonfile"
	"github.com/boardsmith/boardsmith/internal/files/plainfile"
	"github.com/boardsmith/boardsmith/ndarray"
	"github.com/boardsmith/boardsmith/project"
)

const lockFile = ".boardsmith.lock"

// errLocked is wrapped by the error, of class config, of the folder of a run or a search that is in use, by another
// process or another part of this one.
var errLocked = failure.New(failure.Config, "wait until it has ended, or choose another folder", "is in use")

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
		return nil, fmt.Errorf("the run in %s %w", dir, errLocked)
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

	// A killed process may have left a part of a line.
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
	// an earlier line describes it
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
		// The next line must not follow a part of this one.
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
		err = errors.Join(err, filelock.Release(s.lock))
		s.lock = nil
	}
	return err
}

const resultsFile = "results.jsonl"

// ReadResults returns the results in a run's folder, in order of finishing: the last one of each ID, without those
// that Run.LeaveOut left out, and without results of Run.Confirm whose candidates have no result. A run of this or of
// another process may use the folder: ReadResults ignores a last line without a newline, which is still being written.
// It locks and changes nothing. Its error is of class config for a folder without a run, and for a line that is not a
// result.
func ReadResults(dir string) ([]Result, error) {
	all, lines := newIndex(), map[int64]Result{}
	err := readLines(dir, func(offset int64, l resultLine) error {
		lines[offset] = l.Result
		return all.add(offset, l)
	})
	if err != nil {
		return nil, err
	}
	return all.current(lines), nil
}

// readCandidate returns the candidate of a result from a run's folder, which may be in use. Its error is of class
// config if the folder contains no such candidate, and for files that no run writes.
func readCandidate(dir string, r Result) (c Candidate, err error) {
	var described *candidateLine
	content := strings.TrimSuffix(r.Content, flashSuffix)
	err = readLines(dir, func(_ int64, l resultLine) error {
		if l.Candidate != nil && l.Content == content {
			described = l.Candidate
		}
		return nil
	})
	if err != nil {
		return c, err
	}
	if described == nil {
		return c, noCandidate(dir, r.ID)
	}
	return described.candidate(dir, r)
}

func noCandidate(dir, id string) error {
	return failure.New(failure.Config, "choose another folder", "%s: no candidate %s", dir, id)
}

// readLines calls f with each line of the run in dir.
func readLines(dir string, f func(offset int64, l resultLine) error) error {
	file, err := os.Open(filepath.Join(dir, resultsFile))
	if errors.Is(err, fs.ErrNotExist) {
		return failure.New(failure.Config, "choose the folder of a run", "%s: no run: %w", dir, err)
	}
	if err != nil {
		return err
	}
	defer file.Close() // only read

	_, err = eachLine(file, file.Name(), f)
	return err
}

// eachLine calls f with each line that ends with a newline, and with its offset. It returns the size of these lines.
func eachLine(from io.Reader, name string, f func(offset int64, l resultLine) error) (size int64, err error) {
	r := bufio.NewReader(from)
	for n := 1; ; n++ {
		text, err := r.ReadBytes('\n')
		// also after a part of a line, which may be in the course of being written
		if errors.Is(err, io.EOF) {
			return size, nil
		}
		if err != nil {
			return 0, err
		}

		var l resultLine
		if err = json.Unmarshal(text, &l); err == nil {
			err = l.check()
		}
		if err == nil {
			err = f(size, l)
		}
		if err != nil {
			return 0, failure.New(failure.Config, "choose another folder, or repair the file",
				"%s:%d: not a result: %w", name, n, jsonfile.Plain(err))
		}
		size += int64(len(text))
	}
}

const blobsFolder = "blobs"

// describe stores the files and arguments of a candidate, and sets its line and its content: a digest that covers the
// toolchain, but not the ID.
func (s *store) describe(kind, toolchain string, c *Candidate) error {
	line := candidateLine{
		Entry: c.Entry, Entries: c.Operators.Entries, Flags: c.Operators.Flags, ABI: c.Operators.ABI,
	}
	for _, f := range c.Operators.Files {
		blob, err := s.keepBlob(f.Data)
		if err != nil {
			return err
		}
		line.Files = append(line.Files, fileLine{f.Name, blob})
	}

	var tolerances []byte
	for _, a := range c.Args {
		l := argLine{DType: a.DType.String(), Shape: a.Shape, Seed: a.Seed, Flash: a.Flash}
		if isTolerance(a.RelTol) && isTolerance(a.AbsTol) { // JSON cannot encode others; checkCandidate refuses them
			l.RelTol, l.AbsTol = a.RelTol, a.AbsTol
		}
		tolerances = fmt.Append(tolerances, a.RelTol, a.AbsTol, ";")
		var err error
		if a.Data != nil {
			l.Data, err = s.keepBlob(a.Data)
		}
		if a.Want != nil && err == nil {
			l.Want, err = s.keepBlob(a.Want)
		}
		if err != nil {
			return err
		}
		line.Args = append(line.Args, l)
	}

	text, err := json.Marshal(line)
	if err != nil {
		return fmt.Errorf("candidate %s: %w", c.ID, err)
	}

	h := sha256.New()
	for _, part := range [][]byte{text, tolerances, c.Record, []byte(kind), []byte(toolchain)} {
		hashPart(h, part)
	}
	c.line, c.content = &line, hex.EncodeToString(h.Sum(nil)[:16])
	return nil
}

// keepBlob stores bytes under their digest and returns the name.
func (s *store) keepBlob(data []byte) (string, error) {
	sum := sha256.Sum256(data)
	name := hex.EncodeToString(sum[:])
	path := blobPath(s.dir, name)
	// The size shows a file that a loss of power has emptied.
	if info, err := os.Stat(path); err == nil && info.Size() == int64(len(data)) {
		return name, nil
	}
	return name, writeAtomic(path, data, 0o644)
}

func blobPath(dir, name string) string { return filepath.Join(dir, blobsFolder, name[:2], name[2:]) }

// writeAtomic writes a file whole or not at all. It does not sync: after a loss of power the file may be empty, which
// its readers detect.
func writeAtomic(path string, data []byte, mode os.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".new")
	if err != nil {
		return err
	}

	_, err = f.Write(data)
	if err = errors.Join(err, f.Chmod(mode), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// candidate returns the candidate of a result, with its blobs.
func (l *candidateLine) candidate(dir string, r Result) (Candidate, error) {
	c := Candidate{
		ID: r.ID, Kind: r.Kind, Entry: l.Entry, Record: r.Record,
		Operators: project.Operators{Entries: l.Entries, Flags: l.Flags, ABI: l.ABI},
	}
	for _, f := range l.Files {
		data, err := readBlob(dir, f.Blob)
		if err != nil {
			return Candidate{}, err
		}
		c.Operators.Files = append(c.Operators.Files, project.OperatorFile{Name: f.Name, Data: data})
	}

	for _, a := range l.Args {
		arg := Arg{Shape: a.Shape, RelTol: a.RelTol, AbsTol: a.AbsTol, Seed: a.Seed, Flash: a.Flash}
		var err error
		if arg.DType, err = ndarray.ParseDType(a.DType); err != nil {
			return Candidate{}, failure.Errorf(failure.Config, "candidate %s: %w", r.ID, err)
		}
		if arg.Data, err = readBlob(dir, a.Data); err != nil {
			return Candidate{}, err
		}
		if arg.Want, err = readBlob(dir, a.Want); err != nil {
			return Candidate{}, err
		}
		c.Args = append(c.Args, arg)
	}
	return c, nil
}

// readBlob reads bytes by their digest; nil for "".
func readBlob(dir, name string) ([]byte, error) {
	if name == "" {
		return nil, nil
	}
	sum, err := hex.DecodeString(name)
	if err != nil || len(sum) != sha256.Size {
		return nil, failure.Errorf(failure.Config, "%s: %q is no SHA-256", dir, name)
	}

	data, err := os.ReadFile(blobPath(dir, name))
	if err != nil {
		return nil, failure.New(failure.Config, "restore the run's folder, or measure it in another run", "%w", err)
	}
	if actual := sha256.Sum256(data); !bytes.Equal(actual[:], sum) {
		return nil, failure.Errorf(failure.Config, "%s was changed: it is %x", blobPath(dir, name), actual)
	}
	// nil would be an argument without data
	if data == nil {
		data = []byte{}
	}
	return data, nil
}
