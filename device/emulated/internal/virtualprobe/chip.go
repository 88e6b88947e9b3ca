// This file implements an emulated chip behind a probe, which the front ends use.

package virtualprobe

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/boardsmith/boardsmith/internal/chipkeeper"
)

var errUnplugged = errors.New("the probe was unplugged")

// A Chip is one emulated chip on its board, with a probe on its debug port.
type Chip struct {
	model Model
	log   hclog.Logger

	mu      sync.Mutex
	machine *machine
	core    *core
	dap     *dap
	wear    *Wear
	held    bool      // its reset line is low
	rests   time.Time // paused until then, because its firmware only resets the chip; zero: it runs
	resets  int64     // the value at the last call of pace
	looked  int64     // transfers at the last call of pace

	faults    chipkeeper.Faults
	hangs     chan struct{} // closed by the next Break, while the probe hangs; else nil
	transfers int64
	claimed   chan struct{} // contains an element while a client has the probe
}

// The time that a new client waits for the previous one, whose disconnection may be noticed late: pyOCD itself waits
// for 100 ms.
const (
	claimsRemote = 80 * time.Millisecond
	claimsWire   = 2 * time.Second
)

// claim reserves the probe for one client, as opening it on USB does. It returns a function that releases it, or nil if
// another client has it.
func (c *Chip) claim(within time.Duration) (free func()) {
	select {
	case c.claimed <- struct{}{}:
		return func() { <-c.claimed }
	case <-time.After(within):
		return nil
	}
}

// A Model is a kind of chip that can be emulated.
type Model struct {
	Name    string
	Program string   // the emulator
	Args    []string // arguments that choose the machine
	dpID    uint32   // DPIDR over SWD
	jtagID  uint32
	apID    uint32
	apBlock uint32 // bytes within which its address increments automatically
	bsID    uint32 // id code of a second TAP, 0 if there is none
	bsIR    int    // length of its instruction register
	flash   span
	wrap    func(*machine, *Wear) chipModel

	identify func(m *machine, number int) error // sets the id of chip number n; nil: the id cannot be set
}

// A span is a range of addresses.
type span struct{ base, size uint32 }

func (m Model) secondTAP() *bypassTAP {
	if m.bsIR == 0 {
		return nil
	}
	return &bypassTAP{irLength: m.bsIR, idcode: m.bsID}
}

// Options configure a chip; the zero value is a new chip.
type Options struct {
	Flash []byte       // the content of its flash; the rest is erased
	Wear  *Wear        // its wear and defects; nil: none yet
	Chip  int          // its number among the chips that have been on the board; each has an id of its own
	Log   hclog.Logger // nil: no log
}

// New creates a chip and powers it up.
func New(ctx context.Context, model Model, o Options) (*Chip, error) {
	if len(o.Flash) > int(model.flash.size) {
		return nil, fmt.Errorf("%s has %d bytes of flash, not %d", model.Name, model.flash.size, len(o.Flash))
	}
	if o.Log == nil {
		o.Log = hclog.NewNullLogger()
	}
	if o.Wear == nil {
		o.Wear = &Wear{}
	}

	m, err := startMachine(ctx, model.Program, model.Args, o.Log)
	if err != nil {
		return nil, err
	}

	c := &Chip{model: model, log: o.Log, machine: m, wear: o.Wear, claimed: make(chan struct{}, 1)}

	// The core still stands before its first instruction.
	if err := c.number(o.Chip); err != nil {
		return nil, errors.Join(err, m.close())
	}
	c.core = newCore(m, model.wrap(m, o.Wear))
	c.dap = &dap{bus: c.core, log: o.Log, id: model.dpID, apID: model.apID, block: model.apBlock}
	// What was read ahead is void when memory may have changed.
	c.core.seen = c.dap.forget
	c.dap.fault = c.transfer
	c.dap.reset()

	if err := errors.Join(c.core.preload(erasedTo(o.Flash, int(model.flash.size))), c.core.systemReset()); err != nil {
		return nil, errors.Join(err, m.close())
	}
	return c, nil
}

// erasedTo pads the content with erased bytes.
func erasedTo(b []byte, size int) []byte {
	full := bytes.Repeat([]byte{0xFF}, size)
	copy(full, b)
	return full
}

// Erase erases the whole flash, as another tool would, and resets the chip.
func (c *Chip) Erase() error { return c.Load(nil) }

// Load replaces the content of the flash without wear, and resets the chip.
func (c *Chip) Load(flash []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dap.forget()

	if err := c.ready(); err != nil {
		return err
	}
	if err := c.machine.gdb.halt(); err != nil { // the core must not run while the flash changes
		return err
	}

	// New content has no cells that read randomly.
	c.wear.Unstable = nil
	return errors.Join(c.core.preload(erasedTo(flash, int(c.model.flash.size))), c.core.systemReset())
}

// Swap replaces the chip by a new one of the same kind with number n. The new chip has an id of its own if the model
// supports that.
func (c *Chip) Swap(number int) error {
	c.mu.Lock()
	*c.wear = Wear{off: true} // a chip is not swapped under power
	err := c.number(number)
	c.mu.Unlock()

	return errors.Join(err, c.Load(nil))
}

// number sets the chip's id, now and whenever its emulator starts. The first chip has QEMU's id.
func (c *Chip) number(n int) error {
	c.machine.adapt = nil
	if n == 0 || c.model.identify == nil {
		return nil
	}
	c.machine.adapt = func(m *machine) error { return c.model.identify(m, n) }
	if c.wear.off {
		return nil // restarting sets the id
	}
	return c.machine.adapt(c.machine)
}

// Break sets the faults that occur from now on.
func (c *Chip) Break(f chipkeeper.Faults) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults, c.transfers = f, 0

	// A probe that hangs answers again.
	if c.hangs != nil {
		close(c.hangs)
		c.hangs = nil
	}

	c.wear.Stuck, c.wear.Weak, c.wear.cut = f.Stuck, f.Weak, f.Cut
	c.dap.waits, c.dap.access, c.dap.waiting = f.Waits, 0, 0
	if f.FallAfter == 0 {
		c.fall()
	}
}

// fall clears the bits that are due to change. The caller holds the chip's lock.
func (c *Chip) fall() {
	all := maps.Clone(c.faults.Fall)
	maps.DeleteFunc(all, func(off uint32, _ byte) bool { return off >= c.model.flash.size })
	c.faults.Fall = nil
	if len(all) == 0 {
		return
	}

	if err := errors.Join(c.ready(), c.core.fallen(all)); err != nil {
		c.log.Warn("fall", "error", err)
	}
}

// Transfers returns the number of transfers on the debug port since power-up or Break.
func (c *Chip) Transfers() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.transfers
}

// transfer counts a transfer, and unplugs the probe once, when its time has come. The caller holds the chip's lock.
func (c *Chip) transfer() error {
	c.transfers++
	if err := c.ready(); err != nil {
		return errors.Join(errUnplugged, err)
	}

	if n := c.faults.UnplugAfter; n > 0 && c.transfers >= int64(n) {
		c.faults.UnplugAfter = 0
		return errUnplugged
	}

	if n := c.faults.HangAfter; n > 0 && c.transfers >= int64(n) {
		c.faults.HangAfter = 0
		// The lock is released meanwhile, so that Break can end the hang.
		revived := make(chan struct{})
		c.hangs = revived
		c.mu.Unlock()
		<-revived
		c.mu.Lock()
		return errUnplugged // the transfer in progress is cancelled
	}

	if n := c.faults.FallAfter; n > 0 && c.transfers >= int64(n) {
		c.fall()
	}
	return nil
}

// revive starts the emulator again if it has ended; the chip keeps its flash and loses its RAM. If QEMU ended itself,
// as it does when its core would lock up, the chip is locked up until a debugger or a reset changes that. If something
// else ended it, or the power was cut, the chip has power again and starts. The caller holds the chip's lock.
func (c *Chip) revive() error {
	if !c.machine.dead.Load() && !c.wear.off {
		return nil
	}

	lockedUp := c.machine.gaveUp.Load() && !c.wear.off
	if err := c.machine.restart(context.Background()); err != nil {
		return err
	}
	if lockedUp {
		return c.core.relive()
	}

	c.wear.off, c.held, c.rests, c.resets = false, false, time.Time{}, c.machine.resets.Load()
	c.dap.reset()
	return c.core.powerUp()
}

// ready is called before every operation on the chip. The caller holds the chip's lock.
func (c *Chip) ready() error {
	return errors.Join(c.revive(), c.wake())
}

// Firmware that resets the chip more than a few times per paceStep would use a core of this computer without a purpose.
const (
	paceStep   = 100 * time.Millisecond
	paceResets = 3
	paceRest   = time.Second
)

// pace pauses a chip whose firmware does nothing but reset it, while no debugger uses it. It must be called every
// paceStep.
func (c *Chip) pace() error {
	c.mu.Lock()
	defer c.mu.Unlock()

	if !c.rests.IsZero() {
		if time.Now().Before(c.rests) {
			return nil
		}
		return c.wake()
	}

	n := c.machine.resets.Load()
	// A debugger's transfers show that the resets serve a purpose.
	busy := n-c.resets > paceResets && c.transfers == c.looked
	c.resets, c.looked = n, c.transfers
	if !busy || c.machine.dead.Load() || c.core.loader != nil || !c.machine.gdb.running {
		return nil
	}

	c.rests = time.Now().Add(paceRest)
	return c.machine.gdb.halt()
}

// wake ends a pause.
func (c *Chip) wake() error {
	if c.rests.IsZero() {
		return nil
	}

	c.rests, c.resets = time.Time{}, c.machine.resets.Load()
	if c.machine.dead.Load() {
		return nil
	}
	return c.machine.gdb.resume()
}

// Alive restarts the emulator if it has ended. After an error there is no chip any more.
func (c *Chip) Alive() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.revive()
}

// changed reports once that the flash may have changed.
func (c *Chip) changed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.core.dirty()
}

// worn returns a copy of the wear.
func (c *Chip) worn() Wear {
	c.mu.Lock()
	defer c.mu.Unlock()
	return Wear{
		Erases: slices.Clone(c.wear.Erases), Stuck: maps.Clone(c.wear.Stuck), Weak: maps.Clone(c.wear.Weak),
		Unstable: maps.Clone(c.wear.Unstable),
	}
}

// Close removes the power.
func (c *Chip) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.machine.close()
}

// Flash reads the chip's whole flash.
func (c *Chip) Flash() ([]byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.ready(); err != nil {
		return nil, err
	}

	words := make([]uint32, c.model.flash.size/4)
	if err := c.core.ReadBlock(c.model.flash.base, words); err != nil {
		return nil, err
	}

	b := make([]byte, 0, 4*len(words))
	for _, w := range words {
		b = binary.LittleEndian.AppendUint32(b, w)
	}
	return b, nil
}

func (c *Chip) exclusively(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
}

// resetLine drives the reset pin; releasing it resets the chip.
func (c *Chip) resetLine(low bool) {
	if c.held && !low {
		if err := c.ready(); err != nil {
			c.log.Warn("reset", "error", err)
			return
		}
		if err := c.core.systemReset(); err != nil {
			c.log.Warn("reset", "error", err)
		}
	}
	c.held = low
}
