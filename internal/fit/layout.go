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
	stacks  []firmware.Place
	calls   Calls
}

// Sources are what an image was compiled from.
type Sources struct {
	Dir     string           // the project's folder, which objects in the map are named from
	Names   []string         // of all, slash paths in Dir
	Shipped []string         // of them, those of the template that are byte by byte as it was tested
	Stacks  []firmware.Place // the thread's, then the handlers'
	Calls   Calls
}

// Open reads an image and its map. Errors are of class config: the build folder holds something else.
func Open(image, mapFile string, of Sources) (*Layout, error) {
	m, err := openMap(mapFile)
	if err != nil {
		return nil, err
	}
	for _, object := range m.objects() {
		made := filepath.Join(of.Dir, filepath.FromSlash(strings.TrimSuffix(object, ".o")+".map"))
		if !strings.HasPrefix(object, buildFolder) || !filepath.IsLocal(filepath.FromSlash(object)) {
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
	return &Layout{e, m, sourceParts(of.Names), shippedObjects(of.Shipped), of.Stacks, of.Calls}, nil
}

// Close closes the image.
func (l *Layout) Close() error { return l.image.Close() }

const buildFolder = "build/"

// shippedObjects are the objects of those sources outside of the runtime.
func shippedObjects(sources []string) map[string]bool {
	objects := map[string]bool{}
	for _, name := range sources {
		if sourcePart(name) == partMain {
			objects[buildFolder+objectOf(name)] = true
		}
	}
	return objects
}

// sourceParts tells by an object's name what it was compiled from: an archive keeps no folders. A source of the
// project's own goes before one of the runtime that has the same name.
func sourceParts(sources []string) map[string]string {
	parts := map[string]string{}
	for _, name := range sources {
		object := path.Base(objectOf(name))
		if part := sourcePart(name); parts[object] != partMain {
			parts[object] = part
		}
	}
	return parts
}

// objectOf names the object of a source.
func objectOf(name string) string { return strings.TrimSuffix(name, ".c") + ".o" }

func sourcePart(name string) string {
	switch base := path.Base(name); {
	case strings.HasPrefix(name, firmware.ModelFolder):
		return partOperators
	case !strings.HasPrefix(name, firmware.RuntimeFolder):
		return partMain
	case strings.HasPrefix(base, "aot_executor"), strings.HasPrefix(base, "graph_executor"):
		return partExecutor
	case strings.Contains(name, "/rpc/"):
		return partRPC
	}
	return partRuntime
}
