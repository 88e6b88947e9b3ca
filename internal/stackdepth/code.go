// This file reads a linked image: its functions, its data and who points to which function. Instructions are available
// for the C library and the objects of an archive too.

package stackdepth

import (
	"cmp"
	"debug/elf"
	"fmt"
	"iter"
	"slices"
	"sort"
	"strings"

	"github.com/boardsmith/boardsmith/internal/firmware"
)

// machineCode is the code of an image.
type machineCode struct {
	image     *elf.File
	pointer   int         // bytes of a pointer
	functions []*function // by address
	symbols   map[string]elf.Symbol
	spans     []Span     // by address
	data      []dataMark // by address
	sections  []section
}

// A section is a section of the image with its contents.
type section struct {
	addr     uint64
	bytes    []byte
	readOnly bool
	code     bool
}

func (s *section) has(addr uint64) bool { return addr-s.addr < uint64(len(s.bytes)) }

// decoders read the instructions of a function.
var decoders = map[elf.Machine]func(f *function, code []byte, v view){
	elf.EM_ARM:   decodeThumb,
	elf.EM_RISCV: decodeRISCV,
}

const maxFunctionBytes = 8 << 20

// readCode decodes all functions of an image. It returns nil if the machine has no decoder.
func readCode(image *elf.File, spans []Span) (*machineCode, error) {
	if decoders[image.Machine] == nil {
		return nil, nil
	}

	m := &machineCode{image: image, pointer: 4, symbols: map[string]elf.Symbol{}, spans: slices.Clone(spans)}
	slices.SortStableFunc(m.spans, func(a, b Span) int { return cmp.Compare(a.Start, b.Start) })

	if image.Class == elf.ELFCLASS64 {
		m.pointer = 8
	}

	if err := m.load(); err != nil {
		return nil, err
	}

	symbols, err := image.Symbols()
	if err != nil {
		return nil, fmt.Errorf("symbols of the firmware: %w", err)
	}

	m.data = dataMarks(symbols, image.Sections)
	m.addFunctions(symbols)
	// Code without a symbol shows only in code that refers to it, which may have no symbol itself.
	for added := slices.Clone(m.functions); len(added) > 0; added = m.addNameless() {
		for _, f := range added {
			m.decode(f)
		}
	}

	m.addSaved()
	return m, nil
}

func (m *machineCode) load() error {
	for _, s := range m.image.Sections {
		if s.Flags&elf.SHF_ALLOC == 0 || s.Type == elf.SHT_NOBITS {
			continue
		}
		b, err := s.Data()
		if err != nil {
			return fmt.Errorf("the firmware's section %s: %w", s.Name, err)
		}
		constant, code := firmware.IsConstant(m.image, s), s.Flags&elf.SHF_EXECINSTR != 0
		m.sections = append(m.sections, section{s.Addr, b, constant, code})
	}
	return nil
}

// savesForCaller reports whether f is one of libgcc's functions that save registers on their caller's stack and leave
// them there (-msave-restore, used by RISC-V's newlib).
func (f *function) savesForCaller() bool {
	return f.Part == Libc && strings.HasPrefix(f.name, "__riscv_save_")
}

// addSaved adds the registers saved by these functions to their callers' frames: at most ra and s0 to s11, rounded up
// to 16 bytes.
func (m *machineCode) addSaved() {
	const saved = 13
	for _, f := range m.functions {
		for _, addr := range f.calls {
			// A function calls one of these once, in its prologue.
			if g := m.functionAt(addr); g != nil && g.savesForCaller() {
				f.frame += int64(saved*m.pointer+15) &^ 15
				break
			}
		}
	}
}

// decode reads a function up to the next one.
func (m *machineCode) decode(f *function) {
	// The size of a symbol may be missing, or reach into the next function.
	next := m.after(f.addr)
	if next < len(m.functions) && (f.size == 0 || f.addr+f.size > m.functions[next].addr) {
		f.size = m.functions[next].addr - f.addr
	}

	if f.size == 0 || f.size > maxFunctionBytes {
		f.size = min(f.size, maxFunctionBytes)
		return
	}

	code := m.bytes(f.addr, f.size)
	if code == nil {
		return
	}

	f.fixpoint(func(f *function) { decoders[m.image.Machine](f, code, m) })

	// A jump through a pointer that is no switch's leads to another function.
	f.indirect = f.indirect || f.jumps > 0 && f.jumps > m.switches(f)
}

// switches counts the jump tables of a function's switches: tables of addresses, or of distances from the table.
func (m *machineCode) switches(f *function) (count int) {
	refs := slices.Clone(f.refs)
	slices.Sort(refs)
	for _, table := range slices.Compact(refs) {
		to, ok := m.constant(table, m.pointer)
		distance, _ := m.constant(table, 4)
		if ok && (f.within(to) || f.within(table+uint64(int64(int32(distance))))) {
			count++
		}
	}
	return count
}

// within reports whether an address is inside a function, after its first instruction.
func (f *function) within(addr uint64) bool { return addr > f.addr && addr < f.addr+f.size }

// addNameless adds functions for code that is called or whose address is taken but that has no symbol, such as LLVM's
// parallel loops. It returns these functions.
func (m *machineCode) addNameless() (added []*function) {
	var addrs []uint64
	for _, f := range m.functions {
		// On Arm, an even number is no function's address.
		refs := slices.DeleteFunc(slices.Clone(f.refs), func(a uint64) bool { return !m.isPointer(a) })
		for _, addr := range slices.Concat(f.calls, f.tails, refs) {
			addr = m.codeAddress(addr)
			if m.isCode(addr) && m.functionAt(addr) == nil {
				addrs = append(addrs, addr)
			}
		}
	}

	slices.Sort(addrs)
	addrs = slices.Compact(addrs)
	for i, addr := range addrs {
		end := m.codeEnd(addr)
		if i+1 < len(addrs) {
			end = min(end, addrs[i+1])
		}
		added = append(added, m.add(fmt.Sprintf("code at %#x", addr), addr, end-addr))
	}

	m.sortFunctions()
	return added
}

func (m *machineCode) add(name string, addr, size uint64) *function {
	f := &function{name: name, addr: addr, size: size, Owner: m.owner(addr), narrow: m.pointer == 4}
	m.functions = append(m.functions, f)
	return f
}

func (m *machineCode) sortFunctions() {
	slices.SortFunc(m.functions, func(f, g *function) int { return cmp.Compare(f.addr, g.addr) })
}

func (m *machineCode) isCode(addr uint64) bool {
	return slices.ContainsFunc(m.sections, func(s section) bool { return s.code && s.has(addr) }) && !m.isData(addr)
}

// codeEnd returns the end of the section or the start of the next function, whichever comes first.
func (m *machineCode) codeEnd(addr uint64) uint64 {
	end := addr + 2

	for _, s := range m.sections {
		if s.has(addr) {
			end = s.addr + uint64(len(s.bytes))
		}
	}

	if i := m.after(addr); i < len(m.functions) {
		end = min(end, m.functions[i].addr)
	}
	return end
}

// after returns the index of the first function that begins after an address.
func (m *machineCode) after(addr uint64) int {
	return sort.Search(len(m.functions), func(i int) bool { return m.functions[i].addr > addr })
}

// isData, constant and entryPoint implement view.
func (m *machineCode) isData(addr uint64) bool {
	i := sort.Search(len(m.data), func(i int) bool { return m.data[i].addr > addr }) - 1
	return i >= 0 && m.data[i].data
}

func (m *machineCode) constant(addr uint64, bytes int) (uint64, bool) {
	b := m.bytes(addr, uint64(bytes))
	// Only constants: the value of a variable may change.
	if b == nil || !slices.ContainsFunc(m.sections, func(s section) bool { return s.readOnly && s.has(addr) }) {
		return 0, false
	}
	return m.number(b, bytes), true
}

func (m *machineCode) entryPoint(pointer uint64) (uint64, bool) {
	return m.codeAddress(pointer), m.target(pointer) != nil
}

// addFunctions lists the functions by address. Of several symbols at one address it takes a global one first, then the
// first by alphabet.
func (m *machineCode) addFunctions(symbols []elf.Symbol) {
	byAddr := map[uint64]*function{}
	slices.SortStableFunc(symbols, func(a, b elf.Symbol) int {
		global := func(s elf.Symbol) int { return -int(elf.ST_BIND(s.Info)) }
		return cmp.Or(cmp.Compare(global(a), global(b)), cmp.Compare(a.Name, b.Name))
	})

	for _, s := range symbols {
		if s.Name != "" && s.Section != elf.SHN_UNDEF {
			if _, ok := m.symbols[s.Name]; !ok {
				m.symbols[s.Name] = s
			}
		}
		if elf.ST_TYPE(s.Info) != elf.STT_FUNC || s.Section == elf.SHN_UNDEF {
			continue
		}

		addr := m.codeAddress(s.Value)
		if f := byAddr[addr]; f != nil {
			f.size = max(f.size, s.Size)
			continue
		}
		byAddr[addr] = m.add(s.Name, addr, s.Size)
	}
	m.sortFunctions()
}

// codeAddress clears the Thumb bit of a function's address.
func (m *machineCode) codeAddress(a uint64) uint64 {
	if m.image.Machine == elf.EM_ARM {
		return a &^ 1
	}
	return a
}

// owner returns the owner of the code or data at an address.
func (m *machineCode) owner(addr uint64) Owner {
	i := sort.Search(len(m.spans), func(i int) bool { return m.spans[i].Start > addr })
	for i--; i >= 0 && m.spans[i].Start+maxFunctionBytes > addr; i-- {
		if addr < m.spans[i].End {
			return m.spans[i].Owner
		}
	}
	return Owner{}
}

// bytes returns the image's contents at an address, or nil if not all of them are there.
func (m *machineCode) bytes(addr, size uint64) []byte {
	for _, s := range m.sections {
		if offset := addr - s.addr; s.has(addr) && size <= uint64(len(s.bytes))-offset {
			return s.bytes[offset : offset+size]
		}
	}
	return nil
}

// functionAt returns the function that contains an address, or nil.
func (m *machineCode) functionAt(addr uint64) *function {
	i := m.after(addr) - 1
	if i < 0 || addr-m.functions[i].addr >= max(m.functions[i].size, 1) {
		return nil
	}
	return m.functions[i]
}

// named returns the functions with these names, of which a function may have several.
func (m *machineCode) named(names ...string) (functions []*function) {
	for _, f := range m.functions {
		if slices.ContainsFunc(names, func(name string) bool { return f.name == name || m.isAlias(name, f) }) {
			functions = append(functions, f)
		}
	}
	return functions
}

func (m *machineCode) isAlias(name string, f *function) bool {
	s, ok := m.symbols[name]
	return ok && elf.ST_TYPE(s.Info) == elf.STT_FUNC && m.codeAddress(s.Value) == f.addr
}

// callees returns the functions that a template names. It skips lists of pointers that the image does not have.
func (m *machineCode) callees(c Callees) []*function {
	functions := m.named(c.Functions...)
	for _, in := range c.In {
		if r, ok := in.Find(m.image); ok && r.Size() <= maxFunctionBytes {
			functions = append(functions, m.targets(m.bytes(r.Start, r.Size()))...)
		}
	}
	return functions
}

func (m *machineCode) number(b []byte, bytes int) uint64 {
	if bytes == 8 {
		return m.image.ByteOrder.Uint64(b)
	}
	return uint64(m.image.ByteOrder.Uint32(b))
}

// target returns the function that starts at a pointer's target, or nil.
func (m *machineCode) target(pointer uint64) *function {
	if f := m.functionAt(m.codeAddress(pointer)); f != nil && f.addr == m.codeAddress(pointer) {
		return f
	}
	return nil
}

// targets returns the functions in a list of pointers.
func (m *machineCode) targets(list []byte) (functions []*function) {
	for ; len(list) >= m.pointer; list = list[m.pointer:] {
		if f := m.target(m.number(list, m.pointer)); f != nil {
			functions = append(functions, f)
		}
	}
	return functions
}

// registered returns the functions of a registry in flash: {names, functions}. The names start with their count.
func (m *machineCode) registered(symbol string) []*function {
	s, ok := m.symbols[symbol]
	if !ok {
		return nil
	}

	b := m.bytes(s.Value, 2*uint64(m.pointer))
	if b == nil {
		return nil
	}

	names, table := m.number(b, m.pointer), m.number(b[m.pointer:], m.pointer)

	count := m.bytes(names, 2)
	if count == nil || table == 0 {
		return nil
	}

	return m.targets(m.bytes(table, uint64(m.pointer)*uint64(m.image.ByteOrder.Uint16(count))))
}

// takenBy returns the functions whose address f computes.
func (m *machineCode) takenBy(f *function) (functions []*function) {
	for _, ref := range f.refs {
		if g := m.target(ref); g != nil && m.isPointer(ref) {
			functions = append(functions, g)
		}
	}
	return functions
}

// takenFrom returns functions of these parts whose address is taken by code of these parts that is reachable from the
// given functions. The runtime's own modules have such functions; they are called like a model's.
func (m *machineCode) takenFrom(from []*function, parts ...Part) (functions []*function) {
	m.reach(from, func(f *function) []*function {
		if !slices.Contains(parts, f.Part) {
			return nil
		}
		taken := slices.DeleteFunc(m.takenBy(f), func(g *function) bool { return !slices.Contains(parts, g.Part) })
		functions = append(functions, taken...)
		return taken
	})
	return unique(functions)
}

// reach returns these functions and all that they call, directly or through others, with those that also returns for
// each function. also may be nil.
func (m *machineCode) reach(from []*function, also func(*function) []*function) (functions []*function) {
	reached := map[*function]bool{}

	for todo := slices.Clone(from); len(todo) > 0; {
		f := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if reached[f] {
			continue
		}

		reached[f] = true
		functions = append(functions, f)

		for _, addr := range slices.Concat(f.calls, f.tails) {
			if g := m.functionAt(m.codeAddress(addr)); g != nil {
				todo = append(todo, g)
			}
		}

		if also != nil {
			todo = append(todo, also(f)...)
		}
	}
	return functions
}

// inTables returns functions of these parts that data of these parts points to. Code copies such a table or addresses
// it through a nearby anchor, so that it never computes the function's own address.
func (m *machineCode) inTables(parts ...Part) (functions []*function) {
	for by, f := range m.tables() {
		if slices.Contains(parts, f.Part) && slices.Contains(parts, by.Part) {
			functions = append(functions, f)
		}
	}
	return unique(functions)
}

// tables yields each function that data points to, with the owner of the data.
func (m *machineCode) tables() iter.Seq2[Owner, *function] {
	return func(yield func(Owner, *function) bool) {
		for _, s := range m.sections {
			step := uint64(m.pointer)
			for offset := -s.addr % step; !s.code && offset+step <= uint64(len(s.bytes)); offset += step {
				pointer := m.number(s.bytes[offset:], m.pointer)
				f := m.target(pointer)
				if f != nil && m.isPointer(pointer) && !yield(m.owner(s.addr+offset), f) {
					return
				}
			}
		}
	}
}

// takenElsewhere returns the functions whose address is taken by code or data that is modified or not ours.
func (m *machineCode) takenElsewhere() (functions []*function) {
	for by, f := range m.tables() {
		if !by.Unmodified {
			functions = append(functions, f)
		}
	}

	for _, f := range m.functions {
		if !f.Unmodified {
			functions = append(functions, m.takenBy(f)...)
		}
	}
	return unique(functions)
}

// isPointer reports whether a number can be a function's address: on Arm it has the Thumb bit.
func (m *machineCode) isPointer(n uint64) bool { return m.image.Machine != elf.EM_ARM || n&1 == 1 }

// A dataMark is a mapping symbol of the ABI (ELF for the Arm Architecture, 5.5.5) in code: $d starts data, $t and $a
// start code.
type dataMark struct {
	addr uint64
	data bool
}

func dataMarks(symbols []elf.Symbol, sections []*elf.Section) (marks []dataMark) {
	for _, s := range symbols {
		if int(s.Section) >= len(sections) || sections[s.Section].Flags&elf.SHF_EXECINSTR == 0 {
			continue // a symbol of debug information, whose value is not an address in memory
		}

		switch name, _, _ := strings.Cut(s.Name, "."); name {
		case "$d", "$t", "$a":
			marks = append(marks, dataMark{s.Value, name == "$d"})
		}
	}

	slices.SortStableFunc(marks, func(a, b dataMark) int { return cmp.Compare(a.addr, b.addr) })
	return marks
}
