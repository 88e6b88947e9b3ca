// This file reads what the linker of a build took, and checks the project's libraries against it.

package project

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/boardsmith/boardsmith/internal/files/abspath"
	"github.com/boardsmith/boardsmith/internal/fit"
	"github.com/boardsmith/boardsmith/internal/library"
)

// checkLibraries returns an error if two libraries, or a library and anything else that the linker took, define one
// symbol. dir is where the build ran.
func (p *Project) checkLibraries(dir string) error {
	if len(p.state.Libraries) == 0 {
		return nil
	}

	dir = abspath.Resolved(dir) // as tools name it
	link := library.Link{Archives: map[string]string{}}
	owners := map[string]string{} // the libraries, by their archives
	for _, l := range p.state.Libraries {
		archive := abspath.Resolved(p.archiveOf(dir, l))
		link.Archives[l.Name], owners[archive] = archive, l.Name
	}

	r := linkReader{project: p, dir: dir, archives: map[string][]library.Object{}, count: map[string]int{}}
	names, err := r.linked(filepath.Join(dir, filepath.FromSlash(p.state.Template.Map)))
	if err != nil {
		return err
	}

	// Only members that were linked count.
	var taken []string // of libraries: NAME(MEMBER)
	link.Taken = func(name, member string) bool { return slices.Contains(taken, name+"("+member+")") }
	for _, name := range names {
		archive, member := r.locate(name)
		if owner := owners[archive]; owner != "" {
			taken = append(taken, owner+"("+member+")")
			continue
		}

		o, err := r.read(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue // the compiler's own, of -flto
		}
		if err != nil {
			return err
		}

		link.Objects = append(link.Objects, o)
	}

	return link.Check()
}

// A linkReader reads files by their names in the linker's map: objects, and members of archives as ARCHIVE(MEMBER).
type linkReader struct {
	project  *Project
	dir      string                      // where the build ran
	archives map[string][]library.Object // that were read, by path
	count    map[string]int              // of members that were read, by ARCHIVE(MEMBER): several can have one name
}

// locate returns the path of an object, or of an archive and its member.
func (r linkReader) locate(name string) (file, member string) {
	if at := strings.LastIndexByte(name, '('); at > 0 && strings.HasSuffix(name, ")") {
		name, member = name[:at], name[at+1:len(name)-1]
	}
	if !filepath.IsAbs(name) {
		name = filepath.Join(r.dir, filepath.FromSlash(path.Join(r.project.state.Template.LinkedIn, name)))
	}
	return abspath.Resolved(name), member
}

// read reads a file. Its name for messages is that of the project's source, if that is known.
func (r linkReader) read(name string) (o library.Object, err error) {
	file, member := r.locate(name)
	if member == "" {
		o.Data, err = os.ReadFile(file)
	} else if o.Data, err = r.member(file, member); err != nil {
		return o, err
	}

	inBuild, relErr := filepath.Rel(r.dir, file)
	if relErr != nil || !filepath.IsLocal(inBuild) {
		o.Name = strings.Replace(file+"("+member+")", "()", "", 1) // of the compiler
		return o, err
	}

	o.Name = name
	object := cmp.Or(member, filepath.ToSlash(inBuild))
	if source := r.project.sourceOf(object); source != object {
		o.Name = source
	}
	return o, err
}

func (r linkReader) member(archive, name string) (data []byte, err error) {
	all, known := r.archives[archive]
	if !known {
		if all, err = library.ReadArchive(archive); err != nil {
			return nil, err
		}
		r.archives[archive] = all
	}

	path := archive + "(" + name + ")"
	all = slices.DeleteFunc(slices.Clone(all), func(o library.Object) bool { return o.Name != name })
	if len(all) == 0 {
		return nil, &fs.PathError{Op: "read", Path: path, Err: fs.ErrNotExist}
	}

	// Each call returns the next one of the members with this name.
	before := r.count[path]
	r.count[path]++
	return all[before%len(all)].Data, nil
}

// linked returns the names in a linker's map, those of an object that an earlier link combined from others in place of
// it.
func (r linkReader) linked(mapFile string) (names []string, err error) {
	objects, names, err := fit.Linked(mapFile)
	for _, name := range objects {
		file, _ := r.locate(name)
		parts := []string{name}
		// The map of this link may lie beside an object of its name, which no link has made.
		if earlier := strings.TrimSuffix(file, path.Ext(file)) + ".map"; earlier != mapFile {
			if all, err := r.linked(earlier); err == nil {
				parts = all
			}
		}
		names = append(names, parts...)
	}
	return names, err
}
