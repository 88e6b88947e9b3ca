// This file reads template.json, in which a template says how it is built. No code here knows a template by name.

package project

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"sort"
	"strings"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/plainfile"
	"github.com/boardsmith/boardsmith/templates"
)

const (
	templateFile = "template.json"
	portFolder   = "port" // the template's ports; a project gets its board's, in src/
)

// blueprint is template.json. Paths are slash paths in the project's folder.
type blueprint struct {
	Doc      string         `json:"doc"`      // one line for people
	Build    []string       `json:"build"`    // the one command that builds; {jobs} is replaced by the number of jobs
	Tools    []templateTool `json:"tools"`    // what it calls besides the board's compiler
	Generate []string       `json:"generate"` // which of the files in generators it wants
	Inputs   []string       `json:"inputs"`   // files, and folders with all in them, that make the firmware
	Reuse    []string       `json:"reuse"`    // patterns of results that do not depend on the model
	BuildID  string         `json:"build_id"` // the C file that gets the build id, in the build folder
	ELF      string         `json:"elf"`      // the result
	Map      string         `json:"map"`      // the linker's map
	Options  []string       `json:"options"`  // the board's options that it heeds
	Compile  []compileStep  `json:"compile"`  // how it compiles, for compile_commands.json; empty where its build command writes that
}

type templateTool struct {
	Name    string `json:"name"`
	Install string `json:"install"` // one command that installs it on Debian
}

// foundTemplate is a template and the folder that holds it.
type foundTemplate struct {
	blueprint
	Renamed map[string]string `json:"renamed"` // the new name of a source that board files may name by its old one
	name    string
	files   fs.FS // rooted in the template's folder
}

// findTemplate looks the template up: a path's folder, else each folder's templates/, else the shipped ones.
func findTemplate(name string, folders []string) (*foundTemplate, error) {
	if strings.ContainsRune(name, '/') || strings.ContainsRune(name, filepath.Separator) {
		return readTemplate(filepath.Base(filepath.Clean(name)), os.DirFS(name))
	}
	for _, f := range folders {
		t, err := readTemplate(name, os.DirFS(filepath.Join(f, "templates", name)))
		if err == nil || !errors.Is(err, fs.ErrNotExist) {
			return t, err
		}
	}
	known := templateNames(folders)
	if !slices.Contains(known, name) {
		return nil, failure.New(failure.Config, "choose one of: "+strings.Join(known, ", "), "template %q is not known%s", name, nearest(name, known))
	}
	files, err := fs.Sub(templates.FS, name)
	if err != nil {
		return nil, fmt.Errorf("template %s: %w", name, err)
	}
	return readTemplate(name, files)
}

func nearest(name string, known []string) string {
	if n := boards.Nearest(name, known); n != "" {
		return fmt.Sprintf("; did you mean %q?", n)
	}
	return ""
}

func templateNames(folders []string) []string {
	found, _ := fs.Glob(templates.FS, "*/"+templateFile) // the pattern is good
	for _, f := range folders {
		more, _ := fs.Glob(os.DirFS(f), "templates/*/"+templateFile)
		found = append(found, more...)
	}
	var names []string
	for _, f := range found {
		names = append(names, path.Base(path.Dir(f)))
	}
	sort.Strings(names)
	return slices.Compact(names)
}

func readTemplate(name string, files fs.FS) (*foundTemplate, error) {
	t := &foundTemplate{name: name, files: files}
	if info, err := fs.Stat(files, templateFile); err == nil && !info.Mode().IsRegular() {
		return nil, failure.New(failure.Config, "", "template %s: %s: %w", name, templateFile, plainfile.ErrSpecial)
	}
	data, err := fs.ReadFile(files, templateFile)
	if err != nil {
		return nil, failure.New(failure.Config, "", "template %s: %w", name, err)
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(t); err != nil {
		return nil, failure.New(failure.Config, "", "template %s: %s: %w", name, templateFile, err)
	}
	if err := t.check(); err != nil {
		return nil, failure.New(failure.Config, "", "template %s: %s: %w", name, templateFile, err)
	}
	return t, nil
}

// check refuses a template whose paths leave the project's folder or are missing.
func (t *blueprint) check() error {
	if len(t.Build) == 0 || t.Build[0] == "" {
		return errors.New("has no build command")
	}
	if len(t.Inputs) == 0 {
		return errors.New("names no inputs")
	}
	paths := slices.Concat(t.Inputs, t.Reuse, []string{t.BuildID, t.ELF, t.Map})
	for _, p := range paths {
		if !filepath.IsLocal(filepath.FromSlash(p)) || path.Clean(p) != p || p == "." {
			return fmt.Errorf("%q is not a path in the project", p)
		}
	}
	for _, p := range slices.Concat(t.Reuse, []string{t.BuildID, t.Map}) {
		if !strings.HasPrefix(p, t.buildFolder()+"/") {
			return fmt.Errorf("%q is not in the build folder %q", p, t.buildFolder())
		}
		if _, err := path.Match(p, ""); err != nil {
			return fmt.Errorf("%q is not a pattern", p)
		}
	}
	if !strings.Contains(t.ELF, "/") {
		return fmt.Errorf("elf %q is not in a build folder", t.ELF)
	}
	for _, s := range t.Compile {
		for _, p := range s.Files {
			if _, err := path.Match(p, ""); err != nil {
				return fmt.Errorf("%q is not a pattern", p)
			}
		}
	}
	for _, g := range t.Generate {
		if generators[g] == nil {
			return fmt.Errorf("there is no generator of %q", g)
		}
	}
	return nil
}

// buildFolder holds all that the build command makes; nothing else lies in it.
func (t *blueprint) buildFolder() string {
	first, _, _ := strings.Cut(t.ELF, "/")
	return first
}

// heeds reports an option chosen by the user that the template does nothing with.
func (t *blueprint) heeds(o boards.Options) error {
	for _, name := range o.Set() {
		if !slices.Contains(t.Options, name) {
			return failure.New(failure.Config, "leave it out", "option %s has no effect with this template", name)
		}
	}
	return nil
}

// command is the build command for so many jobs.
func (t *blueprint) command(jobs int) []string {
	args := slices.Clone(t.Build)
	for i := range args {
		args[i] = strings.ReplaceAll(args[i], "{jobs}", fmt.Sprint(jobs))
	}
	return args
}
