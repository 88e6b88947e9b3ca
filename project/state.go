// This file defines project.json, which records what a project was generated from.

package project

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"reflect"
	"strings"

	"github.com/boardsmith/boardsmith/internal/blueprint"

	"github.com/moby/sys/atomicwriter"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/files/plainfile"
)

const (
	stateFormat  = 1
	maxStateSize = 16 << 20 // bytes; a project of 10,000 files needs 2 MB
)

// state is project.json. It contains no absolute path, date or user name, so that equal inputs give equal
// bytes, except for the times in Flashes, which only flashing adds, and the compiler in Built, which only the build
// finds. Files are named by slash paths in the folder, digests are SHA-256 in hexadecimal.
type state struct {
	Format    int            `json:"format"`
	Board     boardState     `json:"board"`
	Template  templateState  `json:"template"`
	Model     modelState     `json:"model"`
	Options   boards.Options `json:"options"` // the user's choices
	Libraries []libraryState `json:"libraries,omitempty"`
	Inputs    string         `json:"inputs"` // digest of all inputs of Generate, with its version
	// Built is Board with what the last build found out; nil if the template's build command writes no board file, or
	// did not run since Generate.
	Built  *boardState       `json:"built,omitempty"`
	Tools  []toolState       `json:"tools,omitempty"`
	Edited []string          `json:"edited,omitempty"` // generated files that the user had changed at the last build
	Files  map[string]string `json:"files"`            // files that Generate wrote: name to digest
	// Pending is set while Generate writes: the future Files. A file with its digest in either is unchanged by the
	// user.
	Pending map[string]string `json:"pending,omitempty"`
	Flashes []FlashRecord     `json:"flashes,omitempty"` // the last ones, oldest first
}

// boardState is the merged board, so that later steps need no board files.
type boardState struct {
	Name         string          `json:"name"`
	Own          json.RawMessage `json:"own,omitempty"`
	boards.Board                 // a different Name and Own, which are not written
}

type templateState struct {
	Name   string          `json:"name"`
	Origin *templateOrigin `json:"origin,omitempty"` // nil if git does not know the template
	blueprint.Blueprint
}

type modelState struct {
	Name      string `json:"name"`       // the archive's file name
	ModelName string `json:"model_name"` // the model in it
	Digest    string `json:"digest"`     // of the uncompressed tar, which is model.tar
}

// toolState is a tool's identification at the last build.
type toolState struct {
	Name    string `json:"name"`
	Version string `json:"version"` // the first line of --version
	Target  string `json:"target,omitempty"`
	SHA256  string `json:"sha256,omitempty"` // of a compiler's file
}

// readState reads the project.json of a folder. Errors have class config.
func readState(dir string) (*state, error) {
	path := filepath.Join(dir, blueprint.StateFile)
	f, err := plainfile.Open(path)
	if err != nil {
		return nil, notAProject(dir, err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxStateSize+1))
	if err != nil {
		return nil, plainfile.Error("read", path, err)
	}
	s, err := parseState(data)
	if errors.Is(err, errOtherFormat) {
		return nil, failure.New(failure.Config, "use the version of boardsmith that generated it, or choose another folder",
			"%s: %w", path, err)
	}
	if err != nil {
		return nil, failure.New(failure.Config, "restore "+blueprint.StateFile+", or choose another folder", "%s: %w", path,
			err)
	}
	return s, nil
}

var errOtherFormat = fmt.Errorf("its format is not %d, the one that this version reads", stateFormat)

// parseState parses a project.json. It returns an error for content that Generate does not write.
func parseState(data []byte) (*state, error) {
	if len(data) > maxStateSize {
		return nil, errors.New("larger than any project's")
	}
	var head struct{ Format int }
	if err := json.Unmarshal(data, &head); err != nil {
		return nil, err
	}
	switch {
	case head.Format < 1:
		return nil, errors.New("it has no format")
	case head.Format != stateFormat:
		return nil, errOtherFormat
	}
	var s state
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&s); err != nil {
		return nil, err
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, errors.New("text after the closing brace")
	}
	s.Board.Board.Name, s.Board.Board.Own = s.Board.Name, s.Board.Own
	if s.Built != nil {
		s.Built.Board.Name = s.Built.Name
	}
	return &s, s.check()
}

// isUsable reports whether the board has a name and, unless its build finds it, a compiler.
func (b *boardState) isUsable() bool {
	return b.Name != "" && (b.Partial || b.Toolchain.CC != "" && b.Toolchain.AR != "")
}

func (s *state) check() error {
	if !s.Board.isUsable() {
		return errors.New("no board, compiler or archiver")
	}
	if s.Built != nil && (!s.Built.isUsable() || s.Built.Partial || s.Built.Name != s.Board.Name) {
		return errors.New("built is not the board, completed")
	}
	if err := cmp.Or(s.Template.Check(), s.Template.Completes(&s.Board.Board)); err != nil {
		return fmt.Errorf("template %s: %w", s.Template.Name, err)
	}
	return s.checkFiles()
}

// checkFiles returns an error for generated files outside the project, which Clean would remove, or inside the
// build folder, which is emptied.
func (s *state) checkFiles() error {
	if s.Files == nil {
		return errors.New("no files")
	}
	built := s.Template.BuildFolder() + "/"
	for _, m := range []map[string]string{s.Files, s.Pending} {
		for name, digest := range m {
			if !filepath.IsLocal(filepath.FromSlash(name)) || strings.Contains(name, `\`) {
				return fmt.Errorf("file %q is not a path in the project", name)
			}
			if strings.HasPrefix(name, built) {
				return fmt.Errorf("file %q is in the build folder", name)
			}
			if sum, err := hex.DecodeString(digest); err != nil || len(sum) != 32 {
				return fmt.Errorf("file %q: %q is not a SHA-256", name, digest)
			}
		}
	}
	return nil
}

func (s *state) bytes() ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(s); err != nil {
		return nil, fmt.Errorf("%s: %w", blueprint.StateFile, err)
	}
	return b.Bytes(), nil
}

// write replaces project.json atomically.
func (s *state) write(dir string) error {
	data, err := s.bytes()
	if err != nil {
		return err
	}
	path := filepath.Join(dir, blueprint.StateFile)
	if err := atomicwriter.WriteFile(path, data, 0o644); err != nil {
		return plainfile.Error("write", path, err)
	}
	return nil
}

// update changes project.json after reading it again, because others that have the folder open may have changed it.
func (p *Project) update(change func(*state)) error {
	if err := p.lock.takeTurn(context.Background()); err != nil { // record what was done, also after a cancel
		return err
	}
	defer p.lock.endTurn()
	s, err := readState(p.dir)
	if err != nil {
		return err
	}
	change(s)
	if err := s.write(p.dir); err != nil {
		return err
	}
	p.state = *s
	return nil
}

// noteBuild records a build's findings if they are new.
func (p *Project) noteBuild(b *buildRecord) error {
	board := p.found
	p.found = nil
	if reflect.DeepEqual(b.Tools, p.state.Tools) && reflect.DeepEqual(b.Edited, p.state.Edited) &&
		reflect.DeepEqual(board, p.state.Built) {
		return nil
	}
	return p.update(func(s *state) { s.Tools, s.Edited, s.Built = b.Tools, b.Edited, board })
}

// An UnfinishedError reports a project folder that must be generated again, because Generate was interrupted. Generate
// and Clean accept it. The folder's model.tar is the archive if it has ArchiveDigest.
type UnfinishedError struct {
	Dir string

	// what was being generated, as in Spec
	Board, Template, ModelName string
	Options                    boards.Options
	Libraries                  []string
	Archive                    string // the archive's file name
	ArchiveDigest              string // SHA-256 of the archive's uncompressed tar, in hexadecimal
}

func (s *state) unfinished(dir string) *UnfinishedError {
	return &UnfinishedError{
		Dir: dir, Board: s.Board.Name, Template: s.Template.from(), ModelName: s.Model.ModelName, Options: s.Options,
		Libraries: (&Project{state: *s}).Libraries(), Archive: s.Model.Name, ArchiveDigest: s.Model.Digest,
	}
}

func (e *UnfinishedError) Error() string {
	return fmt.Sprintf("project %s: generating it was interrupted", e.Dir)
}

// FailureClass returns failure.Config.
func (e *UnfinishedError) FailureClass() failure.Class { return failure.Config }

// NextStep returns how to go on.
func (e *UnfinishedError) NextStep() string {
	return fmt.Sprintf("generate it again, for board %s from %s", printable(e.Board), printable(e.Archive))
}

func notAProject(dir string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return failure.New(failure.Config, "generate it first", "%s is not a project: it has no %s", dir, blueprint.StateFile)
	}
	return plainfile.Error("project", dir, err)
}
