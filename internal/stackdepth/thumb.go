// This file reads from Thumb code how it uses the stack (ARMv7-M and ARMv8-M Architecture Reference Manuals, chapters
// A7 and C2: encodings; M-profile cores run no other instruction set).

package stackdepth

import (
	"encoding/binary"
	"math/bits"
)

const (
	armSP = 13
	armLR = 14
)

// A thumbState holds what the preceding instructions set, for frames whose size and pointers whose value pass through
// registers.
type thumbState struct {
	registers
	alignment [16]int64 // bytes by which a copy of SP was aligned
	below     [16]bool  // a copy of SP minus an unknown number
	itBlock   int       // number of following instructions that IT makes conditional
	ended     bool      // the preceding instruction does not continue here
	popped    [16]bool  // loaded by POP: a jump to it is a return
}

func (s *thumbState) set(r int, v int64) {
	s.value[r], s.valid[r], s.popped[r] = int64(int32(v)), s.itBlock == 0, false
}

func (s *thumbState) get(r int) (int64, bool) { return s.value[r], s.valid[r] }

func (s *thumbState) forget(registers ...int) {
	for _, r := range registers {
		s.valid[r], s.popped[r] = false, false
	}
}

// clobber forgets the registers that a called function may change: all but r4 to r11.
func (s *thumbState) clobber() { s.forget(0, 1, 2, 3, 12, armLR) }

func decodeThumb(f *function, code []byte, v view) {
	var s thumbState
	for offset := 0; offset+2 <= len(code); {
		pc := f.addr + uint64(offset)
		if v.isData(pc) {
			s.ended = true
			offset += 2
			continue
		}

		f.enter(pc, &s.registers, !s.ended)
		conditional := s.itBlock > 0
		s.ended = false

		h := uint32(binary.LittleEndian.Uint16(code[offset:]))
		if h>>11 < 0b11101 {
			f.thumb16(&s, h, pc, v)
			offset += 2
		} else if offset+4 <= len(code) {
			f.thumb32(&s, h, uint32(binary.LittleEndian.Uint16(code[offset+2:])), pc, v)
			offset += 4
		} else {
			return
		}
		// An instruction that depends on a condition may not be executed, so the next one continues.
		if conditional {
			s.itBlock--
			s.ended = false
		}
	}
}

// load decodes LDR from an address whose base is in a register.
func (s *thumbState) load(rt, rn int, offset int64, v view) {
	base, ok := s.get(rn)
	s.forget(rt)
	if !ok {
		return
	}

	if n, ok := v.constant(uint64(uint32(base+offset)), 4); ok {
		s.set(rt, int64(n))
	}
}

// literal decodes LDR from an address relative to PC.
func (f *function) literal(s *thumbState, rt int, address uint64, v view) {
	s.forget(rt)
	if n, ok := v.constant(address, 4); ok {
		s.set(rt, int64(n))
		f.refs = append(f.refs, n)
	}
}

// branchRegister decodes BLX Rm, or BX Rm instead of a return.
func (f *function) branchRegister(s *thumbState, rm int, list *[]uint64, v view) {
	f.pointers = true
	// Where a jump goes by a table, not all paths to here are known.
	if n, ok := s.get(rm); ok && n&1 == 1 && !f.flow.table {
		if addr, ok := v.entryPoint(uint64(uint32(n))); ok {
			*list = append(*list, addr)
			return
		}
	}
	f.indirect = true
}

// loadPC decodes LDR PC from an address relative to PC.
func (f *function) loadPC(s *thumbState, address uint64, v view) {
	s.ended, f.pointers = true, true
	if n, ok := v.constant(address, 4); ok {
		if to, ok := v.entryPoint(n); ok {
			f.tails = append(f.tails, to)
			return
		}
	}
	f.indirect = true
}

func signed(v uint32, width uint) int64 { return int64(int32(v<<(32-width))) >> (32 - width) }

// thumb16 decodes one instruction of 16 bits.
func (f *function) thumb16(s *thumbState, h uint32, pc uint64, v view) {
	if !f.thumb16Flow(s, h, pc, v) {
		f.thumb16Value(s, h, pc, v)
	}
}

// thumb16Flow decodes an instruction that moves the stack pointer or jumps, and reports whether it was one.
func (f *function) thumb16Flow(s *thumbState, h uint32, pc uint64, v view) bool {
	rm := int(h >> 3 & 15)
	switch {
	case h&0xFE00 == 0xB400: // PUSH
		f.frame += 4 * int64(bits.OnesCount32(h&0x1FF))
	case h&0xFF80 == 0xB080: // SUB SP, #imm
		f.frame += 4 * int64(h&0x7F)
	case h&0xFF80 == 0xB000: // ADD SP, #imm
	case h&0xFF87 == 0x4485: // ADD SP, Rm
		f.addToSP(s, rm)
	case h&0xFF87 == 0x4685: // MOV SP, Rm
		f.moveToSP(s, rm)
	case h&0xFF87 == 0x4487: // ADD PC, Rm
		s.ended, f.flow.table = true, true
	case h&0xFF87 == 0x4687: // MOV PC, Rm: a return, or a switch
		s.ended = true
		f.flow.table = f.flow.table || rm != armLR && !s.popped[rm]
	case h&0xFF87 == 0x4780: // BLX Rm
		f.branchRegister(s, rm, &f.calls, v)
		s.clobber()
	case h&0xFF87 == 0x4700: // BX Rm
		s.ended = true
		if rm != armLR && !s.popped[rm] {
			f.branchRegister(s, rm, &f.tails, v)
		}
	case h&0xF800 == 0xE000: // B
		s.ended = true
		f.jump(pc+4+uint64(signed(h&0x7FF, 11)<<1), s.registers)
	case h&0xF000 == 0xD000 && h&0x0F00 < 0x0E00: // B<cond>
		f.jump(pc+4+uint64(signed(h&0xFF, 8)<<1), s.registers)
	case h&0xF500 == 0xB100: // CBZ, CBNZ
		f.jump(pc+4+uint64(h>>3&0x40|h>>2&0x3E), s.registers)
	case h&0xFF00 == 0xBF00 && h&0xF != 0: // IT
		s.itBlock = 4 - bits.TrailingZeros32(h&0xF)
	case h&0xFE00 == 0xBC00, h&0xF000 == 0xC000: // POP; LDM and STM
		s.ended = h&0xFF00 == 0xBD00
		for r := range 8 {
			if h>>r&1 == 1 {
				s.forget(r)
				s.popped[r] = h&0xFE00 == 0xBC00
			}
		}
	default:
		return false
	}
	return true
}

// thumb16Value decodes the effect of an instruction on registers.
func (f *function) thumb16Value(s *thumbState, h uint32, pc uint64, v view) {
	low, mid, high := int(h&7), int(h>>3&7), int(h>>8&7)
	rd, rm := int(h&7|h>>4&8), int(h>>3&15)
	switch {
	case h&0xFF78 == 0x4668: // MOV Rd, SP
		s.copySP(rd)
	case h&0xF800 == 0xA800: // ADD Rd, SP, #imm
		s.copySP(high)
	case h&0xFF00 == 0x4600: // MOV Rd, Rm
		s.compute(rd, rm, func(n int64) int64 { return n })
	case h&0xFF78 == 0x4478: // ADD Rd, PC
		if n, ok := s.get(rd); ok {
			s.set(rd, n+int64(pc+4))
			f.refs = append(f.refs, uint64(uint32(s.value[rd])))
		}
	case h&0xFF00 == 0x4400: // ADD Rd, Rm
		s.forget(rd)
	case h&0xFE00 == 0x1A00: // SUBS Rd, Rn, Rm
		s.below[low] = true
		s.forget(low)
	case h&0xF800 == 0x4800: // LDR Rd, [PC, #imm]
		f.literal(s, high, (pc+4)&^3+uint64(h&0xFF)*4, v)
	case h&0xF800 == 0x6800: // LDR Rd, [Rn, #imm]
		s.load(low, mid, int64(h>>6&31)*4, v)
	case h&0xF800 == 0x2000: // MOVS Rd, #imm
		s.set(high, int64(h&0xFF))
	case h&0xF800 == 0x0000: // LSLS Rd, Rm, #imm
		s.compute(low, mid, func(n int64) int64 { return n << (h >> 6 & 31) })
	case h&0xFFC0 == 0x4240: // RSBS Rd, Rm, #0
		s.compute(low, mid, func(n int64) int64 { return -n })
	case h&0xFFC0 == 0x43C0: // MVNS Rd, Rm
		s.compute(low, mid, func(n int64) int64 { return ^n })
	case h < 0x2000, h&0xFC00 == 0x4000, h&0xF000 == 0x5000, h&0xE000 == 0x6000, h&0xF000 == 0x8000, h&0xF000 == 0xB000:
		s.forget(low)
	case h&0xF000 == 0x3000, h&0xF000 == 0x9000, h&0xF800 == 0xA000:
		s.forget(high)
	}
}

func (s *thumbState) compute(rd, rm int, of func(int64) int64) {
	if n, ok := s.get(rm); ok {
		s.set(rd, of(n))
	} else {
		s.forget(rd)
	}
}

// addToSP decodes ADD SP, Rm: the start or end of a large frame.
func (f *function) addToSP(s *thumbState, rm int) {
	v, ok := s.get(rm)
	if !ok {
		f.dynamic = true
		return
	}

	f.frame += max(-v, 0)
}

// moveToSP decodes MOV SP, Rm: a frame's end, its alignment, or room for data.
func (f *function) moveToSP(s *thumbState, rm int) {
	f.frame += s.alignment[rm]
	f.dynamic = f.dynamic || s.below[rm]
}

// thumbImmediate computes ThumbExpandImm (ARMv7-M ARM A5.3.2) for the values that a frame can have.
func thumbImmediate(h, h2 uint32) int64 {
	imm := h>>10&1<<11 | h2>>12&7<<8 | h2&0xFF
	low := imm & 0xFF
	switch imm >> 8 {
	case 0:
		return int64(low)
	case 1:
		return int64(low | low<<16)
	case 2:
		return int64(low<<8 | low<<24)
	case 3:
		return int64(low | low<<8 | low<<16 | low<<24)
	}
	return int64(bits.RotateLeft32(low&0x7F|0x80, -int(imm>>7)))
}

// thumb32 decodes one instruction of 32 bits.
func (f *function) thumb32(s *thumbState, h, h2 uint32, pc uint64, v view) {
	if !f.thumb32Flow(s, h, h2, pc, v) {
		f.thumb32Value(s, h, h2, pc, v)
	}
}

// thumb32Flow decodes an instruction that moves the stack pointer or jumps, and reports whether it was one.
func (f *function) thumb32Flow(s *thumbState, h, h2 uint32, pc uint64, v view) bool {
	rn, rd, rm := int(h&15), int(h2>>8&15), int(h2&15)
	switch {
	case h&0xF800 == 0xF000 && h2&0xD000 == 0xD000: // BL
		f.calls = append(f.calls, pc+4+uint64(branchOffset(h, h2)))
		s.clobber()
		f.flow.table = f.flow.table || v.isData(pc+4) // one of libgcc's functions that jump by a table after the call
	case h&0xF800 == 0xF000 && h2&0xD000 == 0x9000: // B.W
		s.ended = true
		f.jump(pc+4+uint64(branchOffset(h, h2)), s.registers)
	case h&0xF800 == 0xF000 && h2&0xD000 == 0x8000 && h>>6&15 < 14: // B<cond>.W
		offset := h>>10&1<<20 | h2>>11&1<<19 | h2>>13&1<<18 | h&0x3F<<12 | h2&0x7FF<<1
		f.jump(pc+4+uint64(signed(offset, 21)), s.registers)
	case h == 0xE92D: // STMDB SP!, PUSH.W
		f.frame += 4 * int64(bits.OnesCount32(h2))
	case h == 0xF84D && h2&0x0F00 == 0x0D00: // STR Rt, [SP, #-imm]!
		f.frame += int64(h2 & 0xFF)
	case h == 0xE96D: // STRD Rt, Rt2, [SP, #-imm]!
		f.frame += 4 * int64(h2&0xFF)
	case h&0xFBE0 == 0xF1A0 && rn == armSP && h2>>15 == 0: // SUB.W Rd, SP, #const
		f.subtract(s, rd, thumbImmediate(h, h2))
	case h&0xFBF0 == 0xF2A0 && rn == armSP && h2>>15 == 0: // SUBW Rd, SP, #imm12
		f.subtract(s, rd, thumbImm12(h, h2))
	case h&0xFFE0 == 0xEBA0 && rn == armSP: // SUB.W Rd, SP, Rm
		n, ok := s.get(rm)
		if ok && h2&0x70F0 == 0 {
			f.subtract(s, rd, n)
		} else if rd == armSP {
			f.dynamic = true
		} else {
			s.below[rd] = true
		}
	case h&0xFFBF == 0xED2D && h2&0x0E00 == 0x0A00: // VPUSH
		f.frame += 4 * int64(h2&0xFF)
		f.floats = true
	case h&0xFF7F == 0xF85F && h2>>12 == 15: // LDR PC, [PC, #imm]: a veneer of the linker's
		f.loadPC(s, thumbLiteral(h, h2, pc), v)
	// TBB, TBH; LDR PC, [Rn, Rm]
	case h&0xFFF0 == 0xE8D0 && h2&0xFFE0 == 0xF000, h&0xFFF0 == 0xF850 && h2&0xFFC0 == 0xF000:
		s.ended, f.flow.table = true, true
	case h&0xFF70 == 0xF850 && h2>>12 == 15: // LDR PC, [Rn, #imm]
		s.ended = true
		f.indirect = f.indirect || rn != armSP // loaded from the stack, it is a return
		f.pointers = f.pointers || rn != armSP
	case h&0xFE50 == 0xE810: // LDM
		s.ended = h2>>15 == 1
		s.forgetAll()
	default:
		return false
	}
	return true
}

// thumb32Value decodes the effect of an instruction on registers.
func (f *function) thumb32Value(s *thumbState, h, h2 uint32, pc uint64, v view) {
	rn, rd, rm := int(h&15), int(h2>>8&15), int(h2&15)
	imm16 := int64(h&15<<12) | thumbImm12(h, h2)
	switch {
	case h&0xFFE0 == 0xEBA0: // SUB.W Rd, Rn, Rm
		s.below[rd] = true
		s.forget(rd)
	case h == 0xF36F: // BFC Rd, #0, #width
		if h2&0x70C0 == 0 {
			s.alignment[rd] = 1<<(h2&31+1) - 1
		}
		s.forget(rd)
	case h&0xFBF0 == 0xF020: // BIC Rd, Rn, #const
		s.alignment[rd] = thumbImmediate(h, h2)
		s.forget(rd)
	case h&0xFBF0 == 0xF240: // MOVW
		s.set(rd, imm16)
	case h&0xFBF0 == 0xF2C0: // MOVT
		if n, ok := s.get(rd); ok {
			n = imm16<<16 | n&0xFFFF
			s.set(rd, n)
			f.refs = append(f.refs, uint64(n))
		}
	case h&0xFBEF == 0xF04F: // MOV.W Rd, #const
		s.set(rd, int64(int32(thumbImmediate(h, h2))))
	case h&0xFBEF == 0xF06F: // MVN Rd, #const
		s.set(rd, ^int64(int32(thumbImmediate(h, h2))))
	case h&0xFF7F == 0xF85F: // LDR Rt, [PC, #imm]
		f.literal(s, int(h2>>12), thumbLiteral(h, h2, pc), v)
	case h&0xFFF0 == 0xF8D0: // LDR.W Rt, [Rn, #imm12]
		s.load(int(h2>>12), rn, int64(h2&0xFFF), v)
	case h&0xEC00 == 0xEC00 && h2&0x0E00 == 0x0A00: // coprocessors 10 and 11
		f.floats = true
		s.forget(int(h2 >> 12))
	default: // all others write to a register named in one of these places
		s.forget(rd, int(h2>>12), rm)
	}
}

// thumbImm12 returns the constant of 12 bits of ADDW, SUBW and MOVW.
func thumbImm12(h, h2 uint32) int64 { return int64(h>>10&1<<11 | h2>>12&7<<8 | h2&0xFF) }

// thumbLiteral returns the address that LDR relative to PC loads from.
func thumbLiteral(h, h2 uint32, pc uint64) uint64 {
	if h&0x80 == 0 {
		return (pc+4)&^3 - uint64(h2&0xFFF)
	}
	return (pc+4)&^3 + uint64(h2&0xFFF)
}

// copySP records that a register holds SP, or an address in the frame. Moving it back to SP ends the frame.
func (s *thumbState) copySP(rd int) { s.alignment[rd], s.below[rd], s.valid[rd] = 0, false, false }

// subtract decodes SUB Rd, SP, #n.
func (f *function) subtract(s *thumbState, rd int, n int64) {
	if rd == armSP {
		f.frame += n
		return
	}
	s.copySP(rd)
}

// branchOffset returns the offset of BL and B.W (encodings T1 and T4).
func branchOffset(h, h2 uint32) int64 {
	s, j1, j2 := h>>10&1, h2>>13&1, h2>>11&1
	i1, i2 := ^(j1^s)&1, ^(j2^s)&1
	return signed(s<<24|i1<<23|i2<<22|h&0x3FF<<12|h2&0x7FF<<1, 25)
}
