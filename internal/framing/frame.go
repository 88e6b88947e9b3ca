// Package framing encodes and decodes the frames of the protocol on lossy links (wire.md §1).
//
// It sends and receives nothing: package transport has sessions.
package framing

import (
	"bytes"
	"encoding/binary"
)

// The bytes with a meaning in the framing (wire.md §1.1). All but Escape are ordinary unless an Escape precedes
// them.
const (
	Escape     = 0xff
	nop        = 0xfe
	FrameStart = 0xfd
)

// A Framer encodes messages as frames: ff fd, the length, the payload, a CRC-16, with each data byte ff doubled
// (wire.md §1). The zero Framer is in its reset state: its next frame begins with the reset nop.
type Framer struct {
	running bool
}

// Reset makes the next frame begin with the reset nop, as required after a write that failed within a frame.
func (f *Framer) Reset() { f.running = false }

// Append appends one frame to dst and returns the extended slice. The payload is the concatenation of parts and
// must be shorter than 4 GiB. It allocates only if dst is too small.
func (f *Framer) Append(dst []byte, parts ...[]byte) []byte {
	if !f.running {
		f.running = true
		dst = append(dst, nop)
	}

	size := 0
	for _, p := range parts {
		size += len(p)
	}
	var field [4]byte
	binary.LittleEndian.PutUint32(field[:], uint32(size))

	start := len(dst)
	dst = append(dst, Escape, FrameStart)
	dst = appendEscaped(dst, field[:4])
	// The CRC covers the bytes as they are sent, with each ff doubled.
	crc := crcUpdate(0xffff, dst[start:])
	for _, p := range parts {
		dst, crc = appendPayload(dst, p, crc)
	}

	binary.LittleEndian.PutUint16(field[:], crc)
	return appendEscaped(dst, field[:2])
}

// appendPayload appends p escaped and updates crc, in blocks that fit the L1 cache.
func appendPayload(dst, p []byte, crc uint16) ([]byte, uint16) {
	const block = 8 << 10

	for len(p) > 0 {
		n := min(len(p), block)
		start := len(dst)
		dst = appendEscaped(dst, p[:n])
		crc = crcUpdate(crc, dst[start:])
		p = p[n:]
	}
	return dst, crc
}

// appendEscaped appends p with every ff doubled.
func appendEscaped(dst, p []byte) []byte {
	for {
		i := bytes.IndexByte(p, Escape)
		if i < 0 {
			return append(dst, p...)
		}
		dst = append(dst, p[:i+1]...)
		dst = append(dst, Escape)
		p = p[i+1:]
	}
}
