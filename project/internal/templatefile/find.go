// This file finds templates, by a path, in the folders of a search path, or among the shipped ones.

package templatefile

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"sort"
	"strings"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/files/jsonfile"
	"github.com/boardsmith/boardsmith/templates"
)

// parentsFolder is the folder of templates.FS with templates that only others inherit from.
const parentsFolder = "parents"

// A Template is a template and its files.
type Template struct {
	Description
	// a template, by its name, whose fields hold unless this file sets them; each field is replaced as a whole.
	// Its files are not copied: `copies` does that. `minimal` is for this only
	Inherits string `json:"inherits"`
	// the folder that gets the C which templates share: `main.c`, `platform.c`, the parts of the firmware behind
	// them, and `port.h`, the interface of a port to them (`templates/firmware`). A file of the template at the
	// same place replaces one of them. Default: the template has all C itself
	Firmware string `json:"firmware" is:"inside"`
	// folders of other templates that a project gets: the project's folder, to `TEMPLATE/FOLDER` by the template's
	// name. A file of the template at the same place replaces one of them. An application of your own gets
	// Zephyr's module in this way: [examples/own-zephyr-app](../examples/own-zephyr-app/README.md)
	Copies map[string]string `json:"copies" keys:"inside" is:"inside"`
	Copied map[string]fs.FS  `json:"-"` // their files
	// what differs for other values of the option `app` than `rpc`, by value: `files`, the shipped files and
	// folders that the folder `firmware` gets in place of all others; `runtime`, the files and folders of the
	// runtime; `options`, in place of the template's; `protocol`, as in `landmarks`. The model's code is then that
	// of [embedded.md](embedded.md)
	Apps  map[string]App `json:"apps"`
	Name  string         `json:"-"`
	Files fs.FS          `json:"-"` // rooted in the template's folder
}

// Find finds a template by its path, else in each folder's templates/, else among the shipped ones; with the
// folders that it has from others. Errors have the class config.
func Find(name string, folders []string) (*Template, error) {
	t, err := findAlone(name, folders)
	if err != nil {
		return nil, err
	}
	return t, t.findCopies(folders)
}

// FindIn is Find for a template in the folder dir, whose name may differ.
func FindIn(dir, name string, folders []string) (*Template, error) {
	t, err := readTemplate(name, os.DirFS(dir), folders)
	if err != nil {
		return nil, err
	}
	return t, t.findCopies(folders)
}

func (t *Template) findCopies(folders []string) error {
	t.Copied = map[string]fs.FS{}
	for to, from := range t.Copies {
		of, folder, _ := strings.Cut(from, "/")
		other, err := findAlone(of, folders)
		if err == nil {
			t.Copied[to], err = fs.Sub(other.Files, folder)
		}
		if err != nil {
			return failure.Errorf(failure.Config, "template %s: copies: %s: %w", t.Name, from, err)
		}

		// fs.Sub does not look whether the folder is there.
		if _, err := fs.ReadDir(t.Copied[to], "."); err != nil {
			return failure.Errorf(failure.Config, "template %s: copies: %s: the template has no such folder", t.Name, from)
		}
	}
	return nil
}

func findAlone(name string, folders []string) (*Template, error) {
	if strings.ContainsRune(name, '/') || strings.ContainsRune(name, filepath.Separator) {
		return readTemplate(filepath.Base(filepath.Clean(name)), os.DirFS(name), folders)
	}

	files, err := templateFiles(name, folders)
	if err != nil {
		return nil, err
	}
	return readTemplate(name, files, folders)
}

// templateFiles returns the folder of a template by its name, in each folder's templates/, else a shipped one's.
func templateFiles(name string, folders []string) (fs.FS, error) {
	var all []fs.FS
	if filepath.IsLocal(name) && filepath.Base(name) == name && name != "." { // no path, as inherits could have
		for _, f := range folders {
			all = append(all, os.DirFS(filepath.Join(f, "templates", name)))
		}
		for _, in := range []string{name, path.Join(parentsFolder, name)} {
			if files, err := fs.Sub(templates.FS, in); err == nil {
				all = append(all, files)
			}
		}
	}

	if i := slices.IndexFunc(all, isTemplate); i >= 0 {
		return all[i], nil
	}

	names := Names(folders)
	next := "choose one of: " + strings.Join(names, ", ")

	// inherits may name a parent, which no project has.
	parents, _ := fs.Glob(templates.FS, parentsFolder+"/*") // the pattern is valid
	for _, p := range parents {
		names = append(names, path.Base(p))
	}
	return nil, failure.New(failure.Config, next, "template %q is not known%s", name, jsonfile.DidYouMean(name, names))
}

func isTemplate(files fs.FS) bool {
	_, err := fs.Stat(files, TemplateFile)
	return !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrInvalid)
}

// Names lists the templates in each folder's templates/ and the shipped ones, sorted.
func Names(folders []string) []string {
	files, _ := fs.Glob(templates.FS, "*/"+TemplateFile) // the pattern is valid
	for _, f := range folders {
		more, _ := fs.Glob(os.DirFS(f), "templates/*/"+TemplateFile)
		files = append(files, more...)
	}

	var names []string
	for _, f := range files {
		names = append(names, path.Base(path.Dir(f)))
	}

	sort.Strings(names)
	return slices.Compact(names)
}

// maxParents limits a chain of templates that inherit from each other.
const maxParents = 3

// readTemplate reads a template and its parents, which are in folders or shipped.
func readTemplate(name string, files fs.FS, folders []string) (*Template, error) {
	t := &Template{Name: name, Files: files}
	if err := t.merge(name, files, folders, maxParents); err != nil {
		return nil, err
	}

	if err := cmp.Or(t.Check(), t.checkCopies(), t.checkApps()); err != nil {
		return nil, failure.Errorf(failure.Config, "template %s: %s: %w", name, TemplateFile, err)
	}
	return t, nil
}

// merge decodes a template.json over the fields of its parent.
func (t *Template) merge(name string, files fs.FS, folders []string, parents int) error {
	data, err := readJSON(name, files)
	if err != nil {
		return err
	}

	var of struct{ Inherits string }
	_ = json.Unmarshal(data, &of) // decode reports the error
	switch {
	case of.Inherits == "":
	case parents == 0:
		return failure.Errorf(failure.Config, "template %s: inherits: more than %d templates inherit from each other", name,
			maxParents)
	default:
		parent, err := templateFiles(of.Inherits, folders)
		if err == nil {
			err = t.merge(of.Inherits, parent, folders, parents-1)
		}
		if err != nil {
			return fmt.Errorf("template %s: inherits: %w", name, err)
		}
	}

	// This comes last: the template's own fields replace those of the parent.
	if err := t.decode(data); err != nil {
		return failure.Errorf(failure.Config, "template %s: %w", name, err)
	}
	return nil
}

// readJSON returns the text of a template.json.
func readJSON(name string, files fs.FS) ([]byte, error) {
	data, err := jsonfile.Read(files, TemplateFile)
	if err != nil {
		return nil, failure.New(failure.Config, "name the folder with "+TemplateFile+"; in a git repository, "+
			"URL//FOLDER@REVISION", "template %s: %s: %w", name, TemplateFile, err)
	}

	// A later interface may have other fields, so this precedes their decoding.
	var of struct{ Interface int }
	if json.Unmarshal(data, &of) == nil && of.Interface > knownInterface {
		return nil, failure.New(failure.Config, "use an earlier revision of the template, or a later boardsmith",
			"template %s: %s has interface %d; the latest known one is %d", name, TemplateFile, of.Interface, knownInterface)
	}

	return data, nil
}

// decode decodes a template.json. A field that it has replaces the one of t. Errors: *jsonfile.Error.
func (t *Template) decode(data []byte) error {
	t.clear(data)
	_, err := jsonfile.Decode(TemplateFile, data, t)
	return err
}

// clear sets the fields of t that a template.json names to their zero values: the decoder would merge maps and structs.
func (t *Template) clear(data []byte) {
	var named map[string]json.RawMessage
	_ = json.Unmarshal(data, &named) // decode reports the error

	v := reflect.ValueOf(t).Elem()
	for _, field := range reflect.VisibleFields(v.Type()) {
		tag, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if _, has := named[tag]; has {
			v.FieldByIndex(field.Index).SetZero()
		}
	}
}
