// Package fault finds where in an image a device faulted: functions and lines, from the ELF file's debugging
// information, and the call chain, from the registers and the stack in the fault record.
package fault

import (
	"debug/dwarf"
	"debug/elf"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"

	"github.com/boardsmith/boardsmith/internal/firmware"
	"github.com/boardsmith/boardsmith/rpc"
)

// A Program holds the parts of an image that explain faults.
type Program struct {
	File   *elf.File
	dwarf  *dwarf.Data // nil without debugging information
	calls  callFrames
	code   []codeRange
	symbol []elf.Symbol // functions, by address
	stacks []uint64     // lowest addresses of the stacks, ascending

	folders firmware.Folders
}

// A codeRange is one section of instructions.
type codeRange struct {
	at    uint64
	bytes []byte
}

const maxFrames = 64

// Read reads an image. The landmarks are its template's.
func Read(f *elf.File, of firmware.Landmarks) (*Program, error) {
	p := &Program{File: f, folders: of.Folders}
	for _, s := range of.Stacks {
		if at, ok := s.Find(f); ok {
			p.stacks = append(p.stacks, at.Start)
		}
	}
	slices.Sort(p.stacks)
	return p, p.read()
}

func (p *Program) read() (err error) {
	p.calls = callFrames{order: p.File.ByteOrder, word: 4}
	if p.File.Class == elf.ELFCLASS64 {
		p.calls.word = 8
	}
	for _, s := range p.File.Sections {
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
			p.code = append(p.code, codeRange{s.Addr, b})
			continue
		}
		if err := p.calls.add(b, s.Name == ".eh_frame", s.Addr); err != nil {
			return fmt.Errorf("%s: %w", s.Name, err)
		}
	}
	symbols, err := p.File.Symbols()
	if err != nil && !errors.Is(err, elf.ErrNoSymbols) {
		return err
	}
	for _, s := range symbols {
		if elf.ST_TYPE(s.Info) == elf.STT_FUNC && s.Section != elf.SHN_UNDEF {
			s.Value = p.plain(s.Value)
			p.symbol = append(p.symbol, s)
		}
	}
	slices.SortStableFunc(p.symbol, func(a, b elf.Symbol) int {
		switch {
		case a.Value < b.Value:
			return -1
		case a.Value > b.Value:
			return 1
		}
		return 0
	})
	p.dwarf, err = p.File.DWARF()
	if err != nil {
		p.dwarf = nil // stripped: use symbols only
	}
	return nil
}

// plain returns an instruction's address without the Thumb bit.
func (p *Program) plain(pc uint64) uint64 {
	if p.File.Machine == elf.EM_ARM {
		return pc &^ 1
	}
	return pc
}

// IsCode reports whether there are instructions at an address.
func (p *Program) IsCode(pc uint64) bool { return p.before(pc, 0) != nil }

// before returns the n bytes of instructions before an address, or nil unless the address is inside or at the end
// of instructions.
func (p *Program) before(pc uint64, n uint64) []byte {
	for _, c := range p.code {
		if pc >= c.at && pc-c.at <= uint64(len(c.bytes)) && pc-c.at >= n && (n > 0 || pc-c.at < uint64(len(c.bytes))) {
			return c.bytes[pc-c.at-n : pc-c.at : pc-c.at]
		}
	}
	return nil
}

// At returns function, file and line of an address, after the functions inlined there.
func (p *Program) At(pc uint64) []rpc.Frame {
	frame := rpc.Frame{PC: pc, Function: p.symbolAt(pc)}
	if p.dwarf == nil {
		return []rpc.Frame{frame}
	}
	unit, nest := p.functionAt(pc)
	if unit == nil {
		return []rpc.Frame{frame}
	}
	lines, err := p.dwarf.LineReader(unit)
	if err != nil || lines == nil {
		return []rpc.Frame{frame}
	}
	frame.File, frame.Line = lineAt(lines, pc)
	if len(nest) == 0 {
		return []rpc.Frame{frame}
	}
	var frames []rpc.Frame
	for i := len(nest) - 1; i >= 0; i-- {
		frame.Inlined = i > 0
		if name := p.nameOf(nest[i]); name != "" {
			frame.Function = name
		}
		frames = append(frames, frame)
		frame = rpc.Frame{PC: pc}
		frame.File, frame.Line = callLine(lines, nest[i])
	}
	return frames
}

// symbolAt returns the name of the function at pc, or "".
func (p *Program) symbolAt(pc uint64) string {
	for _, s := range slices.Backward(p.symbol) {
		if s.Value > pc {
			continue
		}
		if pc < s.Value+s.Size || s.Size == 0 && p.IsCode(pc) {
			return s.Name
		}
		if s.Size != 0 {
			return ""
		}
	}
	return ""
}

// functionAt finds the compilation unit and the function at pc, followed by those inlined into each other there.
func (p *Program) functionAt(pc uint64) (unit *dwarf.Entry, nest []*dwarf.Entry) {
	r := p.dwarf.Reader()
	var current *dwarf.Entry
	for {
		e, err := r.Next()
		if err != nil || e == nil {
			return nil, nil
		}
		switch {
		case e.Tag == dwarf.TagCompileUnit:
			current = e
		case e.Tag == dwarf.TagSubprogram && p.covers(e, pc):
			nest = []*dwarf.Entry{e}
			if e.Children {
				nest = append(nest, p.inlinedAt(r, pc, 0)...)
			}
			return current, nest
		default:
			r.SkipChildren()
		}
	}
}

const maxNest = 64

// inlinedAt reads the children of r's last entry and returns the inlined functions that contain pc.
func (p *Program) inlinedAt(r *dwarf.Reader, pc uint64, depth int) []*dwarf.Entry {
	for {
		e, err := r.Next()
		if err != nil || e == nil || e.Tag == 0 || depth > maxNest {
			return nil
		}
		inlined := e.Tag == dwarf.TagInlinedSubroutine
		if !inlined && e.Tag != dwarf.TagLexDwarfBlock || !p.covers(e, pc) {
			r.SkipChildren()
			continue
		}
		var nest []*dwarf.Entry
		if inlined {
			nest = append(nest, e)
		}
		if e.Children {
			nest = append(nest, p.inlinedAt(r, pc, depth+1)...)
		}
		return nest
	}
}

// covers reports whether pc is part of e. Code that the linker removed has address 0 or 1.
func (p *Program) covers(e *dwarf.Entry, pc uint64) bool {
	ranges, err := p.dwarf.Ranges(e)
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
func (p *Program) nameOf(e *dwarf.Entry) string {
	for range 4 {
		if name, ok := e.Val(dwarf.AttrName).(string); ok {
			return name
		}
		at, ok := e.Val(dwarf.AttrAbstractOrigin).(dwarf.Offset)
		if !ok {
			at, ok = e.Val(dwarf.AttrSpecification).(dwarf.Offset)
		}
		if !ok {
			return ""
		}
		r := p.dwarf.Reader()
		r.Seek(at)
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
	begins := uint64(0)
	for fresh := true; lines.Next(&e) == nil; last = e {
		if fresh {
			begins, fresh = e.Address, e.EndSequence
			continue
		}
		if begins > 1 && last.Address <= pc && pc < e.Address && last.File != nil {
			return shortPath(last.File.Name), last.Line
		}
		fresh = e.EndSequence
	}
	return "", 0
}

// callLine returns where an inlined function was called.
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
