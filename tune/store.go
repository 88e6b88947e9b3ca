// This file keeps a run in its folder: a record of its results, a folder for each candidate, and the arguments.

package tune

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/files/jsonfile"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/project"
	"github.com/boardsmith/boardsmith/tune/internal/record"
)

// A store is the folder of an open run. A result is a line of the record before it is returned to a caller; other
// processes may read the record at any time. Many goroutines may use a store.
type store struct {
	dir string

	mu     sync.Mutex
	record *record.Record // nil: closed
	index  index
	start  int // lines of earlier processes
}

// openStore locks the folder and reads its results. It drops those that the reference did not confirm before an earlier
// process ended.
func openStore(dir string) (s *store, err error) {
	s = &store{dir: dir, index: newIndex()}
	if s.record, err = record.Open(dir, s.index.read); err != nil {
		return nil, err
	}

	for key := range s.index.unproven {
		delete(s.index.results, key)
	}
	clear(s.index.unproven)
	s.start = len(s.index.lines)
	return s, nil
}

// append writes a line, whole or not at all.
func (s *store) append(l resultLine) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.appendLocked(l)
}

// appendLocked is append for a caller that holds s.mu.
func (s *store) appendLocked(l resultLine) error {
	if s.record == nil {
		return failure.Errorf(failure.Interrupted, "the run was closed")
	}
	if err := s.record.Append(l); err != nil {
		return err
	}
	return s.index.add(l)
}

// share makes r's ID a label of r's content, and gives this content the result of a key. It returns that result under
// the ID, and whether a line was written for it.
func (s *store) share(r Result, key string) (result Result, added bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if added = !s.index.hasLabel(r.label(), r.Content, key); added {
		if err := s.appendLocked(resultLine{Result: &r, Shares: key}); err != nil {
			return Result{}, false, err
		}
	}
	return s.index.result(r.label(), r.ID), added, nil
}

// find returns the result of a key under the ID that it was measured with, and whether this process has written it. ok
// is false if there is none.
func (s *store) find(key string) (r Result, own, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, ok := s.index.results[s.index.root(key)]
	if !ok {
		return Result{}, false, false
	}
	return s.index.lines[n], n >= s.start, true
}

func (s *store) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.record == nil {
		return nil
	}
	err := s.record.Close()
	s.record = nil
	return err
}

// ReadResults returns the results in a run's folder, in order of finishing: the last one of each ID, without those
// that Run.LeaveOut left out, and without results of Run.Confirm whose candidates have no result. A run of this or of
// another process may use the folder: ReadResults ignores a last line without a newline, which is still being written.
// It locks and changes nothing. Its error is of class config for a folder without a run, and for a line that is not a
// result.
func ReadResults(dir string) ([]Result, error) {
	x := newIndex()
	if err := record.Read(dir, x.read); err != nil {
		return nil, err
	}
	return x.all(), nil
}

const (
	candidatesFolder = "candidates"
	argumentsFolder  = "arguments"
	candidateFile    = "candidate.json"
)

// A storedCandidate is the content of candidate.json. Source n is in the file of this number.
type storedCandidate struct {
	Entry   string   `json:"entry"`
	Entries []string `json:"entries,omitempty"`
	Flags   []string `json:"flags,omitempty"`
	ABI     mlf.ABI  `json:"abi,omitempty"` // "": packed
	Sources []string `json:"sources"`       // names
	Args    string   `json:"args"`          // name of the file below arguments
}

// keep sets the content of a candidate, and stores the candidate unless it is there: candidate.json comes last. Nothing
// is synced: what a loss of power damages is noticed when it is read.
func (s *store) keep(kind, toolchain string, c *Candidate) error {
	c.content = contentOf(kind, toolchain, *c)
	folder := filepath.Join(s.dir, candidatesFolder, c.content)
	if _, err := os.Stat(filepath.Join(folder, candidateFile)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}

	args := argsDigest(c.Args)
	stored := storedCandidate{
		Entry: c.Entry, Entries: c.Operators.Entries, Flags: c.Operators.Flags, ABI: c.Operators.ABI,
		Args: hex.EncodeToString(args[:16]) + ".json",
	}
	for n, f := range c.Operators.Files {
		stored.Sources = append(stored.Sources, f.Name)
		if err := writeAtomic(filepath.Join(folder, strconv.Itoa(n)), f.Data, 0o644); err != nil {
			return err
		}
	}

	// Candidates of a run mostly have the same arguments.
	path := filepath.Join(s.dir, argumentsFolder, stored.Args)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		if err := writeJSON(path, storable(c.Args)); err != nil {
			return err
		}
	}
	return writeJSON(filepath.Join(folder, candidateFile), stored)
}

// storable returns arguments without tolerances that JSON cannot contain, which checkCandidate refuses.
func storable(args []Arg) []Arg {
	args = slices.Clone(args)
	for i := range args {
		if a := &args[i]; !isTolerance(a.RelTol) || !isTolerance(a.AbsTol) {
			a.RelTol, a.AbsTol = 0, 0
		}
	}
	return args
}

// contentOf returns the digest of a candidate with its toolchain, but without its ID.
func contentOf(kind, toolchain string, c Candidate) string {
	h, o, args := sha256.New(), c.Operators, argsDigest(c.Args)
	hashPart(h, fmt.Appendf(nil, "%q %q %q %q", c.Entry, o.Entries, o.Flags, o.ABI))
	for _, f := range o.Files {
		hashPart(h, []byte(f.Name))
		hashPart(h, f.Data)
	}
	// as the record of the run has it, without spaces
	record, err := json.Marshal(c.Record)
	if err != nil {
		record = c.Record // checkCandidate refuses it
	}
	for _, part := range [][]byte{args[:], record, []byte(kind), []byte(toolchain)} {
		hashPart(h, part)
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// readCandidate returns the candidate of a result from a run's folder, which may be in use. Its error is of class
// config if the folder contains no such candidate, and for files that no run writes.
func readCandidate(dir string, r Result) (Candidate, error) {
	content := strings.TrimSuffix(r.Content, flashSuffix)
	folder := filepath.Join(dir, candidatesFolder, content)
	var stored storedCandidate
	if err := readJSON(filepath.Join(folder, candidateFile), &stored); err != nil {
		return Candidate{}, fmt.Errorf("candidate %s: %w", r.ID, err)
	}

	c := Candidate{
		ID: r.ID, Kind: r.Kind, Entry: stored.Entry, Record: r.Record,
		Operators: project.Operators{Entries: stored.Entries, Flags: stored.Flags, ABI: stored.ABI},
	}
	for n, name := range stored.Sources {
		data, err := os.ReadFile(filepath.Join(folder, strconv.Itoa(n)))
		if err != nil {
			return Candidate{}, failure.New(failure.Config, restore, "%w", err)
		}
		c.Operators.Files = append(c.Operators.Files, mlf.File{Name: name, Data: data})
	}
	if err := readJSON(filepath.Join(dir, argumentsFolder, filepath.Base(stored.Args)), &c.Args); err != nil {
		return Candidate{}, fmt.Errorf("candidate %s: %w", r.ID, err)
	}

	// Of a candidate that was refused, not all may be stored.
	refused := r.Failure != nil && r.Failure.Class == failure.Config
	if contentOf(r.Kind, r.Toolchain, c) != content && !refused {
		return Candidate{}, failure.New(failure.Config, restore, "%s was changed", folder)
	}
	return c, nil
}

const restore = "restore the run's folder, or measure in another run"

func writeJSON(path string, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return writeAtomic(path, append(text, '\n'), 0o644)
}

// readJSON reads a file of a run. Its error is of class config.
func readJSON(path string, v any) error {
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, v)
	}
	if err != nil {
		return failure.New(failure.Config, restore, "%s: %w", path, jsonfile.Plain(err))
	}
	return nil
}

// writeAtomic writes a file whole or not at all. It does not sync.
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
