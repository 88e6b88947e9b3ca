// This file reads the functions of a linked image from their instructions: each one's frame, its calls and the
// addresses that it computes. Instructions are available for the C library and the objects of an archive too. The
// decoders for each kind of processor are in stackarm.go and stackriscv.go; stack.go combines the functions.

package fit

import (
	"cmp"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/boardsmith/boardsmith/internal/firmware"
)

// A codeFunction is one function's use of the stack.
type codeFunction struct {
	name string
	addr uint64
	size uint64
	owner
	frame    int64
	dynamic  bool     // the size of its frame depends on data
	calls    []uint64 // addresses of functions, or within functions
	tails    []uint64 // addresses that it jumps to instead of returning
	refs     []uint64 // addresses that it computes
	indirect bool     // it calls or jumps through a pointer whose value is unknown
	pointers bool     // it calls or jumps through a pointer
	// jumps of RISC-V through a pointer whose value is unknown: by a switch's table, or instead of returning
	jumps  int
	floats bool // it uses floating-point registers
	narrow bool // the machine has 32 bits

	flow codeFlow
}

// An owner tells which part code or data belongs to.
type owner struct {
	part string
	ours bool // unmodified, so that the callees of its pointers are known
}

// decoded reports whether the function's code was read.
func (f *codeFunction) decoded() bool { return f.flow.arrive != nil }

// A codeFlow holds what is known of a function's registers at the targets of its jumps. The function is read repeatedly
// until nothing changes. Where two paths to one address disagree about a register, it is unknown there.
type codeFlow struct {
	read    bool
	arrive  map[uint64]registers // at the targets of jumps
	changed bool
	table   bool // it jumps to unknown addresses
	lost    bool // no path to the current instruction is known so far
}

// registers holds the registers whose values are known constants.
type registers struct {
	value [32]int64
	known [32]bool
}

func (r *registers) forgetAll() { r.known = [32]bool{} }

// meet keeps the values that r and o agree on.
func (r *registers) meet(o registers) {
	for i := range r.known {
		r.known[i] = r.known[i] && o.known[i] && r.value[i] == o.value[i]
	}
}

// jump records a branch: within the function, or instead of a return.
func (f *codeFunction) jump(to uint64, now registers) {
	if to < f.addr || to >= f.addr+f.size {
		f.tails = append(f.tails, to)
		return
	}
	if f.flow.lost {
		return
	}
	there, ok := f.flow.arrive[to]
	before := there
	if ok {
		there.meet(now)
	} else {
		there = now
	}
	if !ok || there.known != before.known {
		f.flow.changed = true
	}
	f.flow.arrive[to] = there
}

// at sets now to what is known at an address. falls tells whether the preceding instruction can continue there.
func (f *codeFunction) at(pc uint64, now *registers, falls bool) {
	there, ok := f.flow.arrive[pc]
	switch {
	case ok && falls && !f.flow.lost:
		now.meet(there)
	case ok:
		*now, f.flow.lost = there, false
	case !falls:
		now.forgetAll()
		f.flow.lost = true
	}
}

const mostReadings = 50

// settle reads a function repeatedly until its flow no longer changes.
func (f *codeFunction) settle(read func(*codeFunction)) {
	plain := codeFunction{name: f.name, addr: f.addr, size: f.size, owner: f.owner, narrow: f.narrow}
	flow := codeFlow{read: true, arrive: map[uint64]registers{}, changed: true}
	for n := 0; flow.changed; n++ {
		flow.changed, flow.lost = false, false
		flow.table = flow.table || n == mostReadings // then no value of a register is used
		*f = plain
		f.flow = flow
		read(f)
		// read again: the code before the switch was read without this fact
		f.flow.changed = f.flow.changed || f.flow.table && !flow.table
		if flow = f.flow; n > mostReadings {
			return
		}
	}
}

// A codeView gives a decoder access to the image.
type codeView interface {
	isData(addr uint64) bool                           // the address holds data within code
	constant(addr uint64, bytes int) (uint64, bool)    // a number in flash
	begins(pointer uint64) (addr uint64, isThere bool) // reports whether a function starts at the pointer's target
}

// decoders read the instructions of a function.
var decoders = map[elf.Machine]func(f *codeFunction, code []byte, v codeView){
	elf.EM_ARM:   decodeThumb,
	elf.EM_RISCV: decodeRISCV,
}

// A program is the code of an image.
type program struct {
	layout    *Layout
	machine   elf.Machine
	order     binary.ByteOrder
	pointer   int // bytes
	functions []*codeFunction
	symbols   map[string]elf.Symbol
	owners    func(addr uint64) owner
	data      dataInCode
	sections  []loaded
}

// A loaded is a section of the image with its contents.
type loaded struct {
	addr     uint64
	bytes    []byte
	readOnly bool
	code     bool
}

const maxFunctionBytes = 8 << 20

// readProgram decodes all functions of an image. It returns nil if the machine has no decoder.
func readProgram(l *Layout) (*program, error) {
	if decoders[l.image.Machine] == nil {
		return nil, nil
	}
	p := &program{
		layout: l, machine: l.image.Machine, order: l.image.ByteOrder, pointer: 4,
		symbols: map[string]elf.Symbol{},
	}
	if l.image.Class == elf.ELFCLASS64 {
		p.pointer = 8
	}
	if err := p.load(); err != nil {
		return nil, err
	}
	symbols, err := l.image.Symbols()
	if err != nil {
		return nil, fmt.Errorf("symbols of the firmware: %w", err)
	}
	p.owners, p.data = p.ownersByAddress(), dataRanges(symbols, l.image.Sections)
	p.addFunctions(symbols)
	for again := true; again; again = p.addNameless() {
		for _, f := range p.functions {
			if !f.flow.read {
				p.decode(f)
			}
		}
	}
	p.addSaved()
	return p, nil
}

func (p *program) load() error {
	for _, s := range p.layout.image.Sections {
		if s.Flags&elf.SHF_ALLOC == 0 || s.Type == elf.SHT_NOBITS {
			continue
		}
		b, err := s.Data()
		if err != nil {
			return fmt.Errorf("the firmware's section %s: %w", s.Name, err)
		}
		// TVM's constants make the section of constants writable, but it stays in flash.
		readOnly := s.Flags&elf.SHF_WRITE == 0 || strings.HasPrefix(s.Name, ".rodata") && p.layout.section(s).load == s.Addr
		p.sections = append(p.sections, loaded{s.Addr, b, readOnly, s.Flags&elf.SHF_EXECINSTR != 0})
	}
	return nil
}

// savesForCaller reports whether f is one of libgcc's functions that save registers on their caller's stack and leave
// them there (-msave-restore, used by RISC-V's newlib).
func (f *codeFunction) savesForCaller() bool {
	return f.part == partLibc && strings.HasPrefix(f.name, "__riscv_save_")
}

// addSaved adds the registers saved by these functions to their callers' frames: at most ra and s0 to s11, rounded up
// to 16 bytes.
func (p *program) addSaved() {
	const saved = 13
	for _, f := range p.functions {
		for _, addr := range f.calls {
			if g := p.function(addr); g != nil && g.savesForCaller() {
				f.frame += int64(saved*p.pointer+15) &^ 15
				break
			}
		}
	}
}

// decode reads a function up to the next one.
func (p *program) decode(f *codeFunction) {
	f.flow.read = true
	next := sort.Search(len(p.functions), func(i int) bool { return p.functions[i].addr > f.addr })
	if next < len(p.functions) && (f.size == 0 || f.addr+f.size > p.functions[next].addr) {
		f.size = p.functions[next].addr - f.addr
	}
	if f.size == 0 || f.size > maxFunctionBytes {
		f.size = min(f.size, maxFunctionBytes)
		return
	}
	code := p.bytes(f.addr, f.size)
	if code == nil {
		return
	}
	f.settle(func(f *codeFunction) { decoders[p.machine](f, code, p) })
	f.indirect = f.indirect || f.jumps > 0 && f.jumps > p.switches(f)
}

// switches counts the jump tables of a function's switches: tables of addresses, or of distances from the table.
func (p *program) switches(f *codeFunction) (count int) {
	refs := slices.Clone(f.refs)
	slices.Sort(refs)
	for _, table := range slices.Compact(refs) {
		to, isThere := p.constant(table, p.pointer)
		distance, _ := p.constant(table, 4)
		if isThere && (f.within(to) || f.within(table+uint64(int64(int32(distance))))) {
			count++
		}
	}
	return count
}

// within reports whether an address is inside a function, after its first instruction.
func (f *codeFunction) within(addr uint64) bool { return addr > f.addr && addr < f.addr+f.size }

// addNameless adds functions for code that is called or whose address is taken but that has no symbol, such as LLVM's
// parallel loops. It reports whether it found any.
func (p *program) addNameless() bool {
	var found []uint64
	for _, f := range p.functions {
		refs := slices.DeleteFunc(slices.Clone(f.refs),
			func(a uint64) bool { return p.codeAddress(a) == a && p.machine == elf.EM_ARM })
		for _, addr := range slices.Concat(f.calls, f.tails, refs) {
			addr = p.codeAddress(addr)
			if p.isCode(addr) && p.function(addr) == nil {
				found = append(found, addr)
			}
		}
	}
	slices.Sort(found)
	found = slices.Compact(found)
	for i, addr := range found {
		end := p.codeEnd(addr)
		if i+1 < len(found) {
			end = min(end, found[i+1])
		}
		p.functions = append(p.functions, &codeFunction{
			name: fmt.Sprintf("code at %#x", addr), addr: addr, size: end - addr, owner: p.owners(addr), narrow: p.pointer == 4,
		})
	}
	sort.Slice(p.functions, func(i, j int) bool { return p.functions[i].addr < p.functions[j].addr })
	return len(found) > 0
}

func (p *program) isCode(addr uint64) bool {
	return slices.ContainsFunc(p.sections,
		func(s loaded) bool { return s.code && addr-s.addr < uint64(len(s.bytes)) }) && !p.data.has(addr)
}

// codeEnd returns the end of the section or the start of the next function, whichever comes first.
func (p *program) codeEnd(addr uint64) uint64 {
	end := addr + 2
	for _, s := range p.sections {
		if addr-s.addr < uint64(len(s.bytes)) {
			end = s.addr + uint64(len(s.bytes))
		}
	}
	if i := sort.Search(len(p.functions), func(i int) bool { return p.functions[i].addr > addr }); i < len(p.functions) {
		end = min(end, p.functions[i].addr)
	}
	return end
}

// isData, constant and begins implement codeView.
func (p *program) isData(addr uint64) bool { return p.data.has(addr) }

func (p *program) constant(addr uint64, bytes int) (uint64, bool) {
	for _, s := range p.sections {
		if s.readOnly && addr-s.addr < uint64(len(s.bytes)) {
			b := p.bytes(addr, uint64(bytes))
			switch {
			case b == nil:
				return 0, false
			case bytes == 8:
				return p.order.Uint64(b), true
			}
			return uint64(p.order.Uint32(b)), true
		}
	}
	return 0, false
}

func (p *program) begins(pointer uint64) (uint64, bool) {
	f := p.at(pointer)
	return p.codeAddress(pointer), len(f) > 0
}

// addFunctions lists the functions by address. Of several symbols at one address it takes a global one first, then the
// first by alphabet.
func (p *program) addFunctions(symbols []elf.Symbol) {
	byAddr := map[uint64]*codeFunction{}
	slices.SortStableFunc(symbols, func(a, b elf.Symbol) int {
		global := func(s elf.Symbol) int { return -int(elf.ST_BIND(s.Info)) }
		return cmp.Or(cmp.Compare(global(a), global(b)), cmp.Compare(a.Name, b.Name))
	})
	for _, s := range symbols {
		if s.Name != "" && s.Section != elf.SHN_UNDEF {
			if _, ok := p.symbols[s.Name]; !ok {
				p.symbols[s.Name] = s
			}
		}
		if elf.ST_TYPE(s.Info) != elf.STT_FUNC || s.Section == elf.SHN_UNDEF {
			continue
		}
		addr := p.codeAddress(s.Value)
		if f := byAddr[addr]; f != nil {
			f.size = max(f.size, s.Size)
			continue
		}
		f := &codeFunction{name: s.Name, addr: addr, size: s.Size, owner: p.owners(addr), narrow: p.pointer == 4}
		byAddr[addr] = f
		p.functions = append(p.functions, f)
	}
	sort.Slice(p.functions, func(i, j int) bool { return p.functions[i].addr < p.functions[j].addr })
}

// codeAddress clears the Thumb bit of a function's address.
func (p *program) codeAddress(a uint64) uint64 {
	if p.machine == elf.EM_ARM {
		return a &^ 1
	}
	return a
}

// ownersByAddress returns a function that returns the owner of the code or data at an address.
func (p *program) ownersByAddress() func(uint64) owner {
	type span struct {
		from, to uint64
		owner    owner
	}
	var spans []span
	for i := range p.layout.from.sections {
		s := &p.layout.from.sections[i]
		if strings.HasPrefix(s.name, ".debug") {
			continue
		}
		for j := range s.pieces {
			piece := &s.pieces[j]
			spans = append(spans, span{piece.address, piece.address + s.taken(j), p.layout.ownerOf(piece)})
		}
	}
	slices.SortStableFunc(spans, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	return func(addr uint64) owner {
		i, _ := slices.BinarySearchFunc(spans, addr, func(s span, a uint64) int {
			if s.from <= a {
				return -1
			}
			return 1
		})
		for i--; i >= 0 && spans[i].from+maxFunctionBytes > addr; i-- {
			if addr < spans[i].to {
				return spans[i].owner
			}
		}
		return owner{part: partOther}
	}
}

// bytes returns the image's contents at an address, or nil if not all of them are there.
func (p *program) bytes(addr, size uint64) []byte {
	for _, s := range p.sections {
		if at := addr - s.addr; at < uint64(len(s.bytes)) && size <= uint64(len(s.bytes))-at {
			return s.bytes[at : at+size]
		}
	}
	return nil
}

// function returns the function that contains an address, or nil.
func (p *program) function(addr uint64) *codeFunction {
	i := sort.Search(len(p.functions), func(i int) bool { return p.functions[i].addr > addr }) - 1
	if i < 0 || addr-p.functions[i].addr >= max(p.functions[i].size, 1) {
		return nil
	}
	return p.functions[i]
}

// named returns the functions with these names, of which a function may have several.
func (p *program) named(names ...string) (all []*codeFunction) {
	for _, f := range p.functions {
		if slices.ContainsFunc(names, func(name string) bool { return f.name == name || p.isAlias(name, f) }) {
			all = append(all, f)
		}
	}
	return all
}

func (p *program) isAlias(name string, f *codeFunction) bool {
	s, ok := p.symbols[name]
	return ok && elf.ST_TYPE(s.Info) == elf.STT_FUNC && p.codeAddress(s.Value) == f.addr
}

// callees returns the functions that a template names.
func (p *program) callees(c Callees) []*codeFunction {
	all := p.named(c.Functions...)
	for _, in := range c.In {
		all = append(all, p.pointersIn(in)...)
	}
	return all
}

// pointersIn returns the functions in a list of pointers; none if the image has no such list.
func (p *program) pointersIn(in firmware.Place) (all []*codeFunction) {
	r, ok := in.Find(p.layout.image)
	if !ok || r.Size() > maxFunctionBytes {
		return nil
	}
	for b := p.bytes(r.Start, r.Size()); len(b) >= p.pointer; b = b[p.pointer:] {
		all = append(all, p.at(p.pointerOf(b))...)
	}
	return all
}

func (p *program) pointerOf(b []byte) uint64 {
	if p.pointer == 8 {
		return p.order.Uint64(b)
	}
	return uint64(p.order.Uint32(b))
}

// at returns the function that starts at a pointer's target.
func (p *program) at(pointer uint64) []*codeFunction {
	if f := p.function(p.codeAddress(pointer)); f != nil && f.addr == p.codeAddress(pointer) {
		return []*codeFunction{f}
	}
	return nil
}

// registered returns the functions of a registry in flash: {names, functions}. The names start with their count.
func (p *program) registered(symbol string) (all []*codeFunction) {
	s, ok := p.symbols[symbol]
	if !ok {
		return nil
	}
	b := p.bytes(s.Value, 2*uint64(p.pointer))
	if b == nil {
		return nil
	}
	names, table := p.pointerOf(b), p.pointerOf(b[p.pointer:])
	count := p.bytes(names, 2)
	if count == nil || table == 0 {
		return nil
	}
	list := p.bytes(table, uint64(p.pointer)*uint64(p.order.Uint16(count)))
	for ; len(list) >= p.pointer; list = list[p.pointer:] {
		all = append(all, p.at(p.pointerOf(list))...)
	}
	return all
}

// takenFrom returns functions of these parts whose address is taken by code of these parts that is reachable from the
// given functions. The runtime's own modules have such functions; they are called like a model's.
func (p *program) takenFrom(from []*codeFunction, parts ...string) (all []*codeFunction) {
	p.reach(from, func(f *codeFunction) (more []*codeFunction) {
		for _, ref := range f.refs {
			g := p.at(ref)
			if len(g) > 0 && p.isPointer(ref) && slices.Contains(parts, f.part) && slices.Contains(parts, g[0].part) {
				more = append(more, g...)
			}
		}
		all = append(all, more...)
		return more
	})
	return unique(all)
}

// reached returns these functions and all that they call, directly or through others.
func (p *program) reached(from []*codeFunction) []*codeFunction {
	return p.reach(from, func(*codeFunction) []*codeFunction { return nil })
}

// reach follows calls, and the functions that also returns for each function.
func (p *program) reach(from []*codeFunction, also func(*codeFunction) []*codeFunction) (all []*codeFunction) {
	reached := map[*codeFunction]bool{}
	for todo := slices.Clone(from); len(todo) > 0; {
		f := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if reached[f] {
			continue
		}
		reached[f] = true
		all = append(all, f)
		for _, addr := range slices.Concat(f.calls, f.tails) {
			if g := p.function(p.codeAddress(addr)); g != nil {
				todo = append(todo, g)
			}
		}
		todo = append(todo, also(f)...)
	}
	return all
}

// tabled returns functions of these parts that data of these parts points to. Code copies such a table or addresses it
// through a nearby anchor, so that it never computes the function's own address.
func (p *program) tabled(parts ...string) (all []*codeFunction) {
	p.eachTabled(func(by owner, f *codeFunction) {
		if slices.Contains(parts, f.part) && slices.Contains(parts, by.part) {
			all = append(all, f)
		}
	})
	return unique(all)
}

// eachTabled calls give with each function that data points to, and with the owner of the data.
func (p *program) eachTabled(give func(by owner, f *codeFunction)) {
	for _, s := range p.sections {
		step := uint64(p.pointer)
		for at := -s.addr % step; !s.code && at+step <= uint64(len(s.bytes)); at += step {
			pointer := p.pointerOf(s.bytes[at:])
			if f := p.at(pointer); len(f) > 0 && p.isPointer(pointer) {
				give(p.owners(s.addr+at), f[0])
			}
		}
	}
}

// takenElsewhere returns the functions whose address is taken by code or data that is not ours.
func (p *program) takenElsewhere() (all []*codeFunction) {
	p.eachTabled(func(by owner, f *codeFunction) {
		if !by.ours {
			all = append(all, f)
		}
	})
	for _, f := range p.functions {
		for _, ref := range f.refs {
			if !f.ours && p.isPointer(ref) {
				all = append(all, p.at(ref)...)
			}
		}
	}
	return unique(all)
}

// isPointer reports whether a number can be a function's address: on Arm it has the Thumb bit.
func (p *program) isPointer(n uint64) bool { return p.machine != elf.EM_ARM || n&1 == 1 }

// dataInCode lists where code contains data, by the mapping symbols of the ABI (ELF for the Arm Architecture, 5.5.5):
// $d starts data, $t and $a start code.
type dataInCode struct{ addrs []dataMark }

type dataMark struct {
	addr uint64
	data bool
}

func dataRanges(symbols []elf.Symbol, sections []*elf.Section) dataInCode {
	var d dataInCode
	for _, s := range symbols {
		if int(s.Section) >= len(sections) || sections[s.Section].Flags&elf.SHF_EXECINSTR == 0 {
			continue // a symbol of debug information, whose value is not an address in memory
		}
		name, _, _ := strings.Cut(s.Name, ".")
		switch name {
		case "$d":
			d.addrs = append(d.addrs, dataMark{s.Value, true})
		case "$t", "$a":
			d.addrs = append(d.addrs, dataMark{s.Value, false})
		}
	}
	slices.SortStableFunc(d.addrs, func(a, b dataMark) int { return cmp.Compare(a.addr, b.addr) })
	return d
}

func (d dataInCode) has(addr uint64) bool {
	i := sort.Search(len(d.addrs), func(i int) bool { return d.addrs[i].addr > addr }) - 1
	return i >= 0 && d.addrs[i].data
}
