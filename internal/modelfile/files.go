// This file collects the files of a model: sources, headers, objects and the members of libraries.

package modelfile

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/boardsmith/boardsmith/internal/library"
)

// Limits of a model's files, so that a description of a whole disk is an error.
const (
	maxFiles = 4096
	maxBytes = 256 << 20
)

// The folders of an archive.
const (
	sourceFolder = "codegen/host/src/"
	objectFolder = "codegen/host/lib/"
	headerFolder = "codegen/host/include/"
)

// A member is a file of the archive.
type member struct {
	name string
	data []byte
	from string // the user's file
}

// collect adds the files of the description to the model.
func (r *reader) collect(m *model) {
	for i, name := range r.Sources {
		line := r.lines[fmt.Sprintf("sources[%d]", i)]
		name = path.Clean(name)
		if data, ok := r.load(line, "sources", name); ok {
			r.add(m, line, member{sourceFolder + path.Base(name), r.tagged(name, r.macros(), data), name})
		}
	}

	for i, name := range r.Headers {
		r.addHeader(m, r.lines[fmt.Sprintf("headers[%d]", i)], name)
	}
	for i, name := range r.Objects {
		r.addObject(m, r.lines[fmt.Sprintf("objects[%d]", i)], name)
	}

	m.includes = r.Include
	if len(r.Include) == 0 {
		for _, name := range r.Headers {
			if path.Ext(name) == ".h" {
				m.includes = append(m.includes, path.Base(name))
			}
		}
	}

	if len(m.includes) == 0 {
		r.fault(r.lines["headers"], "headers: there is no header that declares the function: "+
			"name one in headers; a C file may be there in place of sources, with its name in include")
	}
}

// addExamples adds the file with inputs and expected outputs.
func (r *reader) addExamples(m *model) {
	if r.Examples == "" {
		return
	}
	line := r.lines["examples"]
	if data, ok := r.load(line, "examples", r.Examples); ok {
		r.add(m, line, member{r.examplesFile(), data, path.Clean(r.Examples)})
	}
}

func (r *Description) examplesFile() string { return "src/" + r.Name + ".npz" }

// includeRE matches names of files that #include and make take as they are.
var includeRE = regexp.MustCompile(`^[\w./+-]+$`)

// load returns the content of a file that the description names.
func (r *reader) load(line int, field, name string) ([]byte, bool) {
	clean := path.Clean(name)
	switch {
	case !fs.ValidPath(clean):
		const text = "%s: %q: a path has slashes, is relative and does not leave the description's folder: " +
			"move the description to a folder that contains all files"
		r.fault(line, text, field, name)
		return nil, false
	case !includeRE.MatchString(path.Base(clean)) || strings.HasPrefix(path.Base(clean), "."):
		r.fault(line, "%s: %q: a file's name has only letters, digits and . _ + -", field, name)
		return nil, false
	}

	info, err := fs.Stat(r.files, clean)
	switch {
	case err != nil:
	case !info.Mode().IsRegular():
		err = errors.New("not a plain file")
	case info.Size() > maxBytes-r.bytes:
		err = fmt.Errorf("the model's files have more than %d MiB", maxBytes>>20)
	}

	var data []byte
	if err == nil {
		data, err = fs.ReadFile(r.files, clean)
		r.bytes += int64(len(data))
	}
	if err != nil {
		r.fault(line, "%s: %s: %w", field, name, pathless(err))
	}
	return data, err == nil
}

func pathless(err error) error {
	var e *fs.PathError
	if errors.As(err, &e) {
		return e.Err
	}
	return err
}

// add adds a file to the archive.
func (r *reader) add(m *model, line int, f member) {
	if len(m.files) > maxFiles {
		return // reported
	}

	i := slices.IndexFunc(m.files, func(o member) bool { return strings.EqualFold(o.name, f.name) })
	own := sourceFolder + r.Name

	switch {
	// The same file, named twice.
	case i >= 0 && m.files[i].from == f.from:
	case i >= 0:
		r.fault(line, "%s and %s have one name: rename one of them", m.files[i].from, f.from)
	case f.name == own+CallSuffix || f.name == own+runSuffix || f.name == headerFolder+"tvmgen_"+r.Name+".h":
		r.fault(line, "%s: boardsmith writes a file of this name: rename it", f.from)
	default:
		if len(m.files) == maxFiles {
			r.fault(line, "more than %d files", maxFiles)
		}
		m.files = append(m.files, f)
	}
}

// addHeader adds a header, or all files of a folder.
func (r *reader) addHeader(m *model, line int, name string) {
	clean := path.Clean(name)
	if info, err := fs.Stat(r.files, clean); name == "" || err != nil || !info.IsDir() {
		if data, ok := r.load(line, "headers", name); ok {
			r.add(m, line, member{headerFolder + path.Base(clean), r.tagged(name, "", data), clean})
		}
		return
	}

	err := fs.WalkDir(r.files, clean, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		// A folder may have files that no source includes, such as a README.
		if !slices.Contains([]string{".h", ".inc", ".def", ".c"}, path.Ext(file)) || strings.HasPrefix(d.Name(), ".") {
			return nil
		}
		if len(m.files) > maxFiles {
			return fs.SkipAll
		}

		below := strings.TrimPrefix(strings.TrimPrefix(file, clean), "/")
		if clean == "." {
			below = file
		}
		if !includeRE.MatchString(below) {
			r.fault(line, "headers: %q: the names of folders in it have only letters, digits and . _ + -", file)
		} else if data, ok := r.load(line, "headers", file); ok {
			r.add(m, line, member{headerFolder + below, data, file})
		}
		return nil
	})
	if err != nil {
		r.fault(line, "headers: %s: %w", name, pathless(err))
	}
}

// licenceTag names a file's licence, for release.
const licenceTag = "SPDX-License-Identifier: "

// tagged returns C with text before its first line: the description's licence, if the file names none, and macros.
func (r *reader) tagged(name, macros string, data []byte) []byte {
	text := macros
	if r.License != "" && !bytes.Contains(data[:min(len(data), 4096)], []byte(licenceTag)) {
		text = "// " + licenceTag + r.License + "\n" + macros
	}

	if text == "" {
		return data
	}

	// #line keeps the numbers of the file's own lines.
	return append(fmt.Appendf(nil, "%s#line 1 %q\n", text, path.Base(name)), data...)
}

func (r *Description) macros() string {
	var b strings.Builder
	for _, d := range r.Defines {
		name, text, ok := strings.Cut(d, "=")
		if !ok {
			text = "1"
		}
		fmt.Fprintf(&b, "#define %s %s\n", name, text)
	}
	return b.String()
}

// addObject adds an object, or the members of a library.
func (r *reader) addObject(m *model, line int, name string) {
	name = path.Clean(name)
	data, ok := r.load(line, "objects", name)
	if !ok {
		return
	}

	if path.Ext(name) == ".o" {
		r.add(m, line, member{objectFolder + path.Base(name), data, name})
		return
	}

	parts, err := library.Objects(data)
	if err == nil && len(parts) == 0 {
		err = errors.New("a library without objects")
	}
	if err != nil {
		r.fault(line, "objects: %s: %w", name, err)
		return
	}

	for i, p := range parts {
		// Names in a library may be equal, and hold any character.
		of := fmt.Sprintf("%s%s_%d_%s.o", objectFolder, path.Base(name), i+1, fileName(p.Name))
		r.add(m, line, member{of, p.Data, fmt.Sprintf("%s, object %d", name, i+1)})
	}
}

// maxObjectName limits what a file's name has of the name of an object in a library.
const maxObjectName = 64

var otherRE = regexp.MustCompile(`[^\w.+-]+`)

// fileName returns the name of an object in a library as part of a file's name.
func fileName(name string) string {
	name = strings.TrimSuffix(strings.TrimSuffix(name, ".o"), ".obj")
	name = otherRE.ReplaceAllString(name[strings.LastIndexAny(name, `/\`)+1:], "_")
	return name[:min(len(name), maxObjectName)]
}
