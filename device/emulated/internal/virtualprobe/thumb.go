// This file interprets code that debuggers put into RAM (flash loaders, checksums) on the chip's model: the model's
// flash controller must receive each access, and the emulator's own CPU cannot report them. It implements ARMv6-M and
// the instructions of ARMv7-M that such loaders use (DDI 0403, chapter A7). Any other instruction stops it with an
// error.

package virtualprobe

import (
	"fmt"
	"math/bits"
)

const (
	sp = 13
	lr = 14
	pc = 15
)

// A thumb is the state of the core while it runs code in RAM.
type thumb struct {
	r          [16]uint32 // r[15] is the address of the instruction
	n, z, c, v bool
	it         uint8 // ITSTATE: condition and mask
	mem        thumbMemory
	err        error // of the last access
}

// thumbMemory is the memory of the code; accesses are aligned.
type thumbMemory interface {
	Read(addr uint32, width int) (uint32, error)
	Write(addr uint32, width int, v uint32) error
}

func (t *thumb) load(addr uint32, width int) uint32 {
	if addr&uint32(width-1) != 0 {
		t.fail(fmt.Errorf("unaligned read at 0x%08x", addr))
		return 0
	}

	v, err := t.mem.Read(addr, width)
	t.fail(err)
	return v
}

func (t *thumb) store(addr uint32, width int, v uint32) {
	if addr&uint32(width-1) != 0 {
		t.fail(fmt.Errorf("unaligned write at 0x%08x", addr))
		return
	}

	t.fail(t.mem.Write(addr, width, v))
}

func (t *thumb) fail(err error) {
	if t.err == nil {
		t.err = err
	}
}

func (t *thumb) setNZ(v uint32) uint32 {
	t.n, t.z = int32(v) < 0, v == 0
	return v
}

// add computes AddWithCarry and sets the flags.
func (t *thumb) add(a, b, carry uint32) uint32 {
	sum := uint64(a) + uint64(b) + uint64(carry)
	v := uint32(sum)
	t.c = sum>>32 != 0
	t.v = (a^v)&(b^v)>>31 != 0
	return t.setNZ(v)
}

func (t *thumb) carry() uint32 {
	if t.c {
		return 1
	}
	return 0
}

// holds evaluates a condition (§A7.3).
func (t *thumb) holds(cond uint32) bool {
	var r bool
	switch cond >> 1 {
	case 0:
		r = t.z
	case 1:
		r = t.c
	case 2:
		r = t.n
	case 3:
		r = t.v
	case 4:
		r = t.c && !t.z
	case 5:
		r = t.n == t.v
	case 6:
		r = !t.z && t.n == t.v
	default:
		return true
	}
	return r != (cond&1 != 0)
}

// step runs one instruction. stop is true at a BKPT, on which r[15] stays.
func (t *thumb) step() (stop bool, err error) {
	at := t.r[pc]
	t.err = nil
	op := t.load(at, 2)
	if t.err != nil {
		return true, t.err
	}

	if op>>8 == 0xBE {
		return true, nil
	}

	length, known := uint32(2), true
	skip := false
	quiet := t.it != 0 // inside an IT block 16-bit data processing leaves the flags

	if t.it != 0 {
		skip = !t.holds(uint32(t.it >> 4))
		// The block ends, or the mask moves to the condition of its next instruction.
		if t.it&7 == 0 {
			t.it = 0
		} else {
			t.it = t.it&0xE0 | t.it<<1&0x1F
		}
	}

	// Instructions of 32 bits begin with 0b11101, 0b11110 or 0b11111.
	if op>>11 >= 0x1D {
		length = 4
		op = op<<16 | t.load(at+2, 2)
	}

	t.r[pc] = at + length
	if !skip {
		n, z, c, v := t.n, t.z, t.c, t.v
		if length == 4 {
			known = t.wide(at, op)
		} else {
			known = t.narrow(at, op)
			// comparisons set them anyway
			if quiet && op>>11 != 5 && op>>8 != 0x45 && op>>6 != 0x10A && op>>6 != 0x10B && op>>6 != 0x108 {
				t.n, t.z, t.c, t.v = n, z, c, v
			}
		}
	}

	if !known {
		t.r[pc] = at
		return true, fmt.Errorf("the probe cannot run the instruction 0x%04x at 0x%08x", op, at)
	}
	return t.err != nil, t.err
}

// narrow runs a 16-bit instruction.
func (t *thumb) narrow(at, op uint32) bool {
	d, n, m := op&7, op>>3&7, op>>6&7

	switch op >> 11 {
	case 0, 1, 2: // LSL, LSR, ASR by a constant
		t.r[d] = t.setNZ(t.shift(op>>11, t.r[n], op>>6&31, true))
	case 3:
		b := t.r[m]
		if op>>10&1 != 0 {
			b = m
		}
		if op>>9&1 != 0 {
			t.r[d] = t.add(t.r[n], ^b, 1)
		} else {
			t.r[d] = t.add(t.r[n], b, 0)
		}
	case 4:
		t.r[op>>8&7] = t.setNZ(op & 0xFF)
	case 5:
		t.add(t.r[op>>8&7], ^(op & 0xFF), 1)
	case 6:
		t.r[op>>8&7] = t.add(t.r[op>>8&7], op&0xFF, 0)
	case 7:
		t.r[op>>8&7] = t.add(t.r[op>>8&7], ^(op & 0xFF), 1)
	case 8:
		return t.processing(at, op)
	case 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19:
		t.loadStore(at, op)
	case 20:
		t.r[op>>8&7] = (at+4)&^3 + op&0xFF*4
	case 21:
		t.r[op>>8&7] = t.r[sp] + op&0xFF*4
	case 22, 23:
		return t.miscellaneous(at, op)
	case 24:
		t.multiple(op>>8&7, op&0xFF, false)
	case 25:
		t.multiple(op>>8&7, op&0xFF, true)
	case 26, 27:
		// 14 is undefined, 15 is SVC.
		if op>>8&0xF >= 14 {
			return false
		}
		if t.holds(op >> 8 & 0xF) {
			t.r[pc] = at + 4 + uint32(int32(int8(op))*2)
		}
	case 28:
		t.r[pc] = at + 4 + uint32(int32(op<<21)>>20)
	default:
		return false
	}
	return true
}

// loadStore runs the loads and stores of one value.
func (t *thumb) loadStore(at, op uint32) {
	d, n := op&7, op>>3&7

	switch op >> 11 {
	case 9: // LDR relative to PC
		t.r[op>>8&7] = t.load((at+4)&^3+op&0xFF*4, 4)
	case 10, 11:
		t.indexed(op)
	case 12:
		t.store(t.r[n]+op>>6&31*4, 4, t.r[d])
	case 13:
		t.r[d] = t.load(t.r[n]+op>>6&31*4, 4)
	case 14:
		t.store(t.r[n]+op>>6&31, 1, t.r[d]&0xFF)
	case 15:
		t.r[d] = t.load(t.r[n]+op>>6&31, 1)
	case 16:
		t.store(t.r[n]+op>>6&31*2, 2, t.r[d]&0xFFFF)
	case 17:
		t.r[d] = t.load(t.r[n]+op>>6&31*2, 2)
	case 18:
		t.store(t.r[sp]+op&0xFF*4, 4, t.r[op>>8&7])
	case 19:
		t.r[op>>8&7] = t.load(t.r[sp]+op&0xFF*4, 4)
	}
}

// shift shifts by a constant, or by a register's low byte if immediate is false, and sets the carry.
func (t *thumb) shift(kind, v, by uint32, immediate bool) uint32 {
	// A constant of 0 means 32, except for LSL.
	if by == 0 {
		if !immediate || kind == 0 {
			return v
		}
		by = 32
	}

	switch kind {
	case 0:
		t.c = by <= 32 && v>>(32-by)&1 != 0
		return v << by
	case 1:
		t.c = by <= 32 && v>>(by-1)&1 != 0
		return v >> by
	default:
		by = min(by, 32)
		t.c = int32(v)>>(by-1)&1 != 0
		return uint32(int32(v) >> by)
	}
}

// processing runs the data-processing instructions (§A5.2.2), and passes on the special ones.
func (t *thumb) processing(at, op uint32) bool {
	d, m := op&7, op>>3&7
	if op>>10&1 != 0 {
		t.special(at, op)
		return true
	}

	a, b := t.r[d], t.r[m]
	switch op >> 6 & 15 {
	case 0:
		t.r[d] = t.setNZ(a & b)
	case 1:
		t.r[d] = t.setNZ(a ^ b)
	case 2, 3, 4:
		t.r[d] = t.setNZ(t.shift(op>>6&15-2, a, b&0xFF, false))
	case 5:
		t.r[d] = t.add(a, b, t.carry())
	case 6:
		t.r[d] = t.add(a, ^b, t.carry())
	case 7:
		t.r[d] = t.setNZ(bits.RotateLeft32(a, -int(b&31)))
		if b&0xFF != 0 {
			t.c = t.r[d]>>31 != 0
		}
	case 8:
		t.setNZ(a & b)
	case 9:
		t.r[d] = t.add(0, ^b, 1)
	case 10:
		t.add(a, ^b, 1)
	case 11:
		t.add(a, b, 0)
	case 12:
		t.r[d] = t.setNZ(a | b)
	case 13:
		t.r[d] = t.setNZ(a * b)
	case 14:
		t.r[d] = t.setNZ(a &^ b)
	default:
		t.r[d] = t.setNZ(^b)
	}
	return true
}

// special runs the special-data instructions, which have all registers (§A5.2.3).
func (t *thumb) special(at, op uint32) {
	d, m := op&7|op>>4&8, op>>3&15
	b := t.r[m]
	// The program counter reads as 4 beyond the instruction.
	if m == pc {
		b = at + 4
	}

	switch op >> 8 & 3 {
	case 0:
		t.r[d] += b
	case 1:
		t.add(t.r[d], ^b, 1)
	case 2:
		t.r[d] = b
		if d == pc {
			t.r[pc] = b &^ 1
		}
	default:
		// BLX: the return address has the Thumb bit.
		if op>>7&1 != 0 {
			t.r[lr] = at + 2 | 1
		}
		t.r[pc] = b &^ 1
	}
}

// indexed runs the loads and stores with a register as offset.
func (t *thumb) indexed(op uint32) {
	d, addr := op&7, t.r[op>>3&7]+t.r[op>>6&7]

	switch op >> 9 & 7 {
	case 0:
		t.store(addr, 4, t.r[d])
	case 1:
		t.store(addr, 2, t.r[d]&0xFFFF)
	case 2:
		t.store(addr, 1, t.r[d]&0xFF)
	case 3:
		t.r[d] = uint32(int32(int8(t.load(addr, 1))))
	case 4:
		t.r[d] = t.load(addr, 4)
	case 5:
		t.r[d] = t.load(addr, 2)
	case 6:
		t.r[d] = t.load(addr, 1)
	default:
		t.r[d] = uint32(int32(int16(t.load(addr, 2))))
	}
}

// miscellaneous runs the instructions of §A5.2.5.
func (t *thumb) miscellaneous(at, op uint32) bool {
	d, m := op&7, op>>3&7
	switch {
	case op>>8 == 0xB0:
		if op>>7&1 != 0 {
			t.r[sp] -= op & 0x7F * 4
		} else {
			t.r[sp] += op & 0x7F * 4
		}
	case op&0xF500 == 0xB100: // CBZ, CBNZ
		if (t.r[d] == 0) == (op>>11&1 == 0) {
			t.r[pc] = at + 4 + op>>3&31*2 + op>>9&1*64
		}
	case op>>6 == 0x2C8:
		t.r[d] = uint32(int32(int16(t.r[m])))
	case op>>6 == 0x2C9:
		t.r[d] = uint32(int32(int8(t.r[m])))
	case op>>6 == 0x2CA:
		t.r[d] = t.r[m] & 0xFFFF
	case op>>6 == 0x2CB:
		t.r[d] = t.r[m] & 0xFF
	case op>>9 == 0x5A:
		// Bit 8 adds LR to the list, in POP the program counter.
		list := op&0xFF | op>>8&1<<lr
		t.r[sp] -= uint32(4 * bits.OnesCount32(list))
		t.transfer(t.r[sp], list, false)
	case op>>9 == 0x5E:
		list := op&0xFF | op>>8&1<<pc
		from := t.r[sp]
		t.r[sp] += uint32(4 * bits.OnesCount32(list))
		t.transfer(from, list, true)
	case op>>6 == 0x2E8:
		t.r[d] = bits.ReverseBytes32(t.r[m])
	case op>>5 == 0x5B3: // CPS: there are no interrupts here
	case op>>8 == 0xBF:
		if op&0xF != 0 {
			t.it = uint8(op)
		}
	default:
		return false
	}
	return true
}

// multiple runs LDMIA and STMIA.
func (t *thumb) multiple(base, list uint32, load bool) {
	from := t.r[base]
	// A loaded base keeps its loaded value.
	if list>>base&1 == 0 || !load {
		t.r[base] = from + uint32(4*bits.OnesCount32(list))
	}

	if !load && list>>base&1 != 0 && list&(1<<base-1) == 0 { // the base is stored with its original value
		after := t.r[base]
		t.r[base] = from
		t.transfer(from, list, false)
		t.r[base] = after
		return
	}

	t.transfer(from, list, load)
}

func (t *thumb) transfer(addr, list uint32, load bool) {
	for i := range uint32(16) {
		if list>>i&1 == 0 {
			continue
		}

		switch {
		case !load:
			t.store(addr, 4, t.r[i])
		case i == pc:
			t.r[pc] = t.load(addr, 4) &^ 1
		default:
			t.r[i] = t.load(addr, 4)
		}
		addr += 4
	}
}

// wide runs a 32-bit instruction.
func (t *thumb) wide(at, op uint32) bool {
	switch {
	case op&0xF800D000 == 0xF000D000 || op&0xF800D000 == 0xF0009000: // BL, B.W
		s, j1, j2 := op>>26&1, op>>13&1, op>>11&1
		// J1 and J2 are bits of the offset, inverted if its sign is 0.
		offset := op>>16&0x3FF<<12 | op&0x7FF<<1 | (1^j1^s)<<23 | (1^j2^s)<<22 | s<<24
		if op>>14&1 != 0 {
			t.r[lr] = at + 4 | 1
		}
		t.r[pc] = at + 4 + uint32(int32(offset<<7)>>7)
	case op&0xFFF0FFC0 == 0xF3B08F40: // DSB, DMB, ISB
	case op&0xFBF08000 == 0xF2400000: // MOVW
		t.r[op>>8&15] = immediate16(op)
	case op&0xFBF08000 == 0xF2C00000: // MOVT
		d := op >> 8 & 15
		t.r[d] = t.r[d]&0xFFFF | immediate16(op)<<16
	case op&0xFA008000 == 0xF0000000:
		return t.modified(op)
	case op&0xFE000000 == 0xF8000000:
		return t.memory(at, op)
	default:
		return false
	}
	return true
}

func immediate16(op uint32) uint32 { return op>>16&15<<12 | op>>26&1<<11 | op>>12&7<<8 | op&0xFF }

// modified runs the data-processing instructions with a modified immediate (§A5.3.1, §A5.3.2).
func (t *thumb) modified(op uint32) bool {
	imm, n, d, set := expand(op), op>>16&15, op>>8&15, op>>20&1 != 0
	carry, over := t.c, t.v
	// MOV and MVN have no first operand: PC stands in its place.
	a := uint32(0)
	if n != pc {
		a = t.r[n]
	}
	flagN, flagZ := t.n, t.z
	var v uint32

	switch op >> 21 & 15 {
	case 0:
		v = t.setNZ(a & imm)
	case 1:
		v = t.setNZ(a &^ imm)
	case 2:
		v = t.setNZ(a | imm)
	case 3:
		if n == pc {
			a = 0
		}
		v = t.setNZ(a | ^imm)
	case 4:
		v = t.setNZ(a ^ imm)
	case 8:
		v = t.add(a, imm, 0)
	case 10:
		v = t.add(a, imm, t.carry())
	case 11:
		v = t.add(a, ^imm, t.carry())
	case 13:
		v = t.add(a, ^imm, 1)
	case 14:
		v = t.add(imm, ^a, 1)
	default:
		return false
	}

	if !set {
		t.n, t.z, t.c, t.v = flagN, flagZ, carry, over
	}

	// Without a destination these are comparisons, which always set the flags.
	if d != pc {
		t.r[d] = v
	} else if !set {
		return false
	}
	return true
}

// expand computes ThumbExpandImm (§A5.3.2).
func expand(op uint32) uint32 {
	code := op>>26&1<<11 | op>>12&7<<8 | op&0xFF
	b := code & 0xFF

	switch code >> 8 {
	case 0:
		return b
	case 1:
		return b<<16 | b
	case 2:
		return b<<24 | b<<8
	case 3:
		return b * 0x01010101
	}

	return bits.RotateLeft32(code&0x7F|0x80, -int(code>>7))
}

// memory runs the single loads and stores (§A5.3.7 to §A5.3.10).
func (t *thumb) memory(at, op uint32) bool {
	width := 1 << (op >> 21 & 3)
	n, d := op>>16&15, op>>12&15
	load, signed := op>>20&1 != 0, op>>24&1 != 0

	if width > 4 {
		return false
	}

	addr, back := uint32(0), false
	switch {
	case n == pc:
		addr = (at + 4) &^ 3
		if op>>23&1 != 0 {
			addr += op & 0xFFF
		} else {
			addr -= op & 0xFFF
		}
	case op>>23&1 != 0:
		addr = t.r[n] + op&0xFFF
	case op>>11&1 != 0:
		after := t.r[n] - op&0xFF
		if op>>9&1 != 0 {
			after = t.r[n] + op&0xFF
		}
		addr, back = t.r[n], op>>8&1 != 0
		if op>>10&1 != 0 {
			addr = after
		}
		// Written back last: the base may be the value to store.
		if back {
			defer func(base uint32) { t.r[base] = after }(n)
		}
	case op>>6&0x3F == 0:
		addr = t.r[n] + t.r[op&15]<<(op>>4&3)
	default:
		return false
	}

	if !load {
		t.store(addr, width, t.r[d]&(1<<(8*width)-1))
		return true
	}

	v := t.load(addr, width)
	if signed && width == 1 {
		v = uint32(int32(int8(v)))
	} else if signed && width == 2 {
		v = uint32(int32(int16(v)))
	}
	if d == pc {
		v &^= 1
	}
	t.r[d] = v
	return true
}
