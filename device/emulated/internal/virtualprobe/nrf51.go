// This file models the nRF51822 of the machine microbit. QEMU emulates its flash controller (nRF51 reference manual
// v3.0.1, chapter 6), but has some words of its factory information at wrong addresses.

package virtualprobe

import (
	"bytes"
	"encoding/binary"
	"errors"

	"github.com/boardsmith/boardsmith/internal/chipkeeper"
)

// NRF51 is the chip of the machine microbit.
var NRF51 = Model{
	Name: chipkeeper.NRF51, Program: "qemu-system-arm", Args: []string{"-M", "microbit", "-icount", "shift=4"},
	dpID: 0x0BB11477, jtagID: 0x0BB11477, apID: 0x04770021, apBlock: 1 << 10,
	flash: span{0, nrfBytes},
	wrap:  newNRF51,
	identify: func(m *machine, n int) error {
		return replaceConstant(m.process.PID(), m.program, nrfIdentity(0), nrfIdentity(n))
	},
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
	flash   []byte // the flash's content as debuggers wrote it
	config  uint32 // operations that the controller allows: 0 reading, 1 writing, 2 erasing
	unsaved bool
}

func newNRF51(m *machine, w *Wear) chipModel {
	return &nrf51{machine: m, wear: w, flash: make([]byte, nrfBytes)}
}

// factory overrides words that QEMU has at wrong addresses (nRF51 reference manual §7: CODEPAGESIZE, CODESIZE, CLENR0,
// NUMRAMBLOCK, ...).
var factory = map[uint32]uint32{
	0x10000028: 0xFFFFFFFF, 0x1000002C: 0xFFFFFFFF, 0x10000034: 1, 0x10000038: 0x4000, 0x1000005C: 0x1D,
}

// Read returns the flash controller's registers without QEMU. The controller is always ready; loaders read that after
// each word.
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

	v, err := n.machine.Read(addr, width)
	if addr < n.size() && len(n.wear.Unstable) > 0 {
		v = n.seen(addr, width, v)
	}
	return v, err
}

// seen returns the value that cells at an address read as, when the emulator has v there.
func (n *nrf51) seen(addr uint32, width int, v uint32) (got uint32) {
	for i := range uint32(width) {
		got |= uint32(n.wear.seen(addr+i, byte(v>>(8*i)))) << (8 * i)
	}
	return got
}

func (n *nrf51) ReadBlock(addr uint32, words []uint32) error {
	err := n.machine.ReadBlock(addr, words)
	for i := range words {
		if at := addr + uint32(4*i); at < n.size() && len(n.wear.Unstable) > 0 {
			words[i] = n.seen(at, 4, words[i])
		}
	}
	return err
}

func (n *nrf51) plain(addr uint32) bool {
	return addr < 256<<10 || addr-0x20000000 < 16<<10
}

func (n *nrf51) beforeRun() error { return nil } // the flash is in the emulator

func (n *nrf51) afterReset() error {
	n.config = 0
	if len(n.wear.Unstable) > 0 {
		return n.fill() // so that firmware too reads cells that are random
	}
	return nil
}

func (n *nrf51) dirty() bool {
	unsaved := n.unsaved
	n.unsaved = false
	return unsaved
}

// Write models accesses of the flash controller, and makes them fail where the flash is worn.
func (n *nrf51) Write(addr uint32, width int, v uint32) error {
	switch {
	case addr == nrfConfig:
		n.config = v & 3
	case addr == nrfErasePg && n.config == 2:
		n.unsaved = true
		return n.erasePage(v)
	case addr == nrfEraseAll && n.config == 2 && v&1 != 0:
		n.unsaved = true
		return n.eraseAll(v)
	case addr < n.size() && n.config == 1:
		n.unsaved = true
		return n.program(addr, width, v)
	}
	return n.machine.Write(addr, width, v)
}

func (n *nrf51) size() uint32 { return nrfBytes }

// eraseAll erases page by page if some pages can no longer be erased.
func (n *nrf51) eraseAll(v uint32) error {
	// The attempt counts for each page, also if the page is stuck.
	erasable := true
	for page := range int(n.size() / nrfPage) {
		erasable = n.wear.erased(page) && erasable
	}

	if erasable {
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

func (n *nrf51) erasePage(addr uint32) error {
	page := addr / nrfPage
	if page >= n.size()/nrfPage || !n.wear.erased(int(page)) {
		return nil
	}

	if n.wear.cuts(true) {
		cells := n.flash[page*nrfPage:][:nrfPage]
		copy(cells, n.wear.torn(page*nrfPage, cells, erasedPage))
		return errPowerCut
	}

	n.blank(page)
	return n.machine.Write(nrfErasePg, 4, addr)
}

func (n *nrf51) blank(page uint32) {
	copy(n.flash[page*nrfPage:][:nrfPage], erasedPage)
	n.wear.settled(page*nrfPage, erasedPage, true)
}

var erasedPage = bytes.Repeat([]byte{0xFF}, nrfPage)

// program leaves bits at 1 that can no longer become 0.
func (n *nrf51) program(addr uint32, width int, v uint32) error {
	cells, after := n.flash[addr:][:width], make([]byte, width)
	for i := range uint32(width) {
		// Programming only clears bits, and a weak bit stays.
		v |= uint32(n.wear.weak(addr+i)) << (8 * i)
		after[i] = cells[i] & byte(v>>(8*i))
	}

	if n.wear.cuts(false) {
		copy(cells, n.wear.torn(addr, cells, after))
		return errPowerCut
	}

	copy(cells, after)
	n.wear.settled(addr, after, false)
	return n.machine.Write(addr, width, v)
}

func (n *nrf51) fall(off uint32, bits byte) error {
	n.flash[off] &^= bits
	n.unsaved = true
	word := binary.LittleEndian.Uint32(n.flash[off&^3:])

	// Programmed through the controller, whose mode is restored.
	return errors.Join(n.machine.Write(nrfConfig, 4, 1), n.machine.Write(off&^3, 4, word),
		n.machine.Write(nrfConfig, 4, n.config))
}

func (n *nrf51) preload(flash []byte) error {
	copy(n.flash, flash)
	n.unsaved = true
	return n.fill()
}

// fill erases the emulator's flash and writes it through its controller, without wear.
func (n *nrf51) fill() error {
	flash := n.wear.seenAll(n.flash)

	for _, w := range []struct{ addr, v uint32 }{{nrfConfig, 2}, {nrfEraseAll, 1}, {nrfConfig, 1}} {
		if err := n.machine.Write(w.addr, 4, w.v); err != nil {
			return err
		}
	}

	for i := 0; i < len(flash); i += 4 {
		// An erased word is there already.
		if v := binary.LittleEndian.Uint32(flash[i:]); v != 0xFFFFFFFF {
			if err := n.machine.Write(uint32(i), 4, v); err != nil {
				return err
			}
		}
	}

	return n.machine.Write(nrfConfig, 4, n.config)
}

func (n *nrf51) restarted() error {
	n.config = 0
	return n.fill()
}
