// This file is the format of project.json: what a project was made of, for later steps and for people.

package project

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"reflect"
	"strings"

	"github.com/moby/sys/atomicwriter"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/plainfile"
)

const (
	stateFile   = "project.json"
	stateFormat = 1
	modelTar    = "model.tar"
	// writingPrefix begins the names under which project.json is written before it takes its name.
	writingPrefix = ".tmp-" + stateFile
	maxStateSize  = 16 << 20 // bytes; one of 10,000 files has 2 MB
)

// state is project.json, format 1. No absolute path, date or user's name is in it, so that the same inputs give the
// same bytes; the times of Flashes, which only flashing adds, are the one exception. Files are named by slash paths in the folder, digests are SHA-256 in hexadecimal.
type state struct {
	Format   int               `json:"format"`
	Board    boardState        `json:"board"`
	Template templateState     `json:"template"`
	Model    modelState        `json:"model"`
	Options  boards.Options    `json:"options"` // as the user chose them
	Inputs   string            `json:"inputs"`  // digest of all that Generate was given, its own version included
	Tools    []toolState       `json:"tools,omitempty"`
	Edited   []string          `json:"edited,omitempty"` // generated files that a person had changed at the last build
	Files    map[string]string `json:"files"`            // what Generate wrote: name to digest
	// Pending is there while Generate writes: what Files is to become. A file is unchanged by people if it has its
	// digest of either.
	Pending map[string]string `json:"pending,omitempty"`
	Flashes []FlashRecord     `json:"flashes,omitempty"` // the last ones, oldest first
}

// boardState is the merged board, so that later steps need no board file.
type boardState struct {
	Name         string `json:"name"`
	boards.Board        // a different Name, which is not written
}

type templateState struct {
	Name string `json:"name"`
	blueprint
}

type modelState struct {
	Name      string `json:"name"`   // the archive's file name
	ModelName string `json:"module"` // the model in it
	Digest    string `json:"digest"` // of the uncompressed tar, which is model.tar
}

// toolState is what a tool said of itself at the last build.
type toolState struct {
	Name    string `json:"name"`
	Version string `json:"version"` // the first line of --version
	Target  string `json:"target,omitempty"`
}

func readState(dir string) (*state, error) {
	path := filepath.Join(dir, stateFile)
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
	if err != nil {
		return nil, failure.New(failure.Config, "restore "+stateFile+", or remove the folder and generate again: another version of boardsmith may have made it", "%s: %w", path, err)
	}
	return s, nil
}

// parseState reads a project.json and refuses whatever Generate would not have written.
func parseState(data []byte) (*state, error) {
	if len(data) > maxStateSize {
		return nil, errors.New("larger than any project's")
	}
	var head struct{ Format *int }
	if err := json.Unmarshal(data, &head); err != nil {
		return nil, err
	}
	if head.Format == nil || *head.Format != stateFormat {
		return nil, fmt.Errorf("not of format %d, the one this version reads", stateFormat)
	}
	var s state
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&s); err != nil {
		return nil, err
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, errors.New("something follows its closing brace")
	}
	s.Board.Board.Name = s.Board.Name
	return &s, s.check()
}

func (s *state) check() error {
	if s.Board.Name == "" || s.Board.Toolchain.CC == "" || s.Board.Toolchain.AR == "" {
		return errors.New("names no board, compiler or archiver")
	}
	if err := s.Template.check(); err != nil {
		return fmt.Errorf("template: %w", err)
	}
	for _, m := range []map[string]string{s.Files, s.Pending} {
		for name, digest := range m {
			if !filepath.IsLocal(filepath.FromSlash(name)) || strings.Contains(name, `\`) {
				return fmt.Errorf("file %q is not a path in the project", name)
			}
			if sum, err := hex.DecodeString(digest); err != nil || len(sum) != 32 {
				return fmt.Errorf("file %q: %q is not a SHA-256", name, digest)
			}
		}
	}
	if s.Files == nil {
		return errors.New("lists no files")
	}
	return nil
}

func (s *state) bytes() ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(s); err != nil {
		return nil, fmt.Errorf("%s: %w", stateFile, err)
	}
	return b.Bytes(), nil
}

// write replaces project.json in one step.
func (s *state) write(dir string) error {
	data, err := s.bytes()
	if err != nil {
		return err
	}
	path := filepath.Join(dir, stateFile)
	if err := atomicwriter.WriteFile(path, data, 0o644); err != nil {
		return plainfile.Error("write", path, err)
	}
	return nil
}

// noteBuild records what a build found, and writes project.json if that is new.
func (p *Project) noteBuild(tools []toolState, edited []string) error {
	s := p.state
	s.Tools, s.Edited = tools, edited
	if reflect.DeepEqual(s, p.state) {
		return nil
	}
	if err := s.write(p.dir); err != nil {
		return err
	}
	p.state = s
	return nil
}
