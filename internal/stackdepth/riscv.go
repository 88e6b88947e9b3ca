// This file reads from RISC-V code how it uses the stack (The RISC-V Instruction Set Manual, volume I, chapters 2, 16
// and 24).

package stackdepth

import "encoding/binary"

const (
	riscvRA = 1
	riscvSP = 2
	// the return address of functions that use their caller's frame; compilers jump through it only to return
	riscvT0 = 5
)

// A riscvState holds what the preceding instructions set, for large frames, calls of distant functions and pointers.
type riscvState struct {
	registers
	below [32]bool // SP minus an unknown number
	ended bool     // the preceding instruction does not continue here
	auipc uint32   // the register that the preceding instruction set by AUIPC; 0 if it was another instruction
}

func (s *riscvState) set(r uint32, v int64) { s.value[r], s.valid[r] = v, r != 0 }

func (s *riscvState) get(r uint32) (int64, bool) {
	if r == 0 {
		return 0, true
	}
	return s.value[r], s.valid[r]
}

// clobber forgets the registers that a called function may change: all but s0 to s11.
func (s *riscvState) clobber() {
	for r := range uint32(32) {
		if r != 8 && r != 9 && (r < 18 || r > 27) {
			s.valid[r] = false
		}
	}
}

// forget marks a register as unknown.
func (s *riscvState) forget(r uint32) { s.valid[r], s.below[r] = false, false }

func decodeRISCV(f *function, code []byte, v view) {
	var s riscvState
	for offset := 0; offset+2 <= len(code); {
		pc := f.addr + uint64(offset)
		f.enter(pc, &s.registers, !s.ended)
		s.ended = v.isData(pc)

		low := binary.LittleEndian.Uint16(code[offset:])
		switch {
		case v.isData(pc):
			offset += 2
		case low&3 != 3:
			f.riscv16(&s, uint32(low), pc, v)
			offset += 2
		case offset+4 > len(code):
			return
		default:
			f.riscv32(&s, binary.LittleEndian.Uint32(code[offset:]), pc, v)
			offset += 4
		}
	}
}

func (f *function) riscv16(s *riscvState, h uint32, pc uint64, v view) {
	s.auipc = 0
	f.riscv16Value(s, h, v)
	f.riscv16Flow(s, h, pc)
}

// riscv16Value decodes loads and other instructions that leave an unknown value in a register.
func (f *function) riscv16Value(s *riscvState, h uint32, v view) {
	rd, rs2 := h>>7&31, h>>2&31
	switch h & 0xE003 {
	case 0x4000: // C.LW
		s.load(8+rs2&7, 8+rd&7, int64(h>>7&0x38|h>>4&4|h<<1&0x40), 4, v)
	case 0x6000: // C.LD, or C.FLW
		if f.narrow {
			break
		}
		s.load(8+rs2&7, 8+rd&7, int64(h>>7&0x38|h<<1&0xC0), 8, v)
	case 0x0000: // C.ADDI4SPN
		s.forget(8 + rs2&7)
	case 0x8001: // shifts, C.ANDI, C.SUB and the like
		s.forget(8 + rd&7)
	case 0x0002, 0x4002, 0x6002: // C.SLLI, C.LWSP, C.LDSP or C.FLWSP
		s.forget(rd)
	}
}

// riscv16Flow decodes instructions that move the stack pointer or jump, and arithmetic.
func (f *function) riscv16Flow(s *riscvState, h uint32, pc uint64) {
	rd, rs2 := h>>7&31, h>>2&31
	imm6 := signed(h>>7&0x20|h>>2&31, 6)
	switch {
	case h&0xC003 == 0xC001: // C.BEQZ, C.BNEZ
		f.jump(pc+uint64(signed(h>>4&0x100|h>>7&0x18|h<<1&0xC0|h>>2&6|h<<3&0x20, 9)), s.registers)
	case h&0xEF83 == 0x6101: // C.ADDI16SP
		f.frame += max(-signed(h>>3&0x200|h>>2&0x10|h<<1&0x40|h<<4&0x180|h<<3&0x20, 10), 0)
	case h&0xE003 == 0x0001: // C.ADDI
		f.addImmediate(s, rd, rd, imm6)
	case h&0xE003 == 0x2001: // C.JAL; on 64 bits C.ADDIW, which is never used on a function's address
		if f.narrow {
			f.calls = append(f.calls, pc+uint64(compressedJump(h)))
			s.clobber()
		} else {
			f.addImmediate(s, rd, rd, imm6)
		}
	case h&0xE003 == 0xA001: // C.J
		s.ended = true
		f.jump(pc+uint64(compressedJump(h)), s.registers)
	case h&0xE003 == 0x4001: // C.LI
		s.set(rd, imm6)
	case h&0xE003 == 0x6001: // C.LUI
		s.set(rd, imm6<<12)
	case h&0xF003 == 0x8002 && rs2 == 0: // C.JR
		s.ended = true
		if rd != riscvRA && rd != riscvT0 {
			f.jumpTo(s, rd, 0)
		}
	case h&0xF003 == 0x9002 && rs2 == 0 && rd != 0: // C.JALR
		f.callTo(s, 0, rd, 0)
	case h&0xF003 == 0x8002 && rs2 != 0: // C.MV
		f.move(s, rd, rs2)
	case h&0xF003 == 0x9002 && rs2 != 0: // C.ADD
		f.add(s, rd, rd, rs2)
	}
}

// compressedJump returns the offset of C.J and C.JAL.
func compressedJump(h uint32) int64 {
	return signed(h>>1&0x800|h<<2&0x400|h>>1&0x300|h<<1&0x80|h>>1&0x40|h<<3&0x20|h>>7&0x10|h>>2&0xE, 12)
}

func (f *function) riscv32(s *riscvState, w uint32, pc uint64, v view) {
	rd, rs1, rs2, funct3 := w>>7&31, w>>15&31, w>>20&31, w>>12&7

	imm12 := signed(w>>20, 12)
	auipc := s.auipc

	s.auipc = 0
	switch opcode := w & 0x7F; {
	case opcode == 0x6F: // JAL
		offset := signed(w>>11&0x100000|w&0xFF000|w>>9&0x800|w>>20&0x7FE, 21)
		if rd == 0 {
			s.ended = true
			f.jump(pc+uint64(offset), s.registers)
		} else {
			f.calls = append(f.calls, pc+uint64(offset))
			s.clobber()
		}
	case opcode == 0x63: // BEQ and the like
		f.jump(pc+uint64(signed(w>>19&0x1000|w<<4&0x800|w>>20&0x7E0|w>>7&0x1E, 13)), s.registers)
	case opcode == 0x03 && funct3 == 2: // LW
		s.load(rd, rs1, imm12, 4, v)
	case opcode == 0x03 && funct3 == 3: // LD
		s.load(rd, rs1, imm12, 8, v)
	case opcode == 0x67 && rd == 0 && (rs1 == riscvRA || rs1 == riscvT0) && imm12 == 0: // RET, and JR t0
		s.ended = true
	case opcode == 0x67 && rd == 0: // JALR without a return address
		s.ended = true
		f.jumpTo(s, rs1, imm12)
	case opcode == 0x67: // JALR
		f.callTo(s, auipc, rs1, imm12)
	case opcode == 0x17: // AUIPC
		s.auipc = rd
		s.set(rd, int64(pc)+int64(int32(w&0xFFFFF000)))
	case opcode == 0x37: // LUI
		s.set(rd, int64(int32(w&0xFFFFF000)))
	case (opcode == 0x13 || opcode == 0x1B) && funct3 == 0: // ADDI, ADDIW
		f.addImmediate(s, rd, rs1, imm12)
	case opcode == 0x13 && funct3 == 7 && rd == riscvSP: // ANDI SP, Rs, -alignment
		f.frame += max(-imm12-1, 0)
	case opcode == 0x33 && funct3 == 0 && w>>25 == 0: // ADD
		f.add(s, rd, rs1, rs2)
	case opcode == 0x33 && funct3 == 0 && w>>25 == 0x20: // SUB
		f.subtractRegister(s, rd, rs1, rs2)
	case opcode == 0x23: // SW and the like
	case opcode == 0x27: // FSW, FSD
		f.floats = true
	default:
		f.floats = f.floats || opcode == 0x07 // FLW, FLD
		s.forget(rd)
	}
}

func (f *function) addImmediate(s *riscvState, rd, rs uint32, n int64) {
	if _, ok := s.get(riscvSP); ok && rs == riscvSP && rd == riscvSP {
		s.forget(rd) // the second half of loading an address into SP, not of moving it
	} else if rd == riscvSP && rs == riscvSP {
		f.frame += max(-n, 0)
	} else if rd == riscvSP {
		f.move(s, rd, rs)
	} else if v, ok := s.get(rs); ok {
		s.set(rd, v+n)
		if rs != 0 {
			f.refs = append(f.refs, f.address(v+n))
		}
	} else {
		s.valid[rd] = false
	}

	if rs == riscvSP {
		s.below[rd] = false
	}
}

// move decodes MV: to SP it ends a frame, or makes room for data.
func (f *function) move(s *riscvState, rd, rs uint32) {
	if rd == riscvSP {
		f.dynamic = f.dynamic || s.below[rs]
		return
	}

	s.below[rd] = s.below[rs] && rs != riscvSP

	if v, ok := s.get(rs); ok && rs != 0 {
		s.set(rd, v)
	} else {
		s.valid[rd] = false
	}
}

func (f *function) add(s *riscvState, rd, rs1, rs2 uint32) {
	if rd != riscvSP {
		s.valid[rd] = false
		return
	}

	other := rs2
	if rs1 != riscvSP {
		other = rs1
	}
	if v, ok := s.get(other); ok {
		f.frame += max(-v, 0)
	} else {
		f.dynamic = true
	}
}

func (f *function) subtractRegister(s *riscvState, rd, rs1, rs2 uint32) {
	v, ok := s.get(rs2)
	switch {
	case rs1 != riscvSP:
		s.valid[rd] = false
	case rd == riscvSP && ok:
		f.frame += max(v, 0)
	case rd == riscvSP:
		f.dynamic = true
	default:
		s.below[rd] = !ok
	}
}

// load decodes LW or LD from an address whose base is in a register.
func (s *riscvState) load(rd, rs uint32, offset int64, bytes int, v view) {
	base, ok := s.get(rs)

	s.forget(rd)
	if !ok || rs == 0 {
		return
	}

	address := uint64(base + offset)
	if bytes == 4 {
		address = uint64(uint32(address))
	}

	if n, ok := v.constant(address, bytes); ok {
		s.set(rd, int64(n))
	}
}

// callTo and jumpTo decode a call of and a jump to the address in a register: a constant, of a distant function, or a
// pointer's value.
func (f *function) callTo(s *riscvState, auipc, r uint32, offset int64) {
	if n, ok := s.get(r); ok && r != 0 && (r == auipc || !f.flow.table) {
		f.calls = append(f.calls, f.address(n+offset))
		f.pointers = true
	} else {
		f.pointers, f.indirect = true, true
	}
	s.clobber()
}

func (f *function) jumpTo(s *riscvState, r uint32, offset int64) {
	f.pointers = true

	if n, ok := s.get(r); ok && r != 0 {
		f.jump(f.address(n+offset), s.registers)
		return
	}
	f.flow.table = true
	f.jumps++
}

// address returns a number as a register of the machine holds it.
func (f *function) address(v int64) uint64 {
	if f.narrow {
		return uint64(uint32(v))
	}
	return uint64(v)
}
