// This file models an STM32F412xE on the machine netduinoplus2. QEMU has its flash as plain ROM and no flash
// controller, so both are modelled here (RM0402 rev 7, chapter 3: sectors, unlock keys, erase, programming, status).
// The ROM is updated before the emulator's core runs.

package virtualprobe

import (
	"bytes"
	"errors"

	"github.com/boardsmith/boardsmith/internal/chipkeeper"
)

// STM32F412 is the chip of the machine netduinoplus2, as an STM32F412xE.
var STM32F412 = Model{
	Name: chipkeeper.STM32F412, Program: "qemu-system-arm", Args: []string{"-M", "netduinoplus2", "-icount", "shift=4"},
	dpID: 0x2BA01477, jtagID: 0x4BA00477, apID: 0x24770011, apBlock: 4 << 10, bsID: 0x06441041, bsIR: 5,
	flash: span{f4Flash, f4Bytes},
	wrap:  newSTM32F4,
}

// The flash controller's registers and bits.
const (
	f4Flash = 0x08000000
	f4Bytes = 512 << 10

	f4Base  = 0x40023C00
	f4Key   = f4Base + 0x04
	f4Opt   = f4Base + 0x08
	f4Stat  = f4Base + 0x0C
	f4Ctrl  = f4Base + 0x10
	f4OptCR = f4Base + 0x14

	f4Key1 = 0x45670123
	f4Key2 = 0xCDEF89AB

	f4EOP    = 1 << 0
	f4WrpErr = 1 << 4
	f4ParErr = 1 << 6
	f4SeqErr = 1 << 7
	f4Busy   = 1 << 16

	f4PG    = 1 << 0
	f4SER   = 1 << 1
	f4MER   = 1 << 2
	f4Start = 1 << 16
	f4Lock  = 1 << 31

	f4BusyReads = 2 // number of status reads during which an operation is busy
)

// f4Sectors are the sizes of the sectors, in KiB.
var f4Sectors = []uint32{16, 16, 16, 16, 64, 128, 128, 128}

type stm32f4 struct {
	*machine
	flash  []byte
	ctrl   uint32
	stat   uint32
	busy   int
	keys   int // number of keys received of the unlock sequence
	jammed bool
	rom    []byte // the emulator's content
	stale  bool   // rom may differ from flash
	wear   *Wear

	unsaved bool
}

func newSTM32F4(m *machine, w *Wear) chipModel {
	const size = f4Bytes
	return &stm32f4{machine: m, wear: w, flash: make([]byte, size), rom: make([]byte, size), ctrl: f4Lock}
}

func (f *stm32f4) preload(flash []byte) error {
	copy(f.flash, flash)
	f.stale, f.unsaved = true, true
	return nil
}

func (f *stm32f4) dirty() bool {
	unsaved := f.unsaved
	f.unsaved = false
	return unsaved
}

func (f *stm32f4) plain(addr uint32) bool {
	return addr-f4Flash < uint32(len(f.flash)) || addr < uint32(len(f.flash)) || addr-0x20000000 < 128<<10
}

// inFlash returns the offset of an address in flash, at its normal address or at the alias for booting.
func (f *stm32f4) inFlash(addr uint32) (uint32, bool) {
	for _, base := range []uint32{f4Flash, 0} {
		if off := addr - base; off < uint32(len(f.flash)) {
			return off, true
		}
	}
	return 0, false
}

// f4Identity has words that tools read: device and revision, flash size in KiB, unique id (RM0402 §30.6, §31).
var f4Identity = map[uint32]uint32{
	0xE0042000: 0x10006441, 0x1FFF7A20: 512<<16 | 0xFFFF, 0x1FFF7A10: 0x00320041, 0x1FFF7A14: 0x3437510B,
	0x1FFF7A18: 0x34333834,
}

func (f *stm32f4) Read(addr uint32, width int) (uint32, error) {
	if off, ok := f.inFlash(addr); ok {
		v := uint32(0)
		for i := range width {
			at := off + uint32(i)
			v |= uint32(f.wear.seen(at, f.flash[at])) << (8 * i)
		}
		return v, nil
	}

	v, ok := f4Identity[addr&^3]
	if !ok {
		v, ok = f.register(addr &^ 3)
	}
	if ok {
		return v >> (8 * (addr & 3)) & (1<<(8*width) - 1), nil
	}
	return f.machine.Read(addr, width)
}

func (f *stm32f4) register(addr uint32) (uint32, bool) {
	switch addr {
	case f4Stat:
		v := f.stat
		if f.busy > 0 {
			f.busy--
			v |= f4Busy
		}
		return v, true
	case f4Ctrl:
		return f.ctrl, true
	case f4OptCR:
		return 0x0FFFAAED, true
	}
	return 0, false
}

func (f *stm32f4) ReadBlock(addr uint32, words []uint32) error {
	if _, ok := f.inFlash(addr); !ok {
		return f.machine.ReadBlock(addr, words)
	}

	for i := range words {
		v, err := f.Read(addr+uint32(4*i), 4)
		if err != nil {
			return err
		}
		words[i] = v
	}
	return nil
}

func (f *stm32f4) Write(addr uint32, width int, v uint32) error {
	if off, ok := f.inFlash(addr); ok {
		return f.program(off, width, v)
	}

	switch addr {
	case f4Key:
		f.key(v)
	case f4Opt, f4OptCR, f4Base: // option bytes do not change
	case f4Stat:
		f.stat &^= v
	case f4Ctrl:
		return f.control(v)
	default:
		return f.machine.Write(addr, width, v)
	}
	return nil
}

// key receives the unlock sequence. A wrong key locks the controller until the next reset (RM0402 §3.5.1).
func (f *stm32f4) key(v uint32) {
	want := [2]uint32{f4Key1, f4Key2}
	if f.jammed || f.keys > 1 || v != want[f.keys] {
		f.jammed = true
		return
	}

	f.keys++
	if f.keys == 2 {
		f.ctrl &^= f4Lock
		f.keys = 0
	}
}

func (f *stm32f4) control(v uint32) error {
	if f.ctrl&f4Lock != 0 {
		return nil
	}

	if v&f4Lock != 0 {
		// The next unlock begins with the first key.
		f.keys = 0
	}

	f.ctrl = v &^ f4Start
	if v&f4Start == 0 {
		return nil
	}

	f.busy = f4BusyReads
	var errs []error
	switch {
	case v&f4MER != 0:
		for i := range f4Sectors {
			errs = append(errs, f.erase(i))
		}
	case v&f4SER != 0:
		errs = append(errs, f.erase(int(v>>3&15)))
	}

	f.stat |= f4EOP
	return errors.Join(errs...)
}

func (f *stm32f4) erase(sector int) error {
	if sector >= len(f4Sectors) {
		f.stat |= f4WrpErr
		return nil
	}

	from := uint32(0)
	for _, kib := range f4Sectors[:sector] {
		from += kib << 10
	}

	// The attempt counts even if the sector is stuck.
	if !f.wear.erased(sector) {
		f.stat |= f4WrpErr
		return nil
	}

	f.stale, f.unsaved = true, true
	cells := f.flash[from:][:f4Sectors[sector]<<10]
	blank := bytes.Repeat([]byte{0xFF}, len(cells))

	if f.wear.cuts(true) {
		copy(cells, f.wear.torn(from, cells, blank))
		return errPowerCut
	}

	copy(cells, blank)
	f.wear.settled(from, blank, true)
	return nil
}

func (f *stm32f4) fall(off uint32, bits byte) error {
	f.flash[off] &^= bits
	f.stale, f.unsaved = true, true
	return nil
}

// program clears bits, if programming is enabled, in units of the width in PSIZE (§3.5.4).
func (f *stm32f4) program(off uint32, width int, v uint32) error {
	switch {
	case f.ctrl&f4Lock != 0 || f.ctrl&f4PG == 0:
		f.stat |= f4SeqErr
		return nil
	case width != 1<<(f.ctrl>>8&3):
		f.stat |= f4ParErr
		return nil
	}

	f.busy, f.stale, f.unsaved = f4BusyReads, true, true
	cells, after := f.flash[off:][:width], make([]byte, width)
	for i := range uint32(width) {
		after[i] = cells[i] & (byte(v>>(8*i)) | f.wear.weak(off+i))
	}

	if f.wear.cuts(false) {
		copy(cells, f.wear.torn(off, cells, after))
		return errPowerCut
	}

	copy(cells, after)
	f.wear.settled(off, after, false)
	f.stat |= f4EOP
	return nil
}

func (f *stm32f4) afterReset() error {
	f.ctrl, f.stat, f.busy, f.keys, f.jammed = f4Lock, 0, 0, 0, false
	f.stale = f.stale || len(f.wear.Unstable) > 0 // so that firmware too reads cells that are random
	return nil
}

func (f *stm32f4) restarted() error {
	clear(f.rom)
	f.stale = true
	return f.afterReset()
}

// beforeRun writes the changed parts of the ROM directly into the emulator's memory.
func (f *stm32f4) beforeRun() error {
	const part = 4 << 10
	flash := f.wear.seenAll(f.flash)

	for i := 0; i < len(flash) && f.stale; i += part {
		content := flash[i : i+part]
		if bytes.Equal(content, f.rom[i:i+part]) {
			continue
		}
		if err := f.gdb.load(f4Flash+uint32(i), content); err != nil {
			return err
		}
		copy(f.rom[i:], content)
	}

	f.stale = false
	return nil
}
