// This file lets code in RAM run in the interpreter, a slice of it at each access of the debugger, over memory that is
// read ahead.

package virtualprobe

import (
	"errors"
	"maps"
)

const (
	slice     = 20000 // instructions at each access of the debugger
	cacheLine = 1024  // bytes
)

// A loader is code in RAM that runs. Its memory is the model's, ordinary memory through lines read ahead.
type loader struct {
	cpu   thumb
	c     *core
	lines map[uint32][]uint32
	asked bool // a peripheral was read: what it answers may change by itself

	vector uint32 // of an interrupt that comes while the code runs; 0: none does
}

// errLockup is code that was interrupted where no handler is.
var errLockup = errors.New("interrupted, and the handler's flash is erased")

// startLoader takes over the registers.
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

// interrupted lets the interrupt come: a handler that is there returns, without one the core locks up.
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

// run runs a slice, or less if the code only waits for the debugger: a loop came round with all registers as they were,
// and asked no peripheral. It reports whether the code has stopped at a breakpoint.
func (l *loader) run() (stopped bool, err error) {
	if err := l.interrupted(); err != nil {
		return true, err
	}
	var before [16]uint32
	at := l.cpu.r[pc]
	for range slice {
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

// finish gives the registers back.
func (l *loader) finish() error {
	psr := uint32(1 << 24)
	for i, f := range []bool{l.cpu.v, l.cpu.c, l.cpu.z, l.cpu.n} {
		if f {
			psr |= 1 << (28 + i)
		}
	}
	errs := []error{l.c.m.settle()}
	for i, v := range l.cpu.r {
		errs = append(errs, l.c.m.gdb.writeRegister(i, v))
	}
	return errors.Join(append(errs, l.c.m.gdb.writeRegister(gdbXPSR, psr))...)
}

// Read is the code's own access.
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

// Write is the code's own access.
func (l *loader) Write(addr uint32, width int, v uint32) error {
	l.wrote(addr, width, v)
	return l.c.chipModel.Write(addr, width, v)
}

// wrote keeps the lines in step with a write by anybody. What a flash makes of one is for the model to say.
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

// isRAM reports the addresses where code of a debugger's own can be (DDI 0403 §B3.1: SRAM).
func isRAM(addr uint32) bool { return addr-0x20000000 < 0x20000000 }
