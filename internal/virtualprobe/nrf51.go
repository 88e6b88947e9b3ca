// This file is the nRF51822 of the machine microbit: QEMU emulates its flash controller (nRF51 reference manual v3.0.1,
// chapter 6), but some words of its factory information are not where they belong.

package virtualprobe

import (
	"bytes"
	"encoding/binary"
	"slices"
)

// NRF51 is the chip of the machine microbit.
var NRF51 = Model{
	Name: "nrf51", Program: "qemu-system-arm", Args: []string{"-M", "microbit", "-icount", "shift=4"},
	dpID: 0x0BB11477, jtagID: 0x0BB11477, apID: 0x04770021, apBlock: 1 << 10,
	flash: span{0, nrfBytes},
	wrap:  newNRF51,
}

const (
	nrfReady    = 0x4001E400
	nrfConfig   = 0x4001E504
	nrfErasePg  = 0x4001E508
	nrfEraseAll = 0x4001E50C
	nrfPage     = 1024
	nrfBytes    = 256 << 10
)

type nrf51 struct {
	*machine
	wear    *Wear
	flash   []byte // what debuggers made of it
	config  uint32 // what the controller allows: 0 reading, 1 writing, 2 erasing
	unsaved bool
}

func newNRF51(m *machine, w *Wear) chipModel {
	return &nrf51{machine: m, wear: w, flash: make([]byte, nrfBytes)}
}

// factory overrides what QEMU misplaces (nRF51 reference manual §7: CODEPAGESIZE, CODESIZE, CLENR0, NUMRAMBLOCK, ...).
var factory = map[uint32]uint32{
	0x10000028: 0xFFFFFFFF, 0x1000002C: 0xFFFFFFFF, 0x10000034: 1, 0x10000038: 0x4000, 0x1000005C: 0x1D,
}

// Read answers for the flash controller itself, which is always ready here: loaders ask after each word.
func (n *nrf51) Read(addr uint32, width int) (uint32, error) {
	switch addr {
	case nrfReady:
		return 1, nil
	case nrfConfig:
		return n.config, nil
	}
	if v, ok := factory[addr&^3]; ok {
		return v >> (8 * (addr & 3)) & (1<<(8*width) - 1), nil
	}
	return n.machine.Read(addr, width)
}

func (n *nrf51) plain(addr uint32) bool {
	return addr < 256<<10 || addr-0x20000000 < 16<<10
}

func (n *nrf51) runnable(addr uint32) bool { return n.plain(addr) }

func (n *nrf51) beforeRun() error { return nil } // its flash is the emulator's

func (n *nrf51) afterReset() error {
	n.config = 0
	return nil
}

func (n *nrf51) dirty() bool {
	was := n.unsaved
	n.unsaved = false
	return was
}

// Write watches the flash controller, and makes it fail where the flash is worn.
func (n *nrf51) Write(addr uint32, width int, v uint32) error {
	switch {
	case addr == nrfConfig:
		n.config = v & 3
	case addr == nrfErasePg && n.config == 2:
		n.unsaved = true
		if !n.wear.erased(int(v / nrfPage)) {
			return nil
		}
		n.blank(v / nrfPage)
	case addr == nrfEraseAll && n.config == 2 && v&1 != 0:
		n.unsaved = true
		return n.eraseAll(v)
	case addr < n.size() && n.config == 1:
		n.unsaved = true
		return n.program(addr, width, v)
	}
	return n.machine.Write(addr, width, v)
}

func (n *nrf51) WriteBlock(addr uint32, words []uint32) error {
	for i, v := range words {
		if err := n.Write(addr+uint32(4*i), 4, v); err != nil {
			return err
		}
	}
	return nil
}

func (n *nrf51) size() uint32 { return nrfBytes }

// eraseAll erases page by page if some no longer erase.
func (n *nrf51) eraseAll(v uint32) error {
	whole := true
	for page := range int(n.size() / nrfPage) {
		whole = n.wear.erased(page) && whole
	}
	if whole {
		for page := range n.size() / nrfPage {
			n.blank(page)
		}
		return n.machine.Write(nrfEraseAll, 4, v)
	}
	for page := range n.size() / nrfPage {
		if !n.wear.Stuck[int(page)] {
			n.blank(page)
			if err := n.machine.Write(nrfErasePg, 4, page*nrfPage); err != nil {
				return err
			}
		}
	}
	return nil
}

func (n *nrf51) blank(page uint32) {
	if page < nrfBytes/nrfPage {
		copy(n.flash[page*nrfPage:][:nrfPage], erasedPage)
	}
}

var erasedPage = bytes.Repeat([]byte{0xFF}, nrfPage)

// program leaves ones where bits no longer become 0.
func (n *nrf51) program(addr uint32, width int, v uint32) error {
	for i := range uint32(width) {
		v |= uint32(n.wear.weak(addr+i)) << (8 * i)
		n.flash[addr+i] &= byte(v >> (8 * i))
	}
	return n.machine.Write(addr, width, v)
}

// preload erases all and writes through the emulator's controller, past the wear.
func (n *nrf51) preload(flash []byte) error {
	for _, w := range []struct{ addr, v uint32 }{{nrfConfig, 2}, {nrfEraseAll, 1}, {nrfConfig, 1}} {
		if err := n.machine.Write(w.addr, 4, w.v); err != nil {
			return err
		}
	}
	for i := 0; i < len(flash); i += 4 {
		if v := binary.LittleEndian.Uint32(flash[i:]); v != 0xFFFFFFFF {
			if err := n.machine.Write(uint32(i), 4, v); err != nil {
				return err
			}
		}
	}
	copy(n.flash, flash)
	n.unsaved = true
	return n.machine.Write(nrfConfig, 4, n.config)
}

func (n *nrf51) restarted() error {
	n.config = 0
	return n.preload(slices.Clone(n.flash))
}
