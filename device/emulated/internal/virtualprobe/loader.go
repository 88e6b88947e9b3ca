// This file runs code in RAM in the interpreter: a slice at each access of the debugger, with memory read ahead.

package virtualprobe

import (
	"errors"
	"maps"
)

const (
	slice     = 20000 // instructions at each access of the debugger
	cacheLine = 1024  // bytes
)

// A loader is running code in RAM. It accesses the model's memory, and reads ordinary memory ahead in lines.
type loader struct {
	cpu   thumb
	c     *core
	lines map[uint32][]uint32
	asked bool // a peripheral was read, whose value may change by itself

	vector uint32 // vector of an interrupt that occurs while the code runs; 0: none
}

// errLockup reports code that was interrupted and has no handler.
var errLockup = errors.New("interrupted, and the handler's flash is erased")

// startLoader takes the registers from the emulator.
func startLoader(c *core) (*loader, error) {
	l := &loader{c: c, lines: map[uint32][]uint32{}}
	l.cpu.mem = l
	for i := range l.cpu.r {
		v, err := c.m.gdb.readRegister(i)
		if err != nil {
			return nil, err
		}
		l.cpu.r[i] = v
	}

	l.cpu.r[pc] &^= 1
	psr, err := c.m.gdb.readRegister(gdbXPSR)
	l.cpu.n, l.cpu.z, l.cpu.c, l.cpu.v = psr>>31&1 != 0, psr>>30&1 != 0, psr>>29&1 != 0, psr>>28&1 != 0

	if err == nil {
		l.vector, err = c.interrupt()
	}
	return l, err
}

// interrupted handles the interrupt: an existing handler returns, else the core locks up.
func (l *loader) interrupted() error {
	if l.vector == 0 {
		return nil
	}

	handler, err := l.Read(l.vector, 4)
	if err != nil || handler == erasedWord {
		return errors.Join(err, errLockup)
	}
	if half, err := l.Read(handler&^1, 2); err != nil || half == erasedWord&0xFFFF {
		return errors.Join(err, errLockup)
	}
	return nil
}

const erasedWord = 0xFFFFFFFF

// run executes a slice. It stops earlier if the code only waits for the debugger: if a loop repeats with unchanged
// registers and without reading a peripheral. It reports whether the code has stopped at a breakpoint.
func (l *loader) run() (stopped bool, err error) {
	if err := l.interrupted(); err != nil {
		return true, err
	}

	var before [16]uint32
	at := l.cpu.r[pc]
	for range slice {
		// The code has jumped back, as at the end of a loop's turn.
		if now := l.cpu.r[pc]; now < at {
			if l.cpu.r == before && !l.asked {
				return false, nil
			}
			before, l.asked = l.cpu.r, false
		}

		at = l.cpu.r[pc]
		if l.c.breaks(l.cpu.r[pc]) {
			return true, nil
		}
		if stopped, err = l.cpu.step(); stopped || err != nil {
			return true, err
		}
	}
	return false, nil
}

// finish returns the registers to the emulator.
func (l *loader) finish() error {
	// The Thumb bit is always set.
	psr := uint32(1 << 24)
	for i, f := range []bool{l.cpu.v, l.cpu.c, l.cpu.z, l.cpu.n} {
		if f {
			psr |= 1 << (28 + i)
		}
	}

	errs := []error{l.c.m.drain()}
	for i, v := range l.cpu.r {
		errs = append(errs, l.c.m.gdb.writeRegister(i, v))
	}
	return errors.Join(append(errs, l.c.m.gdb.writeRegister(gdbXPSR, psr))...)
}

// Read is a read access of the code.
func (l *loader) Read(addr uint32, width int) (uint32, error) {
	if !l.c.plain(addr) {
		l.asked = true
		return l.c.chipModel.Read(addr, width)
	}

	line := l.lines[addr/cacheLine]
	if line == nil {
		line = make([]uint32, cacheLine/4)
		if err := l.c.chipModel.ReadBlock(addr&^(cacheLine-1), line); err != nil {
			return 0, err
		}
		l.lines[addr/cacheLine] = line
	}

	return line[addr%cacheLine/4] >> (8 * (addr & 3)) & (1<<(8*width) - 1), nil
}

// Write is a write access of the code.
func (l *loader) Write(addr uint32, width int, v uint32) error {
	l.wrote(addr, width, v)
	return l.c.chipModel.Write(addr, width, v)
}

// wrote updates the lines after a write by the code or the debugger. The effect of a write to flash is defined by the
// model.
func (l *loader) wrote(addr uint32, width int, v uint32) {
	line := l.lines[addr/cacheLine]
	switch {
	case !l.c.plain(addr):
		// a controller may change flash
		maps.DeleteFunc(l.lines, func(n uint32, _ []uint32) bool { return !isRAM(n * cacheLine) })
	case line != nil && isRAM(addr):
		mask := uint32(1<<(8*width)-1) << (8 * (addr & 3))
		w := &line[addr%cacheLine/4]
		*w = *w&^mask | v<<(8*(addr&3))&mask
	default:
		delete(l.lines, addr/cacheLine)
	}
}

// isRAM reports whether a debugger's code can be at the address (DDI 0403 §B3.1: SRAM).
func isRAM(addr uint32) bool { return addr-0x20000000 < 0x20000000 }
