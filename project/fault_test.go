package project

import (
	"context"
	"errors"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/boardstest"
	"github.com/boardsmith/boardsmith/internal/testkit/drawn"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
	"github.com/boardsmith/boardsmith/internal/testkit/rpctest"
	"github.com/boardsmith/boardsmith/rpc"
	"github.com/boardsmith/boardsmith/rpc/fault"
)

// A faultBoard is one to try faults on.
type faultBoard struct {
	name    string
	nowhere int64             // an address at which the board has nothing
	not     map[string]string // what it cannot do, and why
}

// faultBoards are one core of each kind.
var faultBoards = []faultBoard{
	{"host", 0x18000000, map[string]string{
		"interrupt": "a process has no interrupts",
		"watchdog":  "nothing but the host watches a process",
	}},
	{"microbit", 0xc0000000, map[string]string{"watchdog": "QEMU's nRF51 has none"}},
	{"lm3s6965evb", 0, map[string]string{"address": "QEMU's lm3s6965evb lets accesses to nowhere pass"}},
	{"mps2_an385", 0xc0000000, nil},
	{"mps2_an521", 0xc0000000, nil},
	{"qemu_riscv32", 0x18000000, map[string]string{"watchdog": "QEMU's virt has none"}},
	{"qemu_riscv64", 0x18000000, map[string]string{"watchdog": "QEMU's virt has none"}},
}

// faultBoardsDrawn is how many of them a plain run tries.
const faultBoardsDrawn = 1

// A faultCase is a function of testdata/faults/faults.c and what must come of it.
type faultCase struct {
	kind   string
	reason fault.Reason
	class  failure.Class
	text   string // in the error
}

var faultCases = []faultCase{
	{"address", fault.ReasonHardware, failure.Fault, "fault in fault.address: "},
	{"instruction", fault.ReasonHardware, failure.Fault, "fault in fault.instruction: "},
	{"check", fault.ReasonCheck, failure.Fault, "fault in fault.check: failed check"},
	{"stack", fault.ReasonStack, failure.Fault, "fault in fault.stack: stack overflow"},
	{"loop", fault.ReasonTimeout, failure.Timeout, "timeout in fault.loop: still running after its time budget of 100ms"},
	{"interrupt", fault.ReasonInterrupt, failure.Fault, "fault in fault.interrupt: interrupt "},
	{"watchdog", fault.ReasonWatchdog, failure.Fault, "fault in fault.watchdog: watchdog reset"},
}

// zephyrFaultBoards are boards of Zephyr to try faults on.
var zephyrFaultBoards = []faultBoard{
	{"zephyr/mps2_an385", 0xc0000000, map[string]string{"watchdog": "its driver takes milliseconds for seconds"}},
	{"zephyr/native_posix_64", 0x18000000, map[string]string{
		"interrupt": "a process has no interrupts",
		"watchdog":  "nothing but the host watches a process",
	}},
}

// faultyBoard writes a board file that gives a shipped board the functions of faults.c. It returns the new board's name
// and the folder to look for it in.
func faultyBoard(t *testing.T, name string) (string, string) {
	t.Helper()
	functions := map[string]string{}
	for _, c := range faultCases {
		functions["fault."+c.kind] = "fault_" + c.kind
	}
	return boardstest.With(t, name, "faults.c", readFile(t, "testdata/faults/faults.c"), functions)
}

// faultLines are the lines of faults.c that a comment marks so.
func faultLines(t *testing.T, mark string) (lines []int) {
	t.Helper()
	for i, line := range strings.Split(readFile(t, "testdata/faults/faults.c"), "\n") {
		if _, comment, ok := strings.Cut(line, "// "); ok && slices.Contains(strings.Split(comment, ", "), mark) {
			lines = append(lines, i+1)
		}
	}
	if lines == nil {
		t.Fatalf("faults.c has no line %q", mark)
	}
	return lines
}

func TestFaults(t *testing.T) {
	t.Parallel()
	for _, board := range drawn.Of(t, "faults", faultBoards, faultBoardsDrawn) {
		t.Run(board.name, board.fail)
	}
}

// TestZephyrFaults does the same with Zephyr, whose fatal error handler records a fault.
func TestZephyrFaults(t *testing.T) {
	t.Parallel()
	needFullZephyr(t)
	for _, board := range zephyrFaultBoards {
		t.Run(board.name, board.fail)
	}
}

// fail calls the functions of faults.c on the board.
func (b faultBoard) fail(t *testing.T) {
	s := runFaulty(t, b.name)
	rpctest.CallTwice(t, s)
	for _, c := range faultCases {
		t.Run(c.kind, func(t *testing.T) {
			if why := b.not[c.kind]; why != "" {
				t.Skip(why)
			}
			c.check(t, s, b.nowhere)
			rpctest.CallTwice(t, s)
		})
	}
}

// runFaulty builds for a board with the functions of faults.c, and opens a session with the firmware.
func runFaulty(t *testing.T, board string) *rpc.Session {
	t.Helper()
	name, path := faultyBoard(t, board)
	return running(t, generated(t, Spec{Board: name}, newBuilder(path)))
}

// TestDeadlineOnDevice calls an endless function with a deadline: the device ends it earlier and reports its position.
// It uses the host's process, which has the host's clock: an emulator under load may be late. The host
// fetches the record in what is left of the deadline, for which a busy computer needs a longer one.
func TestDeadlineOnDevice(t *testing.T) {
	t.Parallel()
	s := runFaulty(t, "host")
	var err error
	var faultErr *fault.Error
	for limit := 2 * time.Second; !errors.As(err, &faultErr) && limit < time.Minute; limit *= 2 {
		f, lookup := s.Function(testkit.Context(t), "fault.loop")
		must(t, lookup)
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		_, err = f.Call(ctx, 0)
		cancel()
	}
	if faultErr == nil || faultErr.Record.Reason != fault.ReasonTimeout || len(faultErr.Frames) == 0 {
		t.Fatalf("got %v", err)
	}
	checkFrame(t, faultErr.Frames[0], "fault.loop")
	rpctest.CallTwice(t, s)
}

func (c faultCase) check(t *testing.T, s *rpc.Session, nowhere int64) {
	ctx := testkit.Context(t)
	must(t, s.SetBudget(ctx, 0))
	if c.reason == fault.ReasonTimeout {
		must(t, s.SetBudget(ctx, 100*time.Millisecond))
	}
	f, err := s.Function(ctx, "fault."+c.kind)
	must(t, err)
	_, err = f.Call(ctx, nowhere)
	faultErr := faultOf(t, err)
	t.Log(err)
	if wantError(t, err, c.class, c.text); faultErr.Record.Reason != c.reason {
		t.Errorf("reason %v, want %v: %v", faultErr.Record.Reason, c.reason, err)
	}
	if c.reason == fault.ReasonWatchdog && !faultErr.Record.PCValid {
		// the watchdog gave no warning: the record is of the next start, whose counter is another
		if faultErr.Record.Ticks != 0 {
			t.Errorf("%d ticks have elapsed, which no reset leaves", faultErr.Record.Ticks)
		}
		return
	}
	frames := slices.Clone(faultErr.Frames)
	for len(frames) > 0 && frames[0].File != "src/faults.c" && c.reason == fault.ReasonCheck {
		frames = frames[1:] // of the function that aborts
	}
	for len(frames) > 1 && frames[0].Guessed && frames[0].File != "src/faults.c" {
		frames = frames[1:] // what earlier calls left where the stack ended
	}
	marks := []string{"fault." + c.kind, "caller of fault." + c.kind}
	if c.reason == fault.ReasonStack {
		marks = marks[:1] // too deep for its caller
	}
	if len(frames) < len(marks) {
		t.Fatalf("no frame of %s: %+v", marks[len(frames)], faultErr.Record)
	}
	for i, mark := range marks {
		checkFrame(t, frames[i], mark)
	}
}

// checkFrame fails unless a frame is at a line with that mark.
func checkFrame(t *testing.T, f fault.Frame, mark string) {
	t.Helper()
	if lines := faultLines(t, mark); f.File != "src/faults.c" || !slices.Contains(lines, f.Line) {
		t.Errorf("%v (%s:%d) is at none of lines %v of faults.c", f, f.File, f.Line, lines)
	}
}

// TestStuckMainLoop runs firmware that hangs outside of any call, with interrupts on: the watchdog resets it, and the
// record has its position.
func TestStuckMainLoop(t *testing.T) {
	t.Parallel()
	const stuck = `#include <tvm/runtime/c_runtime_api.h>
int stuck(TVMValue* args, int* type_codes, int num_args, TVMValue* out_value, int* out_type, void* resource_handle);
extern volatile int is_stuck;
volatile int is_stuck;
int stuck(TVMValue* args, int* type_codes, int num_args, TVMValue* out_value, int* out_type, void* resource_handle) {
  (void)args;
  (void)type_codes;
  (void)num_args;
  (void)resource_handle;
  out_value->v_handle = NULL;
  *out_type = kTVMNullptr;
  is_stuck = 1;
  return 0;
}
`
	board := boardstest.Text(t, "mps2_an385",
		`"watchdog_ms": 300, "sources": ["stuck.c"], "functions": [{"name": "test.stuck", "symbol": "stuck"}],`)
	shelf := boardstest.Shelf(t, map[string]string{"stuck.json": board, "stuck.c": stuck})
	p := generated(t, Spec{Board: "stuck"}, newBuilder(shelf))
	editFile(t, p.at("src/main.c"), "  fault_log();\n",
		"  fault_log();\n  extern volatile int is_stuck;\n  while (is_stuck != 0) {\n  }\n")
	s := running(t, p)
	f, err := s.Function(t.Context(), "test.stuck")
	must(t, err)
	_, err = f.Call(t.Context())
	must(t, err)
	_, err = f.Call(testkit.Context(t))
	if f := faultOf(t, err); f.Record.Reason != fault.ReasonWatchdog || f.Record.Function != math.MaxUint32 ||
		len(f.Frames) == 0 || f.Frames[0].File != "src/main.c" {
		t.Errorf("%v, at %v", err, f.Frames)
	}
}

// TestLongWatchdog runs watchdogs of 171.8 s, of which a counter of 32 bits at 25 MHz reaches 171.798: they do not bite
// at once.
func TestLongWatchdog(t *testing.T) {
	drawn.OnlyInFull(t, "of shorter watchdogs, TestStuckMainLoop")
	t.Parallel()
	for _, board := range drawn.Of(t, "long watchdogs", []string{"lm3s6965evb", "mps2_an385"}, 1) {
		t.Run(board, func(t *testing.T) {
			text := boardstest.Text(t, board, `"watchdog_ms": 171800,`)
			b := newBuilder(boardstest.Shelf(t, map[string]string{"long.json": text}))
			running(t, generated(t, Spec{Board: "long"}, b))
		})
	}
}

// TestOperatorFault has an operator of the model read beyond all memory.
func TestOperatorFault(t *testing.T) {
	t.Parallel()
	p := generated(t, Spec{Model: mlftest.Edited(t, "return 0;", "return *(volatile int*)0x18000000U;")}, freshBuilder(t))
	faultErr := faultOfTwice(t, callTwice(t, p, "flash"))
	i := built(t, p)
	if e, err := new(device.Desk).Explain(i, faultErr.Record); err != nil || e.Operator != "twice" {
		t.Errorf("explained again: %+v, %v", e, err)
	}
	next := *i
	next.BuildID[0] ^= 1 // the board has been flashed since, and what runs now delivers the record
	e, err := (&device.Desk{Host: p.builder.Host}).Explain(&next, faultErr.Record)
	if err != nil || e.Operator != "twice" || e.Build != i.ID()[:16] {
		t.Errorf("by the next build: %+v, %v", e, err)
	}
	later := *i
	later.Digest = strings.Repeat("0", len(i.Digest))
	_, err = new(device.Desk).Explain(&later, faultErr.Record)
	wantError(t, err, failure.Config)
}

// TestHelperFault has functions fault that an operator calls: it is the operator that is named, the one that the host
// called, however much of the chain is left.
func TestHelperFault(t *testing.T) {
	t.Parallel()
	const helpers = `
__attribute__((noinline)) static int deep(int n) { volatile char room[1024]; room[n & 1023] = 1; return deep(n + 1) + room[3]; }
static long data[4];
__attribute__((noinline)) static int boom(int n) { int (*volatile jump)(int) = (int (*)(int))(void*)data; return jump(n) + 1; }
`
	for _, board := range drawn.Of(t, "helpers", []string{"host", "qemu_riscv32", "mps2_an385"}, 1) {
		for _, call := range []string{"deep(num_args)", "boom(num_args)"} {
			t.Run(board+" "+call, func(t *testing.T) {
				broken := mlftest.Edited(t, "return 0;", "return "+call+" + 1;", "TVM_DLL", helpers+"TVM_DLL")
				p := generated(t, Spec{Board: board, Model: broken})
				faultErr := faultOfTwice(t, callTwice(t, p, "flash"))
				later, err := new(device.Desk).Explain(built(t, p), faultErr.Record)
				must(t, err)
				if later.Operator != "" && later.Operator != "twice" {
					t.Errorf("by the record alone it is %q", later.Operator)
				}
			})
		}
	}
}

// faultOfTwice returns the fault of the operator of mlftest.Tiny.
func faultOfTwice(t *testing.T, err error) *fault.Error {
	t.Helper()
	f := faultOf(t, err)
	if wantError(t, err, "", "fault in operator twice: "); f.Operator != "twice" {
		t.Errorf("the operator is %q: %v", f.Operator, err)
	}
	return f
}

// TestClockDiffers builds firmware whose timer is declared a tenth slower than it is.
func TestClockDiffers(t *testing.T) {
	p := generated(t, Spec{})
	editFile(t, p.at("src/process.h"), "return 1000000000U;", "return 900000000U;")
	_, err := p.Run(t.Context(), newDesk(), "")
	off := regexp.MustCompile(`\+([4-9]|1[0-8])\.\d % off the reported 900000000$`)
	if wantError(t, err, failure.Config); !errors.Is(err, device.ErrClock) || !off.MatchString(err.Error()) {
		t.Errorf("got %v", err)
	}
}

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
