package transport

import (
	"bytes"
	"encoding/binary"
)

// An Event is what an Unframer found.
type Event uint8

// What Next reports. After any of them the next call goes on with the rest of the input.
const (
	NeedMore  Event = iota // the input is used up, no frame ended in it
	Frame                  // a whole frame: Payload is its payload
	BadCRC                 // a whole frame whose checksum is wrong: Payload is what arrived
	Abandoned              // a new frame began inside another: Payload is what had arrived of the old one
	BadEscape              // an impossible escape inside a frame, which is dropped: Payload is what had arrived
	TooLong                // a frame announced more than the limit, and is skipped: no payload
	Silence                // the rest of a frame did not come (a Session's finding, not Next's): Payload is what had
)

var eventNames = [...]string{
	NeedMore: "need more", Frame: "frame", BadCRC: "wrong checksum", Abandoned: "cut short by another frame",
	BadEscape: "impossible escape", TooLong: "length beyond the limit", Silence: "its end did not come",
}

func (e Event) String() string { return eventNames[e] }

// DefaultLimit is the longest payload that an Unframer accepts unless told otherwise.
const DefaultLimit = 16 << 20

type unframeState uint8

const (
	hunting   unframeState = iota // for ff fd
	inLength                      // its four bytes
	inPayload                     // size bytes
	inCRC                         // its two bytes
)

// An Unframer finds frames in a stream of bytes that may hold anything (wire.md §1.6). It never gets stuck:
// whatever came before, a whole frame that follows is found. The zero Unframer is ready to use. It keeps memory
// for the payload that really arrived, not for the length that a frame announced.
type Unframer struct {
	Limit int // longest payload, bytes; 0 means DefaultLimit

	state   unframeState
	escaped bool // the last byte was an ff that the next byte gives its meaning
	crc     uint16
	size    int     // announced payload length
	field   [4]byte // length or CRC, as far as it has come
	have    int     // bytes in field
	buf     []byte  // payload so far
	ended   []byte  // what Payload returns: a part of buf's memory
}

// Payload returns what the last event brought, until the next call of Next.
func (u *Unframer) Payload() []byte { return u.ended }

// Idle says that no frame is under way.
func (u *Unframer) Idle() bool { return u.state == hunting }

// Needed is how many more bytes the current field needs at least, 1 between frames. It is a lower bound that never
// reaches into the next frame.
func (u *Unframer) Needed() int {
	switch u.state {
	case inLength:
		return 4 - u.have
	case inPayload:
		return u.size - len(u.buf)
	case inCRC:
		return 2 - u.have
	default:
		return 1
	}
}

// Next decodes from p until something happened or p is used up, and says how many bytes it took: all of p if the
// event is NeedMore.
func (u *Unframer) Next(p []byte) (int, Event) {
	u.ended = nil
	taken := 0
	for taken < len(p) {
		n, ev := u.step(p[taken:])
		taken += n
		if ev != NeedMore {
			return taken, ev
		}
		u.ended = nil
	}
	return taken, NeedMore
}

// step takes at least one byte of p, which is not empty, within one state.
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
	if u.state != inCRC {
		u.crc = crcUpdate(u.crc, p[:n])
	}
	return n, u.advance()
}

// hunt takes bytes up to and including a frame's start.
func (u *Unframer) hunt(p []byte) int {
	if !u.escaped {
		i := bytes.IndexByte(p, escape)
		if i < 0 {
			return len(p)
		}
		u.escaped = true
		return i + 1
	}
	switch p[0] {
	case frameStart:
		u.start()
	case escape: // this one may be the start's
	default:
		u.escaped = false
	}
	return 1
}

// start begins a frame. A partial payload stays in ended until the next call of Next.
func (u *Unframer) start() {
	u.ended, u.buf = u.buf, u.buf[:0]
	u.state, u.escaped, u.have, u.crc = inLength, false, 0, crcStart
}

// drop leaves the current frame.
func (u *Unframer) drop() {
	u.ended, u.buf = u.buf, u.buf[:0]
	u.state, u.escaped = hunting, false
}

// takeRun decodes payload bytes and doubled ff as far as nothing else comes, in a block that stays in the nearest
// cache for the checksum. It is the fast way through most of a frame; take does the rest.
func (u *Unframer) takeRun(p []byte) int {
	const block = 8 << 10
	if u.state != inPayload || u.escaped {
		return 0
	}
	n := 0
	for p = p[:min(len(p), block)]; ; {
		rest := p[n:]
		run := rest[:min(len(rest), u.size-len(u.buf))]
		i := bytes.IndexByte(run, escape)
		if i < 0 {
			u.buf = append(u.buf, run...)
			return n + len(run)
		}
		if i+1 >= len(rest) || rest[i+1] != escape {
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
	run := p[:min(len(p), u.Needed())]
	i := bytes.IndexByte(run, escape)
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
	case escape:
		u.escaped = false
		u.store([]byte{escape})
	case nop:
		u.escaped = false
	case frameStart:
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
	u.have += copy(u.field[u.have:], data)
}

// advance goes on to the next field if the current one is complete.
func (u *Unframer) advance() Event {
	if u.escaped {
		return NeedMore
	}
	switch {
	case u.state == inLength && u.have == 4:
		return u.endLength()
	case u.state == inPayload && len(u.buf) == u.size:
		u.state, u.have = inCRC, 0
	case u.state == inCRC && u.have == 2:
		return u.endFrame()
	}
	return NeedMore
}

// endLength checks the announced length before anything is made of it.
func (u *Unframer) endLength() Event {
	limit := u.Limit
	if limit == 0 {
		limit = DefaultLimit
	}
	size := binary.LittleEndian.Uint32(u.field[:])
	if uint64(size) > uint64(limit) {
		u.drop()
		return TooLong
	}
	u.size, u.state = int(size), inPayload
	if size == 0 {
		u.state, u.have = inCRC, 0
	}
	return NeedMore
}

// endFrame compares the checksums.
func (u *Unframer) endFrame() Event {
	good := binary.LittleEndian.Uint16(u.field[:]) == u.crc
	u.drop()
	if good {
		return Frame
	}
	return BadCRC
}

// abandon gives up the frame under way, because nothing more comes.
func (u *Unframer) abandon() Event {
	u.drop()
	return Silence
}
