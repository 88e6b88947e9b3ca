// This file reads and writes Intel HEX (Intel, Hexadecimal Object File Format Specification, revision A, 1988).

package firmware

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
)

// Types of records.
const (
	hexData    = 0
	hexEnd     = 1
	hexSegment = 2 // bits 4 to 19 of addresses
	hexStart   = 3 // CS:IP
	hexLinear  = 4 // bits 16 to 31 of addresses
	hexEntry   = 5 // EIP
)

const hexRowBytes = 16

// HEX returns the segments, at addresses of 32 bits, in Intel HEX.
func HEX(all []Segment) []byte {
	var out bytes.Buffer
	record := func(kind byte, addr uint16, data []byte) {
		row := append([]byte{byte(len(data)), byte(addr >> 8), byte(addr), kind}, data...)
		sum := byte(0)
		for _, b := range row {
			sum += b
		}
		fmt.Fprintf(&out, ":%X%02X\n", row, -sum)
	}

	upper := uint64(0)
	for _, s := range all {
		for addr, data := s.Addr, s.Data; len(data) > 0; {
			// A record has 16 bits of an address, and must not cross their end.
			if addr>>16 != upper {
				upper = addr >> 16
				record(hexLinear, 0, []byte{byte(upper >> 8), byte(upper)})
			}

			n := min(len(data), hexRowBytes, 1<<16-int(addr&0xFFFF))
			record(hexData, uint16(addr), data[:n])
			addr, data = addr+uint64(n), data[n:]
		}
	}

	record(hexEnd, 0, nil)
	return out.Bytes()
}

// ParseHEX returns the data of an Intel HEX file, sorted, adjacent data in one segment. It returns an error for an
// invalid record, for data that overlap and for a file without an end.
func ParseHEX(text []byte) ([]Segment, error) {
	var all []Segment
	base, number := uint64(0), 0
	for line := range bytes.Lines(text) {
		number++
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 {
			continue
		}

		kind, addr, data, err := hexRecord(line)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}

		switch {
		case kind == hexEnd:
			return joined(all)
		case kind == hexData:
			all = append(all, Segment{Addr: base + uint64(addr), Data: data})
		case kind == hexLinear && len(data) == 2:
			base = uint64(binary.BigEndian.Uint16(data)) << 16
		case kind == hexSegment && len(data) == 2:
			base = uint64(binary.BigEndian.Uint16(data)) << 4
		case kind != hexStart && kind != hexEntry:
			return nil, fmt.Errorf("line %d: a record of type %d with %d bytes", number, kind, len(data))
		}
	}
	return nil, errors.New("no end record")
}

// hexRecord reads one line.
func hexRecord(line []byte) (kind byte, addr uint16, data []byte, err error) {
	row := make([]byte, hex.DecodedLen(len(line)))
	n, err := hex.Decode(row, bytes.TrimPrefix(line, []byte(":")))
	row = row[:n]
	if line[0] != ':' || err != nil || len(row) < 5 || int(row[0]) != len(row)-5 {
		return 0, 0, nil, errors.New("not a record of Intel HEX")
	}

	sum := byte(0)
	for _, b := range row {
		sum += b
	}

	if sum != 0 {
		return 0, 0, nil, errors.New("wrong checksum")
	}
	return row[3], binary.BigEndian.Uint16(row[1:]), row[4 : len(row)-1], nil
}

// joined sorts segments and joins adjacent ones.
func joined(all []Segment) (list []Segment, err error) {
	slices.SortStableFunc(all, func(a, b Segment) int { return cmp.Compare(a.Addr, b.Addr) })
	for _, s := range all {
		last := len(list) - 1
		switch {
		case last < 0 || list[last].End() < s.Addr:
			list = append(list, Segment{s.Addr, slices.Clone(s.Data)})
		case list[last].End() > s.Addr:
			return nil, fmt.Errorf("two records for 0x%08x", s.Addr)
		default:
			list[last].Data = append(list[last].Data, s.Data...)
		}
	}
	return list, nil
}
