// This file implements the debug port and its one memory access port (ADIv5.2, IHI 0031: chapters B2 and C2).

package virtualprobe

import (
	"errors"

	"github.com/hashicorp/go-hclog"
)

// Debug port registers by address, and those of the access port within its bank.
const (
	dpAbort   = 0x0 // write
	dpIDR     = 0x0 // read
	dpStat    = 0x4
	dpSelect  = 0x8 // write
	dpReadBuf = 0xC

	apCSW  = 0x00
	apTAR  = 0x04
	apDRW  = 0x0C
	apBD0  = 0x10
	apBase = 0xF8
	apIDR  = 0xFC
)

// CTRL/STAT and ABORT bits.
const (
	statOrunDetect = 1 << 0
	statStickyOrun = 1 << 1
	statStickyCmp  = 1 << 4
	statStickyErr  = 1 << 5
	statReadOK     = 1 << 6
	statWDataErr   = 1 << 7
	statDebugReq   = 1 << 28
	statDebugAck   = 1 << 29
	statSystemReq  = 1 << 30
	statSystemAck  = 1 << 31

	abortDAP     = 1 << 0
	abortErrClr  = 1 << 2
	abortOrunClr = 1 << 4
)

const romTable = 0xE00FF000

// readAhead is the number of words that a run of sequential reads reads from the chip at once.
const readAhead = 256

// A dap is the debug access of one chip. It may have several front ends, of which one is used at a time.
type dap struct {
	bus *core
	log hclog.Logger

	id        uint32 // DPIDR
	apID      uint32
	block     uint32 // bytes within which TAR increments
	ctrl, sel uint32
	csw, tar  uint32
	readBuf   uint32 // result of the last read of the access port
	sticky    bool
	overrun   bool // STICKYORUN: WAIT was answered while overrun detection was on

	waits   int // Faults.Waits
	access  int // accesses of the access port since the last one answered with WAIT
	waiting int // remaining number of WAIT answers

	ahead     []uint32 // words read ahead, from aheadAddr
	aheadAddr uint32

	fault func() error // called before each transfer; an error ends the link, for tests
}

// An ack is the acknowledgement of a transfer.
type ack int

const (
	ackOK ack = iota
	ackFault
	ackWait // the access port is busy: the transfer has not started
	ackGone // the probe was unplugged
)

func (d *dap) reset() {
	d.ctrl, d.sel, d.csw, d.tar, d.sticky, d.overrun, d.readBuf = 0, 0, 0x03000042, 0, false, false, 0
	d.ahead = nil
}

// readDP reads a debug port register. reg is the address: 0, 4, 8 or C.
func (d *dap) readDP(reg uint32) (uint32, ack) {
	if d.fault != nil && d.fault() != nil {
		return 0, ackGone
	}
	switch reg {
	case dpIDR:
		return d.id, ackOK
	case dpStat:
		if d.sel&0xF != 0 {
			return 0, ackOK // DLCR, TARGETID: none
		}
		v := d.ctrl &^ (statDebugAck | statSystemAck | statStickyErr | statStickyOrun)
		if d.ctrl&statDebugReq != 0 {
			v |= statDebugAck
		}
		if d.ctrl&statSystemReq != 0 {
			v |= statSystemAck
		}
		if d.sticky {
			v |= statStickyErr
		}
		if d.overrun {
			v |= statStickyOrun
		}
		return v, ackOK
	default: // RESEND and RDBUFF
		if d.refuses() {
			return 0, ackFault
		}
		return d.readBuf, ackOK
	}
}

func (d *dap) writeDP(reg, v uint32) ack {
	if d.fault != nil && d.fault() != nil {
		return ackGone
	}
	switch reg {
	case dpAbort:
		if v&(abortErrClr|abortDAP) != 0 {
			d.sticky = false
		}
		if v&(abortOrunClr|abortDAP) != 0 {
			d.overrun = false
		}
	case dpStat:
		if d.sel&0xF == 0 {
			const readOnly = statStickyErr | statStickyCmp | statStickyOrun | statWDataErr | statReadOK
			d.ctrl = v & (statDebugReq | statSystemReq | statOrunDetect | 0x00FFFFFF&^uint32(readOnly))
		}
	case dpSelect:
		d.sel = v
	}
	return ackOK
}

// readAP reads a register of the selected access port and returns its value immediately; RDBUFF has it too.
func (d *dap) readAP(reg uint32) (uint32, ack) {
	if d.fault != nil && d.fault() != nil {
		return 0, ackGone
	}
	if d.refuses() {
		return 0, ackFault
	}

	v, err := d.accessRead(d.sel&0xF0 | reg)
	if err != nil {
		return 0, d.faulted(err)
	}
	d.readBuf = v
	return v, ackOK
}

func (d *dap) writeAP(reg, v uint32) ack {
	if d.fault != nil && d.fault() != nil {
		return ackGone
	}
	if d.refuses() {
		return ackFault
	}
	if err := d.accessWrite(d.sel&0xF0|reg, v); err != nil {
		return d.faulted(err)
	}
	return ackOK
}

// waitsInRow is the number of WAIT answers before the access port accepts the access.
const waitsInRow = 3

// busy reports that the access port does not accept an access yet, so that the answer is WAIT. With overrun detection,
// that counts as an overrun: every answer is FAULT until the host clears the flag (§B1.2).
func (d *dap) busy() bool {
	if d.waits == 0 || d.refuses() {
		return false
	}

	if d.waiting == 0 {
		if d.access++; d.access < d.waits {
			return false
		}
		d.access, d.waiting = 0, waitsInRow+1
	}

	if d.waiting--; d.waiting == 0 {
		return false
	}

	d.overrun = d.ctrl&statOrunDetect != 0
	return true
}

// refuses reports that every answer is FAULT, because of an error.
func (d *dap) refuses() bool { return d.sticky || d.overrun }

func (d *dap) faulted(err error) ack {
	if errors.Is(err, errPowerCut) {
		return ackGone
	}
	d.log.Warn("transfer", "tar", hclog.Hex(int(d.tar)), "error", err)
	d.sticky = true
	return ackFault
}

func (d *dap) accessRead(reg uint32) (uint32, error) {
	if d.sel>>24 != 0 {
		return 0, nil // there is one access port
	}
	switch reg {
	case apCSW:
		return d.csw, nil
	case apTAR:
		return d.tar, nil
	case apDRW:
		v, err := d.memoryRead()
		d.advance()
		return v, err
	case apBD0, apBD0 + 4, apBD0 + 8, apBD0 + 12:
		d.ahead = nil
		return d.bus.Read(d.tar&^0xF|(reg-apBD0), 4)
	case apBase:
		return romTable | 3, nil
	case apIDR:
		return d.apID, nil
	}
	return 0, nil
}

func (d *dap) accessWrite(reg, v uint32) error {
	if d.sel>>24 != 0 {
		return nil
	}

	switch reg {
	case apCSW:
		// Sizes of 8, 16 and 32 bits; single increments only: a packed one reads back as none.
		size := v & 7
		if size > 2 {
			size = 2
		}
		inc := v & 0x30
		if inc == 0x20 {
			inc = 0
		}
		d.csw = v&0x7F000000 | 0x40 | inc | size
	case apTAR:
		d.tar = v
	case apDRW:
		d.ahead = nil
		width := 1 << (d.csw & 7)
		v = v >> (8 * (d.tar & 3 &^ uint32(width-1))) // byte lanes
		err := d.bus.Write(d.tar&^uint32(width-1), width, v)
		d.advance()
		return err
	case apBD0, apBD0 + 4, apBD0 + 8, apBD0 + 12:
		d.ahead = nil
		return d.bus.Write(d.tar&^0xF|(reg-apBD0), 4, v)
	}
	return nil
}

// advance adds the width to TAR, which wraps within a block.
func (d *dap) advance() {
	if d.csw&0x30 == 0x10 {
		width := uint32(1) << (d.csw & 7)
		d.tar = d.tar&^(d.block-1) | (d.tar+width)&(d.block-1)
	}
}

// memoryRead reads at TAR into the byte lanes of its address.
func (d *dap) memoryRead() (uint32, error) {
	width := 1 << (d.csw & 7)
	// Only plain memory is read ahead: reading a peripheral may have effects.
	if width == 4 && d.csw&0x30 == 0x10 && d.bus.plain(d.tar) {
		return d.sequential()
	}

	v, err := d.bus.Read(d.tar&^uint32(width-1), width)
	return v << (8 * (d.tar & 3 &^ uint32(width-1))), err
}

// sequential reads a word of a run. Nothing is read ahead while the core runs, because memory may then change.
func (d *dap) sequential() (uint32, error) {
	i := (d.tar - d.aheadAddr) / 4
	if d.tar >= d.aheadAddr && i < uint32(len(d.ahead)) && !d.bus.runs() {
		return d.ahead[i], nil
	}

	// A block ends at a multiple of its size, and so inside one memory.
	n := readAhead - int(d.tar/4)%readAhead
	if d.bus.runs() {
		n = 1
	}
	words := make([]uint32, n)

	if err := d.bus.ReadBlock(d.tar&^3, words); err != nil {
		return 0, err
	}

	d.ahead, d.aheadAddr = words, d.tar&^3
	return words[0], nil
}

// forget discards words read ahead, because the core was resumed, stepped or reset.
func (d *dap) forget() { d.ahead = nil }
