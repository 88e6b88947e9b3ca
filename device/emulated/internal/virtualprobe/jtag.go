// This file implements the JTAG front end: a chain of test access ports (IEEE 1149.1) and OpenOCD's remote_bitbang
// protocol, in which each character sets the lines or requests TDO.

package virtualprobe

import (
	"bufio"
	"io"
)

// tapState is a state of the TAP controller.
type tapState uint8

const (
	tapReset tapState = iota
	tapIdle
	tapSelectDR
	tapCaptureDR
	tapShiftDR
	tapExit1DR
	tapPauseDR
	tapExit2DR
	tapUpdateDR
	tapSelectIR
	tapCaptureIR
	tapShiftIR
	tapExit1IR
	tapPauseIR
	tapExit2IR
	tapUpdateIR
)

// tapNext has the next state for TMS 0 and 1.
var tapNext = [...][2]tapState{
	tapReset: {tapIdle, tapReset}, tapIdle: {tapIdle, tapSelectDR},
	tapSelectDR: {tapCaptureDR, tapSelectIR}, tapCaptureDR: {tapShiftDR, tapExit1DR}, tapShiftDR: {tapShiftDR, tapExit1DR},
	tapExit1DR: {tapPauseDR, tapUpdateDR}, tapPauseDR: {tapPauseDR, tapExit2DR}, tapExit2DR: {tapShiftDR, tapUpdateDR},
	tapUpdateDR: {tapIdle, tapSelectDR},
	tapSelectIR: {tapCaptureIR, tapReset}, tapCaptureIR: {tapShiftIR, tapExit1IR}, tapShiftIR: {tapShiftIR, tapExit1IR},
	tapExit1IR: {tapPauseIR, tapUpdateIR}, tapPauseIR: {tapPauseIR, tapExit2IR}, tapExit2IR: {tapShiftIR, tapUpdateIR},
	tapUpdateIR: {tapIdle, tapSelectDR},
}

// Instructions of the debug port (IHI 0031 §B3.4), four bits.
const (
	irAbort  = 0x8
	irDPAcc  = 0xA
	irAPAcc  = 0xB
	irIDCode = 0xE
)

// The acknowledgements of a JTAG-DP: WAIT, and one for both OK and fault, which CTRL/STAT distinguishes.
const (
	jtagAckWait = 1
	jtagAckOK   = 2
)

// A jtag is the debug port's TAP with its scan registers. A second TAP (for boundary scan, with another instruction
// length) is nearer to TDI; it is in bypass or shows its id code.
type jtag struct {
	dap    *dap
	idcode uint32
	state  tapState
	ir     uint8
	shift  uint64 // the register being shifted, next bit out lowest
	length int
	result uint32 // result of the last scan, captured by the next
	began  bool   // the last scan started an access of the access port
	wait   bool   // that access is not done: this scan is answered WAIT and has no effect
	tdo    uint8
	gone   bool

	second *bypassTAP
}

// A bypassTAP is a TAP that is not used.
type bypassTAP struct {
	irLength int
	idcode   uint32
	state    tapState
	ir       uint32
	shift    uint64
	length   int
}

func newJTAG(d *dap, idcode uint32, second *bypassTAP) *jtag {
	j := &jtag{dap: d, idcode: idcode, second: second}
	j.testReset()
	return j
}

func (j *jtag) testReset() {
	j.state, j.ir = tapReset, irIDCode
	if j.second != nil {
		j.second.state, j.second.ir = tapReset, 1
	}
}

// clock executes one rising edge of TCK. The resulting bit stays on TDO until the next edge.
func (j *jtag) clock(tms, tdi uint8) {
	if j.second != nil {
		tdi = j.second.clock(tms, tdi)
	}

	// The edge that leaves the state shifts the last bit.
	switch j.state {
	case tapShiftDR, tapShiftIR:
		j.shift = j.shift>>1 | uint64(tdi)<<(j.length-1)
	}

	j.state = tapNext[j.state][tms&1]
	switch j.state {
	case tapReset:
		j.ir = irIDCode
	case tapCaptureDR:
		j.captureDR()
	case tapCaptureIR:
		// The two lowest bits must read as 01.
		j.shift, j.length = 1, 4
	case tapUpdateIR:
		j.ir = uint8(j.shift & 0xF)
	case tapUpdateDR:
		j.updateDR()
	}

	j.tdo = uint8(j.shift & 1)
}

func (j *jtag) captureDR() {
	switch j.ir {
	case irIDCode:
		j.shift, j.length = uint64(j.idcode), 32
	case irDPAcc, irAPAcc:
		j.shift, j.length = uint64(j.result)<<3|jtagAckOK, 35
		if j.wait = j.began && j.dap.busy(); j.wait {
			j.shift = jtagAckWait
		}
	case irAbort:
		j.shift, j.length = jtagAckOK, 35
	default:
		j.shift, j.length = 0, 1
	}
}

func (j *jtag) updateDR() {
	if j.wait && j.ir != irAbort {
		return
	}

	j.began = j.ir == irAPAcc
	read, reg, v := j.shift&1 != 0, uint32(j.shift>>1&3)<<2, uint32(j.shift>>3)
	var a ack

	switch {
	case j.ir == irAbort && !read:
		a = j.dap.writeDP(dpAbort, v)
	case j.ir == irDPAcc && read:
		if reg == dpIDR {
			return // reserved in a JTAG-DP
		}
		var got uint32
		got, a = j.dap.readDP(reg)
		// RDBUFF only fetches the result of an earlier scan.
		if reg != dpReadBuf {
			j.result = got
		}
	case j.ir == irDPAcc:
		if reg == dpStat { // a JTAG-DP clears them by writing ones (§B2.2.2)
			j.dap.sticky = j.dap.sticky && v&statStickyErr == 0
			j.dap.overrun = j.dap.overrun && v&statStickyOrun == 0
		}
		a = j.dap.writeDP(reg, v)
	case j.ir == irAPAcc && read:
		var got uint32
		if got, a = j.dap.readAP(reg); a == ackOK {
			j.result = got
		}
	case j.ir == irAPAcc:
		a = j.dap.writeAP(reg, v)
	}

	j.gone = j.gone || a == ackGone
}

func (t *bypassTAP) clock(tms, tdi uint8) uint8 {
	out := uint8(t.shift & 1)
	if t.state == tapShiftDR || t.state == tapShiftIR {
		t.shift = t.shift>>1 | uint64(tdi)<<(t.length-1)
	}

	t.state = tapNext[t.state][tms&1]
	switch t.state {
	case tapReset:
		t.ir = 1 // IDCODE
	case tapCaptureDR:
		t.shift, t.length = 0, 1
		if t.ir == 1 {
			t.shift, t.length = uint64(t.idcode), 32
		}
	case tapCaptureIR:
		t.shift, t.length = 1, t.irLength
	case tapUpdateIR:
		t.ir = uint32(t.shift & (1<<t.irLength - 1))
	}

	return out
}

// serveBitbang serves remote_bitbang until the client quits or disconnects.
func (c *Chip) serveBitbang(rw io.ReadWriter) error {
	free := c.claim(claimsWire)
	if free == nil {
		return errBusy
	}
	defer free()

	j := newJTAG(c.dap, c.model.jtagID, c.model.secondTAP())
	r, w := bufio.NewReaderSize(rw, 64<<10), bufio.NewWriter(rw)
	tck := uint8(0)

	for {
		// Answers are collected while further input is there: most requests are single bits.
		if r.Buffered() == 0 {
			if err := w.Flush(); err != nil {
				return err
			}
		}

		b, err := r.ReadByte()
		if err != nil {
			return err
		}

		switch {
		case b >= '0' && b <= '7':
			v := b - '0'
			if up := v >> 2 & 1; up != tck {
				tck = up
				if up == 1 {
					c.exclusively(func() { j.clock(v>>1&1, v&1) })
				}
			}
		case b == 'R':
			w.WriteByte('0' + j.tdo)
		case b >= 'r' && b <= 'u':
			v := b - 'r'
			if v&2 != 0 { // TRST
				j.testReset()
			}
			c.exclusively(func() { c.resetLine(v&1 != 0) })
		case b == 'Q':
			return w.Flush()
		}

		if j.gone {
			return errUnplugged
		}
	}
}
