// This file decodes frames.

package framing

import (
	"bytes"
	"encoding/binary"
)

// An Event is a result of an Unframer.
type Event uint8

// The results of Next. After each, the next call continues with the rest of the input.
const (
	NeedMore  Event = iota // the input is used up without the end of a frame
	Frame                  // a whole frame: Payload is its payload
	BadCRC                 // a whole frame with a wrong checksum: Payload is the received one
	Abandoned              // a new frame began inside another: Payload is the received part of the old one
	BadEscape              // an invalid escape inside a frame, which is dropped: Payload is the received part
	TooLong                // a frame with a length beyond the limit, which is skipped: no payload
	Silence                // the rest of a frame did not arrive (reported by Session, not by Next)
)

var eventNames = [...]string{
	NeedMore: "need more", Frame: "frame", BadCRC: "wrong checksum", Abandoned: "cut short by another frame",
	BadEscape: "impossible escape", TooLong: "length beyond the limit", Silence: "its end did not arrive",
}

func (e Event) String() string { return eventNames[e] }

// defaultLimit is the longest payload that an Unframer accepts by default.
const defaultLimit = 16 << 20

type unframeState uint8

const (
	hunting   unframeState = iota // for ff fd
	inLength                      // its four bytes
	inPayload                     // size bytes
	inCRC                         // its two bytes
)

// An Unframer finds frames in a stream of arbitrary bytes (wire.md §1.6). It finds every whole frame, whatever
// precedes it. The zero Unframer is ready to use. It allocates memory for the payload that arrives, not for the
// length that a frame announces.
type Unframer struct {
	Limit int // longest payload, bytes; 0 means 16 MiB

	state   unframeState
	escaped bool // the last byte was an ff, whose meaning depends on the next byte
	crc     uint16
	size    int     // announced payload length
	field   [4]byte // received part of length or CRC
	filled  int     // bytes in field
	buf     []byte  // payload so far
	payload []byte  // of the last event: a part of buf's memory
}

// Payload returns the payload of the last event. It is valid until the next call of Next.
func (u *Unframer) Payload() []byte { return u.payload }

// Idle reports whether the Unframer is between frames.
func (u *Unframer) Idle() bool { return u.state == hunting }

// needed returns the number of bytes that the current field lacks, 1 between frames. It never reaches into the next
// frame.
func (u *Unframer) needed() int {
	switch u.state {
	case inLength:
		return 4 - u.filled
	case inPayload:
		return u.size - len(u.buf)
	case inCRC:
		return 2 - u.filled
	default:
		return 1
	}
}

// Next decodes p up to the next event or its end. It returns the number of bytes used: all of p if the event is
// NeedMore.
func (u *Unframer) Next(p []byte) (int, Event) {
	u.payload = nil
	taken := 0
	for taken < len(p) {
		n, ev := u.step(p[taken:])
		taken += n
		if ev != NeedMore {
			return taken, ev
		}
		u.payload = nil
	}
	return taken, NeedMore
}

// step uses at least one byte of p, which is not empty, within one state.
func (u *Unframer) step(p []byte) (int, Event) {
	if u.state == hunting {
		return u.hunt(p), NeedMore
	}

	if n := u.takeRun(p); n > 0 {
		u.crc = crcUpdate(u.crc, p[:n])
		return n, u.advance()
	}

	n, ev := u.take(p)
	if ev != NeedMore {
		return n, ev
	}

	// The CRC covers all but itself.
	if u.state != inCRC {
		u.crc = crcUpdate(u.crc, p[:n])
	}
	return n, u.advance()
}

// hunt skips bytes up to and including a frame's start.
func (u *Unframer) hunt(p []byte) int {
	if !u.escaped {
		i := bytes.IndexByte(p, Escape)
		if i < 0 {
			return len(p)
		}
		u.escaped = true
		return i + 1
	}

	switch p[0] {
	case FrameStart:
		u.start()
	case Escape: // this byte may begin a start
	default:
		u.escaped = false
	}
	return 1
}

// start begins a frame. A partial payload stays valid until the next call of Next.
func (u *Unframer) start() {
	u.payload, u.buf = u.buf, u.buf[:0]
	u.state, u.escaped, u.filled, u.crc = inLength, false, 0, crcStart
}

// drop leaves the current frame.
func (u *Unframer) drop() {
	u.payload, u.buf = u.buf, u.buf[:0]
	u.state, u.escaped = hunting, false
}

// takeRun decodes a run of payload bytes and doubled ff, in a block that fits the L1 cache for the checksum. It is
// the fast path for most of a frame; take does the rest.
func (u *Unframer) takeRun(p []byte) int {
	const block = 8 << 10
	if u.state != inPayload || u.escaped {
		return 0
	}

	n := 0
	for p = p[:min(len(p), block)]; ; {
		rest := p[n:]
		run := rest[:min(len(rest), u.size-len(u.buf))]
		i := bytes.IndexByte(run, Escape)
		if i < 0 {
			u.buf = append(u.buf, run...)
			return n + len(run)
		}
		// Not a doubled ff, or one whose second half has not arrived: take decodes it.
		if i+1 >= len(rest) || rest[i+1] != Escape {
			u.buf = append(u.buf, run[:i]...)
			return n + i
		}
		u.buf = append(u.buf, run[:i+1]...)
		n += i + 2
	}
}

// take decodes data bytes into the current field, none beyond its end.
func (u *Unframer) take(p []byte) (int, Event) {
	if u.escaped {
		return 1, u.takeEscaped(p[0])
	}

	run := p[:min(len(p), u.needed())]
	i := bytes.IndexByte(run, Escape)
	if i < 0 {
		u.store(run)
		return len(run), NeedMore
	}

	u.store(run[:i])
	u.escaped = true
	return i + 1, NeedMore
}

// takeEscaped takes the byte after an ff.
func (u *Unframer) takeEscaped(b byte) Event {
	switch b {
	case Escape:
		u.escaped = false
		u.store([]byte{Escape})
	case nop:
		u.escaped = false
	case FrameStart:
		u.start()
		return Abandoned
	default:
		u.drop()
		return BadEscape
	}
	return NeedMore
}

// store adds data bytes to the current field.
func (u *Unframer) store(data []byte) {
	if u.state == inPayload {
		u.buf = append(u.buf, data...)
		return
	}
	u.filled += copy(u.field[u.filled:], data)
}

// advance moves to the next field if the current one is complete.
func (u *Unframer) advance() Event {
	if u.escaped {
		return NeedMore
	}

	switch {
	case u.state == inLength && u.filled == 4:
		return u.endLength()
	case u.state == inPayload && len(u.buf) == u.size:
		u.state, u.filled = inCRC, 0
	case u.state == inCRC && u.filled == 2:
		return u.endFrame()
	}
	return NeedMore
}

// endLength checks the announced length before it is used.
func (u *Unframer) endLength() Event {
	limit := u.Limit
	if limit == 0 {
		limit = defaultLimit
	}

	size := binary.LittleEndian.Uint32(u.field[:])
	if uint64(size) > uint64(limit) {
		u.drop()
		return TooLong
	}

	u.size, u.state = int(size), inPayload
	// Without a payload, no step of inPayload ends it.
	if size == 0 {
		u.state, u.filled = inCRC, 0
	}
	return NeedMore
}

// endFrame compares the checksums.
func (u *Unframer) endFrame() Event {
	equal := binary.LittleEndian.Uint16(u.field[:]) == u.crc
	u.drop()
	if equal {
		return Frame
	}
	return BadCRC
}

// Abandon drops the current frame, because no more data arrives.
func (u *Unframer) Abandon() Event {
	u.drop()
	return Silence
}
