package templates_test

import (
	"math/bits"
	"testing"
)

// This file is a core that executes ARMv6-M, as much of it as the tests need.

// A core executes those instructions of ARMv6-M that the second stage and the code beside it are made of.
type core struct {
	r          [16]uint32
	msp        uint32
	n, z, c, v bool
	bus        bus
	stopped    bool
}

// A bus is the core's memory. It fails the test at an access that is not allowed.
type bus interface {
	load(addr uint32, width int) uint32
	store(addr uint32, width int, v uint32)
	// enters is called before each instruction. If it returns true, it has executed the function at that address, and the
	// core returns to LR.
	enters(pc uint32) bool
}

const stop = 0xFFFFFFFE // LR of the outermost call

func (c *core) run(t *testing.T, pc uint32) {
	t.Helper()
	c.r[15] = pc &^ 1
	for range 2_000_000 {
		if c.stopped || c.r[15] == stop&^1 {
			return
		}
		if c.bus.enters(c.r[15]) {
			c.r[15] = c.r[14] &^ 1
			continue
		}
		op := c.bus.load(c.r[15], 2)
		c.r[15] += 2
		if !c.execute(op) {
			t.Fatalf("instruction %#04x at %#x is not known here", op, c.r[15]-2)
		}
	}
	t.Fatal("does not end")
}

func (c *core) flags(v uint32) uint32 {
	c.n, c.z = v>>31 != 0, v == 0
	return v
}

// add is AddWithCarry of the architecture manual.
func (c *core) add(a, b, carry uint32) uint32 {
	sum := uint64(a) + uint64(b) + uint64(carry)
	v := uint32(sum)
	c.c, c.v = sum>>32 != 0, (a^v)&(b^v)>>31 != 0
	return c.flags(v)
}

func (c *core) holds(cond uint32) bool {
	is := [...]bool{c.z, c.c, c.n, c.v, c.c && !c.z, c.n == c.v, !c.z && c.n == c.v}[cond>>1]
	return is != (cond&1 != 0)
}

func (c *core) execute(op uint32) bool {
	rd, rn, rm, rw := &c.r[op&7], c.r[op>>3&7], c.r[op>>6&7], &c.r[op>>8&7]
	imm3, imm5, imm8, pc := op>>6&7, op>>6&31, op&0xFF, c.r[15]+2
	switch {
	case op>>11 == 0b00000: // LSLS
		if imm5 != 0 {
			c.c = rn>>(32-imm5)&1 != 0
		}
		*rd = c.flags(rn << imm5)
	case op>>11 == 0b00001 && imm5 != 0: // LSRS
		c.c = rn>>(imm5-1)&1 != 0
		*rd = c.flags(rn >> imm5)
	case op>>9 == 0b0001100:
		*rd = c.add(rn, rm, 0)
	case op>>9 == 0b0001101:
		*rd = c.add(rn, ^rm, 1)
	case op>>9 == 0b0001110:
		*rd = c.add(rn, imm3, 0)
	case op>>9 == 0b0001111:
		*rd = c.add(rn, ^imm3, 1)
	case op>>11 == 0b00100: // MOVS
		*rw = c.flags(imm8)
	case op>>11 == 0b00101: // CMP
		c.add(*rw, ^imm8, 1)
	case op>>11 == 0b00110: // ADDS
		*rw = c.add(*rw, imm8, 0)
	case op>>11 == 0b00111: // SUBS
		*rw = c.add(*rw, ^imm8, 1)
	case op>>6 == 0b0100000000:
		*rd = c.flags(*rd & rn)
	case op>>6 == 0b0100001000: // TST
		c.flags(*rd & rn)
	case op>>6 == 0b0100001010: // CMP
		c.add(*rd, ^rn, 1)
	case op>>6 == 0b0100001100:
		*rd = c.flags(*rd | rn)
	case op>>6 == 0b0100001110: // BICS
		*rd = c.flags(*rd &^ rn)
	case op>>8 == 0b01000100: // ADD
		c.r[op>>4&8|op&7] += c.r[op>>3&15]
	case op>>8 == 0b01000110: // MOV
		c.r[op>>4&8|op&7] = c.r[op>>3&15]
	case op>>7 == 0b010001110: // BX
		c.r[15] = c.r[op>>3&15] &^ 1
	case op>>7 == 0b010001111: // BLX
		to := c.r[op>>3&15]
		c.r[14], c.r[15] = c.r[15]|1, to&^1
	case op>>11 == 0b01001: // LDR literal
		*rw = c.bus.load(pc&^3+imm8*4, 4)
	case op>>11 == 0b01100:
		c.bus.store(rn+imm5*4, 4, *rd)
	case op>>11 == 0b01101:
		*rd = c.bus.load(rn+imm5*4, 4)
	case op>>11 == 0b01110:
		c.bus.store(rn+imm5, 1, *rd)
	case op>>11 == 0b01111:
		*rd = c.bus.load(rn+imm5, 1)
	case op>>9 == 0b0101010:
		c.bus.store(rn+rm, 1, *rd)
	case op>>9 == 0b0101110:
		*rd = c.bus.load(rn+rm, 1)
	case op>>11 == 0b10100: // ADR
		*rw = pc&^3 + imm8*4
	case op == 0xB672: // CPSID i
	case op>>6 == 0b1011001011: // UXTB
		*rd = rn & 0xFF
	case op>>9 == 0b1011010: // PUSH
		c.push(imm8 | op&0x100<<6)
	case op>>9 == 0b1011110: // POP
		c.pop(imm8 | op&0x100<<7)
	case op>>11 == 0b11001: // LDMIA
		addr := *rw
		for i := range uint32(8) {
			if imm8>>i&1 != 0 {
				c.r[i] = c.bus.load(addr, 4)
				addr += 4
			}
		}
		if imm8>>(op>>8&7)&1 == 0 {
			*rw = addr
		}
	case op>>12 == 0b1101 && op>>8&15 < 14:
		if c.holds(op >> 8 & 15) {
			c.r[15] = pc + uint32(int32(int8(imm8)))*2
		}
	case op>>11 == 0b11100: // B
		c.r[15] = pc + uint32(int32(op<<21)>>20)
	case op>>11 == 0b11110:
		return c.executeWide(op)
	default:
		return false
	}
	return true
}

// executeWide executes BL, MSR, barriers, and of ARMv7-M the MOV of a rotated byte.
func (c *core) executeWide(op uint32) bool {
	second := c.bus.load(c.r[15], 2)
	c.r[15] += 2
	switch {
	case second>>14 == 3 && second>>12&1 == 1:
		s, j1, j2 := op>>10&1, second>>13&1, second>>11&1
		i1, i2 := 1^j1^s, 1^j2^s
		offset := int32((s<<24|i1<<23|i2<<22|op&0x3FF<<12|second&0x7FF<<1)<<7) >> 7
		c.r[14] = c.r[15] | 1
		c.r[15] += uint32(offset)
	case op>>4 == 0xF38 && second == 0x8808:
		c.msp = c.r[op&15]
	case op>>4 == 0xF38 && second>>8 == 0x88: // other special registers
	case op == 0xF3BF: // DSB, ISB
	case op&^(1<<10) == 0xF04F && op>>10&1 == 1:
		rotated := 16 | second>>12&7<<1 | second>>7&1
		c.r[second>>8&15] = bits.RotateLeft32(second&0x7F|0x80, -int(rotated))
	default:
		return false
	}
	return true
}

func (c *core) push(list uint32) {
	for i := 15; i >= 0; i-- {
		if list>>i&1 != 0 {
			c.r[13] -= 4
			c.bus.store(c.r[13], 4, c.r[i])
		}
	}
}

func (c *core) pop(list uint32) {
	for i := range 16 {
		if list>>i&1 != 0 {
			c.r[i] = c.bus.load(c.r[13], 4)
			c.r[13] += 4
		}
	}
	c.r[15] &^= 1
}
