// This file describes candidates in a run's folder, so that each can be measured again: under blobs is the content of
// their files and arguments, each content once.

package tune

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/ndarray"
	"github.com/boardsmith/boardsmith/project"
)

const blobsFolder = "blobs"

// A candidateLine describes a candidate in results.jsonl.
type candidateLine struct {
	Entry   string     `json:"entry"`
	Entries []string   `json:"entries,omitempty"`
	Flags   []string   `json:"flags,omitempty"`
	ABI     mlf.ABI    `json:"abi,omitempty"` // "": packed
	Files   []fileLine `json:"files"`
	Args    []argLine  `json:"args"`
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
	if data == nil {
		data = []byte{}
	}
	return data, nil
}
