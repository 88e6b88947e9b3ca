// Package scaffold makes the files of a new board or template from those of another one, so that they pass their checks
// at once.
//
// It checks neither: see board:check and template:check.
package scaffold

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/otiai10/copy"

	"github.com/boardsmith/boardsmith/boards"
	ownfirmware "github.com/boardsmith/boardsmith/examples/own-firmware"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/boardfile"
	"github.com/boardsmith/boardsmith/templates"
)

var (
	nameRE = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]*$`)
	docRE  = regexp.MustCompile(`(?s)^(\s*\{\s*)("doc":\s*"(?:[^"\\]|\\.)*",?\s*)?`)
)

// Board writes folder/boards/NAME.json from the file of another board, with the files beside it that it names, and
// returns the files, the board file first. path is the search path, as in Find. It changes no file that is there.
func Board(folder, name, from string, path []string) ([]string, error) {
	if !nameRE.MatchString(name) || filepath.Ext(name) == ".json" {
		return nil, failure.Errorf(failure.Config, "%q is not the name of a board: letters, digits, _ . and -", name)
	}

	if slices.Contains(boards.List(append([]string{folder}, path...)), name) {
		return nil, failure.New(failure.Config, "choose another name", "there is a board %s already", name)
	}

	other, err := boards.Find(from, path)
	if err != nil {
		return nil, err
	}

	text, err := other.OwnFile()
	if err != nil {
		return nil, err
	}

	doc, err := json.Marshal(name + ", from " + other.Name)
	if err != nil {
		return nil, fmt.Errorf("scaffold: %w", err)
	}

	// The text is edited, not encoded again, so that its layout and the order of its fields stay.
	start := docRE.FindSubmatchIndex(text) // a board file that loads is an object
	text = slices.Concat(text[:start[3]], []byte(`"doc": `), doc, []byte(",\n  "), text[start[1]:])

	files := map[string]file{name + ".json": {text, 0o644}}
	order := []string{name + ".json"}

	if other.Dir == "" { // its sources are the template's
		return write(filepath.Join(folder, "boards"), order, files)
	}

	names, err := beside(text, other.Dir)
	if err != nil {
		return nil, failure.Errorf(failure.Config, "board %s: %w", from, err)
	}
	for _, name := range names {
		data, mode, err := boardfile.ReadBeside(other.Dir, name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue // of the template
		case err != nil:
			return nil, failure.Errorf(failure.Config, "board %s: %w", from, err)
		}
		files[name] = file{data, mode}
		order = append(order, name)
	}

	return write(filepath.Join(folder, "boards"), order, files)
}

// beside lists the files that a board file names in its folder, and sources of the template, each once.
func beside(text []byte, dir string) (names []string, err error) {
	var b boards.Board
	if err := json.Unmarshal(text, &b); err != nil {
		return nil, err
	}

	add := func(more ...string) {
		for _, name := range more {
			if name != "" && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}

	for _, s := range b.Sources {
		add(s.Name)
	}
	add(b.LinkerScript.Name, b.Startup.Name)
	add(boardfile.FilesIn(slices.Concat(b.PostLink.Words, b.Link.Args))...)

	walk := func(folder string, wanted func(string) bool) error {
		files, err := boardfile.FilesBeside(dir, folder, wanted)
		add(files...)
		return err
	}

	var errs []error
	for _, f := range b.Include {
		errs = append(errs, walk(f.Name, boardfile.IsHeader))
	}
	for _, l := range b.Libraries {
		if boardfile.IsPath(l.Name) {
			errs = append(errs, walk(l.Name, func(string) bool { return true }))
		}
	}

	return names, errors.Join(errs...)
}

// A file is to be written.
type file struct {
	data []byte
	mode fs.FileMode
}

// write writes files that are not there.
func write(dir string, order []string, files map[string]file) (written []string, err error) {
	for _, name := range order {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return written, failure.Errorf(failure.Config, "%w", err)
		}

		old, err := os.ReadFile(path)
		switch {
		case err == nil && bytes.Equal(old, files[name].data):
			continue // the source of a board in the same folder
		case err == nil:

			return written, failure.New(failure.Config, "choose another folder", "%s is there already", path)
		}

		if err := os.WriteFile(path, files[name].data, files[name].mode); err != nil {
			return written, failure.Errorf(failure.Config, "%w", err)
		}
		written = append(written, path)
	}
	return written, nil
}

// An origin is what a new template is made from.
type origin struct {
	files   fs.FS
	folders []string // in files; a later one's files replace those before
	without string   // a file that the template does not get
	board   string   // an emulated board that builds with it: a shipped one's name, or a file in files
}

var origins = map[string]origin{
	"baremetal": {files: templates.FS, folders: []string{"baremetal"}, board: "mps2_an385"},
	"minimal":   {files: ownfirmware.FS, folders: []string{"firmware"}, board: "boards/own_mps2_an386.json"},
	"minimal-cmake": {
		files: ownfirmware.FS, folders: []string{"firmware", "cmake"}, without: "Makefile",
		board: "boards/own_mps2_an386.json",
	},
}

// Template makes a folder for the search path, which must be empty or absent: templates/NAME, with the folder's name,
// is a copy of a shipped template or example, and boards/NAME_BOARD.json an emulated board that builds with it. It
// returns the names of both.
func Template(folder, from string) (template, board string, err error) {
	of, ok := origins[from]
	if !ok {
		names := strings.Join(slices.Sorted(maps.Keys(origins)), ", ")
		return "", "", failure.New(failure.Config, "choose one of: "+names, "no template %q can be copied", from)
	}

	template = filepath.Base(filepath.Clean(folder))
	if !nameRE.MatchString(template) || filepath.Ext(template) == ".json" {
		return "", "", failure.New(failure.Config, "give the folder another name, which is the template's",
			"%q is not the name of a template: letters, digits, _ . and -", template)
	}

	if entries, err := os.ReadDir(folder); err == nil && len(entries) > 0 {
		return "", "", failure.New(failure.Config, "choose another folder", "%s is not empty", folder)
	}

	for _, part := range of.folders {
		err := copy.Copy(part, filepath.Join(folder, "templates", template), copy.Options{
			FS: of.files, PermissionControl: copy.AddPermission(0o644),
			Skip: func(_ fs.FileInfo, name, _ string) (bool, error) { return filepath.Base(name) == of.without, nil },
		})
		if err != nil {
			return "", "", failure.Errorf(failure.Config, "template %s: %w", folder, err)
		}
	}

	board, err = of.emulator(folder, template)
	return template, board, err
}

// emulator writes the file of an emulated board that builds with a template, and returns the board's name.
func (of origin) emulator(folder, template string) (board string, err error) {
	if filepath.Ext(of.board) == "" {
		board = template + "_" + of.board
		files, err := Board(folder, board, of.board, nil)
		if err != nil {
			return "", err
		}
		return board, buildWith(files[0], template)
	}

	text, err := fs.ReadFile(of.files, of.board)
	if err != nil {
		return "", fmt.Errorf("scaffold: %w", err)
	}

	board = template + "_" + strings.TrimPrefix(strings.TrimSuffix(filepath.Base(of.board), ".json"), "own_")
	text = bytes.ReplaceAll(text, []byte(`["firmware"]`), fmt.Appendf(nil, "[%q]", template))

	name := board + ".json"
	_, err = write(filepath.Join(folder, "boards"), []string{name}, map[string]file{name: {text, 0o644}})
	return board, err
}

// buildWith adds a template to a board file that has none.
func buildWith(file, template string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("scaffold: %w", err)
	}

	end := docRE.FindIndex(text)[1]
	text = slices.Concat(text[:end], fmt.Appendf(nil, "\"templates\": [%q],\n  ", template), text[end:])

	if err := os.WriteFile(file, text, 0o644); err != nil {
		return failure.Errorf(failure.Config, "%w", err)
	}
	return nil
}
