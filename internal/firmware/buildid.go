// This file reads the linker's build id.

package firmware

import (
	"debug/elf"

	"github.com/boardsmith/boardsmith/failure"
)

const (
	BuildIDSection = ".note.gnu.build-id"
	BuildIDOffset  = 16 // of the id in it: behind the note's header and the name "GNU"

	buildIDType = 3 // NT_GNU_BUILD_ID
)

// BuildID returns the first 16 bytes of an image's GNU build id, and the load addresses of all of it. An image without
// one, or with a shorter one, is an error of class link.
func BuildID(f *elf.File, path string) (id [16]byte, at Range, err error) {
	s := f.Section(BuildIDSection)
	if s == nil || s.Type != elf.SHT_NOTE || s.Flags&elf.SHF_ALLOC == 0 {
		return id, at, noBuildID(path, "no build id")
	}

	note, err := s.Data()
	if err != nil {
		return id, at, failure.New(failure.Link, "build again", "%s: %w", path, err)
	}

	// A note has the sizes of its name and its content, a type, the name and the content.
	if len(note) < BuildIDOffset || f.ByteOrder.Uint32(note[8:]) != buildIDType ||
		string(note[12:BuildIDOffset]) != "GNU\x00" {
		return id, at, noBuildID(path, "a section "+BuildIDSection+" without a build id")
	}

	if size := f.ByteOrder.Uint32(note[4:]); size < uint32(len(id)) || len(note) < BuildIDOffset+len(id) {
		return id, at, noBuildID(path, "a build id of less than 16 bytes")
	}
	return [16]byte(note[BuildIDOffset:]), Loaded(f, Range{s.Addr + BuildIDOffset, s.Addr + s.Size}), nil
}

func noBuildID(path, found string) error {
	return failure.New(failure.Link, "link with -Wl,--build-id=md5, behind any other --build-id; "+
		"a linker script needs an output section of its own, before any /DISCARD/: "+
		BuildIDSection+" : { boardsmith_build_id = . + 16; KEEP(*("+BuildIDSection+")) }", "%s has %s", path, found)
}
