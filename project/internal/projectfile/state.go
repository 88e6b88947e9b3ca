// Package projectfile reads and writes project.json, which records what a project was generated from, and what builds
// and flashes found.
package projectfile

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/moby/sys/atomicwriter"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/files/regularfile"
	"github.com/boardsmith/boardsmith/project/internal/buildenv"
	"github.com/boardsmith/boardsmith/project/internal/templatefile"
)

const (
	Format   = 1        // of project.json
	MaxBytes = 16 << 20 // bytes; a project of 10,000 files needs 2 MB
)

// A State is project.json. It contains no absolute path, date or user name, so that equal inputs give equal
// bytes, except for the times in Flashes, which only flashing adds, the compiler in Built, which only the build finds,
// and paths in fields From. These are relative to the folder, and thus may contain any folder's name if they lead far
// from it; only one on another drive of Windows is absolute. Files are named by slash paths in the folder, digests are
// SHA-256 in hexadecimal.
type State struct {
	Format    int            `json:"format"`
	Board     Board          `json:"board"`
	Template  Template       `json:"template"`
	Model     Model          `json:"model"`
	Options   boards.Options `json:"options"` // the user's choices
	Libraries []Library      `json:"libraries,omitempty"`
	Inputs    string         `json:"inputs"` // digest of all inputs of Generate, with its version
	// Built is Board with what the last build found out; nil if the template's build command writes no board file, or
	// did not run since Generate.
	Built  *Board              `json:"built,omitempty"`
	Tools  []buildenv.Identity `json:"tools,omitempty"`
	Edited []string            `json:"edited,omitempty"` // generated files that the user had changed at the last build
	Files  map[string]string   `json:"files"`            // files that Generate wrote: name to digest
	// Pending is set while Generate writes: the future Files. A file with its digest in either is unchanged by the
	// user.
	Pending map[string]string `json:"pending,omitempty"`
	Flashes []Flash           `json:"flashes,omitempty"` // the last ones, oldest first
}

// A Board is the merged board, so that later steps need no board files.
type Board struct {
	Name         string          `json:"name"`
	From         string          `json:"from,omitempty"` // path of the board file; "": the board was chosen by its name
	Own          json.RawMessage `json:"own,omitempty"`
	boards.Board                 // a different Name and Own, which are not written
}

// A Template is the template, complete, with where it comes from.
type Template struct {
	Name   string  `json:"name"`
	From   string  `json:"from,omitempty"`   // path, or place in a git repository; "": it was chosen by its name
	Origin *Origin `json:"origin,omitempty"` // nil if git does not know the template
	templatefile.Description
}

// A Model is the model that the project holds.
type Model struct {
	Name      string `json:"name"`       // the archive's file name
	ModelName string `json:"model_name"` // the model in it
	Digest    string `json:"digest"`     // of the uncompressed tar, which is model.tar
}

// Read reads the project.json of a folder. Errors have class config.
func Read(dir string) (*State, error) {
	path := filepath.Join(dir, templatefile.StateFile)
	f, err := regularfile.Open(path)
	if err != nil {
		return nil, NotAProject(dir, err)
	}
	defer f.Close()
	// One byte more than the limit shows that a file is larger.
	data, err := io.ReadAll(io.LimitReader(f, MaxBytes+1))
	if err != nil {
		return nil, regularfile.Error("read", path, err)
	}

	s, err := Parse(data)
	if errors.Is(err, errOtherFormat) {
		return nil, failure.New(failure.Config, "use the version of boardsmith that generated it, or choose another folder",
			"%s: %w", path, err)
	}
	if err != nil {
		return nil, failure.New(failure.Config, "restore "+templatefile.StateFile+", or choose another folder",
			"%s: %w", path, err)
	}
	return s, nil
}

var errOtherFormat = fmt.Errorf("its format is not %d, the one that this version reads", Format)

// Parse parses a project.json. It returns an error for content that Generate does not write.
func Parse(data []byte) (*State, error) {
	if len(data) > MaxBytes {
		return nil, errors.New("larger than any project's")
	}

	// The format comes first: another one may have other fields.
	var head struct{ Format int }
	if err := json.Unmarshal(data, &head); err != nil {
		return nil, err
	}
	switch {
	case head.Format < 1:
		return nil, errors.New("it has no format")
	case head.Format != Format:
		return nil, errOtherFormat
	}

	var s State
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
func (b *Board) isUsable() bool {
	return b.Name != "" && (b.Partial || b.Toolchain.CC != "" && b.Toolchain.AR != "")
}

func (s *State) check() error {
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
func (s *State) checkFiles() error {
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

// Bytes returns the file's text.
func (s *State) Bytes() ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	// A shell's && stays as it was written.
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")

	if err := enc.Encode(s); err != nil {
		return nil, fmt.Errorf("%s: %w", templatefile.StateFile, err)
	}
	return b.Bytes(), nil
}

// Write replaces project.json atomically.
func (s *State) Write(dir string) error {
	data, err := s.Bytes()
	if err != nil {
		return err
	}

	path := filepath.Join(dir, templatefile.StateFile)
	if err := atomicwriter.WriteFile(path, data, 0o644); err != nil {
		return regularfile.Error("write", path, err)
	}
	return nil
}

// An Origin is the state of a template in a git repository, or in a folder that is git's work tree.
type Origin struct {
	URL     string `json:"url,omitempty"`     // its place in the repository; "" for a folder of this computer
	Commit  string `json:"commit"`            // 40 digits
	Changed string `json:"changed,omitempty"` // digest of tracked files that differ from the commit; "": none
}

// A Library is a library in project.json.
type Library struct {
	Name    string `json:"name"`
	Licence string `json:"licence"`
	From    string `json:"from,omitempty"`    // as of a template
	URL     string `json:"url,omitempty"`     // its place in a git repository
	Commit  string `json:"commit,omitempty"`  // of that repository, or of the one that a folder is the top of, or a submodule
	Changed string `json:"changed,omitempty"` // digest of what differs from the commit
	Board   bool   `json:"board,omitempty"`   // named by the board file
}

// A Flash is one flash of the project's firmware.
type Flash struct {
	Time       time.Time     `json:"time"`
	Device     string        `json:"device"` // as in FlashReport
	Programmer string        `json:"programmer"`
	Image      string        `json:"image"` // SHA-256 of the ELF file
	BuildID    string        `json:"build_id"`
	Reason     string        `json:"reason"`
	Bytes      int64         `json:"bytes"`           // written
	Sectors    int           `json:"sectors"`         // erased
	Class      failure.Class `json:"class,omitempty"` // class of its failure; "" means that it was verified and answered
}

// Idle reports whether a flash had nothing to write.
func (f Flash) Idle() bool { return f.Sectors == 0 && f.Class == "" }

// Same reports whether two flashes are of one image to one device.
func (f Flash) Same(g Flash) bool { return f.Device == g.Device && f.Image == g.Image }

// NotAProject returns the error of a folder whose project.json cannot be read.
func NotAProject(dir string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return failure.New(failure.Config, "generate it first", "%s is not a project: it has no %s", dir,
			templatefile.StateFile)
	}
	return regularfile.Error("project", dir, err)
}

// Names lists all files that are, or may be, of this state, sorted.
func (s *State) Names() []string {
	var all []string
	for name := range s.Files {
		all = append(all, name)
	}
	for name := range s.Pending {
		all = append(all, name)
	}
	sort.Strings(all)
	return slices.Compact(all)
}
