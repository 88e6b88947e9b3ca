// This file encodes, decodes and describes the fault record, which a device keeps over its reset (SPEC.md).

package rpc

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"strings"
	"time"
)

// A Reason is why the device stopped.
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

// An Arch is the architecture, which defines a record's registers.
type Arch uint8

// The architectures.
const (
	ArchCortexM Arch = 1
	ArchRISCV   Arch = 2
	ArchProcess Arch = 3
)

// Function handles with a special meaning.
const (
	noFunction = 0xffffffff
	aotRun     = 0xfffffffe // of an executor on the device
)

// A FaultRecord is a device's record of a fault. Its addresses are the device's.
type FaultRecord struct {
	Reason    Reason
	WordBytes int // bytes of a register: 4 or 8
	Arch      Arch
	PCValid   bool
	SPValid   bool
	Code      uint32  // the reason's detail
	Function  uint32  // handle of the packed function that ran
	Ticks     uint64  // how long it had run
	TicksHz   uint32  // ticks per second; 0 if there is no timer
	Build     [8]byte // the first bytes of the firmware's build id

	PC, LR, SP uint64
	Status     uint64   // xPSR or mcause; of a process, its load address
	Registers  []uint64 // Cortex-M: r0 to r12; RISC-V: x1 to x31
	// Cortex-M: CFSR, HFSR, MMFAR, BFAR, EXC_RETURN; RISC-V: mtval, mstatus; of a process where Stack begins
	More    []uint64
	Stack   []byte // from SP upwards, or from the stack's lowest address if SP is below that
	Message string // text of a failed check, as the device wrote it
}

const (
	recordMagic   = 0x544c4642
	recordVersion = 1
	recordHead    = 40 // bytes before the first word
	maxRegisters  = 64
)

// A recordReader decodes a record. After an error every value is 0.
type recordReader struct {
	left []byte
	word int
	err  error
}

func (r *recordReader) take(n int) []byte {
	if r.err == nil && len(r.left) < n {
		r.err = fmt.Errorf("its last %d bytes are missing", n-len(r.left))
	}
	if r.err != nil {
		return make([]byte, min(n, 8))
	}
	b := r.left[:n]
	r.left = r.left[n:]
	return b
}

func (r *recordReader) u8() uint8   { return r.take(1)[0] }
func (r *recordReader) u16() uint16 { return binary.LittleEndian.Uint16(r.take(2)) }
func (r *recordReader) u32() uint32 { return binary.LittleEndian.Uint32(r.take(4)) }
func (r *recordReader) u64() uint64 { return binary.LittleEndian.Uint64(r.take(8)) }

func (r *recordReader) aWord() uint64 {
	if r.word == 8 {
		return r.u64()
	}
	return uint64(r.u32())
}

func (r *recordReader) words() []uint64 {
	n := r.aWord()
	if n > maxRegisters && r.err == nil {
		r.err = fmt.Errorf("more than %d registers: %#x", maxRegisters, n)
	}
	if r.err != nil || n == 0 {
		return nil
	}
	w := make([]uint64, n)
	for i := range w {
		w[i] = r.aWord()
	}
	return w
}

// ParseRecord decodes a fault record. It returns a *ProtocolError for an invalid one. The record shares no memory
// with b.
func ParseFaultRecord(b []byte) (*FaultRecord, error) {
	if len(b) < recordHead+4 {
		return nil, protocolErrorf("fault record of %d bytes", len(b))
	}
	body := b[:len(b)-4]
	r := recordReader{left: body}
	if magic := r.u32(); magic != recordMagic {
		return nil, protocolErrorf("fault record begins with %#x", magic)
	}
	if version := r.u16(); version != recordVersion {
		return nil, protocolErrorf("unsupported version %d of the fault record", version)
	}
	if n := r.u16(); int(n) != len(b) {
		return nil, protocolErrorf("fault record of %d bytes with length %d", len(b), n)
	}
	if sum := binary.LittleEndian.Uint32(b[len(body):]); sum != crc32.ChecksumIEEE(body) {
		return nil, protocolErrorf("fault record with a wrong CRC")
	}
	rec, err := r.record()
	if err != nil {
		return nil, protocolErrorf("fault record: %v", err)
	}
	return rec, nil
}

// record reads the part after the length.
func (r *recordReader) record() (*FaultRecord, error) {
	rec := &FaultRecord{Reason: Reason(r.u8()), WordBytes: int(r.u8()), Arch: Arch(r.u8())}
	flags := r.u8()
	if rec.WordBytes != 4 && rec.WordBytes != 8 {
		return nil, fmt.Errorf("invalid word size of %d bytes", rec.WordBytes)
	}
	if flags > 3 {
		return nil, fmt.Errorf("unknown flags %#x", flags)
	}
	r.word = rec.WordBytes
	rec.PCValid, rec.SPValid = flags&1 != 0, flags&2 != 0
	rec.Code, rec.Function, rec.Ticks, rec.TicksHz = r.u32(), r.u32(), r.u64(), r.u32()
	copy(rec.Build[:], r.take(len(rec.Build)))
	rec.PC, rec.LR, rec.SP, rec.Status = r.aWord(), r.aWord(), r.aWord(), r.aWord()
	rec.Registers, rec.More = r.words(), r.words()
	stack, message := int(r.u16()), int(r.u16())
	if r.err == nil && stack+message != len(r.left) {
		r.err = fmt.Errorf("its stack of %d and message of %d bytes do not fill its last %d bytes", stack, message,
			len(r.left))
	}
	if r.err != nil {
		return nil, r.err
	}
	rec.Stack = bytes.Clone(r.left[:stack])
	rec.Message = string(r.left[stack:])
	return rec, nil
}

// Append appends the record's encoding to b. It truncates stack and message to the record's limits.
func (rec *FaultRecord) Append(b []byte) []byte {
	le := binary.LittleEndian
	at := len(b)
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
	b = append(b, 0, 0, byte(rec.Reason), byte(rec.WordBytes), byte(rec.Arch), flags)
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
	room := math.MaxUint16 - (len(b) - at) - 8 // two lengths and the CRC
	message := rec.Message[:min(len(rec.Message), room)]
	stack := rec.Stack[:min(len(rec.Stack), room-len(message))]
	b = le.AppendUint16(b, uint16(len(stack)))
	b = le.AppendUint16(b, uint16(len(message)))
	b = append(append(b, stack...), message...)
	le.PutUint16(b[at+6:], uint16(len(b)-at+4))
	return le.AppendUint32(b, crc32.ChecksumIEEE(b[at:]))
}

// Elapsed returns how long the call had run, 0 if unknown.
func (rec *FaultRecord) Elapsed() time.Duration {
	if rec.TicksHz == 0 {
		return 0
	}
	s := float64(rec.Ticks) / float64(rec.TicksHz)
	if s > 1e9 { // 30 years
		return 0
	}
	return time.Duration(s * float64(time.Second))
}

// more returns one of the words after the registers, 0 if missing.
func (rec *FaultRecord) more(i int) uint64 {
	if i >= len(rec.More) {
		return 0
	}
	return rec.More[i]
}

// Cause describes the fault, from the reason and the core's fault registers.
func (rec *FaultRecord) Cause() string {
	switch rec.Reason {
	case ReasonCheck:
		s := fmt.Sprintf("failed check (error %#x)", rec.Code)
		if rec.Message != "" {
			s += ": " + printable(rec.Message)
		}
		return s
	case ReasonTimeout:
		return fmt.Sprintf("still running after its time budget of %v", time.Duration(rec.Code)*time.Millisecond)
	case ReasonInterrupt:
		return rec.interrupt() + ", which has no handler"
	case ReasonHardware, ReasonStack:
		return rec.hardware()
	}
	return rec.Reason.String()
}

func (rec *FaultRecord) interrupt() string {
	const local = 1 << 31
	if rec.Arch == ArchRISCV && rec.Code&local != 0 {
		return fmt.Sprintf("interrupt of the core, mcause %d", rec.Code&^local)
	}
	return fmt.Sprintf("interrupt %d", rec.Code)
}

// printable converts a device's bytes to one line without control characters.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '.'
		}
		return r
	}, strings.TrimRight(s, "\r\n\x00"))
}

func (rec *FaultRecord) hardware() string {
	name, detail := rec.Reason.String(), ""
	switch rec.Arch {
	case ArchCortexM:
		if n, ok := exceptionNames[rec.Code]; ok && rec.Reason == ReasonHardware {
			name = n
		}
		detail = rec.cortexM()
	case ArchRISCV:
		detail = rec.riscV()
	case ArchProcess:
		detail = signalName(rec.Code)
	}
	if detail == "" {
		return name
	}
	return name + " (" + detail + ")"
}

// exceptionNames are the Cortex-M's faults, by exception number (ARMv7-M ARM, B1.5.2; SecureFault: ARMv8-M ARM, B3.9).
var exceptionNames = map[uint32]string{
	2: "non-maskable interrupt", 3: "hard fault", 4: "memory management fault", 5: "bus fault", 6: "usage fault",
	7: "secure fault",
}

// A faultBit is one bit of CFSR and what it means (ARMv7-M ARM, B3.2.15; bit 20: ARMv8-M ARM, D1.2.46).
type faultBit struct {
	bit     int
	text    string
	address int // index in More of the accessed address, if bit valid of CFSR is set; 0: none
	valid   int
}

var faultBits = []faultBit{
	{bit: 0, text: "instruction fetch from a forbidden address"},
	{1, "forbidden data access", 2, 7},
	{3, "memory fault on return from an exception", 2, 7},
	{4, "memory fault on entry of an exception", 2, 7},
	{5, "memory fault while saving floating-point registers", 2, 7},
	{8, "bus error on instruction fetch", 3, 15},
	{9, "precise data bus error", 3, 15},
	{bit: 10, text: "imprecise data bus error, which belongs to an earlier instruction"},
	{11, "bus error on return from an exception", 3, 15},
	{12, "bus error on entry of an exception", 3, 15},
	{13, "bus error while saving floating-point registers", 3, 15},
	{bit: 16, text: "undefined instruction"},
	{bit: 17, text: "jump out of Thumb state"},
	{bit: 18, text: "invalid return from an exception"},
	{bit: 19, text: "coprocessor or FPU is disabled"},
	{bit: 20, text: "stack limit"},
	{bit: 24, text: "unaligned access"},
	{bit: 25, text: "division by zero"},
}

// cortexM describes CFSR and HFSR. On ARMv6-M, which has neither, they are missing or 0.
func (rec *FaultRecord) cortexM() string {
	cfsr, hfsr := rec.more(0), rec.more(1)
	var said []string
	for _, f := range faultBits {
		if cfsr>>f.bit&1 == 0 {
			continue
		}
		text := f.text
		if f.valid != 0 && cfsr>>f.valid&1 != 0 {
			text += fmt.Sprintf(" at 0x%08x", rec.more(f.address))
		}
		said = append(said, text)
	}
	if hfsr>>1&1 != 0 {
		said = append(said, "bus error on reading the vector table")
	}
	if hfsr>>31&1 != 0 {
		said = append(said, "breakpoint without a debugger")
	}
	if cfsr == 0 && hfsr == 0 {
		return ""
	}
	registers := fmt.Sprintf("CFSR 0x%08x, HFSR 0x%08x", cfsr, hfsr)
	if len(said) == 0 {
		return registers
	}
	return registers + ": " + strings.Join(said, ", ")
}

// trapNames are RISC-V's exceptions, by mcause (privileged architecture 1.12, table 3.6).
var trapNames = map[uint64]string{
	0: "misaligned instruction address", 1: "instruction access fault", 2: "illegal instruction", 3: "breakpoint",
	4: "misaligned load", 5: "load access fault", 6: "misaligned store", 7: "store access fault",
	8: "environment call from user mode", 11: "environment call from machine mode",
	12: "instruction page fault", 13: "load page fault", 15: "store page fault",
}

func (rec *FaultRecord) riscV() string {
	name, ok := trapNames[uint64(rec.Code)]
	if !ok {
		name = fmt.Sprintf("mcause %#x", rec.Status)
	}
	if len(rec.More) == 0 {
		return name
	}
	if rec.Code == 2 && rec.More[0] == 0 { // not every core sets it
		return name
	}
	if rec.Code == 2 {
		return fmt.Sprintf("%s %#x", name, rec.More[0])
	}
	return fmt.Sprintf("%s at %#x", name, rec.More[0])
}

// signalName names Linux's signals for faults; other systems number the last two differently.
func signalName(n uint32) string {
	names := map[uint32]string{
		4: "SIGILL, illegal instruction", 5: "SIGTRAP, trap", 6: "SIGABRT, abort", 7: "SIGBUS, bus error",
		8: "SIGFPE, arithmetic error", 11: "SIGSEGV, invalid memory access",
	}
	if s, ok := names[n]; ok {
		return s
	}
	return fmt.Sprintf("signal %d", n)
}
