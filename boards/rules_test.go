package boards

import (
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/boardstest"
)

// contradicted is a board file without a contradiction, to which the cases below each add one.
const contradicted = `{
"inherits": "chip/x",

ADDED
"doc": "x"}`

const contradictedChip = `{"inherits": "cpu/CPU",
"memory": [{"name": "flash", "origin": "0x08000000", "size": "0x20000", "exec": true, "nonvolatile": true,
  "sectors": [{"count": 4, "size": "0x4000"}, {"count": 1, "size": "0x10000"}], "erase_cycles": 10000},
 {"name": "ram", "origin": "0x20000000", "size": "0x10000", "exec": true},
 {"name": "small", "origin": "0x10000000", "size": "0x1000", "exec": true}],
"place": {"code": "flash", "data": "ram"}, "pins": ["PA0-15", "PB0-15"],
"flash": {"programmer": "none"}, "arena_kib": 16, "link": {"kind": "serial", "usb": "0483:374b"},
"core_hz": 1000000, "sources": ["port/x.c"], "functions": [{"name": "f", "symbol": "f"}]}`

// memoryOf is a memory map with other fields of the flash.
func memoryOf(origin, size, rest string) string {
	return `"memory": [{"name": "ram", "origin": "0x20000000", "size": "0x10000", "exec": true},
{"name": "flash", "exec": true, "origin": "` + origin + `", "size": "` + size + `"` + rest + `}],`
}

// TestContradictions: what a board's files alone show to be wrong is an error with the field's line.
func TestContradictions(t *testing.T) {
	for _, c := range []struct{ name, cpu, added, want string }{
		{"none", "cortex-m4f", "", ""},
		{"none, with the settings of a platform", "cortex-m4f", `"timer": {"kind": "systick", "hz": 1000000},
"platform": {"fpu": true, "wait_states": 0, "cpuid": "0x410fc241"}, "upload_kib": 4,
"place": {"stack": "small", "upload": "ram"}, "stack_bytes": 4096,`, ""},
		{"clock in two places", "cortex-m4f", `"platform": {"core_hz": 1000000},`, "platform.core_hz"},
		{"rate of systick", "cortex-m4f", `"timer": {"kind": "systick", "hz": 2},`, "4: timer.hz: 2 is not core_hz, which"},
		{
			"timer of another machine", "cortex-m4f", `"timer": {"kind": "mtime"},`,
			`4: timer.kind: "mtime" is a timer of riscv`,
		},
		{"systick of a RISC-V", "rv32imac", `"timer": {"kind": "systick"},`, `4: timer.kind: "systick" is a timer of arm`},
		{
			"timer of the chip", "cortex-m3", `"timer": {"kind": "chip"},`,
			`4: timer.kind: "chip" is a timer of the chip, and port/cpu/cortexm/time.c counts one`,
		},
		{
			"west without Zephyr", "cortex-m3", `"flash": {"programmer": "west"},`,
			"4: flash.programmer: west writes what it has built",
		},
		{
			"memory into the core's registers", "cortex-m3", memoryOf("0xDFFFF000", "0x2000", ""),
			`5: memory: region "flash" reaches beyond 0xe0000000`,
		},
		{"memory up to them", "cortex-m3", memoryOf("0xDFFFF000", "0x1000", ""), ""},
		{
			"code among the peripherals", "cortex-m33", memoryOf("0x40000000", "0x1000", ""),
			`5: memory: region "flash": exec: a Cortex-M does not run code from 0x40000000`,
		},
		{"memory of a RISC-V there", "rv32imac", memoryOf("0x40000000", "0x1000", ""), `"flash" is not in the chip's memory`},
		{"endian", "cortex-m3", `"elf": {"endian": "litle"},`, `4: elf.endian: "litle" is none of little, big; did you`},
		{
			"function twice", "cortex-m3", `"functions": [{"name": "f", "symbol": "g"}],`,
			`4: functions: "f" is there twice`,
		},
		{"pins twice", "cortex-m3", `"pins": ["PA0-15", "PA0-7"],`, `4: pins: "PA0-15" and "PA0-7" name the same pins`},
		{
			"setting of a field", "cortex-m3", `"defines": {"BOARDSMITH_BAUD": "9600"},`,
			"4: defines.BOARDSMITH_BAUD: the field link.baud defines it",
		},
		{"stack larger than its memory", "cortex-m3", `"place": {"stack": "small"},
"stack_bytes": 4104,`, `5: stack_bytes: a stack of 4104 bytes does not fit into region "small" of 4096 bytes: 8 bytes`},
		{"stack and upload", "cortex-m3", `"place": {"stack": "small", "upload": "small"},
"stack_bytes": 1024, "upload_kib": 4,`, `5: stack_bytes: a stack of 1024 bytes, with 4 KiB for upl`},
		{
			"arena and stack", "cortex-m3", `"arena_kib": 60, "stack_bytes": 8192,`,
			"4: arena_kib: an arena of 60 KiB, with a stack of",
		},
		{
			"erase cycles of nothing", "cortex-m3",
			memoryOf("0x08000000", "0x20000", `, "nonvolatile": true, "erase_cycles": 1`),
			"memory[1].erase_cycles: it is only for sectors",
		},
		{
			"sectors of RAM", "cortex-m3", memoryOf("0x08000000", "0x20000", `, "sectors": [{"count": 2, "size": "0x10000"}]`),
			`memory[1].sectors: it is only for nonvolatile`,
		},
		{
			"sectors of 48 KiB", "cortex-m3",
			memoryOf("0x08000000", "0x18000", `, "nonvolatile": true, "sectors": [{"count": 2, "size": "0xc000"}]`),
			`memory[1].sectors[0].size: 0xc000 is not a power of two`,
		},
		{
			"boot loader's end in a sector", "cortex-m3",
			memoryOf("0x08004100", "0x4000", `, "nonvolatile": true, "sectors": [{"count": 1, "size": "0x4000"}]`),
			`a sector of 0x4000 bytes cannot start at 0x8004100`,
		},
		{
			"later sector", "cortex-m3",
			memoryOf("0x08000000", "0x14000", `, "nonvolatile": true,
"sectors": [{"count": 1, "size": "0x4000"}, {"count": 1, "size": "0x10000"}]`),
			`a sector of 0x10000 bytes cannot start at 0x8004000`,
		},
		{
			"odd origin", "cortex-m3", memoryOf("0x08000004", "0x4000", ""),
			`5: memory[1].origin: 0x8000004 is not a multiple of 8`,
		},
		{"odd size", "cortex-m3", memoryOf("0x08000000", "0x4001", ""), `memory[1].size: 0x4001 is not a multiple of 8`},
		{
			"beyond 32 bits", "cortex-m3", memoryOf("0xfffff000", "0x2000", ""),
			`region "flash" ends at 0x100001000, which 32 bits`,
		},
		{"less memory than the chip's", "cortex-m3", memoryOf("0x08004000", "0xc000",
			`, "nonvolatile": true, "erase_cycles": 100, "sectors": [{"count": 3, "size": "0x4000"}]`), ""},
		{"RAM twice as large", "cortex-m3", strings.ReplaceAll(memoryOf("0x08000000", "0x20000",
			`, "nonvolatile": true`), "0x10000", "0x20000"), `4: memory: region "ram" is not in the chip's memory, which`},
		{
			"RAM after the chip's", "cortex-m3", `"memory": [{"name": "a", "origin": "0x20010000", "size": 32}],`,
			"there is none at 0x20010000",
		},
		{"RAM outside of the chip", "cortex-m3", strings.Replace(memoryOf("0x08000000", "0x20000",
			`, "nonvolatile": true`), "}]", `}, {"name": "sdram", "origin": "0xC0000000", "size": 32}]`, 1), ""},
		{
			"smaller sectors", "cortex-m3", memoryOf("0x08000000", "0x20000",
				`, "nonvolatile": true, "erase_cycles": 9, "sectors": [{"count": 8, "size": "0x4000"}]`),
			"sectors: 0x4000 bytes at 0x08010000, where there are 0x10000 bytes at 0x08010000",
		},
		{
			"larger sectors", "cortex-m3", memoryOf("0x08000000", "0x20000",
				`, "nonvolatile": true, "erase_cycles": 9, "sectors": [{"count": 2, "size": "0x10000"}]`),
			"sectors: 0x10000 bytes at 0x08000000, where there are 0x4000 bytes at 0x08000000",
		},
		{
			"half a sector", "cortex-m3", memoryOf("0x08000000", "0x18000",
				`, "nonvolatile": true, "erase_cycles": 9,
"sectors": [{"count": 4, "size": "0x4000"}, {"count": 1, "size": "0x8000"}]`),
			"sectors: 0x8000 bytes at 0x08010000, where there are 0x10000 bytes at 0x08010000",
		},
		{"flash as RAM", "cortex-m3", memoryOf("0x08000000", "0x20000", ""), "nonvolatile: false, where flash has true"},
		{"more erases", "cortex-m3", memoryOf("0x08000000", "0x4000", `, "nonvolatile": true, "erase_cycles": 100000,
"sectors": [{"count": 1, "size": "0x4000"}]`), "erase_cycles: 100000, where flash has 10000"},
		{"to the last byte of 32 bits", "rv32imac", memoryOf("0xfffff000", "0x1000", ""), `"flash" is not in the chip's memory`},
		{"beyond 32 bits, of 64", "rv64gc", memoryOf("0xfffff000", "0x2000", ""), `"flash" is not in the chip's memory`},
	} {
		dir := boardstest.Shelf(t, map[string]string{
			"chip/x.json": strings.Replace(contradictedChip, "CPU", c.cpu, 1),
			"x.json":      strings.Replace(contradicted, "ADDED", c.added, 1),
		})
		_, err := Find("x", []string{dir})
		testkit.WantErrorIf(t, c.want != "", err, failure.Config, c.want)
	}
}

// TestErasesOfTheChip: flash that a board repeats without erase_cycles has the chip's.
func TestErasesOfTheChip(t *testing.T) {
	own := memoryOf("0x08000000", "0x4000", `, "nonvolatile": true, "sectors": [{"count": 1, "size": "0x4000"}]`)
	dir := boardstest.Shelf(t, map[string]string{
		"chip/x.json": strings.Replace(contradictedChip, "CPU", "cortex-m3", 1),
		"x.json":      strings.Replace(contradicted, "ADDED", own, 1),
	})
	b, err := Find("x", []string{dir})
	must(t, err)
	_, rated, err := b.SectorAt(0x08000000)
	must(t, err)
	testkit.Equal(t, "erases", rated, 10000)
}
