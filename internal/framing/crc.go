package framing

// This file computes the frames' checksum, CRC-16/CCITT-FALSE (wire.md §1.3): polynomial 0x1021, start 0xffff,
// nothing reflected, no final XOR; "123456789" gives 0x29b1.

// crcTable[k][b] is the CRC of the byte b followed by k zero bytes, from a zero start: sixteen input bytes are
// looked up independently, and only the first two depend on the CRC so far. Elements are 32 bits wide because
// processors combine a load with an operation of 32 bits but not of 16.
var crcTable = makeCRCTable()

func makeCRCTable() *[16][256]uint32 {
	var t [16][256]uint32
	for b := range 256 {
		c := uint16(b) << 8
		for range 8 {
			top := c & 0x8000
			c <<= 1
			if top != 0 {
				c ^= 0x1021
			}
		}
		t[0][b] = uint32(c)
	}

	// One zero byte more follows b than at k-1.
	for k := 1; k < 16; k++ {
		for b := range 256 {
			c := uint16(t[k-1][b])
			t[k][b] = uint32(c<<8) ^ t[0][c>>8]
		}
	}
	return &t
}

// crcStart is the CRC of the two bytes ff fd that begin every frame.
var crcStart = crcUpdate(0xffff, []byte{Escape, FrameStart})

// crcUpdate continues the CRC c over p.
func crcUpdate(c uint16, p []byte) uint16 {
	t := crcTable
	for len(p) >= 16 {
		first := t[15][p[0]^byte(c>>8)] ^ t[14][p[1]^byte(c)]
		others := t[13][p[2]] ^ t[12][p[3]] ^ t[11][p[4]] ^ t[10][p[5]] ^ t[9][p[6]] ^ t[8][p[7]] ^
			t[7][p[8]] ^ t[6][p[9]] ^ t[5][p[10]] ^ t[4][p[11]] ^ t[3][p[12]] ^ t[2][p[13]] ^ t[1][p[14]] ^ t[0][p[15]]
		c = uint16(first ^ others)
		p = p[16:]
	}

	for _, b := range p {
		c = c<<8 ^ uint16(t[0][byte(c>>8)^b])
	}
	return c
}
