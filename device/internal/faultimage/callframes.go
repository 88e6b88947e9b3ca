// This file finds callers by call frame information (DWARF 5, section 6.4): .debug_frame in bare-metal images,
// .eh_frame in processes.

package faultimage

import (
	"bytes"
	"encoding/binary"
	"errors"
	"maps"
	"slices"
)

// A callFrames is the call frame information of an image.
type callFrames struct {
	order binary.ByteOrder
	word  int        // bytes of an address
	fdes  []frameFDE // by low address
}

// A frameFDE describes the functions from low to high.
type frameFDE struct {
	low, high uint64
	cie       *frameCIE
	program   []byte
}

// A frameCIE holds data that several frameFDEs share.
type frameCIE struct {
	codeAlign uint64
	dataAlign int64
	returns   uint64 // register that holds the return address
	program   []byte
	pointers  byte // encoding of addresses in .eh_frame; 0: plain
	augmented bool // each FDE has its own augmentation data
}

var errFrames = errors.New("damaged call frame information")

// A frameReader reads numbers. After an error, when bad is set, they are 0.
type frameReader struct {
	order binary.ByteOrder
	word  int
	b     []byte
	bad   bool
}

func (r *frameReader) take(n uint64) []byte {
	if r.bad || n > uint64(len(r.b)) {
		r.bad = true
		return nil
	}
	b := r.b[:n]
	r.b = r.b[n:]
	return b
}

// unsigned reads a number of 1, 2, 4 or 8 bytes.
func (r *frameReader) unsigned(n int) uint64 {
	b := r.take(uint64(n))
	switch len(b) {
	case 1:
		return uint64(b[0])
	case 2:
		return uint64(r.order.Uint16(b))
	case 4:
		return uint64(r.order.Uint32(b))
	case 8:
		return r.order.Uint64(b)
	}
	r.bad = true
	return 0
}

func (r *frameReader) leb(signed bool) uint64 {
	var v uint64
	for shift := uint(0); ; shift += 7 {
		b := r.unsigned(1)
		if r.bad || shift > 63 {
			r.bad = true
			return 0
		}
		v |= (b & 0x7f) << shift
		if b&0x80 == 0 {
			if signed && b&0x40 != 0 && shift+7 < 64 {
				v |= ^uint64(0) << (shift + 7)
			}
			return v
		}
	}
}

func (r *frameReader) uleb() uint64 { return r.leb(false) }
func (r *frameReader) sleb() int64  { return int64(r.leb(true)) }

func (r *frameReader) text() string {
	i := bytes.IndexByte(r.b, 0)
	if i < 0 {
		r.bad = true
		return ""
	}
	return string(r.take(uint64(i) + 1)[:i])
}

// pointer reads an address in .eh_frame's encoding (LSB core, 10.5.1); at is the address of the next byte.
func (r *frameReader) pointer(encoding byte, at uint64) uint64 {
	var v uint64
	switch encoding & 0x0f {
	case 0x00:
		v = r.unsigned(r.word)
	case 0x01:
		v = r.uleb()
	case 0x02:
		v = r.unsigned(2)
	case 0x03:
		v = r.unsigned(4)
	case 0x04, 0x0c:
		v = r.unsigned(8)
	case 0x09:
		v = uint64(r.sleb())
	case 0x0a:
		v = uint64(int64(int16(r.unsigned(2))))
	case 0x0b:
		v = uint64(int64(int32(r.unsigned(4))))
	default:
		r.bad = true
	}
	switch encoding & 0x70 {
	case 0x00:
	case 0x10: // relative to its own address
		v += at
	default:
		r.bad = true
	}
	return v
}

// add reads one section. With eh it is .eh_frame, at address at.
func (c *callFrames) add(data []byte, eh bool, at uint64) error {
	cies := map[uint64]*frameCIE{}
	for pos := uint64(0); pos < uint64(len(data)); {
		r := frameReader{order: c.order, word: c.word, b: data[pos:]}
		size, idBytes := r.unsigned(4), 4
		// An escape announces the 64-bit format, in which the id is longer, too.
		if size == 0xffffffff {
			size, idBytes = r.unsigned(8), 8
		}

		head := uint64(len(data)) - pos - uint64(len(r.b)) // bytes of the length
		body := r.take(size)
		if r.bad {
			return errFrames
		}

		start := pos
		pos += head + size
		if len(body) == 0 {
			continue // end mark of .eh_frame
		}

		e := frameReader{order: c.order, word: c.word, b: body}
		id := e.unsigned(idBytes)
		if e.bad {
			return errFrames
		}

		// In .eh_frame, a CIE has the id 0, and an FDE's id is the distance back to its CIE.
		isCIE, cieAt := id == 0xffffffff && idBytes == 4 || id == ^uint64(0), id
		if eh {
			isCIE, cieAt = id == 0, start+head-id
		}

		if isCIE {
			cie, err := e.cie()
			if err != nil {
				return err
			}
			cies[start] = cie
			continue
		}
		// The description of a function that the linker removed has address 0.
		f := e.fde(cies[cieAt], at+pos)
		if e.bad {
			return errFrames
		}
		if f.low != 0 && f.high > f.low {
			c.fdes = append(c.fdes, f)
		}
	}

	slices.SortStableFunc(c.fdes, func(a, b frameFDE) int {
		switch {
		case a.low < b.low:
			return -1
		case a.low > b.low:
			return 1
		}
		return 0
	})
	return nil
}

// cie reads the part after the id.
func (r *frameReader) cie() (*frameCIE, error) {
	c := &frameCIE{}
	version := r.unsigned(1)
	augmentation := r.text()
	if version >= 4 {
		r.take(2) // sizes of addresses and segments
	}

	c.codeAlign, c.dataAlign = r.uleb(), r.sleb()
	if version == 1 {
		c.returns = r.unsigned(1)
	} else {
		c.returns = r.uleb()
	}

	if len(augmentation) > 0 && augmentation[0] == 'z' {
		c.augmented = true
		a := frameReader{order: r.order, word: r.word, b: r.take(r.uleb())}
		// The letters stand in the order of their data. Only R, the encoding of addresses, matters here.
		for _, letter := range augmentation[1:] {
			switch letter {
			case 'R':
				c.pointers = byte(a.unsigned(1))
			case 'L':
				a.unsigned(1)
			case 'P':
				a.pointer(byte(a.unsigned(1))&0x0f, 0)
			}
		}
	}

	c.program = r.b
	if r.bad {
		return nil, errFrames
	}
	return c, nil
}

// fde reads the part after the id. end is the address after it.
func (r *frameReader) fde(c *frameCIE, end uint64) frameFDE {
	if c == nil {
		r.bad = true
		return frameFDE{}
	}
	f := frameFDE{cie: c}

	// A distance wraps around in 32 bits, as the addresses do.
	f.low = r.pointer(c.pointers, end-uint64(len(r.b)))
	if r.word == 4 {
		f.low = uint64(uint32(f.low))
	}
	f.high = f.low + r.pointer(c.pointers&0x0f, 0)
	if c.augmented {
		r.take(r.uleb())
	}

	f.program = r.b
	return f
}

// find returns the description of pc; of several, the one that begins last.
func (c *callFrames) find(pc uint64) (frameFDE, bool) {
	for _, f := range slices.Backward(c.fdes) {
		if f.low <= pc && pc < f.high {
			return f, true
		}
	}
	return frameFDE{}, false
}

// A frameRule is the location of a register of the caller.
type frameRule struct {
	kind  frameRuleKind
	n     int64
	other uint64 // register
}

type frameRuleKind uint8

const (
	ruleUnknown  frameRuleKind = iota // unknown
	ruleAtCFA                         // in memory, n beyond the frame's address
	ruleCFA                           // the value is that address plus n
	ruleRegister                      // in another register
)

// A frameRow holds the rules at one instruction.
type frameRow struct {
	register uint64 // the frame's address is this register's value
	offset   int64  // plus this
	computed bool   // or needs an expression
	rules    map[uint64]frameRule
}

func (row frameRow) clone() frameRow {
	row.rules = maps.Clone(row.rules)
	return row
}

// row runs the two programs of f up to pc.
func (c *callFrames) row(f frameFDE, pc uint64) (frameRow, error) {
	m := frameMachine{callFrames: c, cie: f.cie, at: f.low, pc: pc}
	m.row.rules = map[uint64]frameRule{}
	if err := m.run(f.cie.program); err != nil {
		return frameRow{}, err
	}

	// What the CIE's program leaves is what restore goes back to.
	m.initial, m.at = m.row.clone(), f.low
	if err := m.run(f.program); err != nil {
		return frameRow{}, err
	}
	return m.row, nil
}

// A frameMachine runs call frame instructions.
type frameMachine struct {
	*callFrames
	cie     *frameCIE
	at, pc  uint64 // current position and end
	row     frameRow
	initial frameRow
	saved   []frameRow
}

func (m *frameMachine) run(program []byte) error {
	r := frameReader{order: m.order, word: m.word, b: program}
	for len(r.b) > 0 && !r.bad && m.at <= m.pc {
		op := byte(r.unsigned(1))
		low := uint64(op & 0x3f)
		switch op >> 6 {
		case 1:
			m.advance(low)
		case 2:
			m.set(low, frameRule{ruleAtCFA, int64(r.uleb()) * m.cie.dataAlign, 0})
		case 3:
			m.restore(low)
		default:
			m.extended(&r, op)
		}
	}
	if r.bad {
		return errFrames
	}
	return nil
}

// advance moves to a later instruction.
func (m *frameMachine) advance(n uint64) { m.at += n * m.cie.codeAlign }

func (m *frameMachine) set(register uint64, rule frameRule) { m.row.rules[register] = rule }

func (m *frameMachine) restore(register uint64) {
	if rule, ok := m.initial.rules[register]; ok {
		m.row.rules[register] = rule
	} else {
		delete(m.row.rules, register)
	}
}

// extended runs the instructions whose opcode holds no operand (DWARF 5, table 7.29).
func (m *frameMachine) extended(r *frameReader, op byte) {
	switch op {
	case 0x00: // nop
	case 0x01: // set_loc
		m.at = r.pointer(m.cie.pointers&0x0f, 0)
	case 0x02:
		m.advance(r.unsigned(1))
	case 0x03:
		m.advance(r.unsigned(2))
	case 0x04:
		m.advance(r.unsigned(4))
	case 0x05: // offset_extended
		reg := r.uleb()
		m.set(reg, frameRule{ruleAtCFA, int64(r.uleb()) * m.cie.dataAlign, 0})
	case 0x06:
		m.restore(r.uleb())
	case 0x07: // undefined
		m.set(r.uleb(), frameRule{})
	case 0x08: // same_value
		delete(m.row.rules, r.uleb())
	case 0x09: // register
		reg := r.uleb()
		m.set(reg, frameRule{ruleRegister, 0, r.uleb()})
	case 0x0a: // remember_state
		// A limit to the memory that damaged data can take.
		if len(m.saved) > 64 {
			r.bad = true
			return
		}
		m.saved = append(m.saved, m.row.clone())
	case 0x0b: // restore_state
		if len(m.saved) == 0 {
			r.bad = true
			return
		}
		m.row, m.saved = m.saved[len(m.saved)-1], m.saved[:len(m.saved)-1]
	case 0x0c, 0x0d, 0x0e, 0x0f, 0x12, 0x13:
		m.defineCFA(r, op)
	case 0x10, 0x16: // expression, val_expression
		m.set(r.uleb(), frameRule{})
		r.take(r.uleb())
	case 0x11: // offset_extended_sf
		reg := r.uleb()
		m.set(reg, frameRule{ruleAtCFA, r.sleb() * m.cie.dataAlign, 0})
	case 0x14, 0x15: // val_offset, val_offset_sf
		reg := r.uleb()
		n := int64(0)
		if op == 0x14 {
			n = int64(r.uleb())
		} else {
			n = r.sleb()
		}
		m.set(reg, frameRule{ruleCFA, n * m.cie.dataAlign, 0})
	case 0x2d: // GNU: register windows, or signed return addresses; no supported core uses them
	case 0x2e: // GNU_args_size
		r.uleb()
	default:
		r.bad = true
	}
}

// defineCFA runs the instructions that determine the frame's address.
func (m *frameMachine) defineCFA(r *frameReader, op byte) {
	switch op {
	case 0x0c: // def_cfa
		m.row.register, m.row.offset, m.row.computed = r.uleb(), int64(r.uleb()), false
	case 0x0d: // def_cfa_register
		m.row.register = r.uleb()
	case 0x0e: // def_cfa_offset
		m.row.offset = int64(r.uleb())
	case 0x0f: // def_cfa_expression
		r.take(r.uleb())
		m.row.computed = true
	case 0x12: // def_cfa_sf
		m.row.register, m.row.offset, m.row.computed = r.uleb(), r.sleb()*m.cie.dataAlign, false
	case 0x13: // def_cfa_offset_sf
		m.row.offset = r.sleb() * m.cie.dataAlign
	}
}

// A frameState holds the registers at one point of a call chain, by DWARF's numbers; unknown ones are missing.
type frameState map[uint64]uint64

// caller returns the registers of the caller of the function at pc, and its return address. sp is the stack
// pointer's register number. memory reads one word; ok is false if the word was not recorded.
func (c *callFrames) caller(pc uint64, s frameState, sp uint64, memory func(uint64) (v uint64, ok bool)) (frameState,
	uint64, bool,
) {
	f, ok := c.find(pc)
	if !ok {
		return nil, 0, false
	}

	row, err := c.row(f, pc)
	base, ok := s[row.register]
	if err != nil || row.computed || !ok {
		return nil, 0, false
	}

	cfa := base + uint64(row.offset)
	if c.word == 4 {
		cfa = uint64(uint32(cfa))
	}

	caller := maps.Clone(s)
	for register, rule := range row.rules {
		// Without a value the register is unknown in the caller.
		delete(caller, register)
		v, ok := uint64(0), false
		switch rule.kind {
		case ruleAtCFA:
			v, ok = memory(cfa + uint64(rule.n))
		case ruleCFA:
			v, ok = cfa+uint64(rule.n), true
		case ruleRegister:
			v, ok = s[rule.other]
		}
		if ok {
			caller[register] = v
		}
	}

	// The frame's address is the value of the stack pointer before the call.
	caller[sp] = cfa
	ret, ok := caller[f.cie.returns]
	return caller, ret, ok
}
