// This file unwinds the call chain.

package fault

import (
	"debug/elf"
	"encoding/binary"
	"maps"

	"github.com/boardsmith/boardsmith/rpc"
)

// A machineKind describes a processor for unwinding: DWARF's numbers of registers.
type machineKind struct {
	first     uint64 // of the record's registers
	sp        uint64
	lr        uint64 // return address register
	hasLR     bool
	afterCall func(p *Program, pc uint64) bool // reports whether a call instruction ends there
}

var machineKinds = map[elf.Machine]machineKind{
	elf.EM_ARM:     {0, 13, 14, true, afterThumbCall},
	elf.EM_RISCV:   {1, 2, 1, true, afterRISCVCall},
	elf.EM_X86_64:  {0, 7, 16, false, afterX86Call},
	elf.EM_AARCH64: {0, 31, 30, true, afterA64Call},
}

// A keptStack is the part of the stack in a record.
type keptStack struct {
	at    uint64 // address of its first byte
	bytes []byte
	order binary.ByteOrder
	word  int
}

func (s keptStack) read(at uint64) (uint64, bool) {
	if s.bytes == nil || at < s.at || at-s.at > uint64(len(s.bytes)) || uint64(len(s.bytes))-(at-s.at) < uint64(s.word) {
		return 0, false
	}
	b := s.bytes[at-s.at:]
	if s.word == 4 {
		return uint64(s.order.Uint32(b)), true
	}
	return s.order.Uint64(b), true
}

// frames returns the call chain, innermost first.
func (p *Program) frames(rec *rpc.FaultRecord) []rpc.Frame {
	kind, ok := machineKinds[p.File.Machine]
	if !ok || rec.WordBytes != p.calls.word {
		return nil
	}
	w := walk{Program: p, kind: kind, moved: p.moved(rec)}
	if rec.SPValid {
		w.stack = keptStack{p.stackAt(rec), rec.Stack, p.calls.order, p.calls.word}
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

// stackAt returns the address of the recorded stack: the one that a process records; else sp or, if sp is below a
// stack by at most a frame (bare.h), the stack's lowest address.
func (p *Program) stackAt(rec *rpc.FaultRecord) uint64 {
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

// moved returns the offset between a process's load address and the ELF file's addresses.
func (p *Program) moved(rec *rpc.FaultRecord) uint64 {
	if rec.Arch != rpc.ArchProcess || rec.Status == 0 {
		return 0
	}
	for _, s := range p.File.Progs {
		if s.Type == elf.PT_LOAD && s.Off == 0 {
			return rec.Status - s.Vaddr
		}
	}
	return 0
}

// A walk is the state of unwinding.
type walk struct {
	*Program
	kind   machineKind
	moved  uint64
	stack  keptStack
	state  frameState
	frames []rpc.Frame
}

// run starts at the instruction pc, an address of the image.
func (w *walk) run(pc uint64) {
	w.add(pc, false)
	first := true
	for len(w.frames) < maxFrames {
		at := pc
		if !first {
			at-- // a return address: the call is before it
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
		if !w.IsCode(pc) {
			w.ended(back)
			return
		}
		w.state, first = up, false
		w.add(pc-1, false)
	}
}

// leaf assumes that a function without frame information, or a jump to an invalid address, has not used the stack
// yet.
func (w *walk) leaf() (frameState, uint64, bool) {
	up := maps.Clone(w.state)
	back, ok := w.state[w.kind.lr]
	if !w.kind.hasLR {
		back, ok = w.stack.read(w.state[w.kind.sp])
		up[w.kind.sp] += uint64(w.stack.word) // RET pops it
	}
	if !ok || !w.kind.afterCall(w.Program, w.plain(back-w.moved)) {
		return nil, 0, false
	}
	return up, back, true
}

// ended handles a chain that leads to an address without code: the program's entry has no caller, anything else is
// an error.
func (w *walk) ended(back uint64) {
	if back == 0 || w.File.Machine == elf.EM_ARM && back >= 0xffffff00 {
		return
	}
	w.guess()
}

// maxGuessed limits the guessed frames.
const maxGuessed = 8

// guess assumes that each word on the stack that points after a call instruction is a return address.
func (w *walk) guess() {
	found := 0
	for at := max(w.state[w.kind.sp], w.stack.at); found < maxGuessed &&
		len(w.frames) < maxFrames; at += uint64(w.stack.word) {
		v, ok := w.stack.read(at)
		if !ok {
			return
		}
		if w.File.Machine == elf.EM_ARM && v&1 == 0 {
			continue
		}
		pc := w.plain(v - w.moved)
		if w.IsCode(pc) && w.kind.afterCall(w.Program, pc) {
			w.add(pc-1, true)
			found++
		}
	}
}

// add appends the functions inlined at pc, then the function itself.
func (w *walk) add(pc uint64, guessed bool) {
	frames := w.At(pc)
	for i := range frames {
		frames[i].Guessed = guessed
	}
	w.frames = append(w.frames, frames...)
}

// afterThumbCall: BL, or BLX of a register (ARMv7-M ARM, A7.7.18 and A7.7.19).
func afterThumbCall(p *Program, pc uint64) bool {
	if b := p.before(pc, 4); b != nil {
		high, low := p.File.ByteOrder.Uint16(b), p.File.ByteOrder.Uint16(b[2:])
		if high&0xf800 == 0xf000 && low&0xd000 == 0xd000 {
			return true
		}
	}
	b := p.before(pc, 2)
	return b != nil && p.File.ByteOrder.Uint16(b)&0xff87 == 0x4780
}

// afterRISCVCall: JAL or JALR that link to ra, C.JALR, or C.JAL of RV32 (unprivileged ISA, 2.5 and 16.4).
func afterRISCVCall(p *Program, pc uint64) bool {
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
	return op&0xf07f == 0x9002 && op&0x0f80 != 0 || p.File.Class == elf.ELFCLASS32 && op&0xe003 == 0x2001
}

// afterX86Call: CALL rel32, or CALL r/m64 of 2 to 7 bytes.
func afterX86Call(p *Program, pc uint64) bool {
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
func afterA64Call(p *Program, pc uint64) bool {
	b := p.before(pc, 4)
	if b == nil {
		return false
	}
	op := binary.LittleEndian.Uint32(b)
	return op&0xfc000000 == 0x94000000 || op&0xfffffc1f == 0xd63f0000
}
