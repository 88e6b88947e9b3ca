package project

import (
	"cmp"
	"encoding/json"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/diagnostics"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/boardstest"
	"github.com/boardsmith/boardsmith/internal/testkit/drawn"
	"github.com/boardsmith/boardsmith/internal/testkit/rpctest"
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
		b := findBoard(t, c.board, path)
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
		text := strings.NewReplacer(c.changes...).Replace(c.base)
		shipped := inheritedChip.FindStringSubmatch(text)[1]
		text = strings.Replace(text, shipped, "chip/own", 1)

		// The shipped chip has no such memory; one of the user's that states none lets the board state all.
		chip := map[string]any{}
		must(t, json.Unmarshal([]byte(readFile(t, "../boards/"+shipped+".json")), &chip))
		delete(chip, "memory")
		own, err := json.Marshal(chip)
		must(t, err)

		_, err = generate(t, Spec{Board: "bad"}, newBuilder(boardstest.Shelf(t, map[string]string{
			"bad.json": text, "chip/own.json": string(own), "poke.c": pokeSource,
		})))
		testkit.WantErrorIf(t, c.want != "", err, failure.Config, c.want)
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
	table := map[string]nullCell{}
	for _, m := range nullRow.FindAllStringSubmatch(readFile(t, "../docs/chip.md"), -1) {
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
		if b := findBoard(t, name); b.Link.Kind != "serial" && isNewEnough(t, b) {
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
	p *Project
	s *rpc.Session
}

func openMemory(t *testing.T, spec Spec) memoryProbe {
	t.Helper()
	functions := map[string]string{}
	for _, f := range []string{"read", "write", "constant", "run", "mark", "fill", "used", "handlers", "frames"} {
		functions["memory."+f] = "memory_" + f
	}
	own, path := boardstest.With(t, spec.Board, "memory.c", readFile(t, "testdata/faults/memory.c"), functions)
	spec.Board = own
	p := generated(t, spec, newBuilder(path))
	return memoryProbe{t, p, running(t, p)}
}

// call returns a function's number, or its fault.
func (m memoryProbe) call(name string, args ...any) (int64, *fault.Error) {
	m.Helper()
	n, err := callIn(m, m.s, "memory."+name, args...)
	if err != nil {
		return 0, faultOf(m, err)
	}
	return n, nil
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
			m := openMemory(t, Spec{Board: name})
			protected := isProtected(m.p.Board())
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
			m := openMemory(t, Spec{Board: c.board})
			m.expect(fault.ReasonStack, "mark")
			if c.overflows {
				m.expect(fault.ReasonStack, "handlers")
			}
			if c.board == "netduinoplus2" {
				m.expect(fault.ReasonHardware, "read", 0x1fff7590) // 35 KiB below the stack
			}
			m.checkUse()
		})
	}
}

// TestOverflowOfFrames has the thread's stack overflow by frames of each size: large ones step over its guard, some
// into memory where the chip lets accesses pass.
func TestOverflowOfFrames(t *testing.T) {
	t.Parallel()
	for _, board := range drawn.Of(t, "memory", emulated(t), 1) {
		t.Run(board, func(t *testing.T) {
			m := openMemory(t, Spec{Board: board})
			settled, err := m.p.Board().Settle(m.p.Options())
			must(t, err)
			stack := cmp.Or(settled.StackBytes, 8<<20) // of a process
			for _, size := range []int{16, 100, 1000, 1024, 4000, 60000, 300000} {
				for _, over := range []int{1, 2, 10, 100} {
					_, faultErr := m.call("frames", size, (stack+size-1)/size+over)
					if faultErr == nil || faultErr.Record.Reason != fault.ReasonStack ||
						!slices.ContainsFunc(faultErr.Frames, func(f fault.Frame) bool {
							return f.Function == "frames" && path.Base(f.File) == "memory.c"
						}) {
						t.Errorf("frames of %d bytes, %d too many: %v", size, over, faultErr)
					}
				}
			}
		})
	}
}

// TestGuardsAligned builds for a memory that begins at no multiple of a guard's size.
func TestGuardsAligned(t *testing.T) {
	drawn.OnlyInFull(t, "in memories that begin at a multiple, TestMemoryProtection and TestHandlersStack")
	t.Parallel()
	text := `{"inherits": "chip/mps2_an385", "arena_kib": 8, "link": {"kind": "serial"}, "flash": {"programmer": "none"}, "memory": [
{"name": "code", "origin": 0, "size": "0x00400000", "exec": true}, {"name": "ram", "origin": "0x20000050", "size": "0x00010000"}]}`
	b := newBuilder(boardstest.Shelf(t, map[string]string{"odd.json": text}))
	at := symbolsOf(t, built(t, generated(t, Spec{Board: "odd"}, b)))
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
func (m memoryProbe) checkUse() {
	m.Helper()
	u := usageOf(m, m.p)
	m.expect(0, "fill")
	for range 50 {
		m.expect(0, "constant")
	}
	used, _ := m.call("used")
	if used == 0 || used > u.Stack.Handlers {
		m.Errorf("%d bytes are used, %d are said to be", used, u.Stack.Handlers)
	}
	if m.p.Board().ELF.Machine != "arm" {
		return
	}
	const both = `bare_interrupt_entry \d+,.* bare_tick_entry \d+,`
	if path := strings.Join(u.Stack.HandlerPath, ", "); !regexp.MustCompile(both).MatchString(path) {
		m.Errorf("the tick does not interrupt an interrupt: %s", path)
	}
}
