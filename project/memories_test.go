package project

import (
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/boardstest"
)

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
	b := newBuilder(boardstest.Shelf(t, map[string]string{"init.json": initBoard, "init.c": initSource}))
	p := generated(t, Spec{Board: "init", Model: manyPools(t)}, b)
	mustLie(t, p, placedParts{entrySymbol: "outer", fastSymbol: "shared", slowSymbol: "outer", weightsSymbol: "outer"})
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
		b := findBoard(t, board, path)
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
	all := m.at(addr)
	if m.v8 {
		return len(all) > 0 && all[0].attributes>>1&7 != 2 // the third memory of MAIR0
	}
	return len(all) > 0 && all[0].attributes>>17&1 == 1 // C
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
	testkit.WantErrorIf(t, want != "", err, failure.Config, want)
}
