// This file plans copies of the folders of templates, libraries and runtimes, and of the files that symbolic links in
// them lead to, unless these lead out.

package project

import (
	"errors"
	"io/fs"
	"path"
	"path/filepath"
	"reflect"
	"strings"

	"github.com/boardsmith/boardsmith/failure"
)

var (
	errLeadsOut   = errors.New("it leads out of the folder")
	errToFolder   = errors.New("it is a link to a folder")
	errManyLinks  = errors.New("too many links, or links in a circle")
	errNotRegular = errors.New("it is no link to a plain file")
)

// maxLinks limits the links on the way to a file, as Linux does.
const maxLinks = 40

// addTree plans copies of the plain files of a file system that wanted selects, in a folder of the project, also of
// those that links lead to. A link that leads out of the file system, or to a folder, is an error.
func (pl *plan) addTree(files fs.FS, to string, wanted func(name string) bool) error {
	return fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return failure.Errorf(failure.Config, "template: %w", err)
		}

		// WalkDir follows no links.
		if d.Type()&fs.ModeSymlink != 0 {
			return pl.addLink(files, name, to, wanted)
		}
		if d.Type().IsRegular() && wanted(name) {
			pl.files[path.Join(to, name)] = planned{files: files, name: name, mode: modeOf(name)}
		}
		return nil
	})
}

// addLink plans a copy of the file that a link leads to. Errors, of class config, name the link.
func (pl *plan) addLink(files fs.FS, link, to string, wanted func(name string) bool) error {
	if strings.HasPrefix(path.Base(link), ".#") {
		return nil // Emacs locks a file with such a link, which leads nowhere
	}

	if info, err := fs.Stat(files, link); !wanted(link) &&
		(err != nil || !info.IsDir() || !wanted(path.Join(link, "a.h"))) {
		return nil // not even as a folder
	}

	name, err := resolve(files, link)
	if err == nil {
		err = checkLinked(files, name)
	}
	if err != nil {
		return failure.New(failure.Config, "put a copy in place of the link", "%s: %w", fullName(files, link), err)
	}

	pl.files[path.Join(to, link)] = planned{files: files, name: name, mode: modeOf(link)}
	return nil
}

// checkLinked returns an error for what a project gets no copy of.
func checkLinked(files fs.FS, name string) error {
	info, err := fs.Stat(files, name)
	switch {
	case err != nil:
		return err
	case info.IsDir():
		return errToFolder
	case !info.Mode().IsRegular():
		return errNotRegular
	}
	return nil
}

// fullName returns the path of a file of an os.DirFS, or its name in another file system.
func fullName(files fs.FS, name string) string {
	if dir := reflect.ValueOf(files); dir.Kind() == reflect.String {
		return filepath.Join(dir.String(), filepath.FromSlash(name))
	}
	return name
}

// from returns where a file's content is from: its path, or what it is in an archive.
func (f planned) from() string {
	switch {
	case f.files != nil:
		return fullName(f.files, f.name)
	case f.own != "":
		return f.own
	}
	return "a file of the model"
}

// resolve returns the name of the file that a name stands for once all links on the way are followed. Errors: those of
// the file system; errLeadsOut and errManyLinks.
func resolve(files fs.FS, name string) (string, error) {
	at, rest := ".", strings.Split(name, "/")
	for links := 0; len(rest) > 0; {
		next := path.Join(at, rest[0])
		rest = rest[1:]
		if next == ".." || strings.HasPrefix(next, "../") {
			return "", errLeadsOut
		}

		info, err := fs.Lstat(files, next)
		if err != nil {
			return "", err
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			at = next
			continue
		}

		target, err := fs.ReadLink(files, next)
		if err != nil {
			return "", err
		}
		if path.IsAbs(filepath.ToSlash(target)) || filepath.IsAbs(target) {
			return "", errLeadsOut
		}

		if links++; links > maxLinks {
			return "", errManyLinks
		}

		// What followed the link continues at its target.
		rest = append(strings.Split(filepath.ToSlash(target), "/"), rest...)
	}
	return at, nil
}
