// This file implements the serial wire debug port edge by edge (IHI 0031 chapter B4): the device samples the line on
// the rising edge of the clock and changes it there.

package virtualprobe

import "math/bits"

// lineResetEdges is the number of ones in a row that reset the line.
const lineResetEdges = 50

// A phase is the line's position in a transfer.
type phase uint8

const (
	swdLost    phase = iota // ignores everything but a line reset
	swdIdle                 // waits for a start bit
	swdRequest              // the rest of the request
	swdAck                  // turn and acknowledge
	swdRead                 // data to the host, and the turn
	swdTurn                 // turn to the host
	swdWrite                // data from the host
)

// A swd is the state of the line.
type swd struct {
	dap     *dap
	phase   phase
	n       int // edges in this phase
	ones    int
	shift   uint64
	request uint8
	out     uint64 // bits to send, the next one lowest
	posted  uint32 // result of the last read of the access port
	refused bool   // the write was not acknowledged as OK
	gone    bool
}

func newSWD(d *dap) *swd { return &swd{dap: d} }

// edge executes one rising edge with this bit on the line (1 if the line is not driven). It returns the bit that the
// device drives after it, or 1 if it drives none.
func (s *swd) edge(bit uint8) uint8 {
	if bit == 1 {
		s.ones++
	} else {
		if s.ones >= lineResetEdges && s.phase != swdRead && s.phase != swdAck {
			s.phase, s.n = swdIdle, 0
		}
		s.ones = 0
	}
	s.n++
	switch s.phase {
	case swdIdle:
		if bit == 1 && s.ones < lineResetEdges {
			s.phase, s.n, s.shift = swdRequest, 1, 1
		}
	case swdRequest:
		s.shift |= uint64(bit) << s.n >> 1
		if s.n == 8 {
			s.take(uint8(s.shift))
		}
	case swdAck:
		return s.acknowledge()
	case swdRead:
		return s.drive()
	case swdTurn:
		s.phase, s.n, s.shift = swdWrite, 0, 0
	case swdWrite:
		s.shift |= uint64(bit) << (s.n - 1)
		if s.n == 33 {
			s.written()
		}
	}
	return 1
}

// take starts the transfer of a request: start, APnDP, RnW, A[2:3], parity, stop, park.
func (s *swd) take(request uint8) {
	parity := bits.OnesCount8(request>>1&0xF) & 1
	if request>>5&1 != uint8(parity) || request>>6&1 != 0 || request>>7&1 != 1 {
		s.phase, s.n = swdLost, 0
		return
	}
	s.request, s.phase, s.n = request, swdAck, 0
	ap, reads := request>>1&1 == 1, request&4 != 0
	if s.refused = ap && s.dap.busy(); s.refused {
		s.out = swdAcks[ackWait]
		return
	}
	if !reads {
		s.refused = ap && s.dap.refuses()
		s.out = swdAcks[ackOK]
		if s.refused {
			s.out = swdAcks[ackFault]
		}
		return
	}
	v, a := s.read(ap, uint32(request>>3&3)<<2)
	s.out = swdAcks[a] | uint64(v)<<3 | uint64(bits.OnesCount32(v)&1)<<35
	s.gone = s.gone || a == ackGone
}

// read executes a read. A read of the access port returns the result of the previous one (§B4.2.4).
func (s *swd) read(ap bool, reg uint32) (uint32, ack) {
	if !ap {
		v, a := s.dap.readDP(reg)
		if reg == dpReadBuf && a == ackOK {
			v = s.posted
		}
		return v, a
	}
	v, a := s.dap.readAP(reg)
	if a != ackOK {
		return 0, a
	}
	v, s.posted = s.posted, v
	return v, ackOK
}

// acknowledge drives the three bits after the turn.
func (s *swd) acknowledge() uint8 {
	bit := s.drive()
	if s.n == 4 { // the third was sampled
		if s.request&4 != 0 {
			s.phase, s.n = swdRead, 0
			return bit
		}
		s.phase, s.n = swdTurn, 0
		return 1
	}
	return bit
}

func (s *swd) drive() uint8 {
	bit := uint8(s.out & 1)
	s.out >>= 1
	if s.phase == swdRead && s.n == 34 { // 32 bits, parity, turn
		s.phase, s.n = swdIdle, 0
		return 1
	}
	return bit
}

// swdAcks are the acknowledgements, least significant bit first (§B4.2.2).
var swdAcks = [...]uint64{ackOK: 1, ackWait: 2, ackFault: 4, ackGone: 4}

// written ends a write's data phase.
func (s *swd) written() {
	v, parity := uint32(s.shift), uint8(s.shift>>32&1)
	s.phase, s.n = swdIdle, 0
	if s.refused {
		return
	}
	if uint8(bits.OnesCount32(v)&1) != parity {
		s.phase = swdLost
		return
	}
	reg := uint32(s.request>>3&3) << 2
	var a ack
	if s.request>>1&1 == 1 {
		a = s.dap.writeAP(reg, v)
	} else {
		a = s.dap.writeDP(reg, v)
	}
	s.gone = s.gone || a == ackGone
}
