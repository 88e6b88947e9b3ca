// This file compares addresses and interrupt numbers with the description.

package registers

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/targets/internal/svd"
)

// aliases are the address bits with which chips have each register again, for writes that set, clear or toggle its
// bits, by the beginning of the device's name. No SVD file describes them: RP2040 datasheet §2.1.2, RP2350 datasheet
// §2.1.3.
var aliases = map[string]uint64{"RP2": 0x3000}

// A comparison is one of a device's description with what one board uses.
type comparison struct {
	device  *svd.Device
	board   *boards.Board
	blocks  []block         // by start
	aliases uint64          // address bits
	used    map[string]bool // peripherals
	matched []match         // registers, for the names of bits
}

type block struct {
	svd.Block
	peripheral *svd.Peripheral
}

// A match is a macro that stands for a register.
type match struct {
	macro, file string
	peripheral  *svd.Peripheral
	register    *svd.Register
}

func newComparison(d *svd.Device, b *boards.Board) *comparison {
	c := &comparison{device: d, board: b, used: map[string]bool{}}
	for i := range d.Peripherals {
		p := &d.Peripherals[i]
		for _, s := range p.Blocks {
			c.blocks = append(c.blocks, block{s, p})
		}
		if n := len(p.Registers); n > 0 { // files have registers outside of their peripheral's blocks
			first, last := p.Registers[0].Address, p.Registers[n-1]
			c.blocks = append(c.blocks, block{svd.Block{Start: first, Bytes: last.Address + last.Bytes - first}, p})
		}
	}

	slices.SortStableFunc(c.blocks, func(a, b block) int { return cmp.Compare(a.Start, b.Start) })

	for prefix, bits := range aliases {
		if strings.HasPrefix(strings.ToUpper(d.Name), prefix) {
			c.aliases = bits
		}
	}

	return c
}

func (c *comparison) report(uses []use) *Report {
	r := &Report{Board: c.board.Name, Device: c.device.Name}

	var rest []use
	// Bits and interrupts are compared last: their names mean registers and peripherals that addresses have matched.
	for _, u := range uses {
		switch {
		case isInterrupt(u):
			rest = append(rest, u)
		case c.isAddress(u.value):
			if f, ok := c.address(u); ok {
				r.Findings = append(r.Findings, f)
			}
		default:
			rest = append(rest, u)
		}
	}

	for _, u := range rest {
		if isInterrupt(u) {
			r.Findings = append(r.Findings, c.interrupt(u))
		} else if f, ok := c.bits(u); ok {
			r.Findings = append(r.Findings, f)
		} else {
			r.Left++
		}
	}

	if f, ok := c.vectors(); ok {
		r.Findings = append(r.Findings, f)
	}

	r.Findings = withoutRepeated(r.Findings)
	return r
}

// withoutRepeated sorts by place. It leaves out accesses whose address a macro has, and accesses and elements of
// initializers whose address another line of the file has.
func withoutRepeated(list []Finding) []Finding {
	type place struct {
		file  string // "" of a macro
		value uint64
	}

	// All macros first: one may stand after a line that uses its address.
	listed := map[place]bool{}
	for _, f := range list {
		if f.Kind == Address && isName(f.Name) {
			listed[place{value: f.Value}] = true
			listed[place{f.File, f.Value}] = true
		}
	}

	list = slices.DeleteFunc(list, func(f Finding) bool {
		if f.Kind != Address || isName(f.Name) {
			return false
		}

		here := place{f.File, f.Value}
		// An element of a table repeats only what its own file lists.
		repeated := listed[here] || listed[place{value: f.Value}] && !isElement(f.Name)
		listed[here] = true
		return repeated
	})

	slices.SortStableFunc(list, func(a, b Finding) int {
		return cmp.Or(strings.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), strings.Compare(a.Name, b.Name))
	})

	return list
}

// isName reports whether a finding's name is a macro's, not an address or an element of a macro's initializer.
func isName(text string) bool {
	return text != "" && (text[0] < '0' || text[0] > '9') && !isElement(text)
}

func isElement(name string) bool { return strings.HasSuffix(name, "]") }

// inPeripherals reports whether the architecture reserves an address for a chip's peripherals: ARMv6-M, ARMv7-M and
// ARMv8-M, system address map.
func (c *comparison) inPeripherals(at uint64) bool {
	return c.board.ELF.Machine == "arm" && at >= 0x40000000 && at < 0x60000000
}

const leastAddress = 0x1000 // smaller numbers are counts, offsets or masks, unless the code reads or writes there

// isAddress reports whether a number is that of a register or peripheral.
func (c *comparison) isAddress(v value) bool {
	if v.access {
		return true
	}
	if v.bits || v.number < leastAddress || v.number%4 != 0 {
		return false
	}

	if c.inPeripherals(v.number) {
		return true
	}

	p, r := c.find(v.number)
	return len(r) > 0 && r[0].Address == v.number || p != nil && p.Base == v.number
}

// find returns the registers at an address, and the peripheral that it is in.
func (c *comparison) find(at uint64) (p *svd.Peripheral, r []*svd.Register) {
	for _, b := range c.blocks {
		if b.Start > at {
			break
		}
		if at-b.Start >= b.Bytes {
			continue
		}

		// Blocks overlap: one with a register there precedes one that only contains the address.
		if registers := b.peripheral.At(at); len(registers) > 0 {
			return b.peripheral, registers
		}

		if p == nil {
			p = b.peripheral
		}
	}

	return p, nil
}

// address compares an address; ok is false for memory and the core's own registers.
func (c *comparison) address(u use) (f Finding, ok bool) {
	at := u.value.number
	f = Finding{Kind: Address, Name: u.name, File: u.file, Line: u.line, Value: at}

	p, r := c.find(at)

	// Only an address in no peripheral can be an alias, and only of a register.
	if alias := at & c.aliases; p == nil && alias != 0 && c.inPeripherals(at) {
		if q, s := c.find(at - alias); len(s) > 0 {
			c.used[q.Name] = true
			f.At = fmt.Sprintf("%s.%s, at the alias 0x%x", q.Name, s[0].Name, alias)
			return f, true
		}
	}

	switch {
	case len(r) > 0:
		c.used[p.Name] = true
		for _, r := range r {
			c.matched = append(c.matched, match{u.name, u.file, p, r})
		}
		f.At = p.Name + "." + r[0].Name
		if at != r[0].Address {
			f.At += fmt.Sprintf(", byte %d", at-r[0].Address)
		}
	case p != nil:
		c.used[p.Name] = true
		f.At = p.Name
		switch {
		case u.value.access || at != p.Base && !strings.HasSuffix(u.name, "_BASE"):
			f.Misfit = fmt.Sprintf("no register at offset 0x%x", at-p.Base) + c.nearest(p, at)
		case at != p.Base: // the code's own base; the registers above it are compared
			f.At += fmt.Sprintf(", offset 0x%x", at-p.Base)
		}
	case c.inMemory(at) || c.board.ELF.Machine == "arm" && at>>20 == 0xE00: // or the core's private peripheral bus
		return f, false
	case c.inPeripherals(at) || c.board.ELF.Machine != "arm":
		f.Misfit = "in no peripheral" + c.before(at)
	default:
		f.Doubt = "in no peripheral of the file"
	}

	return f, true
}

func (c *comparison) inMemory(at uint64) bool {
	return slices.ContainsFunc(c.board.Memory, func(r boards.Region) bool {
		return at >= uint64(r.Origin) && at-uint64(r.Origin) < uint64(r.Size)
	})
}

// nearest names the registers before and after an address.
func (c *comparison) nearest(p *svd.Peripheral, at uint64) string {
	i := sort.Search(len(p.Registers), func(i int) bool { return p.Registers[i].Address > at })
	var near []string
	for _, n := range []int{i - 1, i} {
		if n >= 0 && n < len(p.Registers) {
			near = append(near, fmt.Sprintf("%s is at 0x%x", p.Registers[n].Name, p.Registers[n].Address-p.Base))
		}
	}

	if len(near) == 0 {
		return ""
	}
	return ": " + strings.Join(near, ", ")
}

// before names the peripheral before an address.
func (c *comparison) before(at uint64) string {
	i := sort.Search(len(c.blocks), func(i int) bool { return c.blocks[i].Start > at })
	if i == 0 {
		return ""
	}

	b := c.blocks[i-1]
	return fmt.Sprintf(": %s before it ends at 0x%x", b.peripheral.Name, b.Start+b.Bytes)
}

var interruptName = regexp.MustCompile(`(?i)(^|_)IRQN?$|^IRQN?_`)

const maxInterrupts = 1024 // more than any interrupt controller has

// isInterrupt reports whether a number is that of an interrupt, by its name.
func isInterrupt(u use) bool {
	return interruptName.MatchString(u.name) && !u.value.bits && !u.value.access && u.value.number < maxInterrupts
}

// interrupt compares an interrupt's number. It is doubtful if it belongs to peripherals that the C does not use.
func (c *comparison) interrupt(u use) Finding {
	f := Finding{Kind: Interrupt, Name: u.name, File: u.file, Line: u.line, Value: u.value.number}
	var names, owners []string

	isUsed := false
	for _, i := range c.device.Interrupts {
		if i.Number == u.value.number {
			names, owners = append(names, i.Name), append(owners, i.Peripheral)
			isUsed = isUsed || c.used[i.Peripheral]
		}
	}

	slices.Sort(names)
	f.At = strings.Join(slices.Compact(names), ", ")

	switch {
	case len(names) == 0:
		f.Misfit = "the chip has no such interrupt"
	case !isUsed && len(c.used) > 0:
		slices.Sort(owners)
		f.Doubt = "of " + strings.Join(slices.Compact(owners), ", ") + ", which this C does not use by fixed addresses"
	}
	return f
}

const vectorsDefine = "CHIP_IRQS"

// vectors compares the length of the vector table with the highest interrupt.
func (c *comparison) vectors() (f Finding, ok bool) {
	text, set := c.board.Defines[vectorsDefine]

	n := len(c.device.Interrupts)

	if !set || n == 0 {
		return f, false
	}

	length, err := strconv.ParseUint(text, 0, 64)
	if err != nil {
		return f, false
	}

	origin := c.board.Origin["defines."+vectorsDefine]
	f = Finding{Kind: Interrupt, Name: vectorsDefine, File: origin.File, Line: origin.Line, Value: length}
	// Interrupts are sorted by number.
	last := c.device.Interrupts[n-1]
	f.At = fmt.Sprintf("the last interrupt is %s, %d", last.Name, last.Number)
	if last.Number >= length {
		f.Misfit = "the vector table ends before it"
	}

	return f, true
}
