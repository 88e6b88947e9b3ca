package project

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/diagnostics"
	"github.com/boardsmith/boardsmith/internal/firmware"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/boardstest"
	"github.com/boardsmith/boardsmith/internal/testkit/drawn"
	"github.com/boardsmith/boardsmith/internal/testkit/rpctest"
	"github.com/boardsmith/boardsmith/project/internal/generator"
	"github.com/boardsmith/boardsmith/rpc"
	"github.com/boardsmith/boardsmith/rpc/fault"
)

// This file is about memory maps that a memory protection unit cannot have, and about rules that overlap.

// withUnit returns a copy of a board whose unit has n regions.
func withUnit(b *boards.Board, n int) *boards.Board {
	with := *b
	with.Defines = maps.Clone(b.Defines)
	with.Defines["CPU_MPU_REGIONS"] = strconv.Itoa(n)
	return &with
}

// TestProtectionCount: the port compiles if the unit has as many regions as the port then uses, and with no fewer.
func TestProtectionCount(t *testing.T) {
	t.Parallel()
	path := ruledShelf(t)
	for _, c := range []struct {
		board  string
		upload int
		needed int
	}{
		{"nucleo_h743zi", 8, 8},
		{"mps2_an386", 0, 5},
		{"mps2_an521", 8, 7},
		{"rules_seven", 0, 11},
		{"rules_eight", 0, 9},
		{"eight", 0, 8},
	} {
		b, err := boards.Find(c.board, []string{path})
		must(t, err)
		o := boards.Options{UploadKiB: c.upload}
		r, _ := b.Region(b.Place.UploadRegion())
		window := uint64(r.Origin) + 0x10000
		_, messages := buildMPU(t, withUnit(b, c.needed-1), o, window)
		const want = "memory: the map needs more regions than the memory protection unit has"
		if got := diagnostics.Assertion(messages); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %q, want %q", c.board, got, want)
		}
		used := 0
		for _, region := range mpuOf(t, withUnit(b, c.needed), o, window).regions {
			used += int(region.attributes & 1)
		}
		if used != c.needed {
			t.Errorf("%s: the port uses %d regions, not %d", c.board, used, c.needed)
		}
	}
}

// ruledShelf has reservedBoards, rulesBoards and beside.
func ruledShelf(t *testing.T) string {
	t.Helper()
	shelf := maps.Clone(reservedBoards)
	shelf["beside.json"] = beside
	for name, text := range rulesBoards {
		shelf["rules_"+name+".json"] = text
	}
	return boardstest.Shelf(t, shelf)
}

// beside has an uncached memory before one with operators, which no region covers exactly.
const beside = `{"inherits": "chip/stm32h743", "arena_kib": 64,
"memory": [
  {"name": "flash", "origin": "0x08000000", "size": "0x00200000", "exec": true, "nonvolatile": true,
    "sectors": [{"count": 16, "size": "0x20000"}], "erase_cycles": 10000},
  {"name": "axi", "origin": "0x24000000", "size": "0x00080000"},
  {"name": "shared", "origin": "0x30000000", "size": "0x00002000", "dma": true},
  {"name": "fast", "origin": "0x30002000", "size": "0x00046000", "exec": true},
  {"name": "sdram", "origin": "0xC0000000", "size": "0x00800000"}],
"place": {"code": "flash", "data": "axi", "stack": "axi", "arena": "sdram", "noinit": "axi", "upload": "axi",
  "operators": "fast"},
"link": {"kind": "serial"}, "flash": {"programmer": "openocd", "scripts": ["x.cfg"]}}`

// inheritedChip matches the chip from which a board's file inherits.
var inheritedChip = regexp.MustCompile(`"inherits": "(chip/\w+)"`)

// TestProtectionErrors generates projects for boards with rules that exclude each other.
func TestProtectionErrors(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		base    string
		changes []string // old and new ones
		want    string
	}{
		{
			reservedBoards["seven.json"],
			[]string{
				`"boot", "origin": "0x00200000", "size": "0x00200000", "nonvolatile": true, "reserved": true`,
				`"low", "origin": "0x00200000", "size": "0x01E10000"`,
			},
			`bad.json:1: memory: region "low": a region of the memory protection unit, a power of two without some of its ` +
				`eighths, would cover parts of region "code", which holds code`,
		},
		{
			beside,
			[]string{`"dma": true`, `"exec": true`, `"exec": true}`, `"exec": true, "nonvolatile": true}`},
			"",
		},
		{
			beside,
			[]string{
				`, "dma": true`, ``, `"exec": true}`, `"exec": true, "nonvolatile": true}`,
				`"operators": "fast"`, `"operators": "fast", "packet": "shared"`,
			},
			`cover parts of region "shared", which holds variables`,
		},
	} {
		e := testEnv()
		text := strings.NewReplacer(c.changes...).Replace(c.base)
		shipped := inheritedChip.FindStringSubmatch(text)[1]
		text = strings.Replace(text, shipped, "chip/own", 1)

		// The shipped chip has no such memory; one of the user's that states none lets the board state all.
		chip := map[string]any{}
		must(t, json.Unmarshal([]byte(contents(t, "../boards/chip")[path.Base(shipped)+".json"]), &chip))
		delete(chip, "memory")
		own, err := json.Marshal(chip)
		must(t, err)

		e.Path = []string{boardstest.Shelf(t, map[string]string{
			"bad.json": text, "chip/own.json": string(own), "poke.c": pokeSource,
		})}
		p, err := generate(t, Spec{Board: "bad"}, e)
		if err == nil {
			must(t, p.Close())
		}
		if (err == nil) != (c.want == "") || err != nil && (failure.Of(err) != failure.Config ||
			!strings.Contains(err.Error(), c.want)) {
			t.Errorf("%q: got %v, want %q", c.changes, err, c.want)
		}
	}
}

// This file is about what memory a board's firmware may read, write and execute: on emulators, and for boards without
// one by what the port writes to a model of the memory protection unit.

// A nullCell lists which accesses to address 0 are a fault.
type nullCell struct{ read, write bool }

var nullRow = regexp.MustCompile("(?m)^\\| `(\\w+)` \\| (fault|returns) \\| (fault|returns) \\|")

// nullTable is the table of docs/chip.md, of which these tests assert each cell.
func nullTable(t *testing.T) map[string]nullCell {
	t.Helper()
	text := readFile(t, "../docs/chip.md")
	table := map[string]nullCell{}
	for _, m := range nullRow.FindAllStringSubmatch(string(text), -1) {
		table[m[1]] = nullCell{m[2] == "fault", m[3] == "fault"}
	}
	for _, name := range boards.List(nil) {
		if _, ok := table[name]; !ok {
			t.Errorf("docs/chip.md does not list the effect of a null pointer on %s", name)
		}
	}
	return table
}

// emulated are the boards that run here.
func emulated(t *testing.T) (names []string) {
	t.Helper()
	for _, name := range boards.List(nil) {
		b := findBoard(t, name)
		if b.Link.Kind != "serial" && NewEnough(t, b) {
			names = append(names, name)
		}
	}
	return names
}

// The files of a port that set up a memory protection unit, by kind.
const mpuV7, mpuV8 = "port/cpu/cortexm/mpu_v7.c", "port/cpu/cortexm/mpu_v8.c"

// isProtected reports whether a board's core has a memory protection unit that the port uses.
func isProtected(b *boards.Board) bool {
	return slices.ContainsFunc(b.Sources, func(s boards.Source) bool {
		return s.Name == mpuV7 || s.Name == mpuV8
	})
}

// A memoryProbe calls the functions of memory.c.
type memoryProbe struct {
	*testing.T
	s *rpc.Session
}

func openMemory(t *testing.T, board string) (memoryProbe, *Project) {
	t.Helper()
	source := readFile(t, filepath.Join("testdata", "faults", "memory.c"))
	functions := map[string]string{}
	for _, f := range []string{"read", "write", "constant", "run", "mark", "fill", "used", "handlers", "frames"} {
		functions["memory."+f] = "memory_" + f
	}
	name, path := boardstest.With(t, board, "memory.c", string(source), functions)
	e := testEnv()
	e.Path = []string{path}
	needBoardTools(t, name, e.Path)
	p := generated(t, Spec{Board: name}, e)
	s := running(t, p)
	return memoryProbe{t, s}, p
}

// call returns a function's number, or its fault.
func (m memoryProbe) call(name string, args ...any) (int64, *fault.Error) {
	m.Helper()
	ctx := testkit.Context(m)
	f, err := m.s.Function(ctx, "memory."+name)
	must(m, err)
	n, err := f.Call(ctx, args...)
	var faultErr *fault.Error
	if err != nil && !errors.As(err, &faultErr) {
		m.Fatalf("%s %v: %v", name, args, err)
	}
	number, _ := n.(int64)
	return number, faultErr
}

// expect calls a function that has to fault for that reason, or, for 0, has to return.
func (m memoryProbe) expect(reason fault.Reason, name string, args ...any) {
	m.Helper()
	_, faultErr := m.call(name, args...)
	switch {
	case faultErr == nil && reason != 0:
		m.Errorf("%s %x returned", name, args)
	case faultErr != nil && faultErr.Record.Reason != reason:
		m.Errorf("%s %x: %v", name, args, faultErr)
	}
}

func reasonIf(faults bool) fault.Reason {
	if faults {
		return fault.ReasonHardware
	}
	return 0
}

// TestMemoryRules has firmware read and write null, write to its own constants and execute a variable.
func TestMemoryRules(t *testing.T) {
	t.Parallel()
	table := nullTable(t)
	for _, name := range drawn.Of(t, "memory", emulated(t), 1) {
		t.Run(name, func(t *testing.T) {
			m, p := openMemory(t, name)
			b := p.Board()
			protected := isProtected(b)
			m.expect(reasonIf(table[name].read), "read", 0)
			m.expect(reasonIf(table[name].write), "write", 0)
			m.expect(reasonIf(table[name].write), "write", 252)
			if constant, faultErr := m.call("constant"); faultErr != nil || protected {
				m.expect(fault.ReasonHardware, "write", constant)
			}
			if protected {
				m.expect(fault.ReasonHardware, "run")
			}
			rpctest.CallTwice(t, m.s)
		})
	}
}

// TestHandlersStack runs handlers that need more stack than there is. Each board detects that in its own way, and none
// reports an access far below a stack as an overflow.
func TestHandlersStack(t *testing.T) {
	t.Parallel()
	for _, c := range drawn.Of(t, "handlers", []struct {
		board     string
		overflows bool // it has room for the vectors of a handler that does
	}{
		{"microbit", false},
		{"mps2_an385", true},
		{"mps2_an386", true},
		{"mps2_an521", true},
		{"netduinoplus2", false},
		{"qemu_riscv32", false},
	}, 1) {
		t.Run(c.board, func(t *testing.T) {
			m, p := openMemory(t, c.board)
			m.expect(fault.ReasonStack, "mark")
			if c.overflows {
				m.expect(fault.ReasonStack, "handlers")
			}
			if c.board == "netduinoplus2" {
				m.expect(fault.ReasonHardware, "read", 0x1fff7590) // 35 KiB below the stack
			}
			m.checkUse(p)
		})
	}
}

// TestOverflowOfFrames has the thread's stack overflow by frames of each size: large ones step over its guard, some
// into memory where the chip lets accesses pass.
func TestOverflowOfFrames(t *testing.T) {
	t.Parallel()
	for _, board := range drawn.Of(t, "memory", emulated(t), 1) {
		t.Run(board, func(t *testing.T) {
			m, p := openMemory(t, board)
			settled, err := p.Board().Settle(p.Options())
			must(t, err)
			stack := cmp.Or(settled.StackBytes, 8<<20) // of a process
			for _, size := range []int{16, 100, 1000, 1024, 4000, 60000, 300000} {
				for _, over := range []int{1, 2, 10, 100} {
					_, faultErr := m.call("frames", size, (stack+size-1)/size+over)
					if faultErr == nil || faultErr.Record.Reason != fault.ReasonStack ||
						!slices.ContainsFunc(faultErr.Frames, isFrames) {
						t.Errorf("frames of %d bytes, %d too many: %v", size, over, faultErr)
					}
				}
			}
		})
	}
}

func isFrames(f fault.Frame) bool { return f.Function == "frames" && path.Base(f.File) == "memory.c" }

// TestGuardsAligned builds for a memory that begins at no multiple of a guard's size.
func TestGuardsAligned(t *testing.T) {
	drawn.OnlyInFull(t, "TestMemoryProtection and TestHandlersStack")
	t.Parallel()
	needBoardTools(t, "mps2_an385", nil)
	text := `{"inherits": "chip/mps2_an385", "arena_kib": 8, "link": {"kind": "serial"}, "flash": {"programmer": "none"}, "memory": [
{"name": "code", "origin": 0, "size": "0x00400000", "exec": true}, {"name": "ram", "origin": "0x20000050", "size": "0x00010000"}]}`
	e := testEnv()
	e.Path = []string{boardstest.Shelf(t, map[string]string{"odd.json": text})}
	i := built(t, generated(t, Spec{Board: "odd"}, e))
	f := openELF(t, i)
	at, err := firmware.Symbols(f, i.Path)
	must(t, err)
	for _, name := range []string{"bare_guard_start", "bare_handler_guard_start"} {
		if at[name] < 0x20000050 || at[name]%256 != 0 {
			t.Errorf("%s is %#x, no multiple of its 256 bytes", name, at[name])
		}
	}
	if at["bare_handler_guard_start"] < at["bare_stack_end"] ||
		at["bare_handler_mark"] != at["bare_handler_guard_start"]+256 {
		t.Errorf("the handlers' guard is from %#x to %#x, the thread's stack ends at %#x", at["bare_handler_guard_start"],
			at["bare_handler_mark"], at["bare_stack_end"])
	}
}

// checkUse compares the use of the handlers' stack under load with the computed maximum.
func (m memoryProbe) checkUse(p *Project) {
	m.Helper()
	u, err := p.Usage(built(m.T, p))
	must(m, err)
	m.expect(0, "fill")
	for range 50 {
		m.expect(0, "constant")
	}
	used, _ := m.call("used")
	m.Logf("%d bytes of the handlers' %d are used, %d may be: %q", used, u.Stack.Room, u.Stack.Handlers,
		u.Stack.HandlerPath)
	if used == 0 || used > u.Stack.Handlers {
		m.Errorf("%d bytes are used, %d are said to be", used, u.Stack.Handlers)
	}
	if p.Board().ELF.Machine != "arm" {
		return
	}
	const both = `bare_interrupt_entry \d+,.* bare_tick_entry \d+,`
	if path := strings.Join(u.Stack.HandlerPath, ", "); !regexp.MustCompile(both).MatchString(path) {
		m.Errorf("the tick does not interrupt an interrupt: %s", path)
	}
}

// An mpuModel is a memory protection unit as a port has set it up.
type mpuModel struct {
	v8      bool
	control uint32
	regions []mpuRegion
}

type mpuRegion struct{ base, attributes uint32 }

// buildMPU compiles the board's file for the unit, unchanged, for this computer, with a program that prints what it
// writes. The window for uploaded code, if the options have one, lies at the address. It returns the program, or the
// compiler's messages.
func buildMPU(t *testing.T, b *boards.Board, o boards.Options, window uint64) (program, messages string) {
	t.Helper()
	dir := t.TempDir()
	settled, err := b.Settle(o)
	must(t, err)
	writeFile(t, filepath.Join(dir, "crt_config.h"), string(generator.ConfigHeader(b, settled)))
	source := "../templates/baremetal/" + mpuV7
	if isV8(b) {
		source = "../templates/baremetal/" + mpuV8
	}
	for _, name := range []string{
		source, "../templates/baremetal/port/cpu/cortexm/mpu.h", "testdata/mpu/mpu.h", "testdata/mpu/mpu.c",
	} {
		_ = readFile(t, name)
	}
	stack, _ := b.Region(b.Place.StackRegion())
	program = filepath.Join(dir, "mpu")
	args := []string{
		"-std=gnu11", "-O1", "-no-pie", "-Wall", "-Wextra", "-Wconversion", "-Wundef", "-Werror", "-fsanitize=undefined",
		"-fno-sanitize-recover=all",
		"-I" + dir, "-I../templates/baremetal/port", "-I../templates/firmware", "-I../crt/include", "-Itestdata/mpu",
		"-include", "mpu.h",
		fmt.Sprintf("-Wl,--defsym=bare_guard_start=%#x,--defsym=bare_handler_guard_start=%#x,--defsym=bare_upload_start=%#x",
			uint64(stack.Origin), uint64(stack.Origin)+0x1000, window),
		"-o", program, "testdata/mpu/mpu.c", source,
	}
	if b.ELF.Arch == "v6-m" {
		args = append(args, "-D__ARM_ARCH_6M__=1")
	}
	if out, err := exec.Command("cc", args...).CombinedOutput(); err != nil {
		return "", fmt.Sprintf("cc %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return program, ""
}

func isV8(b *boards.Board) bool {
	return slices.ContainsFunc(b.Sources, func(s boards.Source) bool { return s.Name == mpuV8 })
}

// mpuOf runs the program of buildMPU. The window is opened (1) and closed (0) in the order of turns.
func mpuOf(t *testing.T, b *boards.Board, o boards.Options, window uint64, turns ...string) mpuModel {
	t.Helper()
	program, messages := buildMPU(t, b, o, window)
	if messages != "" {
		t.Fatal(messages)
	}
	m := mpuModel{v8: isV8(b)}
	out, err := exec.Command(program, turns...).Output()
	must(t, err)
	m.regions = make([]mpuRegion, 16)
	for line := range strings.Lines(string(out)) {
		var n, base, attributes uint32
		if _, err := fmt.Sscanf(line, "control %x", &n); err == nil {
			m.control = n
		} else if _, err := fmt.Sscanf(line, "%d %x %x", &n, &base, &attributes); err == nil {
			m.regions[n] = mpuRegion{base, attributes}
		}
	}
	return m
}

// An mpuAccess is what privileged code does.
type mpuAccess int

const (
	reads mpuAccess = iota
	writes
	executes
)

// allows reports whether an access does not fault. Sources: those of the port's files.
func (m mpuModel) allows(a mpuAccess, addr uint32) bool {
	if m.v8 {
		return m.allows8(a, addr)
	}
	for _, r := range slices.Backward(m.regions) {
		log2 := r.attributes>>1&31 + 1
		part := uint64(1) << log2 / 8
		if r.attributes&1 == 0 || uint64(addr)>>log2 != uint64(r.base)>>log2 {
			continue
		}
		if out := r.attributes >> 8 & 0xFF; out>>(uint64(addr)%(uint64(1)<<log2)/part)&1 == 1 {
			continue
		}
		ap, xn := r.attributes>>24&7, r.attributes>>28&1 == 1
		return map[mpuAccess]bool{reads: ap != 0, writes: ap >= 1 && ap <= 3, executes: ap != 0 && !xn}[a]
	}
	return a != executes || addr < 0x40000000 || addr>>29 == 3 || addr>>29 == 4
}

func (m mpuModel) allows8(a mpuAccess, addr uint32) bool {
	var found []mpuRegion
	for _, r := range m.regions {
		if r.attributes&1 == 1 && addr >= r.base&^31 && addr <= r.attributes|31 {
			found = append(found, r)
		}
	}
	if len(found) == 0 {
		return a != executes || addr < 0x40000000 || addr>>29 == 3 || addr>>29 == 4
	}
	readOnly, xn := found[0].base>>2&1 == 1, found[0].base&1 == 1
	return len(found) == 1 && map[mpuAccess]bool{reads: true, writes: !readOnly, executes: !xn}[a]
}

// TestMemoryProtection checks the accesses that each board's unit allows.
func TestMemoryProtection(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("cc"); err != nil {
		t.Skip("no C compiler for this computer: " + err.Error())
	}
	table := nullTable(t)
	for _, b := range bareBoards(t) {
		if !isProtected(b) {
			if b.Link.Kind == "serial" {
				t.Errorf("no test tries a null pointer on %s", b.Name)
			}
			continue
		}
		t.Run(b.Name, func(t *testing.T) {
			m := mpuOf(t, b, boards.Options{}, 0)
			if m.control != 5 {
				t.Errorf("the unit's control register is %#x", m.control)
			}
			for _, null := range []uint32{0, 255} {
				m.want(t, null, !table[b.Name].read, !table[b.Name].write, b.Place.Code != "" && regionAt(b, 0) == b.Place.Code)
			}
			for _, r := range b.Memory {
				first, last := uint32(r.Origin), uint32(r.Origin+r.Size-1)
				if r.Name == b.Place.StackRegion() {
					first += 0x2000 // beyond the guards
				}
				if first < 256 {
					first = 256
				}
				for _, at := range []uint32{first, last} {
					m.want(t, at, true, r.Name != b.Place.Code, r.Name == b.Place.Code)
				}
			}
			if stack, _ := b.Region(b.Place.StackRegion()); b.Defines["BARE_GUARD_BYTES"] != "" {
				m.want(t, uint32(stack.Origin), false, false, false)
				m.want(t, uint32(stack.Origin)+0x10FF, false, false, false)
				m.want(t, uint32(stack.Origin)+0x1100, true, true, false)
			}
			for _, at := range []uint32{0x40000000, 0x5FFFFFFF, 0xE000E100} { // peripherals
				m.want(t, at, true, true, false)
			}
			if !m.v8 { // whose cores have a limit register
				m.want(t, 0x1FFFFFF0, true, false, true)
			}
			external := b.Defines["CPU_NO_EXTERNAL_MEMORY"] == ""
			m.want(t, 0x9FFFFFF0, external, external, false)
		})
	}
}

// TestUploadWindow checks the accesses that each board's unit allows to the window for uploaded code, closed and open,
// and around it.
func TestUploadWindow(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("cc"); err != nil {
		t.Skip("no C compiler for this computer: " + err.Error())
	}
	for _, b := range drawn.Of(t, "window", bareBoards(t), 2) {
		o := boards.Options{UploadKiB: 4, ArenaKiB: 4}
		r, _ := b.Region(b.Place.UploadRegion())
		if _, err := b.Settle(o); !isProtected(b) || err != nil {
			t.Logf("without %s: no unit, or no room: %v", b.Name, err)
			continue
		}
		t.Run(b.Name, func(t *testing.T) {
			const bytes = 4096
			start := (uint64(r.Origin) + uint64(r.Size)/2) &^ (bytes - 1)
			for _, c := range []struct {
				turns []string
				opens bool
			}{{nil, false}, {[]string{"1"}, true}, {[]string{"1", "0"}, false}} {
				m := mpuOf(t, b, o, start, c.turns...)
				for _, at := range []uint64{start, start + bytes - 4} {
					m.want(t, uint32(at), true, true, c.opens)
				}
				for _, at := range []uint64{start - 4, start + bytes} {
					if at < uint64(r.Origin+r.Size) {
						m.want(t, uint32(at), true, true, r.Name == b.Place.Code)
					}
				}
			}
		})
	}
}

func (m mpuModel) want(t *testing.T, at uint32, read, write, execute bool) {
	t.Helper()
	if m.allows(reads, at) != read || m.allows(writes, at) != write || m.allows(executes, at) != execute {
		t.Errorf("%#x: reading %v, writing %v, executing %v; want %v, %v, %v\n%x", at,
			m.allows(reads, at), m.allows(writes, at), m.allows(executes, at), read, write, execute, m.regions)
	}
}

// regionAt is the name of the memory that has an address, "" if none has.
func regionAt(b *boards.Board, addr uint64) string {
	for _, r := range b.Memory {
		if addr-uint64(r.Origin) < uint64(r.Size) {
			return r.Name
		}
	}
	return ""
}

// This file is about what board files say of a memory: caches, DMA controllers, and a function before its first use.

// initSource makes a memory usable: it overwrites all that was copied there before, and notes the core's clock, which
// is final then. It lies in the board's folder.
const initSource = `#include <stdint.h>
#include <tvm/runtime/c_runtime_api.h>
#include "bare.h"
static uint32_t calls;
static uint32_t hz;
void memory_on(void);
void memory_on(void) {
  for (uint32_t at = 0x21000000U; at < 0x21010000U; at += 4U) {
    REG32(at) = 0xA5A5A5A5U;
  }
  calls++;
  hz = chip_core_hz();
}
int memory_calls(TVMValue* args, int* type_codes, int num_args, TVMValue* out_value, int* out_type, void* resource_handle);
int memory_calls(TVMValue* args, int* type_codes, int num_args, TVMValue* out_value, int* out_type, void* resource_handle) {
  (void)args;
  (void)type_codes;
  (void)num_args;
  (void)resource_handle;
  out_value->v_int64 = (hz == (uint32_t)(BOARDSMITH_CORE_HZ)) ? (int64_t)calls : -1;
  *out_type = kTVMArgInt;
  return 0;
}
`

// initBoard has operators and a pool in memory with a function before its use, and a pool in memory without a cache.
const initBoard = `{"inherits": "chip/mps2_an386", "arena_kib": 64,
"memory": [
  {"name": "code", "origin": 0, "size": "0x00400000", "exec": true},
  {"name": "ram", "origin": "0x20000000", "size": "0x00200000"},
  {"name": "shared", "origin": "0x20200000", "size": "0x00200000", "dma": true},
  {"name": "outer", "origin": "0x21000000", "size": "0x01000000", "exec": true, "init": "memory_on"}],
"place": {"operators": "outer", "parameters": "outer", "pools": {"fast": "shared", "slow": "outer"}},
"sources": ["init.c"], "functions": [{"name": "memory.calls", "symbol": "memory_calls"}],
"link": {"kind": "qemu", "program": "qemu-system-arm", "args": ["-machine", "mps2-an386"], "install": "apt"},
"flash": {"programmer": "none"}}`

// TestMemoryInit runs firmware whose memories are used after the board's function has made them usable.
func TestMemoryInit(t *testing.T) {
	t.Parallel()
	e := testEnv()
	e.Path = []string{boardstest.Shelf(t, map[string]string{"init.json": initBoard, "init.c": initSource})}
	needBoardTools(t, "init", e.Path)
	p := generated(t, Spec{Board: "init", Model: manyPools(t)}, e)
	mustLie(t, p.Board(), symbolsOf(t, built(t, p)),
		placedParts{entrySymbol: "outer", fastSymbol: "shared", slowSymbol: "outer", weightsSymbol: "outer"})
	s := running(t, p)
	runPlaced(t, p, s)
	if n, err := callIn(t, s, "memory.calls"); err != nil || n != 1 {
		t.Errorf("the function was called %v times at the final clock, %v", n, err)
	}
}

// rulesBoards are boards with memories of all kinds: a Cortex-M7 and a Cortex-M33.
var rulesBoards = map[string]string{
	"seven": `{"inherits": "chip/stm32h743", "arena_kib": 64,
"defines": {"CPU_MPU_REGIONS": "16"},
"memory": [
  {"name": "flash", "origin": "0x08000000", "size": "0x00200000", "exec": true, "nonvolatile": true,
    "sectors": [{"count": 16, "size": "0x20000"}], "erase_cycles": 10000},
  {"name": "dtcm", "origin": "0x20000000", "size": "0x00020000"},
  {"name": "axi", "origin": "0x24000000", "size": "0x00080000"},
  {"name": "itcm", "origin": 0, "size": "0x00010000", "exec": true},
  {"name": "sram123", "origin": "0x30000000", "size": "0x00048000", "dma": true},
  {"name": "sram4", "origin": "0x38000000", "size": "0x00010000", "cacheable": false},
  {"name": "qspi", "origin": "0x90000000", "size": "0x00800000", "nonvolatile": true,
    "sectors": [{"count": 128, "size": "0x10000"}]},
  {"name": "sdram", "origin": "0xC0000000", "size": "0x00800000", "init": "sdram_on"}],
"place": {"code": "flash", "data": "axi", "stack": "dtcm", "arena": "sram123", "noinit": "dtcm",
  "operators": "itcm", "parameters": "qspi", "packet": "sram4", "pools": {"fast": "dtcm", "slow": "sdram"}},
"link": {"kind": "serial"}, "flash": {"programmer": "openocd", "scripts": ["x.cfg"]}}`,
	"eight": `{"inherits": "chip/mps2_an521", "arena_kib": 64,
"defines": {"CPU_MPU_REGIONS": "16"},
"memory": [
  {"name": "code", "origin": "0x10000000", "size": "0x00400000", "exec": true},
  {"name": "ram", "origin": "0x38000000", "size": "0x00200000"},
  {"name": "shared", "origin": "0x38200000", "size": "0x00000420", "dma": true},
  {"name": "psram", "origin": "0x80000000", "size": "0x01000000", "exec": true}],
"place": {"code": "code", "data": "ram", "operators": "psram", "pools": {"fast": "shared"}},
"link": {"kind": "serial"}, "flash": {"programmer": "none"}}`,
}

// TestMemoryRulesOfBoards checks what the port sets in a model of the unit, for memories of all kinds: reserved memory
// and that beside it; a rule that covers its neighbour does not let a cache hold it, and RAM outside of the chip can be
// written to without a function of the board.
func TestMemoryRulesOfBoards(t *testing.T) {
	t.Parallel()
	path := ruledShelf(t)
	for board, allowed := range map[string]map[uint32]string{ // reading, writing, executing, and a cache
		"seven": {
			0x001FFFFC: "rxc",
			0x00200000: "rc",
			0x003FFFFC: "rc",
			0x201FFFFC: "rwc",
			0x20200000: "rc",
			0x203FFFFC: "rc",
			0x20400000: "rwc",
		},
		"eight": {
			0x101FFFFC: "rxc",
			0x10200000: "rc",
			0x103FFFFC: "rc",
			0x381FFFFC: "rwc",
			0x38200000: "rc",
			0x383FFFFC: "rc",
			0x38400000: "rwc",
		},
		"odd": {
			0x00000000: "rc",
			0x00007FFC: "rc",
			0x00008000: "rxc",
			0x2011C01C: "rwc",
			0x2011C020: "rc",
			0x2012401C: "rc",
			0x20124020: "rwc",
		},
		"rules_seven": {
			0x08000000:          "rxc",
			0x20001000 + 0x4000: "rwc",
			0x24000000:          "rwc",
			0x00000000:          "rc",
			0x00000100:          "rxc",
			0x30000000:          "rw",
			0x30047FFC:          "rw",
			0x38000000:          "rw",
			0x38010000:          "rwc",
			0x70000000:          "", // a Cortex-M7 must not read there speculatively
			0x90000000:          "rc",
			0x90800000:          "",
			0xC0000000:          "rwc",
		},
		"rules_eight": {
			0x10000000: "rxc",
			0x38000000: "rwc",
			0x38200000: "rw",
			0x3820041C: "rw",
			0x38200420: "rwc",
			0x80000000: "rxc",
			0x80FFFFFC: "rxc",
			0x81000000: "rwc",
			0x7FFFFFFC: "rwc",
		},
		"beside": {
			0x30000000: "rw",
			0x30001FFC: "rw",
			0x30002000: "rwxc",
			0xC0000000: "rwc",
		},
	} {
		b, err := boards.Find(board, []string{path})
		must(t, err)
		m := mpuOf(t, b, boards.Options{}, 0)
		for at, want := range allowed {
			got, isRead := "", m.allows(reads, at)
			for i, allows := range []bool{isRead, m.allows(writes, at), m.allows(executes, at), isRead && m.cached(at)} {
				if allows {
					got += "rwxc"[i : i+1]
				}
			}
			if got != want {
				t.Errorf("%s, %#x: %s, want %s\n%x", board, at, got, want, m.regions)
			}
		}
	}
}

// cached reports whether the unit lets a data cache hold an address of a region.
func (m mpuModel) cached(addr uint32) bool {
	if m.v8 {
		for _, r := range m.regions {
			if r.attributes&1 == 1 && addr >= r.base&^31 && addr <= r.attributes|31 {
				return r.attributes>>1&7 != 2 // the third memory of MAIR0
			}
		}
		return false
	}
	for _, r := range slices.Backward(m.regions) {
		log2 := r.attributes>>1&31 + 1
		part := uint64(addr) % (1 << log2) >> (log2 - 3)
		if r.attributes&1 == 1 && uint64(addr)>>log2 == uint64(r.base)>>log2 && r.attributes>>8>>part&1 == 0 {
			return r.attributes>>17&1 == 1 // C
		}
	}
	return false
}

// TestMemoryRuleErrors: what cannot be is an error with file and line.
func TestMemoryRuleErrors(t *testing.T) {
	t.Parallel()
	for change, want := range map[string]string{
		`"dma": true, "nonvolatile": true`: `region "shared": only RAM can be uncached`,
		`"init": "a-b"`:                    `init: "a-b" is not a C identifier`,
		`"cachable": false`:                `did you mean "memory[2].cacheable"?`,
		`"cacheable": 0`:                   `a number, where true or false belongs`,
		`"cacheable": false, "x": 1`:       `"memory[2].x" is not known`,
	} {
		text := strings.Replace(initBoard, `"dma": true`, change, 1)
		mustRefuse(t, text, want)
	}
	for old, c := range map[string]struct{ change, want string }{
		`"size": "0x00200000"}`: {`"size": "0x00200000", "init": "f"}`, `region "ram" holds the data, which are used before init`},
		`"exec": true, "init"`:  {`"exec": true, "dma": true, "init"`, `region "outer" holds code, and has no cache`},
		`"origin": "0x20200000", "size": "0x00200000"`: {
			`"origin": "0x20200000", "size": "0x00000420"`, "",
		},
		`"size": "0x00200000"},`: {`"size": "0x00201000"},`, "overlap"},
		`"origin": "0x20000000", "size": "0x00200000"},
  {"name": "shared", "origin": "0x20200000", "size": "0x00200000"`: {
			`"origin": "0x20000000", "size": "0x00020020"},
  {"name": "shared", "origin": "0x20020020", "size": "0x00001000"`, `region "shared" without a cache`,
		},
	} {
		if !strings.Contains(initBoard, old) {
			t.Fatalf("no %q", old)
		}
		mustRefuse(t, strings.Replace(initBoard, old, c.change, 1), c.want)
	}
}

// mustRefuse loads a board; want is a part of its error, "" for none.
func mustRefuse(t *testing.T, text, want string) {
	t.Helper()
	path := boardstest.Shelf(t, map[string]string{"bad.json": text})
	_, err := boards.Find("bad", []string{path})
	if (err == nil) != (want == "") || err != nil &&
		(failure.Of(err) != failure.Config || !strings.Contains(err.Error(), want)) {
		t.Errorf("got %v, want %q", err, want)
	}
}
