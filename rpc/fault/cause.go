// This file describes a fault in words.

package fault

import (
	"fmt"
	"strings"
	"time"
)

// more returns one of the words after the registers, 0 if missing.
func (rec *Record) more(i int) uint64 {
	if i >= len(rec.More) {
		return 0
	}
	return rec.More[i]
}

// Cause describes the fault, from the reason and the core's fault registers.
func (rec *Record) Cause() string {
	switch rec.Reason {
	case ReasonCheck:
		s := "failed check"
		if rec.Code != 0 {
			s += fmt.Sprintf(" (error %#x)", rec.Code)
		}
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

func (rec *Record) interrupt() string {
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

func (rec *Record) hardware() string {
	name, detail := rec.Reason.String(), ""
	switch rec.Arch {
	case ArchCortexM:
		// A stack overflow keeps its name, whichever exception reported it.
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

// A faultBit is one bit of CFSR and its meaning (ARMv7-M ARM, B3.2.15; bit 20: ARMv8-M ARM, D1.2.46).
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
func (rec *Record) cortexM() string {
	cfsr, hfsr := rec.more(0), rec.more(1)
	var events []string

	for _, f := range faultBits {
		if cfsr>>f.bit&1 == 0 {
			continue
		}

		text := f.text
		if f.valid != 0 && cfsr>>f.valid&1 != 0 {
			text += fmt.Sprintf(" at 0x%08x", rec.more(f.address))
		}
		events = append(events, text)
	}

	if hfsr>>1&1 != 0 {
		events = append(events, "bus error on reading the vector table")
	}
	if hfsr>>31&1 != 0 {
		events = append(events, "breakpoint without a debugger")
	}

	if cfsr == 0 && hfsr == 0 {
		return ""
	}

	registers := fmt.Sprintf("CFSR 0x%08x, HFSR 0x%08x", cfsr, hfsr)
	if len(events) == 0 {
		return registers
	}
	return registers + ": " + strings.Join(events, ", ")
}

// trapNames are RISC-V's exceptions, by mcause (privileged architecture 1.12, table 3.6).
var trapNames = map[uint64]string{
	0: "misaligned instruction address", 1: "instruction access fault", 2: "illegal instruction", 3: "breakpoint",
	4: "misaligned load", 5: "load access fault", 6: "misaligned store", 7: "store access fault",
	8: "environment call from user mode", 11: "environment call from machine mode",
	12: "instruction page fault", 13: "load page fault", 15: "store page fault",
}

func (rec *Record) riscV() string {
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

	// Of an illegal instruction, mtval is the instruction, not an address.
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
