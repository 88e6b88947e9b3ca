// This file keeps candidates in a run's folder, so that each can be measured again: a line of candidates.jsonl for
// each, and under blobs what their files and arguments hold, once each.

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

	"github.com/boardsmith/boardsmith/failure"
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

// describe returns the line of candidates.jsonl for a candidate that is compiled with made, and its digest, which does
// not depend on its ID. It keeps what the line refers to.
func (s *store) describe(kind, made string, c Candidate) (text []byte, digest string, err error) {
	line := candidateLine{
		Kind: kind, Entry: c.Entry, Entries: c.Operators.Entries, Flags: c.Operators.Flags, Record: c.Record,
	}
	for _, f := range c.Operators.Files {
		blob, err := s.keepBlob(f.Data)
		if err != nil {
			return nil, "", err
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
			return nil, "", err
		}
		line.Args = append(line.Args, l)
	}
	var left []byte // out of the line: what JSON cannot hold is the candidate's failure
	for i := range line.Args {
		if a := &line.Args[i]; !isTolerance(a.RelTol) || !isTolerance(a.AbsTol) {
			left = fmt.Append(left, i, a.RelTol, a.AbsTol)
			a.RelTol, a.AbsTol = 0, 0
		}
	}
	if line.Record != nil && !json.Valid(line.Record) {
		left = append(left, line.Record...)
		line.Record = nil
	}
	if text, err = json.Marshal(line); err != nil {
		return nil, "", fmt.Errorf("candidate %s: %w", c.ID, err)
	}
	sum := sha256.Sum256(slices.Concat(text, []byte("\x00"), left, []byte("\x00"), []byte(made)))
	line.ID, line.Content = c.ID, hex.EncodeToString(sum[:16])
	if text, err = json.Marshal(line); err != nil {
		return nil, "", fmt.Errorf("candidate %s: %w", c.ID, err)
	}
	return append(text, '\n'), line.Content, nil
}

// keepCandidate writes a candidate's line, unless it is there. Of several with one ID the last counts.
func (s *store) keepCandidate(id, content string, text []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sources == nil {
		return nil // the run was closed
	}
	if at, there := s.candidates[id]; there {
		was := make([]byte, len(text))
		if _, err := s.sources.ReadAt(was, at); err == nil && bytes.Equal(was, text) {
			return nil
		}
	}
	at, err := s.sources.Seek(0, io.SeekEnd)
	if err == nil {
		_, err = s.sources.Write(text)
	}
	if err != nil {
		return errors.Join(err, s.sources.Truncate(at))
	}
	s.candidates[id], s.contents[content] = at, at
	return nil
}

func blobPath(dir, name string) string { return filepath.Join(dir, blobsFolder, name[:2], name[2:]) }

// keepBlob writes bytes under their digest, whole or not at all.
func (s *store) keepBlob(data []byte) (string, error) {
	sum := sha256.Sum256(data)
	s.mu.Lock()
	name, known := s.blobs[sum]
	s.mu.Unlock()
	if known {
		return name, nil
	}
	name = hex.EncodeToString(sum[:])
	path := blobPath(s.dir, name)
	if was, err := os.ReadFile(path); err != nil || !bytes.Equal(was, data) {
		if err := writeWhole(path, data, 0o644); err != nil {
			return "", err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.blobs) < knownBlobs {
		s.blobs[sum] = name
	}
	return name, nil
}

// writeWhole writes a file whole or not at all. After a loss of power it may be empty, as what it is read for notices.
func writeWhole(path string, data []byte, mode os.FileMode) error {
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

const knownBlobs = 4096 // whose presence is remembered

// openSources reads where the lines of candidates.jsonl begin. A last line that was cut off is taken away.
func (s *store) openSources() (err error) {
	s.sources, err = os.OpenFile(filepath.Join(s.dir, candidatesFile), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	r, at := bufio.NewReader(s.sources), int64(0)
	for {
		line, err := r.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return s.sources.Truncate(at)
		}
		var is struct {
			ID      string `json:"id"`
			Content string `json:"content"`
		}
		if err == nil {
			err = json.Unmarshal(line, &is)
		}
		if err != nil {
			return failure.New(failure.Config, "choose another folder, or repair the file", "%s at byte %d: no candidate: %w",
				s.sources.Name(), at, err)
		}
		s.candidates[is.ID], s.contents[is.Content] = at, at
		at += int64(len(line))
	}
}

// candidate reads the candidate of a result.
func (s *store) candidate(of Result) (Candidate, error) {
	s.mu.Lock()
	at, there := s.contents[of.Content]
	s.mu.Unlock()
	if !there {
		return Candidate{}, failure.New(failure.Config, "choose another folder", "%s: %s is no candidate", s.dir, of.ID)
	}
	f, err := os.Open(filepath.Join(s.dir, candidatesFile))
	if err != nil {
		return Candidate{}, err
	}
	defer f.Close() // it was only read
	line, err := bufio.NewReader(io.NewSectionReader(f, at, 1<<40)).ReadBytes('\n')
	if err != nil {
		return Candidate{}, err
	}
	l, err := parseLine(line)
	l.ID = of.ID
	return readParts(s.dir, l, err)
}

// ReadCandidate returns a candidate that a run measured, from its folder, with the kind of board that it was for; of
// several with one ID the last. The folder may be in use by a run. Its error is of class config if the folder holds no
// such candidate, and for files that no run writes.
func ReadCandidate(dir, id string) (Candidate, error) {
	return readCandidate(dir, id, func(l *candidateLine) bool { return l.ID == id })
}

// readCandidate returns the last candidate that is the one.
func readCandidate(dir, name string, is func(*candidateLine) bool) (Candidate, error) {
	f, err := os.Open(filepath.Join(dir, candidatesFile))
	if errors.Is(err, fs.ErrNotExist) {
		return Candidate{}, failure.New(failure.Config, "choose the folder of a run", "%s: no run: %w", dir, err)
	}
	if err != nil {
		return Candidate{}, err
	}
	defer f.Close() // it was only read
	var last *candidateLine
	for r := bufio.NewReader(f); ; {
		line, err := r.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return Candidate{}, err
		}
		c, err := parseLine(line)
		if err != nil {
			return readParts(dir, c, err)
		}
		if is(&c) {
			last = &c
		}
	}
	if last == nil {
		return Candidate{}, failure.Errorf(failure.Config, "%s: no candidate %s", dir, name)
	}
	return readParts(dir, *last, nil)
}

func parseLine(line []byte) (l candidateLine, err error) {
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	return l, d.Decode(&l)
}

// readParts reads what a line refers to.
func readParts(dir string, l candidateLine, err error) (Candidate, error) {
	if err != nil {
		return Candidate{}, failure.Errorf(failure.Config, "%s: no candidate: %w", filepath.Join(dir, candidatesFile), err)
	}
	c := Candidate{
		ID: l.ID, Kind: l.Kind, Entry: l.Entry, Record: l.Record,
		Operators: project.Operators{Entries: l.Entries, Flags: l.Flags},
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
		return nil, err
	}
	if is := sha256.Sum256(data); !bytes.Equal(is[:], sum) {
		return nil, failure.Errorf(failure.Config, "%s was changed: it is %x", blobPath(dir, name), is)
	}
	if data == nil {
		data = []byte{}
	}
	return data, nil
}
