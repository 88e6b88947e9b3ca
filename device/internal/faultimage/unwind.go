// This file unwinds the call chain.

package faultimage

import (
	"debug/elf"
	"encoding/binary"
	"maps"

	"github.com/boardsmith/boardsmith/rpc/fault"
)

// A machine describes a processor for unwinding: DWARF's numbers of registers.
type machine struct {
	first     uint64 // of the record's registers
	sp        uint64
	lr        uint64 // return address register
	hasLR     bool
	afterCall func(m *DebugInfo, pc uint64) bool // reports whether a call instruction ends there
}

var machines = map[elf.Machine]machine{
	elf.EM_ARM:     {0, 13, 14, true, afterThumbCall},
	elf.EM_RISCV:   {1, 2, 1, true, afterRISCVCall},
	elf.EM_X86_64:  {0, 7, 16, false, afterX86Call},
	elf.EM_AARCH64: {0, 31, 30, true, afterA64Call},
}

// A stackPart is the part of the stack in a record.
type stackPart struct {
	start uint64 // address of its first byte
	bytes []byte
	order binary.ByteOrder
	word  int
}

// read returns the word at an address; false if the record does not hold it.
func (s stackPart) read(addr uint64) (uint64, bool) {
	size, offset := uint64(len(s.bytes)), addr-s.start
	if s.bytes == nil || addr < s.start || offset > size || size-offset < uint64(s.word) {
		return 0, false
	}
	b := s.bytes[offset:]
	if s.word == 4 {
		return uint64(s.order.Uint32(b)), true
	}
	return s.order.Uint64(b), true
}

// frames returns the call chain, innermost first.
func (m *DebugInfo) frames(rec *fault.Record) []fault.Frame {
	proc, ok := machines[m.file.Machine]
	if !ok || rec.WordBytes != m.calls.word {
		return nil
	}

	u := unwinder{DebugInfo: m, machine: proc, bias: m.loadBias(rec)}
	if rec.SPValid {
		u.stack = stackPart{m.stackAt(rec), rec.Stack, m.calls.order, m.calls.word}
	}

	u.state = frameState{}
	for i, v := range rec.Registers {
		u.state[proc.first+uint64(i)] = v
	}
	u.state[proc.sp] = rec.SP
	if proc.hasLR {
		u.state[proc.lr] = rec.LR
	}

	if rec.PCValid {
		u.unwind(m.withoutThumb(rec.PC - u.bias))
	} else {
		u.scan()
	}
	return u.frames
}

// stackAt returns the address of the recorded stack: the one that a process records; else sp or, if sp is below a
// stack by at most a frame (bare.h), the stack's lowest address.
func (m *DebugInfo) stackAt(rec *fault.Record) uint64 {
	const maxFrame, maxStack = 1 << 20, 64 << 10
	if rec.Arch == fault.ArchProcess && len(rec.More) > 0 {
		return rec.More[0]
	}
	for _, start := range m.stacks {
		if rec.SP < start && start-rec.SP <= maxFrame {
			return start
		}
		// sp is inside this stack.
		if rec.SP >= start && rec.SP-start <= maxStack {
			break
		}
	}
	return rec.SP
}

// loadBias returns the difference between a process's addresses and the ELF file's.
func (m *DebugInfo) loadBias(rec *fault.Record) uint64 {
	if rec.Arch != fault.ArchProcess || rec.Status == 0 {
		return 0
	}
	for _, s := range m.file.Progs {
		if s.Type == elf.PT_LOAD && s.Off == 0 {
			return rec.Status - s.Vaddr
		}
	}
	return 0
}

// An unwinder is the state of unwinding.
type unwinder struct {
	*DebugInfo
	machine
	bias   uint64
	stack  stackPart
	state  frameState
	frames []fault.Frame
}

// unwind appends the call chain of the instruction at pc, an address of the image.
func (u *unwinder) unwind(pc uint64) {
	u.addFrames(pc, false)
	first := true
	for len(u.frames) < maxFrames {
		call := pc
		if !first {
			call-- // pc is a return address: the call is before it
		}

		caller, ret, ok := u.calls.caller(call, u.state, u.sp, u.stack.read)
		if !ok && first {
			caller, ret, ok = u.leafCaller()
		}

		// A caller's frame lies above that of its callee; otherwise the chain might not end.
		if !ok || !first && caller[u.sp] <= u.state[u.sp] {
			u.scan()
			return
		}

		pc = u.withoutThumb(ret - u.bias)
		if !u.IsCode(pc) {
			u.end(ret)
			return
		}
		if !u.afterCall(u.DebugInfo, pc) { // no return address: it was overwritten
			u.scan()
			return
		}

		u.state, first = caller, false
		u.addFrames(pc-1, false)
	}
}

// leafCaller is for a function without frame information, or a jump to an invalid address. It assumes that the stack is
// unused so far.
func (u *unwinder) leafCaller() (frameState, uint64, bool) {
	caller := maps.Clone(u.state)
	ret, ok := u.state[u.lr]
	if !u.hasLR {
		ret, ok = u.stack.read(u.state[u.sp])
		caller[u.sp] += uint64(u.stack.word) // RET pops it
	}

	if !ok || !u.afterCall(u.DebugInfo, u.withoutThumb(ret-u.bias)) {
		return nil, 0, false
	}
	return caller, ret, true
}

// end ends a chain that leads to an address without code. The program's entry has the return address 0, an exception
// handler one from 0xffffff00 on; any other is an error, and the remaining callers are guessed.
func (u *unwinder) end(ret uint64) {
	if ret == 0 || u.file.Machine == elf.EM_ARM && ret >= 0xffffff00 {
		return
	}
	u.scan()
}

// maxGuessed limits the guessed frames.
const maxGuessed = 8

// scan guesses callers: each word on the stack that points after a call instruction counts as a return address.
func (u *unwinder) scan() {
	count := 0
	for addr := max(u.state[u.sp], u.stack.start); count < maxGuessed &&
		len(u.frames) < maxFrames; addr += uint64(u.stack.word) {
		v, ok := u.stack.read(addr)
		if !ok {
			return
		}

		// In Thumb code a return address is odd.
		if u.file.Machine == elf.EM_ARM && v&1 == 0 {
			continue
		}

		pc := u.withoutThumb(v - u.bias)
		if u.IsCode(pc) && u.afterCall(u.DebugInfo, pc) {
			u.addFrames(pc-1, true)
			count++
		}
	}
}

// addFrames appends the functions inlined at pc, then the function itself.
func (u *unwinder) addFrames(pc uint64, guessed bool) {
	frames := u.FramesAt(pc)
	for i := range frames {
		frames[i].Guessed = guessed
	}
	u.frames = append(u.frames, frames...)
}

// afterThumbCall reports whether BL, or BLX of a register, ends at pc (ARMv7-M ARM, A7.7.18 and A7.7.19).
func afterThumbCall(m *DebugInfo, pc uint64) bool {
	if b := m.codeBefore(pc, 4); b != nil {
		high, low := m.file.ByteOrder.Uint16(b), m.file.ByteOrder.Uint16(b[2:])
		if high&0xf800 == 0xf000 && low&0xd000 == 0xd000 {
			return true
		}
	}

	b := m.codeBefore(pc, 2)
	return b != nil && m.file.ByteOrder.Uint16(b)&0xff87 == 0x4780
}

// afterRISCVCall reports whether JAL or JALR that link to ra, C.JALR, or C.JAL of RV32 ends at pc (unprivileged ISA,
// 2.5 and 16.4).
func afterRISCVCall(m *DebugInfo, pc uint64) bool {
	if b := m.codeBefore(pc, 4); b != nil {
		if op := binary.LittleEndian.Uint32(b); op&0xfff == 0x0ef || op&0x7fff == 0x00e7 {
			return true
		}
	}

	b := m.codeBefore(pc, 2)
	if b == nil {
		return false
	}
	op := binary.LittleEndian.Uint16(b)
	return op&0xf07f == 0x9002 && op&0x0f80 != 0 || m.file.Class == elf.ELFCLASS32 && op&0xe003 == 0x2001
}

// afterX86Call reports whether CALL rel32, or CALL r/m64 of 2 to 7 bytes, ends at pc.
func afterX86Call(m *DebugInfo, pc uint64) bool {
	if b := m.codeBefore(pc, 5); b != nil && b[0] == 0xe8 {
		return true
	}
	for n := uint64(2); n <= 7; n++ {
		if b := m.codeBefore(pc, n); b != nil && b[0] == 0xff && b[1]>>3&7 == 2 {
			return true
		}
	}
	return false
}

// afterA64Call reports whether BL or BLR ends at pc.
func afterA64Call(m *DebugInfo, pc uint64) bool {
	b := m.codeBefore(pc, 4)
	if b == nil {
		return false
	}
	op := binary.LittleEndian.Uint32(b)
	return op&0xfc000000 == 0x94000000 || op&0xfffffc1f == 0xd63f0000
}
