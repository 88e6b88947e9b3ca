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

// addBoard plans the board's files, and adds its folders of headers to its flags.
func (pl *plan) addBoard(t *templatefile.Template, b *boards.Board) error {
	for _, src := range b.Sources {
		// A template without ports needs no sources of the board's shipped chip or core.
		if b.Startup.Name != "" && isStartup(t, src.Name) || src.Dir == "" && !t.HasPorts() {
			continue
		}
		if err := pl.addSource(t, src); err != nil {
			return err
		}
	}

	if b.Startup.Name != "" {
		if err := pl.addOwn("startup", b.Startup, boardfile.InProject(b.Startup.Name)); err != nil {
			return err
		}
	}

	for _, folder := range b.Include {
		if err := pl.addHeaders(folder); err != nil {
			return err
		}
		b.CFlags = append(slices.Clip(b.CFlags), "-I"+boardfile.InProject(folder.Name))
	}

	var own []ownFile
	if s := b.LinkerScript; s.Name != "" {
		own = append(own, ownFile{"linker_script", s})
	}
	for _, s := range b.Settings {
		own = append(own, ownFile{"settings", s})
	}
	for _, name := range boardfile.FilesIn(b.PostLink.Words) {
		own = append(own, ownFile{"post_link", boards.Source{Name: name, Dir: b.PostLink.Dir, At: b.Origin["post_link"]}})
	}
	for _, name := range boardfile.FilesIn(b.Link.Args) {
		own = append(own, ownFile{"link.args", boards.Source{Name: name, Dir: b.Link.Dir, At: b.Origin["link.args"]}})
	}

	for _, f := range own {
		if err := pl.addOwn(f.field, f.Source, path.Join(generator.Board, f.Name)); err != nil {
			return err
		}
	}

	// A template that names its inputs does not have this folder among them.
	if len(own) > 0 {
		t.AddInput(generator.Board)
	}
	return nil
}

// An ownFile is a file of the board, and the field that names it.
type ownFile struct {
	field string
	boards.Source
}

// isStartup reports whether a source of the template is start-up code, which a board's own replaces.
func isStartup(t *templatefile.Template, name string) bool {
	return slices.ContainsFunc(t.Startup, func(pattern string) bool {
		ok, _ := path.Match(pattern, name) // Check has validated the pattern
		return ok
	})
}

// addSource plans a file of the port: the user's beside the board file, or the template's.
func (pl *plan) addSource(t *templatefile.Template, src boards.Source) error {
	to := boardfile.InProject(src.Name)
	if src.Dir != "" {
		err := pl.addOwn("sources", src, to)
		// A source that is not beside the board file may be the template's.
		if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}

	name, err := resolve(t.Files, src.Name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return sourceMissing(t, src)
	case err != nil:
		return failure.New(failure.Config, "put a copy in place of the link", "template %s: %s: %w", t.Name,
			fullName(t.Files, src.Name), err)
	}

	if info, err := fs.Stat(t.Files, name); err != nil || !info.Mode().IsRegular() {
		return sourceMissing(t, src)
	}

	return pl.put(to, fmt.Sprintf("source %q of the board", src.Name), planned{files: t.Files, name: name, mode: 0o644})
}

// put plans a file unless another one has its name. A file that two fields of the board name is one file.
func (pl *plan) put(to, subject string, f planned) error {
	if other, taken := pl.files[to]; taken && !(f.own != "" && other.own == f.own) {
		return failure.New(failure.Config, "rename it", "%s and a file of the template have the same name %s", subject, to)
	}
	pl.files[to] = f
	return nil
}

// addOwn plans a file beside the board file. Errors: one with fs.ErrNotExist if it is missing.
func (pl *plan) addOwn(field string, src boards.Source, to string) error {
	data, mode, err := boardfile.ReadBeside(src.Dir, src.Name)
	if err != nil {
		return wrongOwn(field, src, err)
	}
	own := filepath.Join(src.Dir, filepath.FromSlash(src.Name))
	return pl.put(to, fmt.Sprintf("%s %q of the board", field, src.Name), planned{data: data, own: own, mode: mode})
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

// errUnlessFolder returns an error for a folder that is not in the one of the board file that names it.
func errUnlessFolder(folder boards.Source) error {
	root, err := os.OpenRoot(folder.Dir)
	if err != nil {
		return err
	}
	defer root.Close()

	info, err := root.Stat(filepath.FromSlash(path.Clean(folder.Name)))
	if err == nil && !info.IsDir() {
		err = errors.New("not a folder")
	}
	return err
}

// besideBoard returns an error for a library that is not a folder beside the board file.
func besideBoard(l boards.Source) error {
	if err := errUnlessFolder(l); err != nil {
		return wrongOwn("libraries", l, err)
	}
	return nil
}

// addHeaders plans the headers in a folder beside the board file.
func (pl *plan) addHeaders(folder boards.Source) error {
	fail := func(err error) error { return wrongOwn("include", folder, err) }
	if err := errUnlessFolder(folder); err != nil {
		return fail(err)
	}

	headers, err := boardfile.FilesBeside(folder.Dir, folder.Name, boardfile.IsHeader)
	if err != nil {
		return fail(err)
	}
	if len(headers) == 0 {
		return fail(errors.New("there is no header in this folder"))
	}

	for _, name := range headers {
		to := path.Join(boardfile.InProject(folder.Name), strings.TrimPrefix(name, folder.Name+"/"))
		if err := pl.addOwn("include", boards.Source{Name: name, Dir: folder.Dir, At: folder.At}, to); err != nil {
			return err
		}
	}
	return nil
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
