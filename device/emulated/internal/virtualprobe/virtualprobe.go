// Package virtualprobe is a debug probe in software, in front of a microcontroller that QEMU emulates: real OpenOCD
// (JTAG over remote_bitbang) and real pyOCD (its remote probe protocol) program it as they program a board on the desk.
//
// It is for tests, and for trying boardsmith without hardware. It has no programmer's options, board files or images:
// these are in package flasher. Sources: Arm Debug Interface v5.2 (IHI 0031), ARMv6-M and ARMv7-M architecture
// reference manuals (DDI 0419, DDI 0403), and the observed behaviour of the tools.
package virtualprobe

import (
	"errors"
)

// A Bus is the chip's memory as accessed by a debugger's access port. Addresses are aligned to the width.
type Bus interface {
	// Read reads one item of width 1, 2 or 4 bytes.
	Read(addr uint32, width int) (uint32, error)
	// Write writes one.
	Write(addr uint32, width int, v uint32) error
	// ReadBlock reads words (width 4), lowest address first.
	ReadBlock(addr uint32, words []uint32) error
}

// ErrGone reports that the emulator's process ended.
var ErrGone = errors.New("the emulated chip has ended")
