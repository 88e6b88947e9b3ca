// Package fit finds out whether a model can run on a board: by its objects' target, and by the memory that it and a
// linked image need.
//
// It reads archives, ELF files and the linker's maps. It starts no programs and uses no devices.
package fit

import (
	"debug/elf"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/firmware"
	"github.com/boardsmith/boardsmith/internal/stackdepth"
)

// This file opens an image with its map, and finds the source of each object by the object's name.

// A Layout is an image with its map. Close it when done.
type Layout struct {
	image *elf.File
	from  *linkMap
	// the part of an object in an archive, by the object's name, because an archive stores no folders
	sources map[string]string
	shipped map[string]bool // objects of unmodified sources of the template
	of      Sources
}

// Sources are what an image was compiled from.
type Sources struct {
	Dir     string           // the project's folder; paths of objects in the map are relative to it
	Build   string           // the build folder in Dir
	Linked  string           // the folder in Dir to which the map's paths are relative; "" is Dir
	Names   []string         // all sources, as slash paths in Dir
	Shipped []string         // sources of the template that are byte for byte as they were tested
	Folders firmware.Folders // those of the model and of the runtime
	Stacks  []firmware.Place // the thread's, then the handlers'
	Areas   Areas
	Calls   stackdepth.Calls
}

// Areas are the names of sections, of the image or of an object in it, that contain only stacks or only the arena.
type Areas struct {
	Stacks []string `json:"stacks,omitempty"`
	Arena  []string `json:"arena,omitempty"`
	// patterns of archives with objects of the project's sources; others in the build folder are the operating system's.
	// None: all archives there are the project's
	Own []string `json:"own,omitempty" is:"pattern"`
}

// Libraries is the folder below the build folder in which a build puts the archive of each library.
const Libraries = "libraries"

// Open reads an image and its map. Errors are of class config, because the build folder then contains something else.
func Open(image, mapFile string, of Sources) (*Layout, error) {
	m, err := openMap(mapFile)
	if err != nil {
		return nil, err
	}

	// An object that an earlier link combined from others has a map beside it.
	for _, object := range m.objects() {
		mapFile := filepath.Join(of.Dir, filepath.FromSlash(strings.TrimSuffix(object, ".o")+".map"))
		if !strings.HasPrefix(object, of.Build+"/") || !filepath.IsLocal(filepath.FromSlash(object)) {
			continue
		}

		if _, err := os.Stat(mapFile); err != nil {
			continue // the linker did not combine this object from others
		}

		inner, err := openMap(mapFile)
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

// shippedObjects returns the objects of the template's unmodified sources outside of the runtime.
func (of Sources) shippedObjects() map[string]bool {
	objects := map[string]bool{}
	for _, name := range of.Shipped {
		if of.part(name) == partMain {
			objects[path.Join(of.Build, objectOf(name))] = true
		}
	}
	return objects
}

// parts returns, by the name of an object, the part that its source belongs to. An archive stores no folders, so two
// sources may have objects of one name: a source of the project itself then has priority over one of the runtime.
func (of Sources) parts() map[string]string {
	parts := map[string]string{}
	for _, name := range of.Names {
		object := path.Base(objectOf(name))
		if part := of.part(name); parts[object] != partMain {
			parts[object] = part
		}
	}

	maps.Copy(parts, together)
	return parts
}

// together has the objects of all sources of a part as one, by CMake's UNITY_GROUP or by make.
var together = map[string]string{
	"unity_runtime_c.o": partRuntime, "unity_RPC_c.o": partRPC, "unity_executor_c.o": partExecutor,
	"unity_firmware_c.o": partMain,
}

// objectOf returns the name of a source's object.
func objectOf(name string) string { return strings.TrimSuffix(name, ".c") + ".o" }

// member returns the object's name as objectOf has it, of a.o, a.c.o, a.obj or a.c.obj.
func member(name string) string {
	return objectOf(strings.TrimSuffix(strings.TrimSuffix(name, ".obj"), ".o"))
}

// object returns the path, in the project, of a piece's object or archive.
func (l *Layout) object(piece *mapPiece) string {
	if path.IsAbs(piece.object) {
		return path.Clean(piece.object)
	}
	return path.Join(l.of.Linked, piece.object)
}

// isOwn reports whether an archive has objects of the project's sources.
func (l *Layout) isOwn(archive string) bool {
	own := l.of.Areas.Own
	return len(own) == 0 || slices.ContainsFunc(own, func(pattern string) bool {
		ok, _ := path.Match(pattern, archive) // the template's check has validated the pattern
		return ok
	})
}

// part returns the part of a source, or of its object in the build folder.
func (of Sources) part(name string) string {
	switch base := path.Base(name); {
	case of.Folders.InModel(name):
		return partOperators
	case !of.Folders.InRuntime(name):
		return partMain
	case together[base] != "":
		return together[base]
	case strings.HasPrefix(base, "aot_executor"), strings.HasPrefix(base, "graph_executor"):
		return partExecutor
	case strings.Contains(name, "/rpc/"):
		return partRPC
	}
	return partRuntime
}
