// Package library reads libraries: folders with a library.json and the C or C++ that a firmware is linked with. It
// finds out what a library's sources and its archive define.
//
// It does not compile, and does not know where libraries come from.
package library

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/files/jsonfile"
)

// File is the name of the file that describes a library.
const File = "library.json"

// A Library is library.json and the files that it names. Paths are slash paths in its folder.
type Library struct {
	Doc string `json:"doc"` // one line of description
	// folders in which `#include` searches: that of the library's own sources, of other libraries, of the board's
	// sources and of the model
	Headers []string `json:"headers" is:"word"`
	// `.c`, `.cpp` and `.S` files, and patterns of them; `!` before a pattern removes what it matches of those
	// before it
	Sources []string `json:"sources"`
	// the compiler's flags for these, after the board's, `-O2` and `-std=gnu11` or `-std=gnu++17`
	Flags []string `json:"flags" is:"word"`
	// the cores that the library is for: patterns of their names, as in `inherits` of a chip or board
	// (`cpu/cortex-m4f`), with `cpu/` or without. Default: any
	Cores   []string `json:"cores" is:"pattern"`
	Licence string   `json:"licence" is:"required"` // its licence, an SPDX expression; `project.json` lists it

	Name     string   `json:"-"`
	Dir      string   `json:"-"` // absolute, or relative to this process's folder
	Files    fs.FS    `json:"-"` // rooted in its folder
	Resolved []string `json:"-"` // the sources, sorted
}

// nameRE matches names of libraries: they are parts of make's variables.
var nameRE = regexp.MustCompile(`^[A-Za-z]\w*$`)

// Read reads the library in a folder. Errors are of class config.
func Read(dir, name string) (*Library, error) {
	file := filepath.Join(dir, File)
	l := &Library{Name: name, Dir: dir, Files: os.DirFS(dir)}
	data, err := jsonfile.Read(l.Files, File)
	if err != nil {
		return nil, failure.New(failure.Config, "name the folder with "+File+"; compiled code belongs to objects of the "+
			"model that needs it (docs/c-models.md)", "library %s: %s: %w", name, file, err)
	}

	if _, err := jsonfile.Decode(file, data, l); err != nil {
		return nil, err
	}

	if !nameRE.MatchString(name) {
		return nil, failure.New(failure.Config, "rename the folder, or give it another name in boardsmith.json",
			"library %s: a library's name consists of letters, digits and underscores", name)
	}

	if err := l.find(); err != nil {
		return nil, failure.New(failure.Config, "correct "+file, "library %s: %w", name, err)
	}

	return l, nil
}

// find looks for the folders of headers and for the sources.
func (l *Library) find() error {
	for _, dir := range l.Headers {
		if info, err := fs.Stat(l.Files, path.Clean(dir)); err != nil || !info.IsDir() {
			return fmt.Errorf("headers: there is no folder %q", dir)
		}
	}

	for _, pattern := range l.Sources {
		pattern, without := strings.CutPrefix(pattern, "!")
		names, err := fs.Glob(l.Files, pattern)
		if err != nil || len(names) == 0 && !without { // a project's copy lacks what is left out
			return fmt.Errorf("sources: nothing matches %q", pattern)
		}

		if without {
			l.Resolved = slices.DeleteFunc(l.Resolved, func(name string) bool { return slices.Contains(names, name) })
			continue
		}

		for _, name := range names {
			if err := jsonfile.CheckValue(name, "word .c|.cpp|.S"); err != nil {
				return fmt.Errorf("sources: %w", err)
			}
		}

		l.Resolved = append(l.Resolved, names...)
	}

	slices.Sort(l.Resolved)
	l.Resolved = slices.Compact(l.Resolved)
	return nil
}

// RunsOn returns an error if the library is for other cores.
func (l *Library) RunsOn(core string) error {
	if len(l.Cores) == 0 || slices.ContainsFunc(l.Cores, func(pattern string) bool {
		ok, _ := path.Match(strings.TrimPrefix(pattern, "cpu/"), core) // Read has validated the pattern
		return ok
	}) {
		return nil
	}

	return failure.New(failure.Config, "leave it out for this board", "library %s is for the cores %s, not for %s", l.Name,
		strings.Join(l.Cores, ", "), core)
}

// HasHeader reports whether sources of others find a header in the library.
func (l *Library) HasHeader(name string) bool {
	return slices.ContainsFunc(l.Headers, func(dir string) bool {
		info, err := fs.Stat(l.Files, path.Join(dir, name))
		return err == nil && info.Mode().IsRegular()
	})
}

// workspace is the runtime's function by which operators allocate from the arena.
const workspace = "TVMBackendAllocWorkspace"

// Doubt returns a reason why operators that use the library may need more memory than computed, "" if there is none: a
// source, header or object of it has the name of the function by which operators allocate workspace. How much it
// allocates is in no archive.
func (l *Library) Doubt() (reason string, err error) {
	err = fs.WalkDir(l.Files, ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}

		data, err := fs.ReadFile(l.Files, name)
		if bytes.Contains(data, []byte(workspace)) {
			reason = "library " + l.Name + " allocates workspace, of unknown size"
			return fs.SkipAll
		}
		return err
	})
	return reason, err
}

// Mentions reports whether a line of a source of the library begins without indentation, has a function's name with a
// bracket behind it, and does not end as a declaration or call: the library seems to define it. The name may be that of
// a C++ function as linkers write it, with its namespace and arguments.
func (l *Library) Mentions(function string) bool {
	function, _, _ = strings.Cut(function, "(")
	function = function[strings.LastIndex(function, ":")+1:]
	defines := regexp.MustCompile(`(?m)^(?:[\w\[][^\n;=(){]*\b)?` + regexp.QuoteMeta(function) +
		`\s*\([^\n;]*(?:\{.*)?$`)
	return slices.ContainsFunc(l.Resolved, func(name string) bool {
		data, err := fs.ReadFile(l.Files, name)
		return err == nil && defines.Match(data)
	})
}
