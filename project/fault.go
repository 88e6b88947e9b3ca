// This file tells where in an image a device stood when it faulted: functions and lines, from the debugging information
// of the ELF file, and the call chain, from the registers and the piece of stack in the fault record.

package project

import (
	"debug/dwarf"
	"debug/elf"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/rpc"
)

// Explain says where in the image a device stood that kept the record. The image must be the one that it ran. Frames
// that the record does not hold the stack of are missing; some may be guesses, and say so. Without anything to go by
// there are no frames, and no error. An image whose file is a later build's is looked for in the cache; so is the one that
// the record names, where that is another.
func Explain(i *Image, rec *rpc.Record) (rpc.Explanation, error) { return Env{}.explain(i, rec, "") }

// explain is Explain for a host that knows what it had called: "" if it does not.
func (e Env) explain(i *Image, rec *rpc.Record, called string) (rpc.Explanation, error) {
	var is rpc.Explanation
	find := e.whole
	if rec.Build != [8]byte(i.BuildID[:8]) {
		is.Build, called = hex.EncodeToString(rec.Build[:]), "" // the name is one of what runs now
		find = func(*Image) (*Image, error) { return FindImage(e, is.Build) }
	}
	i, err := find(i)
	if err != nil {
		return is, err
	}
	f, err := i.elf()
	if err != nil {
		return is, err
	}
	p, err := readFaultProgram(f)
	if err != nil {
		return is, failure.New(failure.Internal, "", "%s: %w", i.Path, err)
	}
	is.Frames = p.frames(rec)
	is.Operator = operatorOf(is.Frames)
	if p.isOperator(called) {
		is.Operator = called
	}
	return is, nil
}

// unchanged refuses an image whose file is a later build's.
func (i *Image) unchanged() error {
	t, err := openTree(filepath.Dir(i.Path))
	if err != nil {
		return err
	}
	defer t.close()
	sum, err := t.digest(filepath.Base(i.Path))
	if err == nil && sum != i.Digest {
		err = i.isAnother()
	}
	return err
}

// explain is Explain for a session, which goes on without where that fails.
func (d *Device) explain(i *Image) func(*rpc.Record, string) rpc.Explanation {
	return func(rec *rpc.Record, called string) rpc.Explanation {
		e, err := d.env.explain(i, rec, called)
		if err != nil {
			d.env.log().Warn("the fault's place in the program is unknown", "error", err)
		}
		return e
	}
}

// operatorOf is the model's operator in a call chain: the outermost function of the model's sources, but for the
// functions that run the whole model. It is "" where the chain breaks off before what calls operators, the runtime or such
// a function: then the outermost that was found may be one that the operator called.
func operatorOf(frames []rpc.Frame) string {
	for i, f := range slices.Backward(frames) {
		if !ofOperator(f) || f.Guessed {
			continue
		}
		if i+1 == len(frames) || !callsOperators(frames[i+1]) {
			return ""
		}
		return f.Function
	}
	return ""
}

// ofOperator says whether a frame is one of an operator, or of what operators call.
func ofOperator(f rpc.Frame) bool {
	return strings.HasPrefix(f.File, modelFolder) && f.Function != "" && !runsModel(f.Function)
}

// runsModel says whether a function is one that runs all operators of a model, by its name.
func runsModel(name string) bool {
	return strings.HasSuffix(name, "__tvm_main__") || strings.HasSuffix(name, "_run")
}

// callsOperators says whether a frame is one from which operators are called.
func callsOperators(f rpc.Frame) bool {
	return !f.Guessed && (strings.HasPrefix(f.File, crtFolder+"/") || strings.HasPrefix(f.File, modelFolder) && runsModel(f.Function))
}

// isOperator says whether there is an operator of that name.
func (p *faultProgram) isOperator(name string) bool {
	return slices.ContainsFunc(p.symbol, func(s elf.Symbol) bool {
		frames := []rpc.Frame(nil)
		if name != "" && s.Name == name {
			frames = p.describe(s.Value)
		}
		return len(frames) > 0 && ofOperator(frames[len(frames)-1])
	})
}

// A faultProgram is an image as far as faults need it.
type faultProgram struct {
	file   *elf.File
	dwarf  *dwarf.Data // nil without debugging information
	calls  callFrames
	code   []codeRange
	symbol []elf.Symbol // functions, by address
	stacks []uint64     // lowest addresses of the stacks that the linker script made
}

// A codeRange is one section of instructions.
type codeRange struct {
	at    uint64
	bytes []byte
}

const maxFrames = 64

func readFaultProgram(f *elf.File) (*faultProgram, error) {
	p := &faultProgram{file: f}
	return p, p.read()
}

func (p *faultProgram) read() (err error) {
	p.calls = callFrames{order: p.file.ByteOrder, word: 4}
	if p.file.Class == elf.ELFCLASS64 {
		p.calls.word = 8
	}
	for _, s := range p.file.Sections {
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
	symbols, err := p.file.Symbols()
	if err != nil && !errors.Is(err, elf.ErrNoSymbols) {
		return err
	}
	for _, s := range symbols {
		if s.Name == "bare_stack_start" || s.Name == "bare_handler_stack_start" {
			p.stacks = append(p.stacks, s.Value)
		}
		if elf.ST_TYPE(s.Info) == elf.STT_FUNC && s.Section != elf.SHN_UNDEF {
			s.Value = p.plain(s.Value)
			p.symbol = append(p.symbol, s)
		}
	}
	slices.Sort(p.stacks)
	slices.SortStableFunc(p.symbol, func(a, b elf.Symbol) int {
		switch {
		case a.Value < b.Value:
			return -1
		case a.Value > b.Value:
			return 1
		}
		return 0
	})
	p.dwarf, err = p.file.DWARF()
	if err != nil {
		p.dwarf = nil // stripped: symbols have to do
	}
	return nil
}

// plain is an instruction's address without Thumb's bit.
func (p *faultProgram) plain(pc uint64) uint64 {
	if p.file.Machine == elf.EM_ARM {
		return pc &^ 1
	}
	return pc
}

// isCode says whether there are instructions at an address.
func (p *faultProgram) isCode(pc uint64) bool { return p.before(pc, 0) != nil }

// before returns the n bytes of instructions before an address, which must itself be one of instructions, or end
// them: not nil for n = 0 then.
func (p *faultProgram) before(pc uint64, n uint64) []byte {
	for _, c := range p.code {
		if pc >= c.at && pc-c.at <= uint64(len(c.bytes)) && pc-c.at >= n && (n > 0 || pc-c.at < uint64(len(c.bytes))) {
			return c.bytes[pc-c.at-n : pc-c.at : pc-c.at]
		}
	}
	return nil
}

// A machineKind is what the call chain needs to know of a processor: DWARF's numbers of registers.
type machineKind struct {
	first     uint64 // of the record's registers
	sp        uint64
	lr        uint64 // return address register
	hasLR     bool
	afterCall func(p *faultProgram, pc uint64) bool // whether a call instruction ends there
}

var machineKinds = map[elf.Machine]machineKind{
	elf.EM_ARM:     {0, 13, 14, true, afterThumbCall},
	elf.EM_RISCV:   {1, 2, 1, true, afterRISCVCall},
	elf.EM_X86_64:  {0, 7, 16, false, afterX86Call},
	elf.EM_AARCH64: {0, 31, 30, true, afterA64Call},
}

// A faultStack is what a record kept of the stack.
type faultStack struct {
	at    uint64 // address of its first byte
	bytes []byte
	order binary.ByteOrder
	word  int
}

func (s faultStack) read(at uint64) (uint64, bool) {
	if s.bytes == nil || at < s.at || at-s.at > uint64(len(s.bytes)) || uint64(len(s.bytes))-(at-s.at) < uint64(s.word) {
		return 0, false
	}
	b := s.bytes[at-s.at:]
	if s.word == 4 {
		return uint64(s.order.Uint32(b)), true
	}
	return s.order.Uint64(b), true
}

// frames is the call chain, innermost first.
func (p *faultProgram) frames(rec *rpc.Record) []rpc.Frame {
	kind, ok := machineKinds[p.file.Machine]
	if !ok || rec.WordBytes != p.calls.word {
		return nil
	}
	w := walk{faultProgram: p, kind: kind, moved: p.moved(rec)}
	if rec.SPValid {
		w.stack = faultStack{p.stackAt(rec), rec.Stack, p.calls.order, p.calls.word}
	}
	w.state = frameState{}
	for i, v := range rec.Registers {
		w.state[kind.first+uint64(i)] = v
	}
	w.state[kind.sp] = rec.SP
	if kind.hasLR {
		w.state[kind.lr] = rec.LR
	}
	if rec.PCValid {
		w.run(p.plain(rec.PC - w.moved))
	} else {
		w.guess()
	}
	return w.frames
}

// stackAt is where the kept piece of stack begins: where a process says; else at sp, or, if that lies below a stack by no
// more than a frame (bare.h), at the stack's lowest address.
func (p *faultProgram) stackAt(rec *rpc.Record) uint64 {
	const maxFrame, maxStack = 1 << 20, 64 << 10
	if rec.Arch == rpc.ArchProcess && len(rec.More) > 0 {
		return rec.More[0]
	}
	for _, start := range p.stacks {
		if rec.SP < start && start-rec.SP <= maxFrame {
			return start
		}
		if rec.SP >= start && rec.SP-start <= maxStack {
			break
		}
	}
	return rec.SP
}

// moved is how far from the ELF file's addresses a process was loaded.
func (p *faultProgram) moved(rec *rpc.Record) uint64 {
	if rec.Arch != rpc.ArchProcess || rec.Status == 0 {
		return 0
	}
	for _, s := range p.file.Progs {
		if s.Type == elf.PT_LOAD && s.Off == 0 {
			return rec.Status - s.Vaddr
		}
	}
	return 0
}

// A walk goes up a call chain.
type walk struct {
	*faultProgram
	kind   machineKind
	moved  uint64
	stack  faultStack
	state  frameState
	frames []rpc.Frame
}

// run begins at the instruction pc, in the image's addresses.
func (w *walk) run(pc uint64) {
	w.add(pc, false)
	first := true
	for len(w.frames) < maxFrames {
		at := pc
		if !first {
			at-- // it is a return address: the call stands before it
		}
		up, back, ok := w.calls.caller(at, w.state, w.kind.sp, w.stack.read)
		if !ok && first {
			up, back, ok = w.leaf()
		}
		if !ok || !first && up[w.kind.sp] <= w.state[w.kind.sp] {
			w.guess()
			return
		}
		pc = w.plain(back - w.moved)
		if !w.isCode(pc) {
			w.ended(back)
			return
		}
		w.state, first = up, false
		w.add(pc-1, false)
	}
}

// leaf takes a function that nothing is known of, or a jump to nowhere, for one that has not used the stack yet.
func (w *walk) leaf() (frameState, uint64, bool) {
	up := maps.Clone(w.state)
	back, ok := w.state[w.kind.lr]
	if !w.kind.hasLR {
		back, ok = w.stack.read(w.state[w.kind.sp])
		up[w.kind.sp] += uint64(w.stack.word) // RET takes it off the stack
	}
	if !ok || !w.kind.afterCall(w.faultProgram, w.plain(back-w.moved)) {
		return nil, 0, false
	}
	return up, back, true
}

// ended looks further where a chain led to no code: the start of the program has no caller, all else is an error.
func (w *walk) ended(back uint64) {
	if back == 0 || w.file.Machine == elf.EM_ARM && back >= 0xffffff00 {
		return
	}
	w.guess()
}

// maxGuessed is how many frames are guessed.
const maxGuessed = 8

// guess takes each word on the stack that follows a call instruction for a return address.
func (w *walk) guess() {
	found := 0
	for at := max(w.state[w.kind.sp], w.stack.at); found < maxGuessed && len(w.frames) < maxFrames; at += uint64(w.stack.word) {
		v, ok := w.stack.read(at)
		if !ok {
			return
		}
		if w.file.Machine == elf.EM_ARM && v&1 == 0 {
			continue
		}
		pc := w.plain(v - w.moved)
		if w.isCode(pc) && w.kind.afterCall(w.faultProgram, pc) {
			w.add(pc-1, true)
			found++
		}
	}
}

// add appends the function at pc, after those that were inlined into it there.
func (w *walk) add(pc uint64, guessed bool) {
	frames := w.describe(pc)
	for i := range frames {
		frames[i].Guessed = guessed
	}
	w.frames = append(w.frames, frames...)
}

// afterThumbCall: BL, or BLX of a register (ARMv7-M ARM, A7.7.18 and A7.7.19).
func afterThumbCall(p *faultProgram, pc uint64) bool {
	if b := p.before(pc, 4); b != nil {
		high, low := p.file.ByteOrder.Uint16(b), p.file.ByteOrder.Uint16(b[2:])
		if high&0xf800 == 0xf000 && low&0xd000 == 0xd000 {
			return true
		}
	}
	b := p.before(pc, 2)
	return b != nil && p.file.ByteOrder.Uint16(b)&0xff87 == 0x4780
}

// afterRISCVCall: JAL or JALR that link to ra, C.JALR, or C.JAL of RV32 (unprivileged ISA, 2.5 and 16.4).
func afterRISCVCall(p *faultProgram, pc uint64) bool {
	if b := p.before(pc, 4); b != nil {
		if op := binary.LittleEndian.Uint32(b); op&0xfff == 0x0ef || op&0x7fff == 0x00e7 {
			return true
		}
	}
	b := p.before(pc, 2)
	if b == nil {
		return false
	}
	op := binary.LittleEndian.Uint16(b)
	return op&0xf07f == 0x9002 && op&0x0f80 != 0 || p.file.Class == elf.ELFCLASS32 && op&0xe003 == 0x2001
}

// afterX86Call: CALL rel32, or CALL r/m64 of 2 to 7 bytes.
func afterX86Call(p *faultProgram, pc uint64) bool {
	if b := p.before(pc, 5); b != nil && b[0] == 0xe8 {
		return true
	}
	for n := uint64(2); n <= 7; n++ {
		if b := p.before(pc, n); b != nil && b[0] == 0xff && b[1]>>3&7 == 2 {
			return true
		}
	}
	return false
}

// afterA64Call: BL or BLR.
func afterA64Call(p *faultProgram, pc uint64) bool {
	b := p.before(pc, 4)
	if b == nil {
		return false
	}
	op := binary.LittleEndian.Uint32(b)
	return op&0xfc000000 == 0x94000000 || op&0xfffffc1f == 0xd63f0000
}

// describe says which function, file and line an address is; the functions inlined there come first.
func (p *faultProgram) describe(pc uint64) []rpc.Frame {
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

// symbolAt is the name of the function at pc, "" if there is none.
func (p *faultProgram) symbolAt(pc uint64) string {
	for _, s := range slices.Backward(p.symbol) {
		if s.Value > pc {
			continue
		}
		if pc < s.Value+s.Size || s.Size == 0 && p.isCode(pc) {
			return s.Name
		}
		if s.Size != 0 {
			return ""
		}
	}
	return ""
}

// functionAt finds the compilation unit and the function at pc, followed by those inlined into each other there.
func (p *faultProgram) functionAt(pc uint64) (unit *dwarf.Entry, nest []*dwarf.Entry) {
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

// inlinedAt reads the children of what r has just read, and returns the inlined functions that pc is part of.
func (p *faultProgram) inlinedAt(r *dwarf.Reader, pc uint64, depth int) []*dwarf.Entry {
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

// covers says whether pc is part of e. What the linker left out claims to lie at 0, or 1.
func (p *faultProgram) covers(e *dwarf.Entry, pc uint64) bool {
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

// nameOf is a function's name, which for one that was inlined stands elsewhere.
func (p *faultProgram) nameOf(e *dwarf.Entry) string {
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

// lineAt finds the line of an address. Sequences of what the linker left out begin at 0.
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

// callLine is where an inlined function was called.
func callLine(lines *dwarf.LineReader, e *dwarf.Entry) (string, int) {
	file, _ := e.Val(dwarf.AttrCallFile).(int64)
	line, _ := e.Val(dwarf.AttrCallLine).(int64)
	files := lines.Files()
	if file < 0 || int(file) >= len(files) || files[file] == nil {
		return "", 0
	}
	return shortPath(files[file].Name), int(line)
}

// shortPath is a source's path as seen from the project's folder.
func shortPath(name string) string { return path.Clean(filepath.ToSlash(name)) }
