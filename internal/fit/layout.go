package fit

import (
	"debug/elf"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/firmware"
)

// This file opens an image with its map, and says by the names of objects what they were compiled from.

// A Layout is an image with its map. Close it when done.
type Layout struct {
	image   *elf.File
	from    *linkMap
	sources map[string]string // part of an object that an archive holds without its folder, by its name
	shipped map[string]bool   // objects of the template's sources that nobody has changed
	of      Sources
}

// Sources are what an image was compiled from.
type Sources struct {
	Dir     string           // the project's folder, which objects in the map are named from
	Build   string           // the build folder in Dir
	Names   []string         // of all, slash paths in Dir
	Shipped []string         // of them, those of the template that are byte by byte as it was tested
	Folders firmware.Folders // of the model's and the runtime's
	Stacks  []firmware.Place // the thread's, then the handlers'
	Areas   Areas
	Calls   Calls
}

// Areas are the names of sections, of the image or of an object in it, that are nothing but stacks or the arena.
type Areas struct {
	Stacks []string `json:"stacks,omitempty"`
	Arena  []string `json:"arena,omitempty"`
}

// Open reads an image and its map. Errors are of class config: the build folder holds something else.
func Open(image, mapFile string, of Sources) (*Layout, error) {
	m, err := openMap(mapFile)
	if err != nil {
		return nil, err
	}
	for _, object := range m.objects() {
		made := filepath.Join(of.Dir, filepath.FromSlash(strings.TrimSuffix(object, ".o")+".map"))
		if !strings.HasPrefix(object, of.Build+"/") || !filepath.IsLocal(filepath.FromSlash(object)) {
			continue
		}
		if _, err := os.Stat(made); err != nil {
			continue // not one that the linker made of others
		}
		inner, err := openMap(made)
		if err != nil {
			return nil, err
		}
		m.open(object, inner)
	}
	e, err := elf.Open(image)
	if err != nil {
		return nil, failure.New(failure.Config, "build again", "the firmware: %w", err)
	}
	return &Layout{e, m, of.parts(), of.shippedObjects(), of}, nil
}

// Close closes the image.
func (l *Layout) Close() error { return l.image.Close() }

// shippedObjects are the objects of the shipped sources outside of the runtime.
func (of Sources) shippedObjects() map[string]bool {
	objects := map[string]bool{}
	for _, name := range of.Shipped {
		if of.part(name) == partMain {
			objects[path.Join(of.Build, objectOf(name))] = true
		}
	}
	return objects
}

// parts tells by an object's name what it was compiled from: an archive keeps no folders. A source of the project's own
// goes before one of the runtime that has the same name.
func (of Sources) parts() map[string]string {
	parts := map[string]string{}
	for _, name := range of.Names {
		object := path.Base(objectOf(name))
		if part := of.part(name); parts[object] != partMain {
			parts[object] = part
		}
	}
	return parts
}

// objectOf names the object of a source.
func objectOf(name string) string { return strings.TrimSuffix(name, ".c") + ".o" }

// part is that of a source, or of its object in the build folder.
func (of Sources) part(name string) string {
	switch base := path.Base(name); {
	case of.Folders.InModel(name):
		return partOperators
	case !of.Folders.InRuntime(name):
		return partMain
	case strings.HasPrefix(base, "aot_executor"), strings.HasPrefix(base, "graph_executor"):
		return partExecutor
	case strings.Contains(name, "/rpc/"):
		return partRPC
	}
	return partRuntime
}
