// This file stores candidates in a run's folder, so that each can be measured again: a line of candidates.jsonl for
// each, and under blobs the content of their files and arguments, each content once.

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
	"slices"
	"sync"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/files/jsonfile"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/ndarray"
	"github.com/boardsmith/boardsmith/project"
)

const (
	candidatesFile = "candidates.jsonl"
	blobsFolder    = "blobs"
)

// A candidateLine is a line of candidates.jsonl.
type candidateLine struct {
	ID      string          `json:"id"`
	Content string          `json:"content,omitempty"` // as in Result
	Kind    string          `json:"kind"`
	Entry   string          `json:"entry"`
	Entries []string        `json:"entries,omitempty"`
	Flags   []string        `json:"flags,omitempty"`
	ABI     mlf.ABI         `json:"abi,omitempty"` // "": packed
	Files   []fileLine      `json:"files"`
	Args    []argLine       `json:"args"`
	Record  json.RawMessage `json:"record,omitempty"`
}

type fileLine struct {
	Name string `json:"name"`
	Blob string `json:"blob"` // SHA-256
}

type argLine struct {
	DType  string  `json:"dtype"`
	Shape  []int64 `json:"shape"`
	Data   string  `json:"data,omitempty"` // SHA-256; "": none
	Want   string  `json:"want,omitempty"` // SHA-256; "": none
	RelTol float64 `json:"rel_tol,omitempty"`
	AbsTol float64 `json:"abs_tol,omitempty"`
	Flash  bool    `json:"flash,omitempty"`
	Seed   uint64  `json:"seed,omitempty"`
}

// A sources is the part of a run's folder that stores candidates. Many goroutines may use it.
type sources struct {
	dir string

	mu       sync.Mutex
	file     *os.File          // nil: closed
	ids      map[string]int64  // offset of the last line, by ID
	contents map[string]int64  // offset of the last line, by content
	blobs    map[digest]string // names of some blobs that are stored
}

// maxKnownBlobs limits the memory of sources.blobs.
const maxKnownBlobs = 4096

// openSources reads the offsets of the lines of candidates.jsonl. It truncates a last line without a newline.
func openSources(dir string) (*sources, error) {
	f, err := os.OpenFile(filepath.Join(dir, candidatesFile), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	s := &sources{
		dir: dir, file: f, ids: map[string]int64{}, contents: map[string]int64{}, blobs: map[digest]string{},
	}
	if err := s.read(); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return s, nil
}

func (s *sources) read() error {
	r, offset := bufio.NewReader(s.file), int64(0)
	for {
		text, err := r.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return s.file.Truncate(offset)
		}
		var line struct {
			ID      string `json:"id"`
			Content string `json:"content"`
		}
		if err == nil {
			err = json.Unmarshal(text, &line)
		}
		if err != nil {
			return failure.New(failure.Config, "choose another folder, or repair the file", "%s at byte %d: no candidate: %w",
				s.file.Name(), offset, jsonfile.Plain(err))
		}
		s.ids[line.ID], s.contents[line.Content] = offset, offset
		offset += int64(len(text))
	}
}

func (s *sources) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file == nil {
		return nil
	}
	err := s.file.Close()
	s.file = nil
	return err
}

// describe stores the files and arguments of a candidate. It returns the candidate's line of candidates.jsonl, and its
// content: a digest that covers the toolchain, but not the ID.
func (s *sources) describe(kind, toolchain string, c Candidate) (text []byte, content string, err error) {
	line, err := s.line(kind, c)
	if err != nil {
		return nil, "", err
	}
	extra := line.removeUnencodable()
	if text, err = json.Marshal(line); err != nil {
		return nil, "", fmt.Errorf("candidate %s: %w", c.ID, err)
	}
	sum := sha256.Sum256(slices.Concat(text, []byte("\x00"), extra, []byte("\x00"), []byte(toolchain)))
	line.ID, line.Content = c.ID, hex.EncodeToString(sum[:16])
	if text, err = json.Marshal(line); err != nil {
		return nil, "", fmt.Errorf("candidate %s: %w", c.ID, err)
	}
	return append(text, '\n'), line.Content, nil
}

// line returns a candidate's line without ID and content, and stores the blobs.
func (s *sources) line(kind string, c Candidate) (candidateLine, error) {
	line := candidateLine{
		Kind: kind, Entry: c.Entry, Entries: c.Operators.Entries, Flags: c.Operators.Flags,
		ABI: c.Operators.ABI, Record: c.Record,
	}
	for _, f := range c.Operators.Files {
		blob, err := s.keepBlob(f.Data)
		if err != nil {
			return line, err
		}
		line.Files = append(line.Files, fileLine{f.Name, blob})
	}
	for _, a := range c.Args {
		l := argLine{
			DType: a.DType.String(), Shape: a.Shape, RelTol: a.RelTol, AbsTol: a.AbsTol, Seed: a.Seed, Flash: a.Flash,
		}
		var err error
		if a.Data != nil {
			l.Data, err = s.keepBlob(a.Data)
		}
		if a.Want != nil && err == nil {
			l.Want, err = s.keepBlob(a.Want)
		}
		if err != nil {
			return line, err
		}
		line.Args = append(line.Args, l)
	}
	return line, nil
}

// removeUnencodable clears what JSON cannot encode, and returns it as text. checkCandidate reports it later, as the
// candidate's failure.
func (l *candidateLine) removeUnencodable() (text []byte) {
	for i := range l.Args {
		if a := &l.Args[i]; !isTolerance(a.RelTol) || !isTolerance(a.AbsTol) {
			text = fmt.Append(text, i, a.RelTol, a.AbsTol)
			a.RelTol, a.AbsTol = 0, 0
		}
	}
	if l.Record != nil && !json.Valid(l.Record) {
		text = append(text, l.Record...)
		l.Record = nil
	}
	return text
}

// add writes a candidate's line, unless it is the last one of the ID already.
func (s *sources) add(id, content string, text []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file == nil {
		return nil // the run was closed
	}
	if offset, ok := s.ids[id]; ok {
		last := make([]byte, len(text))
		if _, err := s.file.ReadAt(last, offset); err == nil && bytes.Equal(last, text) {
			return nil
		}
	}
	offset, err := s.file.Seek(0, io.SeekEnd)
	if err == nil {
		_, err = s.file.Write(text)
	}
	if err != nil {
		return errors.Join(err, s.file.Truncate(offset))
	}
	s.ids[id], s.contents[content] = offset, offset
	return nil
}

// candidate reads the candidate of a result.
func (s *sources) candidate(r Result) (Candidate, error) {
	s.mu.Lock()
	offset, ok := s.contents[r.Content]
	s.mu.Unlock()
	if !ok {
		return Candidate{}, failure.New(failure.Config, "choose another folder", "%s: %s is no candidate", s.dir, r.ID)
	}
	f, err := os.Open(filepath.Join(s.dir, candidatesFile))
	if err != nil {
		return Candidate{}, err
	}
	defer f.Close() // only read
	text, err := readLine(f, offset)
	if err != nil {
		return Candidate{}, err
	}
	line, err := parseCandidate(s.dir, text)
	if err != nil {
		return Candidate{}, err
	}
	line.ID = r.ID
	return line.candidate(s.dir)
}

// keepBlob stores bytes under their digest and returns the name.
func (s *sources) keepBlob(data []byte) (string, error) {
	sum := sha256.Sum256(data)
	s.mu.Lock()
	name, ok := s.blobs[sum]
	s.mu.Unlock()
	if ok {
		return name, nil
	}
	name = hex.EncodeToString(sum[:])
	path := blobPath(s.dir, name)
	if old, err := os.ReadFile(path); err != nil || !bytes.Equal(old, data) {
		if err := writeAtomic(path, data, 0o644); err != nil {
			return "", err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.blobs) < maxKnownBlobs {
		s.blobs[sum] = name
	}
	return name, nil
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

// ReadCandidate returns the last candidate with an ID from a run's folder, with the kind of board that it was for. The
// folder may be in use by a run. Its error is of class config if the folder contains no such candidate, and for files
// that no run writes.
func ReadCandidate(dir, id string) (Candidate, error) {
	return readCandidate(dir, id, func(l *candidateLine) bool { return l.ID == id })
}

// readCandidate returns the last candidate that matches. name is for its error.
func readCandidate(dir, name string, matches func(*candidateLine) bool) (Candidate, error) {
	f, err := os.Open(filepath.Join(dir, candidatesFile))
	if errors.Is(err, fs.ErrNotExist) {
		return Candidate{}, failure.New(failure.Config, "choose the folder of a run", "%s: no run: %w", dir, err)
	}
	if err != nil {
		return Candidate{}, err
	}
	defer f.Close() // only read
	var last *candidateLine
	for r := bufio.NewReader(f); ; {
		text, err := r.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return Candidate{}, err
		}
		line, err := parseCandidate(dir, text)
		if err != nil {
			return Candidate{}, err
		}
		if matches(&line) {
			last = &line
		}
	}
	if last == nil {
		return Candidate{}, failure.Errorf(failure.Config, "%s: no candidate %s", dir, name)
	}
	return last.candidate(dir)
}

// parseCandidate parses a line of the candidates.jsonl in dir.
func parseCandidate(dir string, text []byte) (l candidateLine, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&l); err != nil {
		return l, failure.New(failure.Config, "choose another folder, or repair the file", "%s: no candidate: %w",
			filepath.Join(dir, candidatesFile), jsonfile.Plain(err))
	}
	return l, nil
}

// candidate returns the candidate of a line, with its blobs.
func (l *candidateLine) candidate(dir string) (Candidate, error) {
	c := Candidate{
		ID: l.ID, Kind: l.Kind, Entry: l.Entry, Record: l.Record,
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
			return Candidate{}, failure.Errorf(failure.Config, "candidate %s: %w", l.ID, err)
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
	if data == nil {
		data = []byte{}
	}
	return data, nil
}
