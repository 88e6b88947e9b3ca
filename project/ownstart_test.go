package project

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
	"github.com/boardsmith/boardsmith/internal/testkit/rpctest"
)

// riscvStart is start-up code of a user's for RV32, by docs/chip.md alone.
const riscvStart = `
  .section .boardsmith.vectors, "ax", @progbits
  .globl bare_entry
bare_entry:
  csrci mstatus, 8
  csrw mie, zero
  .option push
  .option norelax
  la gp, __global_pointer$
  .option pop
  la t0, bare_trap
  csrw mtvec, t0
  la t0, bare_handler_stack_end
  csrw mscratch, t0
  la sp, bare_stack_end
  la tp, bare_tls_start
  li t0, 0x2000
  csrs mstatus, t0
  fscsr zero
  la a0, bare_data_load
  la a1, bare_data_start
  la a2, bare_data_end
1:
  bgeu a1, a2, 2f
  lw t0, (a0)
  sw t0, (a1)
  addi a0, a0, 4
  addi a1, a1, 4
  j 1b
2:
  la a1, bare_bss_start
  la a2, bare_bss_end
  jal 3f
  la a1, bare_model_bss_start
  la a2, bare_model_bss_end
  jal 3f
  fence.i
  la t0, own_starts
  li t1, 42
  sw t1, (t0)
  j bare_start
3:
  bgeu a1, a2, 4f
  sw zero, (a1)
  addi a1, a1, 4
  j 3b
4:
  ret
`

// TestOwnStartRISCV starts firmware by a board's own start-up code on RISC-V; what that lacks is named.
func TestOwnStartRISCV(t *testing.T) {
	t.Parallel()
	needBoardTools(t, "qemu_riscv32", nil)
	home := t.TempDir()
	board := `{"doc": "mine", "inherits": "chip/virt32", "templates": ["baremetal"], "startup": "FILE", "sources": ["own.c"],
		"functions": [{"name": "own.starts", "symbol": "own_starts_of"}], "arena_kib": 64, "link": {"kind": "qemu",
		"program": "qemu-system-riscv32", "args": ["-machine", "virt", "-bios", "none"]}, "flash": {"programmer": "none"}}`
	putFiles(t, home, map[string]string{
		"boards/mine.json":  strings.Replace(board, "FILE", "start.S", 1),
		"boards/lacks.json": strings.Replace(board, "FILE", "lacks.S", 1),
		"boards/start.S":    riscvStart,
		"boards/lacks.S":    strings.ReplaceAll(riscvStart, "bare_entry", "entry"),
		"boards/own.c": `#include <tvm/runtime/c_runtime_api.h>
int own_starts;
int own_starts_of(TVMValue* args, int* codes, int n, TVMValue* out, int* type, void* handle);
int own_starts_of(TVMValue* args, int* codes, int n, TVMValue* out, int* type, void* handle) {
    out->v_int64 = own_starts;
    *type = kTVMArgInt;
    return 0;
}
`,
	})
	e := testEnv()
	e.Path = []string{home}
	spec := Spec{Board: "mine", Model: mlftest.Tiny(t, nil)}
	p := generated(t, filepath.Join(t.TempDir(), "p"), spec, e)
	built(t, p)
	s, err := p.Run(t.Context(), e.desk(), "")
	must(t, err)
	f, err := s.Function(t.Context(), "own.starts")
	must(t, err)
	if got, err := f.Call(t.Context()); err != nil || got != int64(42) {
		t.Errorf("the own start-up code has left %v, %v", got, err)
	}
	rpctest.CallTwice(t, s)
	must(t, s.Close(t.Context()))

	spec.Board = "lacks"
	_, err = generated(t, filepath.Join(t.TempDir(), "q"), spec, e).Build(t.Context())
	if want := "error: startup: bare_entry is not defined"; err == nil ||
		!strings.Contains(err.Error(), want) {
		t.Error(err)
	}
}
