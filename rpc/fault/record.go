// Package fault turns a device's fault record and the image's ELF file into an error: the cause in words, the call
// chain as functions and lines, and the model's operator.
//
// It is pure: fetching the record from a device is the task of package rpc, finding the image that of package device.
package fault

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/boardsmith/boardsmith/failure"
)

// A Reason is the kind of event that stopped the device.
type Reason uint8

// The reasons.
const (
	ReasonHardware  Reason = 1 // a fault of the processor
	ReasonCheck     Reason = 2 // a failed check, or an abort
	ReasonStack     Reason = 3 // the stack overflowed
	ReasonTimeout   Reason = 4 // a call exceeded its time budget
	ReasonWatchdog  Reason = 5 // interrupts were masked for longer than the watchdog allows
	ReasonInterrupt Reason = 6 // an interrupt without a handler
)

var reasonNames = map[Reason]string{
	ReasonHardware: "hardware fault", ReasonCheck: "failed check", ReasonStack: "stack overflow",
	ReasonTimeout: "timeout", ReasonWatchdog: "watchdog reset", ReasonInterrupt: "unexpected interrupt",
}

func (r Reason) String() string {
	if s, ok := reasonNames[r]; ok {
		return s
	}
	return fmt.Sprintf("fault of unknown reason %d", uint8(r))
}

// The architectures, which define a record's registers.
const (
	ArchCortexM = 1
	ArchRISCV   = 2
	ArchProcess = 3
)

// Function handles with a special meaning.
const (
	noFunction = 0xffffffff
	aotRun     = 0xfffffffe // of an executor on the device
)

// A Record is the fault record that a device keeps over its reset (boardsmith.md). Its addresses are the device's.
type Record struct {
	Reason    Reason
	WordBytes int   // bytes of a register: 4 or 8
	Arch      uint8 // one of those above, or an unknown one
	PCValid   bool
	SPValid   bool
	Code      uint32  // the reason's detail
	Function  uint32  // handle of the packed function that ran
	Ticks     uint64  // its run time until the fault
	TicksHz   uint32  // ticks per second; 0 if there is no timer
	Build     [8]byte // the first bytes of the firmware's build id

	PC, LR, SP uint64
	Status     uint64   // xPSR or mcause; of a process, its load address
	Registers  []uint64 // Cortex-M: r0 to r12; RISC-V: x1 to x31
	// Cortex-M: CFSR, HFSR, MMFAR, BFAR, EXC_RETURN; RISC-V: mtval, mstatus; of a process where Stack begins
	More    []uint64
	Stack   []byte // from SP upwards, or from the stack's lowest address if SP is below that
	Message string // text of a failed check, unchecked
}

const (
	recordMagic   = 0x544c4642
	recordVersion = 1
	recordHead    = 40 // bytes before the first word
	maxRegisters  = 64
)

// A recordReader decodes a record. After an error every value is 0.
type recordReader struct {
	rest []byte
	word int // bytes of a register
	err  error
}

func (r *recordReader) take(n int) []byte {
	if r.err == nil && len(r.rest) < n {
		r.err = fmt.Errorf("its last %d bytes are missing", n-len(r.rest))
	}
	if r.err != nil {
		// Zeros, enough for the largest value.
		return make([]byte, min(n, 8))
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

func (r *recordReader) u8() uint8   { return r.take(1)[0] }
func (r *recordReader) u16() uint16 { return binary.LittleEndian.Uint16(r.take(2)) }
func (r *recordReader) u32() uint32 { return binary.LittleEndian.Uint32(r.take(4)) }
func (r *recordReader) u64() uint64 { return binary.LittleEndian.Uint64(r.take(8)) }

func (r *recordReader) register() uint64 {
	if r.word == 8 {
		return r.u64()
	}
	return uint64(r.u32())
}

func (r *recordReader) registers() []uint64 {
	n := r.register()
	if n > maxRegisters && r.err == nil {
		r.err = fmt.Errorf("more than %d registers: %#x", maxRegisters, n)
	}
	if r.err != nil || n == 0 {
		return nil
	}

	w := make([]uint64, n)
	for i := range w {
		w[i] = r.register()
	}
	return w
}

// ParseRecord decodes a fault record. The result shares no memory with b. An invalid record is an error of class
// transport.
func ParseRecord(b []byte) (*Record, error) {
	if len(b) < recordHead+4 {
		return nil, invalid("fault record of %d bytes", len(b))
	}

	body := b[:len(b)-4]
	r := recordReader{rest: body}
	if magic := r.u32(); magic != recordMagic {
		return nil, invalid("fault record begins with %#x", magic)
	}
	if version := r.u16(); version != recordVersion {
		return nil, invalid("unsupported version %d of the fault record", version)
	}
	if n := r.u16(); int(n) != len(b) {
		return nil, invalid("fault record of %d bytes with length %d", len(b), n)
	}
	if sum := binary.LittleEndian.Uint32(b[len(body):]); sum != crc32.ChecksumIEEE(body) {
		return nil, invalid("fault record with a wrong CRC")
	}

	rec, err := r.record()
	if err != nil {
		return nil, invalid("fault record: %w", err)
	}
	return rec, nil
}

func invalid(format string, args ...any) error {
	return failure.Errorf(failure.Transport, format, args...)
}

// record reads the part after the length.
func (r *recordReader) record() (*Record, error) {
	rec := &Record{Reason: Reason(r.u8()), WordBytes: int(r.u8()), Arch: r.u8()}
	flags := r.u8()

	if rec.WordBytes != 4 && rec.WordBytes != 8 {
		return nil, fmt.Errorf("invalid word size of %d bytes", rec.WordBytes)
	}
	if flags > 3 {
		return nil, fmt.Errorf("unknown flags %#x", flags)
	}

	// From here on, registers have this size.
	r.word = rec.WordBytes
	rec.PCValid, rec.SPValid = flags&1 != 0, flags&2 != 0
	rec.Code, rec.Function, rec.Ticks, rec.TicksHz = r.u32(), r.u32(), r.u64(), r.u32()
	copy(rec.Build[:], r.take(len(rec.Build)))
	rec.PC, rec.LR, rec.SP, rec.Status = r.register(), r.register(), r.register(), r.register()
	rec.Registers, rec.More = r.registers(), r.registers()

	stack, message := int(r.u16()), int(r.u16())
	if r.err == nil && stack+message != len(r.rest) {
		r.err = fmt.Errorf("its stack of %d and message of %d bytes do not fill its last %d bytes", stack, message,
			len(r.rest))
	}
	if r.err != nil {
		return nil, r.err
	}

	rec.Stack = bytes.Clone(r.rest[:stack])
	rec.Message = string(r.rest[stack:])
	return rec, nil
}
