// This file is an emulated chip behind a probe: what a front end is given.

package virtualprobe

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/hashicorp/go-hclog"
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
	held    bool // its reset line is low
}

// A Model is a kind of chip that can be emulated.
type Model struct {
	Name    string
	Program string   // the emulator
	Args    []string // that choose the machine
	dpID    uint32   // of the debug port over SWD
	jtagID  uint32
	apID    uint32
	apBlock uint32 // bytes that its address counts through by itself
	bsID    uint32 // id code of a second TAP, 0 if there is none
	bsIR    int    // its instruction length
	flash   span
	wrap    func(*machine, []byte) chipModel
}

// A span is a stretch of addresses.
type span struct{ base, size uint32 }

func (s span) has(addr uint32) bool { return addr-s.base < s.size }

func (m Model) secondTAP() *bypassTAP {
	if m.bsIR == 0 {
		return nil
	}
	return &bypassTAP{irLength: m.bsIR, idcode: m.bsID}
}

// New powers a chip up with that content of its flash (nil: erased); more bytes than the flash has are an error.
func New(ctx context.Context, model Model, flash []byte, log hclog.Logger) (*Chip, error) {
	if len(flash) > int(model.flash.size) {
		return nil, fmt.Errorf("%s has %d bytes of flash, not %d", model.Name, model.flash.size, len(flash))
	}
	full := make([]byte, model.flash.size)
	for i := copy(full, flash); i < len(full); i++ {
		full[i] = 0xFF
	}
	m, err := startMachine(ctx, model.Program, model.Args, log)
	if err != nil {
		return nil, err
	}
	c := &Chip{model: model, log: log, machine: m}
	c.core = newCore(m, model.wrap(m, full))
	c.dap = &dap{bus: c.core, log: log, id: model.dpID, apID: model.apID, block: model.apBlock}
	c.core.seen = c.dap.forget
	c.dap.reset()
	if err := c.core.afterReset(); err != nil {
		return nil, errors.Join(err, m.close())
	}
	if err := c.core.systemReset(); err != nil {
		return nil, errors.Join(err, m.close())
	}
	return c, nil
}

// Close takes the power away.
func (c *Chip) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.machine.close()
}

// Flash reads the chip's whole flash.
func (c *Chip) Flash() ([]byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	words := make([]uint32, c.model.flash.size/4)
	if err := c.core.ReadBlock(c.model.flash.base, words); err != nil {
		return nil, err
	}
	b := make([]byte, 0, 4*len(words))
	for _, w := range words {
		b = append(b, byte(w), byte(w>>8), byte(w>>16), byte(w>>24))
	}
	return b, nil
}

func (c *Chip) exclusively(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
}

// resetLine drives the reset pin: the chip is reset when it is let go.
func (c *Chip) resetLine(low bool) {
	if c.held && !low {
		if err := c.core.systemReset(); err != nil {
			c.log.Warn("reset", "error", err)
		}
	}
	c.held = low
}
