// This file assigns the memory of an image to its parts, such as runtime and operators.

package fit

import (
	"debug/elf"
	"path"
	"slices"
	"strings"

	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/internal/stackdepth"
)

// A Usage is the memory of a board that an image uses.
type Usage struct {
	Parts   []PartUse
	Regions []RegionUse // in the board's order; none for a process
	Arena   ArenaUse
	Stack   *stackdepth.Use // nil if the operating system owns the stack, or nothing is known about it
}

// An ArenaUse is the part of the arena that the model uses while it runs.
type ArenaUse struct {
	Need   int64    // bytes; 0 if unknown
	Have   int64    // bytes
	Unsure []string // reasons why it may be more; of standalone firmware, why its workspace may be too small
}

// A PartUse is the memory that one part uses.
type PartUse struct {
	Name string
	image.Size
	In []int64 // bytes in each of Usage.Regions; data that is copied at start counts in two of them
}

// A RegionUse is the use of one memory region.
type RegionUse struct {
	Name   string
	Origin uint64
	Size   int64 // bytes available
	Used   int64 // bytes used; more than Size if they do not fit
}

// The parts of an image, in the order in which they are shown.
const (
	partRuntime    = "runtime"
	partRPC        = "RPC"
	partExecutor   = "executor"
	partOperators  = "operators"
	partParameters = "parameters"
	partWorkspace  = "workspace" // static memory for intermediate tensors
	partLibc       = "libc"      // with libm, libgcc and the startup code
	partMain       = "main and port"
	partLibraries  = "libraries" // of the user
	partStack      = "stack"
	partArena      = "arena"
	partSystem     = "system" // an operating system that is built with the firmware
	partOther      = "other"  // other libraries, and gaps for alignment
)

var partNames = []string{
	partRuntime, partRPC, partExecutor, partOperators, partParameters, partWorkspace, partLibc, partMain, partLibraries,
	partStack,
	partArena, partSystem, partOther,
}

// partOf returns the part that a piece belongs to.
func (l *Layout) partOf(s *mapSection, piece *mapPiece) string {
	part := l.objectPart(piece)
	switch name := piece.name; {
	case slices.Contains(l.of.Areas.Stacks, s.name), slices.Contains(l.of.Areas.Stacks, name):
		return partStack
	case slices.Contains(l.of.Areas.Arena, s.name), slices.Contains(l.of.Areas.Arena, name):
		return partArena
	case part != partOperators:
	// from C; LLVM's objects do not distinguish a model's constants from those of code
	case strings.HasPrefix(name, ".rodata.tvm"), strings.HasPrefix(name, ".boardsmith.pool."):
		return partParameters
	case strings.HasPrefix(name, ".bss.noinit.tvm"), strings.HasPrefix(name, ".bss.boardsmith_pool."):
		return partWorkspace
	case strings.HasPrefix(path.Base(l.object(piece)), "tvm_"):
		return embeddedPart(name)
	}
	return part
}

// embeddedPart returns the part of a section of tvm_<model>.c, which package cmodel makes for standalone firmware.
func embeddedPart(name string) string {
	if name == ".bss.memory" {
		return partWorkspace
	}
	for _, array := range []string{".rodata.parameter_", ".data.parameter_", ".rodata.global_const_workspace"} {
		if number, ok := strings.CutPrefix(name, array); ok && strings.Trim(number, "0123456789") == "" {
			return partParameters
		}
	}
	return partOperators
}

// cLibrary lists the prefixes of the names of libraries and objects that belong to C itself.
var cLibrary = []string{
	"libc.", "libc_", "libm.", "libm_", "libg.", "libg_", "libgcc", "libnosys", "libsemihost",
	"crt", "Scrt", "gcrt", "rcrt", "libdummyhost",
}

func (l *Layout) objectPart(piece *mapPiece) string {
	object := l.object(piece)
	base := path.Base(object)
	inProject, local := strings.CutPrefix(object, l.of.Build+"/")
	switch {
	case piece.object == "" || piece.name == "*fill*":
		return partOther
	case slices.ContainsFunc(cLibrary, func(prefix string) bool { return strings.HasPrefix(base, prefix) }):
		return partLibc
	case piece.object == "linker stubs":
		return partLibc
	case matches(l.of.Areas.Libraries, object):
		return partLibraries
	case local && len(l.of.Areas.Own) > 0 && (piece.member == "" || !l.isOwn(object)):
		return partSystem
	case local && piece.member != "" && l.sources[member(piece.member)] != "":
		return l.sources[member(piece.member)]
	case local && piece.member == "":
		return l.of.part(inProject)
	case l.of.Folders.InModel(object):
		return partOperators
	}
	return partOther
}

// Usage adds up the pieces of all sections in memory. If regions is nil, it uses the regions that the linker was given.
func (l *Layout) Usage(regions []RegionUse) *Usage {
	given := regions == nil
	for _, r := range l.from.regions {
		if given {
			regions = append(regions, RegionUse{Name: r.name, Origin: r.origin, Size: int64(r.length)})
		}
	}
	u := &Usage{Regions: regions}
	for _, name := range partNames {
		u.Parts = append(u.Parts, PartUse{Name: name, In: make([]int64, len(regions))})
	}
	for _, sec := range l.image.Sections {
		if sec.Flags&elf.SHF_ALLOC == 0 || sec.Size == 0 || sec.Type == elf.SHT_NOBITS && sec.Flags&elf.SHF_TLS != 0 {
			continue
		}
		s := l.section(sec)
		left := sec.Size
		for i := range s.pieces {
			n := s.taken(i)
			left -= n
			u.add(sec, s, l.partOf(s, &s.pieces[i]), s.pieces[i].address, n)
		}
		rest := partOther
		if slices.Contains(l.of.Areas.Stacks, s.name) {
			rest = partStack
		}
		u.add(sec, s, rest, sec.Addr, left)
	}
	u.Arena.Have = u.part(partArena).BSS
	return u
}

// section finds the image's section in the map.
func (l *Layout) section(sec *elf.Section) *mapSection {
	for i := range l.from.sections {
		if s := &l.from.sections[i]; s.name == sec.Name && s.address == sec.Addr && s.size == sec.Size {
			return s
		}
	}
	return &mapSection{name: sec.Name, address: sec.Addr, size: sec.Size, load: sec.Addr}
}

// taken returns the bytes of piece i in its section. For merged strings the map has the size before merging, so that
// the result is smaller.
func (s *mapSection) taken(i int) uint64 {
	p := s.pieces[i]
	end := s.address + s.size
	if i+1 < len(s.pieces) && s.pieces[i+1].address >= p.address {
		end = min(end, s.pieces[i+1].address)
	}
	if p.address < s.address || p.address >= end {
		return 0
	}
	return min(p.size, end-p.address)
}

func (u *Usage) add(sec *elf.Section, s *mapSection, part string, address, bytes uint64) {
	p := &u.Parts[slices.Index(partNames, part)]
	n := int64(bytes)
	switch {
	case sec.Type == elf.SHT_NOBITS:
		p.BSS += n
	case sec.Flags&elf.SHF_WRITE != 0:
		p.Data += n
	default:
		p.Text += n
	}
	u.place(p, address, n)
	if sec.Type != elf.SHT_NOBITS && s.load != s.address {
		u.place(p, s.load+(address-s.address), n)
	}
}

func (u *Usage) place(p *PartUse, address uint64, n int64) {
	for i := range u.Regions {
		r := &u.Regions[i]
		if address-r.Origin < uint64(max(r.Size, 0)) { // wraps for an address below the origin, which is then too large
			r.Used += n
			p.In[i] += n
			return
		}
	}
}

// Total returns the sum over all parts.
func (u *Usage) Total() image.Size {
	var all image.Size
	for _, p := range u.Parts {
		all.Text, all.Data, all.BSS = all.Text+p.Text, all.Data+p.Data, all.BSS+p.BSS
	}
	return all
}

// part returns the use of the part of that name.
func (u *Usage) part(name string) PartUse { return u.Parts[slices.Index(partNames, name)] }
