// This file plans the files of a project that its board brings: those of the port, from beside the board file or from
// the template, linker script, start-up code, headers, and what the commands of the board file read.

package project

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/boardfile"
	"github.com/boardsmith/boardsmith/internal/files/jsonfile"
	"github.com/boardsmith/boardsmith/project/internal/generator"
	"github.com/boardsmith/boardsmith/project/internal/templatefile"
)

// An ownFile is a file that the board names: the field that does, and the file's place in a project.
type ownFile struct {
	field string
	boards.Source
	to string
}

// addBoard plans the board's files, and adds its folders of headers to its flags.
func (pl *plan) addBoard() error {
	b, t := pl.board, pl.template
	var own []ownFile
	for _, src := range b.Sources {
		// A template without ports needs no sources of the board's shipped chip or core.
		if b.Startup.Name != "" && isStartup(t, src.Name) || src.Dir == "" && !t.HasPorts() {
			continue
		}
		own = append(own, ownFile{"sources", src, boardfile.InProject(src.Name)})
	}

	if b.Startup.Name != "" {
		own = append(own, ownFile{"startup", b.Startup, boardfile.InProject(b.Startup.Name)})
	}

	for _, folder := range b.Include {
		headers, err := headersIn(folder)
		if err != nil {
			return wrongOwn("include", folder, err)
		}
		to := boardfile.InProject(folder.Name)
		for _, name := range headers {
			own = append(own, ownFile{
				"include",
				boards.Source{Name: name, Dir: folder.Dir, At: folder.At},
				path.Join(to, strings.TrimPrefix(name, folder.Name+"/")),
			})
		}
		b.CFlags = append(slices.Clip(b.CFlags), "-I"+to)
	}

	ofPort := len(own)
	add := func(field string, s boards.Source) {
		own = append(own, ownFile{field, s, path.Join(generator.Board, s.Name)})
	}
	if b.LinkerScript.Name != "" {
		add("linker_script", b.LinkerScript)
	}
	for _, s := range b.Settings {
		add("settings", s)
	}
	for _, name := range boardfile.FilesIn(b.PostLink.Words) {
		add("post_link", boards.Source{Name: name, Dir: b.PostLink.Dir, At: b.Origin["post_link"]})
	}
	for _, name := range boardfile.FilesIn(b.Link.Args) {
		add("link.args", boards.Source{Name: name, Dir: b.Link.Dir, At: b.Origin["link.args"]})
	}

	for _, f := range own {
		if err := pl.addOwn(f); err != nil {
			return err
		}
	}

	// A template that names its inputs does not have this folder among them.
	if len(own) > ofPort {
		t.AddInput(generator.Board)
	}
	return nil
}

// isStartup reports whether a source of the template is start-up code, which a board's own replaces.
func isStartup(t *templatefile.Template, name string) bool {
	return slices.ContainsFunc(t.Startup, func(pattern string) bool {
		ok, _ := path.Match(pattern, name) // Check has validated the pattern
		return ok
	})
}

// addOwn plans a file of the board: the user's beside the board file or, of sources, the template's.
func (pl *plan) addOwn(f ownFile) error {
	isSource := f.field == "sources"
	if f.Dir != "" || !isSource {
		data, mode, err := boardfile.ReadBeside(f.Dir, f.Name)
		if err == nil {
			own := filepath.Join(f.Dir, filepath.FromSlash(f.Name))
			return pl.put(f.to, fmt.Sprintf("%s %q of the board", f.field, f.Name), planned{data: data, own: own, mode: mode})
		}
		// A source that is not beside the board file may be the template's.
		if !isSource || !errors.Is(err, fs.ErrNotExist) {
			return wrongOwn(f.field, f.Source, err)
		}
	}

	t := pl.template
	name, err := resolve(t.Files, f.Name)
	if err == nil {
		if info, missing := fs.Stat(t.Files, name); missing != nil || !info.Mode().IsRegular() {
			err = fs.ErrNotExist
		}
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return sourceMissing(t, f.Source)
	case err != nil:
		return failure.New(failure.Config, "put a copy in place of the link", "template %s: %s: %w", t.Name,
			fullName(t.Files, f.Name), err)
	}
	return pl.put(f.to, fmt.Sprintf("source %q of the board", f.Name), planned{files: t.Files, name: name, mode: 0o644})
}

// put plans a file unless another one has its name. A file that two fields of the board name is one file.
func (pl *plan) put(to, subject string, f planned) error {
	if other, taken := pl.files[to]; taken && !(f.own != "" && other.own == f.own) {
		return failure.New(failure.Config, "rename it", "%s and a file of the template have the same name %s", subject, to)
	}
	pl.files[to] = f
	return nil
}

// wrongOwn returns an error about a file or folder beside the board file, with the place that names it.
func wrongOwn(field string, src boards.Source, err error) error {
	hint := ""
	if errors.Is(err, fs.ErrNotExist) {
		names, _ := fs.Glob(os.DirFS(src.Dir), path.Join(path.Dir(src.Name), "*")) // boards has rejected patterns
		hint = jsonfile.DidYouMean(src.Name, names)
	}

	return failure.Errorf(failure.Config, "%w", &jsonfile.Error{
		File: src.At.File, Line: src.At.Line, Err: fmt.Errorf("%s: %q: %w%s", field, src.Name, err, hint),
	})
}

// headersIn returns the headers in a folder beside the board file.
func headersIn(folder boards.Source) ([]string, error) {
	if err := boardfile.CheckFolder(folder.Dir, folder.Name); err != nil {
		return nil, err
	}
	headers, err := boardfile.FilesBeside(folder.Dir, folder.Name, boardfile.IsHeader)
	if err == nil && len(headers) == 0 {
		err = errors.New("there is no header in this folder")
	}
	return headers, err
}

// sourceMissing returns an error with the source's origin, the searched folder, and its new name or the most
// similar known one.
func sourceMissing(t *templatefile.Template, src boards.Source) error {
	where := "the template " + t.Name
	files, _ := fs.Glob(t.Files, path.Dir(src.Name)+"/*.[cSh]") // boards has rejected patterns in the folder's name
	if src.Dir != "" {
		where = src.Dir + " and " + where
		beside, _ := fs.Glob(os.DirFS(src.Dir), path.Join(path.Dir(src.Name), "*.[cSh]"))
		files = slices.Concat(files, beside, portsOf(t.Files))
	}

	hint := jsonfile.DidYouMean(src.Name, files)
	return failure.Errorf(failure.Config, "%w", &jsonfile.Error{
		File: src.At.File, Line: src.At.Line,
		Err: fmt.Errorf("sources: %q is not in %s%s", src.Name, where, hint),
	})
}

// portsOf returns the sources in a template's folder of ports.
func portsOf(files fs.FS) (names []string) {
	_ = fs.WalkDir(files, boardfile.PortFolder, func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			names = append(names, name)
		}
		return nil // unreadable folders give no suggestions
	})
	return names
}
