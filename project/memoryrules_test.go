package project

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
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
	e := testEnv()
	e.Path = []string{boardstest.Shelf(t, map[string]string{"init.json": initBoard, "init.c": initSource})}
	needBoardTools(t, "init", e.Path)
	p := generated(t, filepath.Join(t.TempDir(), "p"), Spec{Board: "init", Model: manyPools(t)}, e)
	mustLie(t, p.Board(), symbolsOf(t, built(t, p)),
		placedParts{entrySymbol: "outer", fastSymbol: "shared", slowSymbol: "outer", weightsSymbol: "outer"})
	s, err := p.Run(t.Context(), testEnv().desk(), "")
	must(t, err)
	defer s.Close(context.Background())
	runPlaced(t, p, s)
	calls, err := s.Function(t.Context(), "memory.calls")
	must(t, err)
	if n, err := calls.Call(t.Context()); err != nil || n != int64(1) {
		t.Errorf("the function was called %v times at the final clock, %v", n, err)
	}
}

// An mpuAnswer is what a memory protection unit allows at an address.
type mpuAnswer struct {
	board                string
	at                   uint32
	read, write, execute bool
	cached               bool
}

// rulesBoards are boards with memories of all kinds: a Cortex-M7 and a Cortex-M33.
var rulesBoards = map[string]string{
	"seven": `{"inherits": "chip/stm32h743", "arena_kib": 64,
"defines": {"CPU_MPU_REGIONS": "16"},
"memory": [
  {"name": "flash", "origin": "0x08000000", "size": "0x00200000", "exec": true, "nonvolatile": true,
    "sectors": [{"count": 16, "size": "0x20000"}]},
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

// TestMemoryRulesOfBoards checks what the port sets in a model of the unit.
func TestMemoryRulesOfBoards(t *testing.T) {
	t.Parallel()
	shelf := map[string]string{}
	for name, text := range rulesBoards {
		shelf[name+".json"] = text
	}
	path := boardstest.Shelf(t, shelf)
	units := map[string]mpuModel{}
	for name := range rulesBoards {
		b, err := boards.Find(name, []string{path})
		must(t, err)
		units[name] = mpuOf(t, b, boards.Options{}, 0)
	}
	for _, c := range []mpuAnswer{
		{"seven", 0x08000000, true, false, true, true},
		{"seven", 0x20001000 + 0x4000, true, true, false, true},
		{"seven", 0x24000000, true, true, false, true},
		{"seven", 0x00000000, true, false, false, true},
		{"seven", 0x00000100, true, false, true, true},
		{"seven", 0x30000000, true, true, false, false},
		{"seven", 0x30047FFC, true, true, false, false},
		{"seven", 0x38000000, true, true, false, false},
		{"seven", 0x38010000, true, true, false, true},
		{"seven", 0x70000000, false, false, false, false}, // a Cortex-M7 must not read there speculatively
		{"seven", 0x90000000, true, false, false, true},
		{"seven", 0x90800000, false, false, false, false},
		{"seven", 0xC0000000, true, true, false, true},
		{"eight", 0x10000000, true, false, true, true},
		{"eight", 0x38000000, true, true, false, true},
		{"eight", 0x38200000, true, true, false, false},
		{"eight", 0x3820041C, true, true, false, false},
		{"eight", 0x38200420, true, true, false, true},
		{"eight", 0x80000000, true, false, true, true},
		{"eight", 0x80FFFFFC, true, false, true, true},
		{"eight", 0x81000000, true, true, false, true},
		{"eight", 0x7FFFFFFC, true, true, false, true},
	} {
		m := units[c.board]
		m.want(t, c.at, c.read, c.write, c.execute)
		if got := m.cached(c.at); c.read && got != c.cached {
			t.Errorf("%s: %#x is cached: %v", c.board, c.at, got)
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
		`"cachable": false`:                `did you mean "memory[].cacheable"?`,
		`"cacheable": 0`:                   `cannot unmarshal number`,
		`"cacheable": false, "x": 1`:       `"memory[].x" is not known`,
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
