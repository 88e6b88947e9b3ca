// Package faultimage explains faults by an image: the call chain, functions and lines, the operator.
//
// It uses the image's symbols, its debugging information and its code; the record is of package fault.
package faultimage

import (
	"debug/dwarf"
	"debug/elf"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"

	"github.com/boardsmith/boardsmith/internal/firmware"
	"github.com/boardsmith/boardsmith/rpc/fault"
)

// An DebugInfo holds the parts of an ELF file that explain faults. Only one goroutine at a time may use it.
type DebugInfo struct {
	file      *elf.File
	dwarf     *dwarf.Data // nil without debugging information
	calls     callFrames
	code      []codeRange
	functions []elf.Symbol // by address
	stacks    []uint64     // lowest addresses of the stacks, ascending

	folders firmware.Folders
}

// A codeRange is one section of instructions.
type codeRange struct {
	start uint64
	bytes []byte
}

const maxFrames = 64

// Read reads an ELF file, which must stay open while the image is used. The landmarks are those of the image's
// template; without them, Explain finds no operator. Errors: damaged sections.
func Read(f *elf.File, landmarks firmware.Landmarks) (*DebugInfo, error) {
	m := &DebugInfo{file: f, folders: landmarks.Folders}
	for _, s := range landmarks.Stacks {
		if r, ok := s.Find(f); ok {
			m.stacks = append(m.stacks, r.Start)
		}
	}
	slices.Sort(m.stacks)
	return m, m.read()
}

func (m *DebugInfo) read() (err error) {
	m.calls = callFrames{order: m.file.ByteOrder, word: 4}
	if m.file.Class == elf.ELFCLASS64 {
		m.calls.word = 8
	}

	for _, s := range m.file.Sections {
		isCode := s.Flags&elf.SHF_EXECINSTR != 0 && s.Type == elf.SHT_PROGBITS
		isFrames := s.Name == ".debug_frame" || s.Name == ".eh_frame"
		if !isCode && !isFrames || s.Type == elf.SHT_NOBITS {
			continue
		}

		b, err := s.Data()
		if err != nil {
			return err
		}
		if isCode {
			m.code = append(m.code, codeRange{s.Addr, b})
			continue
		}
		if err := m.calls.add(b, s.Name == ".eh_frame", s.Addr); err != nil {
			return fmt.Errorf("%s: %w", s.Name, err)
		}
	}

	symbols, err := m.file.Symbols()
	if err != nil && !errors.Is(err, elf.ErrNoSymbols) {
		return err
	}
	for _, s := range symbols {
		if elf.ST_TYPE(s.Info) == elf.STT_FUNC && s.Section != elf.SHN_UNDEF {
			s.Value = m.withoutThumb(s.Value)
			m.functions = append(m.functions, s)
		}
	}

	slices.SortStableFunc(m.functions, func(a, b elf.Symbol) int {
		switch {
		case a.Value < b.Value:
			return -1
		case a.Value > b.Value:
			return 1
		}
		return 0
	})

	m.dwarf, err = m.file.DWARF()
	if err != nil {
		m.dwarf = nil // stripped: use symbols only
	}
	return nil
}

// withoutThumb returns an instruction's address without the Thumb bit.
func (m *DebugInfo) withoutThumb(pc uint64) uint64 {
	if m.file.Machine == elf.EM_ARM {
		return pc &^ 1
	}
	return pc
}

// IsCode reports whether there are instructions at an address.
func (m *DebugInfo) IsCode(pc uint64) bool { return m.codeBefore(pc, 0) != nil }

// codeBefore returns the n bytes of instructions before an address, or nil unless the address is inside or at the end
// of instructions.
func (m *DebugInfo) codeBefore(pc uint64, n uint64) []byte {
	for _, c := range m.code {
		size, offset := uint64(len(c.bytes)), pc-c.start
		if pc >= c.start && offset <= size && offset >= n && (n > 0 || offset < size) {
			return c.bytes[offset-n : offset : offset]
		}
	}
	return nil
}

// FramesAt returns function, file and line of an address, after the functions inlined there.
func (m *DebugInfo) FramesAt(pc uint64) []fault.Frame {
	frame := fault.Frame{PC: pc, Function: m.functionName(pc)}
	if m.dwarf == nil {
		return []fault.Frame{frame}
	}

	unit, nest := m.entriesAt(pc)
	if unit == nil {
		return []fault.Frame{frame}
	}

	lines, err := m.dwarf.LineReader(unit)
	if err != nil || lines == nil {
		return []fault.Frame{frame}
	}
	frame.File, frame.Line = lineAt(lines, pc)
	if len(nest) == 0 {
		return []fault.Frame{frame}
	}

	var frames []fault.Frame
	for i := len(nest) - 1; i >= 0; i-- {
		// The outermost entry is the function itself. Each inlined one has the line of its call.
		frame.Inlined = i > 0
		if name := m.nameOf(nest[i]); name != "" {
			frame.Function = name
		}
		frames = append(frames, frame)
		frame = fault.Frame{PC: pc}
		frame.File, frame.Line = callLine(lines, nest[i])
	}
	return frames
}

// functionName returns the name of the function at pc, or "".
func (m *DebugInfo) functionName(pc uint64) string {
	for _, s := range slices.Backward(m.functions) {
		if s.Value > pc {
			continue
		}

		// A function in assembler may have no size: it ends where the next one begins.
		if pc < s.Value+s.Size || s.Size == 0 && m.IsCode(pc) {
			return s.Name
		}
		if s.Size != 0 {
			return ""
		}
	}
	return ""
}

// entriesAt finds the compilation unit and the function at pc, followed by those inlined into each other there.
func (m *DebugInfo) entriesAt(pc uint64) (unit *dwarf.Entry, nest []*dwarf.Entry) {
	r := m.dwarf.Reader()
	var current *dwarf.Entry
	for {
		e, err := r.Next()
		if err != nil || e == nil {
			return nil, nil
		}
		switch {
		case e.Tag == dwarf.TagCompileUnit:
			current = e
		case e.Tag == dwarf.TagSubprogram && m.covers(e, pc):
			nest = []*dwarf.Entry{e}
			if e.Children {
				nest = append(nest, m.inlinedAt(r, pc, 0)...)
			}
			return current, nest
		default:
			r.SkipChildren()
		}
	}
}

const maxNest = 64

// inlinedAt reads the children of r's last entry and returns the inlined functions that contain pc.
func (m *DebugInfo) inlinedAt(r *dwarf.Reader, pc uint64, depth int) []*dwarf.Entry {
	for {
		e, err := r.Next()
		if err != nil || e == nil || e.Tag == 0 || depth > maxNest {
			return nil
		}

		inlined := e.Tag == dwarf.TagInlinedSubroutine
		if !inlined && e.Tag != dwarf.TagLexDwarfBlock || !m.covers(e, pc) {
			r.SkipChildren()
			continue
		}

		var nest []*dwarf.Entry
		if inlined {
			nest = append(nest, e)
		}
		if e.Children {
			nest = append(nest, m.inlinedAt(r, pc, depth+1)...)
		}
		return nest
	}
}

// covers reports whether pc is part of e. Code that the linker removed has address 0 or 1.
func (m *DebugInfo) covers(e *dwarf.Entry, pc uint64) bool {
	ranges, err := m.dwarf.Ranges(e)
	if err != nil {
		return false
	}
	for _, r := range ranges {
		if r[0] > 1 && r[0] <= pc && pc < r[1] {
			return true
		}
	}
	return false
}

// nameOf returns a function's name, for an inlined one from its origin.
func (m *DebugInfo) nameOf(e *dwarf.Entry) string {
	// The name may be in the abstract origin, or in that one's specification.
	for range 4 {
		if name, ok := e.Val(dwarf.AttrName).(string); ok {
			return name
		}

		origin, ok := e.Val(dwarf.AttrAbstractOrigin).(dwarf.Offset)
		if !ok {
			origin, ok = e.Val(dwarf.AttrSpecification).(dwarf.Offset)
		}
		if !ok {
			return ""
		}

		r := m.dwarf.Reader()
		r.Seek(origin)
		next, err := r.Next()
		if err != nil || next == nil {
			return ""
		}
		e = next
	}
	return ""
}

// lineAt finds the line of an address. Sequences of removed code begin at 0.
func lineAt(lines *dwarf.LineReader, pc uint64) (string, int) {
	var e, last dwarf.LineEntry
	start := uint64(0)
	for first := true; lines.Next(&e) == nil; last = e {
		// The first entry of a sequence has none before it.
		if first {
			start, first = e.Address, e.EndSequence
			continue
		}
		if start > 1 && last.Address <= pc && pc < e.Address && last.File != nil {
			return shortPath(last.File.Name), last.Line
		}
		first = e.EndSequence
	}
	return "", 0
}

// callLine returns the file and line of the call of an inlined function.
func callLine(lines *dwarf.LineReader, e *dwarf.Entry) (string, int) {
	file, _ := e.Val(dwarf.AttrCallFile).(int64)
	line, _ := e.Val(dwarf.AttrCallLine).(int64)
	files := lines.Files()
	if file < 0 || int(file) >= len(files) || files[file] == nil {
		return "", 0
	}
	return shortPath(files[file].Name), int(line)
}

// shortPath returns a source's path relative to the project's folder.
func shortPath(name string) string { return path.Clean(filepath.ToSlash(name)) }
