// This file says what of an image lies in which memory, by the parts that people think in.

package project

import (
	"bytes"
	"debug/elf"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/templates"
)

// A Usage is what an image takes of a board's memory.
type Usage struct {
	Parts   []PartUse
	Regions []RegionUse // in the board's order; none for a process
	Arena   ArenaUse
	Stack   *StackUse // nil where the operating system has it, or nothing is known of it
}

// An ArenaUse is what the model takes of the arena while it runs.
type ArenaUse struct {
	Need int64 // bytes; 0 if that is not known
	Have int64 // bytes
	Sure bool  // false if Need is an estimate
}

// A PartUse is what one part takes.
type PartUse struct {
	Name string
	Size
	In []int64 // bytes in each of Usage.Regions: what is copied at start lies in two of them
}

// A RegionUse is how full a memory region is.
type RegionUse struct {
	Name   string
	Origin uint64
	Size   int64 // bytes there are
	Used   int64 // bytes taken; more than Size if they do not fit
}

// The parts of an image, in the order they are shown in.
const (
	partRuntime    = "runtime"
	partRPC        = "RPC"
	partExecutor   = "executor"
	partOperators  = "operators"
	partParameters = "parameters"
	partWorkspace  = "workspace" // static memory for what lies between operators
	partLibc       = "libc"      // with libm, libgcc and what starts a program
	partMain       = "main and port"
	partStack      = "stack"
	partArena      = "arena"
	partOther      = "other" // other libraries, and gaps that alignment leaves
)

var partNames = []string{
	partRuntime, partRPC, partExecutor, partOperators, partParameters, partWorkspace, partLibc, partMain, partStack, partArena, partOther,
}

// Usage reads the image and its map. Errors: of class config where the build folder holds something else.
func (p *Project) Usage(i *Image) (*Usage, error) {
	l, err := p.layout(i.Path, i.Map)
	if err != nil {
		return nil, err
	}
	defer l.image.Close()
	u := l.usage(p.memory(l))
	a, m, err := p.Model()
	if err != nil {
		return nil, err
	}
	u.Arena.Have = u.arenaBytes()
	if p.takesArena() {
		need, err := NeedOf(p.Board(), a, m, int(p.packetBytes()))
		if err != nil {
			return nil, err
		}
		u.Arena.Need, u.Arena.Sure = need.Bytes, need.Sure
	}
	u.Stack, err = stackUse(l, m)
	return u, err
}

// A layout is an image with its map. Close image when done.
type layout struct {
	image   *elf.File
	from    *linkMap
	sources map[string]string // part of an object that an archive holds without its folder, by its name
	shipped map[string]bool   // objects of the template's sources that nobody has changed
}

func (p *Project) layout(image, mapFile string) (*layout, error) {
	m, err := mapOf(mapFile)
	if err != nil {
		return nil, err
	}
	for _, object := range m.objects() {
		made := filepath.Join(p.dir, filepath.FromSlash(strings.TrimSuffix(object, ".o")+".map"))
		if !strings.HasPrefix(object, "build/") || !filepath.IsLocal(filepath.FromSlash(object)) {
			continue
		}
		if _, err := os.Stat(made); err != nil {
			continue // not one that the linker made of others
		}
		of, err := mapOf(made)
		if err != nil {
			return nil, err
		}
		m.open(object, of)
	}
	e, err := elf.Open(image)
	if err != nil {
		return nil, failure.New(failure.Config, "build again", "the firmware: %w", err)
	}
	return &layout{e, m, p.sourceParts(), p.shippedObjects()}, nil
}

// shippedObjects are the objects of those sources outside crt/ that are, byte by byte, a template's own in the binary.
func (p *Project) shippedObjects() map[string]bool {
	own := map[string][]byte{}
	_ = fs.WalkDir(templates.FS, ".", func(name string, _ fs.DirEntry, _ error) error {
		if data, err := fs.ReadFile(templates.FS, name); err == nil {
			own[path.Base(name)] = data
		}
		return nil
	})
	objects := map[string]bool{}
	for name := range p.state.Files {
		want, known := own[path.Base(name)]
		if !known || !isSource(name) || sourcePart(name) != partMain {
			continue
		}
		have, err := os.ReadFile(filepath.Join(p.dir, filepath.FromSlash(name)))
		if err == nil && bytes.Equal(have, want) {
			objects["build/"+objectOf(name)] = true
		}
	}
	return objects
}

func mapOf(name string) (*linkMap, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, failure.New(failure.Config, "build again", "the linker's map: %w", err)
	}
	defer f.Close()
	m, err := readMap(f)
	if err != nil {
		return nil, failure.New(failure.Config, "build again", "%s: %w", name, err)
	}
	return m, nil
}

// sourceParts tells by an object's name what it was compiled from: an archive keeps no folders. A source of the
// project's own goes before one of the runtime that has the same name.
func (p *Project) sourceParts() map[string]string {
	parts := map[string]string{}
	for name := range p.state.Files {
		if !isSource(name) {
			continue
		}
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
	case strings.HasPrefix(name, modelFolder):
		return partOperators
	case !strings.HasPrefix(name, crtFolder+"/"):
		return partMain
	case strings.HasPrefix(base, "aot_executor"), strings.HasPrefix(base, "graph_executor"):
		return partExecutor
	case strings.Contains(name, "/rpc/"):
		return partRPC
	}
	return partRuntime
}

// memory is the board's memory map, else the one that the linker was given.
func (p *Project) memory(l *layout) []RegionUse {
	var all []RegionUse
	for _, r := range p.state.Board.Memory {
		all = append(all, RegionUse{Name: r.Name, Origin: uint64(r.Origin), Size: int64(r.Size)})
	}
	if all != nil {
		return all
	}
	for _, r := range l.from.regions {
		all = append(all, RegionUse{Name: r.name, Origin: r.origin, Size: int64(r.length)})
	}
	return all
}

// partOf says whose a piece is.
func (l *layout) partOf(s *mapSection, piece *mapPiece) string {
	part := l.objectPart(piece)
	switch name := piece.name; {
	case strings.Contains(s.name, "stack"):
		return partStack
	case s.name == ".arena", strings.HasSuffix(name, "arena") && part == partMain:
		return partArena
	case part != partOperators:
	case strings.HasPrefix(name, ".rodata.tvm"): // of C; LLVM's objects do not tell constants from code's
		return partParameters
	case strings.HasPrefix(name, ".bss.noinit.tvm"):
		return partWorkspace
	}
	return part
}

// cLibrary are the beginnings of the names of libraries and objects that belong to C itself.
var cLibrary = []string{"libc.", "libc_", "libm.", "libm_", "libg.", "libg_", "libgcc", "libnosys", "libsemihost", "crt", "Scrt", "gcrt", "rcrt", "libdummyhost"}

func (l *layout) objectPart(piece *mapPiece) string {
	object := strings.TrimPrefix(path.Clean(piece.object), "./")
	base := path.Base(object)
	inProject, local := strings.CutPrefix(object, "build/")
	switch {
	case piece.object == "" || piece.name == "*fill*":
		return partOther
	case slices.ContainsFunc(cLibrary, func(prefix string) bool { return strings.HasPrefix(base, prefix) }):
		return partLibc
	case piece.object == "linker stubs":
		return partLibc
	case local && piece.member != "" && l.sources[piece.member] != "":
		return l.sources[piece.member]
	case local && piece.member == "":
		return sourcePart(inProject)
	case strings.HasPrefix(object, modelFolder):
		return partOperators
	}
	return partOther
}

// ownerOf says whose the code and data of a piece are.
func (l *layout) ownerOf(piece *mapPiece) owner {
	part := l.objectPart(piece)
	object := strings.TrimPrefix(path.Clean(piece.object), "./")
	return owner{part, part == partRuntime || part == partExecutor || part == partRPC || l.shipped[object]}
}

// usage adds up the pieces of all sections that are in memory.
func (l *layout) usage(regions []RegionUse) *Usage {
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
		if strings.Contains(s.name, "stack") {
			rest = partStack
		}
		u.add(sec, s, rest, sec.Addr, left)
	}
	return u
}

// section finds the image's section in the map.
func (l *layout) section(sec *elf.Section) *mapSection {
	for i := range l.from.sections {
		if s := &l.from.sections[i]; s.name == sec.Name && s.address == sec.Addr && s.size == sec.Size {
			return s
		}
	}
	return &mapSection{name: sec.Name, address: sec.Addr, size: sec.Size, load: sec.Addr}
}

// taken is what piece i takes of its section: of strings that were merged with others' the map has the size before.
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
		if address-r.Origin < uint64(max(r.Size, 0)) { // also what lies below the origin is too large
			r.Used += n
			p.In[i] += n
			return
		}
	}
}

// Total is what all parts take together.
func (u *Usage) Total() Size {
	var all Size
	for _, p := range u.Parts {
		all.Text, all.Data, all.BSS = all.Text+p.Text, all.Data+p.Data, all.BSS+p.BSS
	}
	return all
}

// part is what the part of that name takes.
func (u *Usage) part(name string) PartUse { return u.Parts[slices.Index(partNames, name)] }

// arenaBytes is how large the image's arena is; 0 if it has none.
func (u *Usage) arenaBytes() int64 { return u.part(partArena).BSS }
