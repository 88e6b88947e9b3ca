package rpctest

import (
	"encoding/binary"
	"hash/crc32"
	"math"

	"github.com/boardsmith/boardsmith/rpc/fault"
)

// Of a fault record.
const (
	recordMagic   = 0x544c4642
	recordVersion = 1
	maxRegisters  = 64
)

// AppendRecord appends the encoding of a fault record, as firmware has it, to b. It truncates stack and message to the
// record's limits.
func AppendRecord(b []byte, rec *fault.Record) []byte {
	le := binary.LittleEndian
	start := len(b)
	flags := byte(0)
	if rec.PCValid {
		flags |= 1
	}
	if rec.SPValid {
		flags |= 2
	}
	word := func(v uint64) {
		if rec.WordBytes == 8 {
			b = le.AppendUint64(b, v)
		} else {
			b = le.AppendUint32(b, uint32(v))
		}
	}
	words := func(w []uint64) {
		w = w[:min(len(w), maxRegisters)]
		word(uint64(len(w)))
		for _, v := range w {
			word(v)
		}
	}
	b = le.AppendUint32(b, recordMagic)
	b = le.AppendUint16(b, recordVersion)
	b = append(b, 0, 0, byte(rec.Reason), byte(rec.WordBytes), rec.Arch, flags)
	b = le.AppendUint32(b, rec.Code)
	b = le.AppendUint32(b, rec.Function)
	b = le.AppendUint64(b, rec.Ticks)
	b = le.AppendUint32(b, rec.TicksHz)
	b = append(b, rec.Build[:]...)
	for _, v := range []uint64{rec.PC, rec.LR, rec.SP, rec.Status} {
		word(v)
	}
	words(rec.Registers)
	words(rec.More)
	room := math.MaxUint16 - (len(b) - start) - 8 // two lengths and the CRC
	message := rec.Message[:min(len(rec.Message), room)]
	stack := rec.Stack[:min(len(rec.Stack), room-len(message))]
	b = le.AppendUint16(b, uint16(len(stack)))
	b = le.AppendUint16(b, uint16(len(message)))
	b = append(append(b, stack...), message...)
	le.PutUint16(b[start+6:], uint16(len(b)-start+4))
	return le.AppendUint32(b, crc32.ChecksumIEEE(b[start:]))
}
