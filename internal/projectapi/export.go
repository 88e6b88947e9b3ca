// This file writes template folders for TVM.

package projectapi

import (
	"cmp"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	cp "github.com/otiai10/copy"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/files/scratch"
	"github.com/boardsmith/boardsmith/templates"
)

// exported is what TVM copies from a template folder into archives, for programs without a host.
//
//go:embed export
var exported embed.FS

// An Export is a template folder for TVM.
type Export struct {
	Board      string            // the board of projects whose options name none; "": host
	Template   string            // "": the board's first
	Path       []string          // folders whose boards/ and templates/ go into it
	Templates  map[string]string // folders of more templates, by name
	Executable string            // path of the server
	Companions []string          // paths of programs that it looks for beside it
}

// Write makes the folder dir, which must not exist or must be empty, complete in itself: it needs no file outside
// of it but compilers and programmers. TVM takes it as platform or by TemplateProject.from_directory.
func (e Export) Write(dir string) (err error) {
	if e.Board == "" {
		e.Board = "host"
	}
	if err := e.check(); err != nil {
		return err
	}
	if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 || err != nil && !errors.Is(err, fs.ErrNotExist) {
		return failure.New(failure.Config, "name another folder, or remove this one", "%s is not an empty folder", dir)
	}

	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}

	// Beside its place, and renamed to it when it is whole.
	folder, err := scratch.MakeIn(filepath.Dir(dir), ".boardsmith-new-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, folder.Remove()) }()
	partial := filepath.Join(folder.Dir, "new")
	if err := os.Mkdir(partial, 0o755); err != nil {
		return err
	}

	if err := e.fill(partial); err != nil {
		return err
	}

	// Windows does not rename to a folder that exists.
	if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.Rename(partial, dir)
}

// check returns an error of class config for a board or a template that would not be in the folder.
func (e Export) check() error {
	b, err := boards.Find(e.Board, e.Path)
	if err != nil {
		return err
	}
	if b.Path != "" {
		return failure.New(failure.Config, "put it into boards/ of a folder of BOARDSMITH_PATH, and name it",
			"board %s is named by its path, which the template folder would not have", e.Board)
	}
	if e.Template != "" && !slices.Contains(b.Templates, e.Template) {
		return failure.New(failure.Config, "put it into templates/ of a folder of BOARDSMITH_PATH, and name it",
			"template %q is none of board %s, which has %s", e.Template, b.Name, strings.Join(b.Templates, ", "))
	}
	return nil
}

// checkTemplate returns an error unless the template of new projects is in the folder, or is a shipped one.
func (e Export) checkTemplate(dir string) error {
	b, err := boards.Find(e.Board, e.Path)
	if err != nil {
		return err
	}

	name := cmp.Or(e.Template, b.Templates[0])
	_, own := os.Stat(filepath.Join(dir, "templates", name, "template.json"))
	if _, err := fs.Stat(templates.FS, name); err != nil && own != nil {
		return failure.New(failure.Config, "name it in templates of boardsmith.json, or put it into templates/ of a folder "+
			"of BOARDSMITH_PATH", "template %q of board %s is not known", name, b.Name)
	}
	return nil
}

// fill writes the files of an export.
func (e Export) fill(dir string) error {
	// The first folder of several has precedence, as in boards.Find; a template is of one folder alone.
	whole := cp.Options{OnDirExists: func(_, to string) cp.DirExistsAction {
		if filepath.Dir(to) == filepath.Join(dir, "templates") {
			return cp.Replace
		}
		return cp.Merge
	}}
	for _, root := range slices.Backward(e.Path) {
		for _, kind := range []string{"boards", "templates"} {
			from := filepath.Join(root, kind)
			if _, err := os.Stat(from); errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err := cp.Copy(from, filepath.Join(dir, kind), whole); err != nil {
				return fmt.Errorf("copy %s: %w", from, err)
			}
		}
	}

	for name, from := range e.Templates {
		if err := cp.Copy(from, filepath.Join(dir, "templates", name), whole); err != nil {
			return fmt.Errorf("copy template %s: %w", name, err)
		}
	}

	if err := os.MkdirAll(filepath.Join(dir, "templates"), 0o755); err != nil {
		return err
	}
	// only now: the template may be one of the copied ones
	if err := e.checkTemplate(dir); err != nil {
		return err
	}

	config, err := json.MarshalIndent(templateConfig{e.Board, e.Template}, "", "  ")
	if err != nil {
		return err
	}
	script, err := templates.FS.ReadFile(templates.LaunchScript)
	if err != nil {
		return err
	}
	server, err := os.ReadFile(e.Executable)
	if err != nil {
		return failure.Errorf(failure.ToolMissing, "%s: %w", Program, err)
	}

	err = errors.Join(
		os.WriteFile(filepath.Join(dir, templateFile), append(config, '\n'), 0o644),
		os.WriteFile(filepath.Join(dir, templates.LaunchScript), script, 0o755),
		os.WriteFile(filepath.Join(dir, Program), server, 0o755))
	for _, program := range e.Companions {
		err = errors.Join(err, cp.Copy(program, filepath.Join(dir, filepath.Base(program))))
	}

	for _, name := range []string{"crt_config.h.template", "platform.c.template"} {
		data, readErr := exported.ReadFile(path.Join("export", name))
		err = errors.Join(err, readErr, os.WriteFile(filepath.Join(dir, "templates", name), data, 0o644))
	}
	return err
}
