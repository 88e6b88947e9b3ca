package project

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/internal/testkit/boardstest"
	"github.com/boardsmith/boardsmith/internal/testkit/drawn"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
	"github.com/boardsmith/boardsmith/rpc/fault"
)

// This file is about the firmware's access to reserved memory.

// pokeSource writes to reserved memory, or runs code there, after it has read it. It lies in the board's folder.
const pokeSource = `#include <stdint.h>
#include <tvm/runtime/c_runtime_api.h>
#include "bare.h"
int poke(TVMValue* args, int* type_codes, int num_args, TVMValue* out_value, int* out_type, void* resource_handle);
int poke(TVMValue* args, int* type_codes, int num_args, TVMValue* out_value, int* out_type, void* resource_handle) {
  const uint32_t at = (uint32_t)args[0].v_int64;
  (void)type_codes;
  (void)resource_handle;
  out_value->v_int64 = (int64_t)REG32(at);
  *out_type = kTVMArgInt;
  if (num_args == 2) {
    REG32(at) = 1;
  } else if (num_args == 3) {
    ((void (*)(void))(uintptr_t)(at | 1U))();
  }
  return 0;
}
`

const reservedRest = `"arena_kib": 64, "upload_kib": 0, "model_at": 0,
"sources": ["poke.c"], "functions": [{"name": "poke", "symbol": "poke"}], "flash": {"programmer": "none"},
"link": {"kind": "qemu", "program": "qemu-system-arm", "install": "apt", "args": `

// reservedBoards are boards with reserved memory below and above 0x20000000: a Cortex-M4 and a Cortex-M33.
var reservedBoards = map[string]string{
	"poke.c": pokeSource,
	"seven.json": `{"inherits": "chip/mps2_an386", "memory": [
  {"name": "code", "origin": 0, "size": "0x00200000", "exec": true},
  {"name": "boot", "origin": "0x00200000", "size": "0x00200000", "nonvolatile": true, "reserved": true},
  {"name": "ram", "origin": "0x20000000", "size": "0x00200000"},
  {"name": "upper", "origin": "0x20200000", "size": "0x00200000", "reserved": true}],
` + reservedRest + `["-machine", "mps2-an386"]}}`,
	"eight.json": `{"inherits": "chip/mps2_an521", "memory": [
  {"name": "code", "origin": "0x10000000", "size": "0x00200000", "exec": true},
  {"name": "boot", "origin": "0x10200000", "size": "0x00200000", "nonvolatile": true, "reserved": true},
  {"name": "ram", "origin": "0x38000000", "size": "0x00200000"},
  {"name": "upper", "origin": "0x38200000", "size": "0x00200000", "reserved": true}],
` + reservedRest + `["-machine", "mps2-an521"]}}`,
	"odd.json": `{"inherits": "chip/mps2_an386", "defines": {"CPU_MPU_REGIONS": "16"}, "memory": [
  {"name": "boot", "origin": 0, "size": "0x00008000", "reserved": true},
  {"name": "code", "origin": "0x00008000", "size": "0x001F8000", "exec": true},
  {"name": "ram", "origin": "0x20000000", "size": "0x0011C020"},
  {"name": "upper", "origin": "0x2011C020", "size": "0x00008000", "reserved": true},
  {"name": "rest", "origin": "0x20124020", "size": "0x00008000"}],
"place": {"code": "code", "data": "ram"}, ` + reservedRest + `["-machine", "mps2-an386"]}}`,
}

// TestReservedRules checks what the port sets in a model of the unit: reserved memory, and that beside it.
func TestReservedRules(t *testing.T) {
	t.Parallel()
	path := boardstest.Shelf(t, reservedBoards)
	units := map[string]mpuModel{}
	for _, name := range []string{"seven", "eight", "odd"} {
		b, err := boards.Find(name, []string{path})
		must(t, err)
		units[name] = mpuOf(t, b, boards.Options{}, 0)
	}
	for _, c := range []mpuAnswer{
		{"seven", 0x001FFFFC, true, false, true, true},
		{"seven", 0x00200000, true, false, false, true},
		{"seven", 0x003FFFFC, true, false, false, true},
		{"seven", 0x201FFFFC, true, true, false, true},
		{"seven", 0x20200000, true, false, false, true},
		{"seven", 0x203FFFFC, true, false, false, true},
		{"seven", 0x20400000, true, true, false, true},
		{"eight", 0x101FFFFC, true, false, true, true},
		{"eight", 0x10200000, true, false, false, true},
		{"eight", 0x103FFFFC, true, false, false, true},
		{"eight", 0x381FFFFC, true, true, false, true},
		{"eight", 0x38200000, true, false, false, true},
		{"eight", 0x383FFFFC, true, false, false, true},
		{"eight", 0x38400000, true, true, false, true},
		{"odd", 0x00000000, true, false, false, true},
		{"odd", 0x00007FFC, true, false, false, true},
		{"odd", 0x00008000, true, false, true, true},
		{"odd", 0x2011C01C, true, true, false, true},
		{"odd", 0x2011C020, true, false, false, true},
		{"odd", 0x2012401C, true, false, false, true},
		{"odd", 0x20124020, true, true, false, true},
	} {
		m := units[c.board]
		m.want(t, c.at, c.read, c.write, c.execute)
		if got := m.cached(c.at); got != c.cached {
			t.Errorf("%s: %#x is cached: %v", c.board, c.at, got)
		}
	}
}

// TestReservedFaults has firmware read, write and run reserved memory in emulators.
func TestReservedFaults(t *testing.T) {
	t.Parallel()
	e := testEnv()
	e.Path = []string{boardstest.Shelf(t, reservedBoards)}
	regions := map[string][]int64{"seven": {0x00300000, 0x20300000}, "eight": {0x10300000, 0x38300000}}
	for _, name := range drawn.Of(t, "reserved regions", []string{"seven", "eight"}, 1) {
		needBoardTools(t, name, e.Path)
		p := generated(t, filepath.Join(t.TempDir(), "p"), Spec{Board: name, Model: mlftest.Tiny(t, nil)}, e)
		built(t, p)
		for _, address := range regions[name] {
			for _, args := range [][]any{{address}, {address, int64(0)}, {address, int64(0), int64(0)}} {
				mustPoke(t, p, args)
			}
		}
	}
}

// mustPoke calls poke, which must fail if it has more than one argument.
func mustPoke(t *testing.T, p *Project, args []any) {
	t.Helper()
	s, err := p.Run(t.Context(), testEnv().desk(), "")
	must(t, err)
	defer s.Close(context.Background())
	poke, err := s.Function(t.Context(), "poke")
	must(t, err)
	_, err = poke.Call(t.Context(), args...)
	var faultErr *fault.Error
	if got := errors.As(err, &faultErr); got != (len(args) > 1) || err != nil && !got {
		t.Errorf("%s: poke%x: %v", p.Board().Name, args, err)
	}
}
