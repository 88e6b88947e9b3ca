// This file implements the core's debug registers (DDI 0419 and DDI 0403, chapters C1) by means of the emulator's run
// control.

package virtualprobe

import (
	"errors"
	"math/bits"
)

const (
	regDWTControl = 0xE0001000
	regFPControl  = 0xE0002000
	regFPComp0    = 0xE0002008
	regSysTick    = 0xE000E010
	regISER       = 0xE000E100
	regVTOR       = 0xE000ED08
	regAIRCR      = 0xE000ED0C
	regDFSR       = 0xE000ED30
	regDHCSR      = 0xE000EDF0
	regDCRSR      = 0xE000EDF4
	regDCRDR      = 0xE000EDF8
	regDEMCR      = 0xE000EDFC

	debugKey   = 0xA05F
	vectKey    = 0x05FA
	cDebugEn   = 1 << 0
	cHalt      = 1 << 1
	cStep      = 1 << 2
	cMaskInts  = 1 << 3
	sRegReady  = 1 << 16
	sHalt      = 1 << 17
	sLockup    = 1 << 19
	sRetire    = 1 << 24
	sReset     = 1 << 25
	vcReset    = 1 << 0
	dfsrHalted = 1 << 0
	dfsrBkpt   = 1 << 1
	dfsrVCatch = 1 << 3

	breakpoints = 4

	sysTickOn  = 3  // in its control register: enabled, with its interrupt
	sysTickNo  = 15 // number of its exception
	firstIRQ   = 16 // number of the exception of interrupt 0
	iserWords  = 8
	coreMasks  = 20 // of DCRSR: CONTROL, FAULTMASK, BASEPRI and PRIMASK, a byte each
	primaskBit = 1 << 0
)

// A chipModel is the part that differs between chips: memories, overridden words, a flash controller model.
type chipModel interface {
	Bus
	// plain reports whether an address is in memory without side effects, which may be read ahead, and hold code.
	plain(addr uint32) bool
	// beforeRun updates the emulator's memory from the model's, before its core runs.
	beforeRun() error
	// afterReset is called after the core was reset.
	afterReset() error
	// preload replaces the whole content of the flash, without wear.
	preload(flash []byte) error
	// restarted is called after the emulator was started again, with empty memory.
	restarted() error
	// fall clears bits at an offset of the flash, as ageing or a disturbance does.
	fall(off uint32, bits byte) error
	// dirty reports once that the flash may have changed.
	dirty() bool
}

// A core is the debug view of the emulated Cortex-M.
type core struct {
	chipModel
	m *machine

	ctrl   uint32 // C_ bits of DHCSR
	data   uint32 // DCRDR
	demcr  uint32
	dfsr   uint32
	fpCtrl uint32
	comp   [breakpoints]uint32
	shadow map[uint32]uint32 // registers that the emulator does not provide
	active map[uint32]bool   // breakpoints set in the emulator
	loader *loader           // running code in RAM; nil if the emulator's core has the registers
	lockup bool
	wasRst bool
	seen   func() // called when memory may have changed
}

func newCore(m *machine, model chipModel) *core {
	return &core{chipModel: model, m: m, shadow: map[uint32]uint32{}, active: map[uint32]bool{}, seen: func() {}}
}

func (c *core) runs() bool { return c.m.gdb.running || c.loader != nil }

func (c *core) Read(addr uint32, width int) (uint32, error) {
	if width == 4 {
		if v, ok, err := c.readDebug(addr); ok || err != nil {
			return v, err
		}
		if v, ok := romWord(addr); ok {
			return v, nil
		}
	}

	if err := c.progress(); err != nil {
		return 0, err
	}
	return c.chipModel.Read(addr, width)
}

// ReadBlock reads plain memory.
func (c *core) ReadBlock(addr uint32, words []uint32) error {
	if err := c.progress(); err != nil {
		return err
	}
	return c.chipModel.ReadBlock(addr, words)
}

// progress continues code in RAM, because a debugger that reads memory waits for it.
func (c *core) progress() error {
	if c.loader == nil {
		return nil
	}
	return c.poll()
}

func (c *core) Write(addr uint32, width int, v uint32) error {
	if width == 4 {
		if ok, err := c.writeDebug(addr, v); ok || err != nil {
			return err
		}
	}

	if c.loader != nil {
		c.loader.wrote(addr, width, v)
	}

	if err := c.chipModel.Write(addr, width, v); err != nil || !c.runs() {
		return err
	}
	return c.m.drain() // a debugger waits for running code
}

// romWord is the ROM table through which debuggers find the core (IHI 0031 chapter D3): SCS, DWT, FPB.
func romWord(addr uint32) (uint32, bool) {
	type component struct{ base, class, part uint32 }
	for _, k := range []component{
		{romTable, 0x1, 0x471}, {0xE000E000, 0xE, 0x008}, {0xE0001000, 0xE, 0x00A}, {0xE0002000, 0xE, 0x00B},
	} {
		if addr < k.base+0xFD0 || addr >= k.base+0x1000 {
			continue
		}

		words := [12]uint32{
			0: 4,                                                 // PIDR4: Arm
			4: k.part & 0xFF, 5: 0xB0 | k.part>>8, 6: 0x0B, 7: 0, // PIDR0 to 3
			8: 0x0D, 9: k.class << 4, 10: 0x05, 11: 0xB1, // CIDR
		}
		return words[(addr-k.base-0xFD0)/4], true
	}

	if addr >= romTable && addr < romTable+0x1000 {
		entries := []uint32{0xFFF0F003, 0xFFF02003, 0xFFF03003}
		if i := (addr - romTable) / 4; i < uint32(len(entries)) {
			return entries[i], true
		}
		return 0, true
	}
	return 0, false
}

func (c *core) readDebug(addr uint32) (uint32, bool, error) {
	switch addr {
	case regDHCSR:
		v, err := c.status()
		return v, true, err
	case regDCRSR:
		return 0, true, nil
	case regDCRDR:
		return c.data, true, nil
	case regDEMCR:
		return c.demcr, true, nil
	case regDFSR:
		return c.dfsr, true, c.poll()
	case regDWTControl:
		return 0, true, nil // no comparators
	case regFPControl:
		return c.fpCtrl&1 | breakpoints<<4, true, nil
	}

	if i := (addr - regFPComp0) / 4; addr >= regFPComp0 && i < breakpoints {
		return c.comp[i], true, nil
	}
	return 0, false, nil
}

// poll checks whether the core has stopped by itself.
func (c *core) poll() error {
	if !c.runs() {
		return nil
	}
	stopped, err := false, error(nil)
	if c.loader != nil {
		if stopped, err = c.loader.run(); stopped {
			err = errors.Join(err, c.endLoader())
		}
		// A core that is locked up neither runs nor halts.
		if errors.Is(err, errLockup) {
			c.lockup = true
			return nil
		}
	} else {
		stopped, err = c.m.gdb.stopped()
	}

	if err != nil || !stopped {
		return err
	}
	c.ctrl |= cHalt
	c.dfsr |= dfsrBkpt
	c.seen()
	return nil
}

func (c *core) status() (uint32, error) {
	if err := c.poll(); err != nil {
		return 0, err
	}

	v := c.ctrl | sRegReady | sRetire
	switch {
	case c.lockup:
		v |= sLockup
	case !c.runs():
		v |= sHalt
	}

	// Reading clears the bit.
	if c.wasRst {
		v |= sReset
		c.wasRst = false
	}
	return v, nil
}

func (c *core) writeDebug(addr, v uint32) (bool, error) {
	switch addr {
	case regDHCSR:
		if v>>16 != debugKey {
			return true, nil
		}
		return true, c.control(v & 0xF)
	case regDCRSR:
		return true, c.transfer(v&0x7F, v>>16&1 != 0)
	case regDCRDR:
		c.data = v
	case regDEMCR:
		c.demcr = v
	case regDFSR:
		c.dfsr &^= v
	case regFPControl:
		if v&2 != 0 {
			c.fpCtrl = v & 1
		}
	case regDWTControl:
	case regAIRCR:
		if v>>16 == vectKey && v&5 != 0 {
			return true, c.systemReset()
		}
		return false, nil
	default:
		i := (addr - regFPComp0) / 4
		if addr < regFPComp0 || i >= breakpoints {
			return false, nil
		}
		c.comp[i] = v
	}
	return true, nil
}

// control executes a write to DHCSR.
func (c *core) control(bits uint32) error {
	// Without C_DEBUGEN these bits have no effect.
	if bits&cDebugEn == 0 {
		bits &^= cHalt | cStep | cMaskInts
	}
	c.ctrl = bits

	switch {
	case bits&cHalt != 0:
		return c.halt()
	case bits&cStep != 0:
		return c.step()
	default:
		return c.resume()
	}
}

func (c *core) halt() error {
	// A halt ends a lockup, too.
	c.lockup = false
	if !c.runs() {
		return nil
	}

	c.dfsr |= dfsrHalted
	c.seen()
	if c.loader != nil {
		return c.endLoader()
	}
	return c.m.gdb.halt()
}

func (c *core) endLoader() error {
	l := c.loader
	c.loader = nil
	return l.finish()
}

func (c *core) step() error {
	c.seen()
	c.ctrl |= cHalt
	c.dfsr |= dfsrHalted
	if c.runs() {
		return nil
	}

	if err := c.setBreakpoints(); err != nil {
		return err
	}
	return c.m.gdb.step()
}

// resume runs the core. If there is nothing to run, the core locks up instead, because the emulator would end.
func (c *core) resume() error {
	if c.runs() || c.lockup {
		return nil
	}

	c.seen()
	pc, err := c.m.gdb.readRegister(15)
	if err != nil {
		return err
	}

	// Code in RAM is interpreted: the model must see each of its accesses to flash.
	if isRAM(pc) {
		c.loader, err = startLoader(c)
		return err
	}

	if err := c.beforeRun(); err != nil {
		return err
	}
	if ok, err := c.canRun(pc); err != nil || !ok {
		c.lockup = true
		return err
	}

	if err := c.setBreakpoints(); err != nil {
		return err
	}
	return c.m.gdb.resume()
}

func (c *core) canRun(pc uint32) (bool, error) {
	pc &^= 1
	if !c.plain(pc) {
		return false, nil
	}

	// Erased flash is no code.
	half, err := c.Read(pc, 2)
	return half != 0xFFFF, err
}

// wanted returns the breakpoints in the comparators.
func (c *core) wanted() map[uint32]bool {
	want := map[uint32]bool{}
	if c.fpCtrl&1 == 0 {
		return want
	}

	// A comparator matches the lower halfword of a word, the upper one, or both.
	for _, v := range c.comp {
		if v&1 != 0 && v>>30&1 != 0 {
			want[v&0x1FFFFFFC] = true
		}
		if v&1 != 0 && v>>30&2 != 0 {
			want[v&0x1FFFFFFC+2] = true
		}
	}
	return want
}

// breaks reports whether code in RAM has a breakpoint. The comparators only cover the code region.
func (c *core) breaks(addr uint32) bool {
	return c.fpCtrl&1 != 0 && addr < 0x20000000 && c.wanted()[addr]
}

// setBreakpoints sets the emulator's breakpoints from the comparators.
func (c *core) setBreakpoints() error {
	want := c.wanted()
	for a := range c.active {
		if !want[a] {
			if err := c.m.gdb.setBreakpoint(a, false); err != nil {
				return err
			}
			delete(c.active, a)
		}
	}

	for a := range want {
		if !c.active[a] {
			if err := c.m.gdb.setBreakpoint(a, true); err != nil {
				return err
			}
			c.active[a] = true
		}
	}
	return nil
}

// interrupt returns the address of the vector of a pending interrupt that firmware left enabled and that is not masked,
// or 0.
func (c *core) interrupt() (uint32, error) {
	if c.ctrl&cMaskInts != 0 || c.shadow[coreMasks]&primaskBit != 0 {
		return 0, nil
	}

	table, err := c.chipModel.Read(regVTOR, 4)
	if err != nil {
		return 0, err
	}
	if v, err := c.chipModel.Read(regSysTick, 4); err != nil || v&sysTickOn == sysTickOn {
		return table + 4*sysTickNo, err
	}

	for i := range uint32(iserWords) {
		v, err := c.chipModel.Read(regISER+4*i, 4)
		if err != nil || v != 0 {
			return table + 4*(firstIRQ+32*i+uint32(bits.TrailingZeros32(v))), err
		}
	}
	return 0, nil
}

// transfer copies a core register to or from DCRDR. Registers that the emulator does not provide keep the value last
// written.
func (c *core) transfer(reg uint32, write bool) error {
	if c.runs() || c.lockup {
		return nil
	}
	n, real := int(reg), reg < 16
	if reg == 16 {
		n, real = gdbXPSR, true
	}
	if reg == 17 { // the main stack pointer is in use
		n, real = 13, true
	}

	var err error
	switch {
	case real && write:
		v := c.data
		// The Thumb bit is not a part of the program counter.
		if reg == 15 {
			v &^= 1
		}
		err = c.m.gdb.writeRegister(n, v)
	case real:
		c.data, err = c.m.gdb.readRegister(n)
	case write:
		c.shadow[reg] = c.data
	default:
		c.data = c.shadow[reg]
	}
	return err
}

// systemReset resets the chip; the core then runs, or halts before its first instruction if vector catch is on.
func (c *core) systemReset() error {
	c.loader = nil
	if err := c.m.gdb.halt(); err != nil {
		return err
	}
	if err := c.beforeRun(); err != nil { // the core reads its vectors at a reset
		return err
	}
	if err := c.m.reset(); err != nil {
		return err
	}

	c.seen()
	clear(c.shadow)
	c.wasRst, c.lockup = true, false
	if err := c.afterReset(); err != nil {
		return err
	}

	if c.demcr&vcReset != 0 && c.ctrl&cDebugEn != 0 {
		c.ctrl |= cHalt
		c.dfsr |= dfsrVCatch
		return nil
	}

	c.ctrl &^= cHalt
	return c.resume()
}

// powerUp uses a new emulator after a power cut; all registers have their reset values.
func (c *core) powerUp() error {
	*c = core{chipModel: c.chipModel, m: c.m, shadow: map[uint32]uint32{}, active: map[uint32]bool{}, seen: c.seen}
	if err := c.restarted(); err != nil {
		return err
	}
	return c.systemReset()
}

// fallen clears bits of the flash, whether the core runs or not.
func (c *core) fallen(all map[uint32]byte) error {
	ran := c.m.gdb.running
	if err := c.m.gdb.halt(); err != nil {
		return err
	}

	c.seen()
	for off, bits := range all {
		if err := c.fall(off, bits); err != nil {
			return err
		}
	}

	if !ran {
		return nil
	}
	return errors.Join(c.beforeRun(), c.m.gdb.resume())
}

// relive uses a new emulator after one that ended because its core locked up. The core is then locked up.
func (c *core) relive() error {
	if err := c.restarted(); err != nil {
		return err
	}

	c.seen()
	c.loader, c.lockup = nil, true
	// The new emulator has no breakpoints yet.
	clear(c.active)
	c.ctrl &^= cHalt
	return nil
}
