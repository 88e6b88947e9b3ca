// This file changes what an ELF file loads into memory.

package firmware

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

// Reload returns the ELF file with other loaded data: bytes that the file loads are replaced, others become segments of
// their own, whose physical address is their virtual one. Sections and symbols stay. It returns an error if loads lacks
// a byte that the file loads.
func Reload(file []byte, loads []Segment) ([]byte, error) {
	f, err := elf.NewFile(bytes.NewReader(file))
	if err != nil {
		return nil, err
	}

	out := slices.Clone(file)
	var held []Range
	for _, p := range f.Progs {
		if p.Type != elf.PT_LOAD || p.Filesz == 0 {
			continue
		}
		if p.Off+p.Filesz > uint64(len(out)) || p.Off+p.Filesz < p.Off {
			return nil, errors.New("a segment is longer than the file")
		}

		r := Range{p.Paddr, p.Paddr + p.Filesz}
		if err := overwrite(out[p.Off:p.Off+p.Filesz], r, loads); err != nil {
			return nil, err
		}
		held = append(held, r)
	}

	// A header inside loaded data would have been overwritten with it.
	changed, err := elf.NewFile(bytes.NewReader(out))
	if err != nil || f.FileHeader != changed.FileHeader || !slices.EqualFunc(f.Progs, changed.Progs,
		func(p, q *elf.Prog) bool { return p.ProgHeader == q.ProgHeader }) {
		return nil, errors.New("a segment contains the file's own header, which would change")
	}
	return withSegments(f, out, without(loads, held))
}

// overwrite copies the data of a range.
func overwrite(to []byte, r Range, loads []Segment) error {
	for at := r.Start; at < r.End; {
		i := slices.IndexFunc(loads, func(s Segment) bool { return at-s.Addr < uint64(len(s.Data)) })
		if i < 0 {
			return fmt.Errorf("the byte at 0x%08x is missing", at)
		}
		at += uint64(copy(to[at-r.Start:], loads[i].Data[at-loads[i].Addr:]))
	}
	return nil
}

// without returns the parts of segments that are in no range.
func without(all []Segment, held []Range) (rest []Segment) {
	for _, s := range all {
		start := s.Addr
		for start < s.End() {
			end := s.End()

			inside := false
			for _, r := range held {
				if start >= r.Start && start < r.End {
					start, inside = min(r.End, end), true
					break
				}
				if r.Start > start {
					end = min(end, r.Start)
				}
			}

			// The part ends where the next range begins.
			if !inside {
				rest = append(rest, Segment{start, s.Data[start-s.Addr : end-s.Addr]})
				start = end
			}
		}
	}
	return rest
}

// segmentAlign is the alignment of added segments in the file.
const segmentAlign = 16

// maxSegments is PN_XNUM, which stands for a number that does not fit into the header.
const maxSegments = 0xFFFF

// withSegments appends segments and a longer table of segments to an ELF file, and makes its header name that table
// (System V ABI, chapters 4 and 5: ELF header, program header).
func withSegments(f *elf.File, file []byte, more []Segment) ([]byte, error) {
	if len(more) == 0 {
		return file, nil
	}

	type place struct{ offset, sections, entry, count, end uint64 } // of header fields
	h, size := place{28, 32, 42, 44, 52}, uint64(32)
	if f.Class == elf.ELFCLASS64 {
		h, size = place{32, 40, 54, 56, 64}, 56
	}

	if len(f.Sections) > 0 && tableOf(f, file, h.sections) < h.end { // it would change with the header
		return nil, errors.New("invalid table of sections")
	}

	table, entries := tableOf(f, file, h.offset), uint64(len(f.Progs))
	if uint64(f.ByteOrder.Uint16(file[h.entry:])) != size || table+entries*size > uint64(len(file)) {
		return nil, errors.New("invalid table of segments")
	}

	if entries+uint64(len(more)) >= maxSegments {
		return nil, fmt.Errorf("%d segments, of which a file has fewer than %d", entries+uint64(len(more)), maxSegments)
	}

	// The table cannot grow where it is: a longer one comes last.
	headers := slices.Clone(file[table : table+entries*size])
	for _, s := range more {
		file = padded(file)
		headers = append(headers, segmentHeader(f, uint64(len(file)), s)...)
		file = append(file, s.Data...)
	}

	file = padded(file)
	at := uint64(len(file))
	if f.Class == elf.ELFCLASS64 {
		f.ByteOrder.PutUint64(file[h.offset:], at)
	} else {
		f.ByteOrder.PutUint32(file[h.offset:], uint32(at))
	}

	f.ByteOrder.PutUint16(file[h.count:], uint16(entries)+uint16(len(more)))
	return append(file, headers...), nil
}

func tableOf(f *elf.File, file []byte, at uint64) uint64 {
	if f.Class == elf.ELFCLASS64 {
		return f.ByteOrder.Uint64(file[at:])
	}
	return uint64(f.ByteOrder.Uint32(file[at:]))
}

func padded(b []byte) []byte { return append(b, make([]byte, -len(b)&(segmentAlign-1))...) }

// segmentHeader returns the entry of a read-only segment with contents at an offset of the file.
func segmentHeader(f *elf.File, offset uint64, s Segment) []byte {
	var w bytes.Buffer
	n := uint64(len(s.Data))
	var entry any = elf.Prog64{
		Type: uint32(elf.PT_LOAD), Flags: uint32(elf.PF_R), Off: offset, Vaddr: s.Addr, Paddr: s.Addr, Filesz: n, Memsz: n,
		Align: 1,
	}

	if f.Class == elf.ELFCLASS32 {
		entry = elf.Prog32{
			Type: uint32(elf.PT_LOAD), Flags: uint32(elf.PF_R), Off: uint32(offset), Vaddr: uint32(s.Addr),
			Paddr: uint32(s.Addr), Filesz: uint32(n), Memsz: uint32(n), Align: 1,
		}
	}
	_ = binary.Write(&w, f.ByteOrder, entry) // a buffer takes all
	return w.Bytes()
}
