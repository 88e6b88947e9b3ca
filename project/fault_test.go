package project

import (
	"context"
	"errors"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/boardsmith/boardsmith/boards"
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
	source := readFile(t, filepath.Join("testdata", "faults", "faults.c"))
	functions := map[string]string{}
	for _, c := range faultCases {
		functions["fault."+c.kind] = "fault_" + c.kind
	}
	return boardstest.With(t, name, "faults.c", string(source), functions)
}

// needBoardTools skips where the board's compiler or emulator is not installed or too old.
func needBoardTools(t *testing.T, name string, path []string) {
	t.Helper()
	b, err := boards.Find(name, path)
	must(t, err)
	compiler, emulator, err := device.MissingTools(t.Context(), b)
	must(t, err)
	for _, e := range slices.Concat(compiler, emulator) {
		t.Skipf("board %s: %v", name, e)
	}
}

// faultLines are the lines of faults.c that a comment marks so.
func faultLines(t *testing.T, mark string) (lines []int) {
	t.Helper()
	text := readFile(t, filepath.Join("testdata", "faults", "faults.c"))
	for i, line := range strings.Split(string(text), "\n") {
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
	NeedFullZephyr(t)
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
	e := testEnv()
	e.Path = []string{path}
	needBoardTools(t, name, e.Path)
	return running(t, generated(t, Spec{Board: name}, e))
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
	var faultErr *fault.Error
	if !errors.As(err, &faultErr) {
		t.Fatalf("got %v", err)
	}
	t.Log(err)
	if faultErr.Record.Reason != c.reason || failure.Of(err) != c.class || !strings.Contains(err.Error(), c.text) {
		t.Errorf("reason %v, class %s: %v\nwant reason %v, class %s, and in the text %q", faultErr.Record.Reason,
			failure.Of(err), err, c.reason, c.class, c.text)
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
	if len(frames) == 0 {
		t.Fatalf("no frames: %+v", faultErr.Record)
	}
	checkFrame(t, frames[0], "fault."+c.kind)
	if c.reason == fault.ReasonStack {
		return // too deep for its caller
	}
	if len(frames) < 2 {
		t.Fatalf("no caller: %+v", faultErr.Record)
	}
	checkFrame(t, frames[1], "caller of fault."+c.kind)
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
	text := readFile(t, filepath.Join("..", "boards", "mps2_an385.json"))
	board := strings.Replace(string(text), "{",
		`{"watchdog_ms": 300, "sources": ["stuck.c"], "functions": [{"name": "test.stuck", "symbol": "stuck"}],`, 1)
	e := testEnv()
	e.Path = []string{boardstest.Shelf(t, map[string]string{"stuck.json": board, "stuck.c": stuck})}
	needBoardTools(t, "stuck", e.Path)
	p := generated(t, Spec{Board: "stuck"}, e)
	editFile(t, filepath.Join(p.Dir(), "src", "main.c"), "  fault_log();\n",
		"  fault_log();\n  extern volatile int is_stuck;\n  while (is_stuck != 0) {\n  }\n")
	s := running(t, p)
	f, err := s.Function(t.Context(), "test.stuck")
	must(t, err)
	_, err = f.Call(t.Context())
	must(t, err)
	_, err = f.Call(testkit.Context(t))
	var faultErr *fault.Error
	if !errors.As(err, &faultErr) || faultErr.Record.Reason != fault.ReasonWatchdog ||
		faultErr.Record.Function != math.MaxUint32 {
		t.Fatalf("got %v", err)
	}
	if len(faultErr.Frames) == 0 || faultErr.Frames[0].File != "src/main.c" {
		t.Errorf("it stood at %v", faultErr.Frames)
	}
}

// TestLongWatchdog runs watchdogs of 171.8 s, of which a counter of 32 bits at 25 MHz reaches 171.798: they do not bite
// at once.
func TestLongWatchdog(t *testing.T) {
	drawn.OnlyInFull(t, "TestStuckMainLoop")
	t.Parallel()
	for _, board := range drawn.Of(t, "long watchdogs", []string{"lm3s6965evb", "mps2_an385"}, 1) {
		t.Run(board, func(t *testing.T) {
			text := readFile(t, filepath.Join("..", "boards", board+".json"))
			e := testEnv()
			e.Path = []string{boardstest.Shelf(t,
				map[string]string{"long.json": strings.Replace(string(text), "{", `{"watchdog_ms": 171800,`, 1)})}
			needBoardTools(t, "long", e.Path)
			running(t, generated(t, Spec{Board: "long"}, e))
		})
	}
}

// TestOperatorFault has an operator of the model read beyond all memory.
func TestOperatorFault(t *testing.T) {
	t.Parallel()
	broken := strings.Replace(mlftest.TinyOperator, "return 0;", "return *(volatile int*)0x18000000U;", 1)
	if broken == mlftest.TinyOperator {
		t.Fatal("the operator has no return")
	}
	env := testEnv()
	env.Cache = newCache(t)
	p := generated(t, Spec{Model: mlftest.Operator(t, broken)}, env)
	err := callTwice(t, p, "flash")
	var faultErr *fault.Error
	if !errors.As(err, &faultErr) || faultErr.Operator != "twice" ||
		!strings.Contains(err.Error(), "fault in operator twice: ") {
		t.Errorf("got %v", err)
	}
	i := built(t, p)
	if e, err := new(device.Desk).Explain(i, faultErr.Record); err != nil || e.Operator != "twice" {
		t.Errorf("explained again: %+v, %v", e, err)
	}
	next := *i
	next.BuildID[0] ^= 1 // the board has been flashed since, and what runs now delivers the record
	e, err := env.desk().Explain(&next, faultErr.Record)
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
				broken := strings.Replace(mlftest.TinyOperator, "return 0;", "return "+call+" + 1;", 1)
				broken = strings.Replace(broken, "TVM_DLL", helpers+"TVM_DLL", 1)
				p := generated(t, Spec{Board: board, Model: mlftest.Operator(t, broken)})
				needTools(t, p, "make", p.Board().Toolchain.CC)
				needBoardTools(t, board, nil)
				err := callTwice(t, p, "flash")
				var faultErr *fault.Error
				if !errors.As(err, &faultErr) || faultErr.Operator != "twice" ||
					!strings.Contains(err.Error(), "fault in operator twice: ") {
					t.Fatalf("got %v", err)
				}
				t.Log(err)
				later, err := new(device.Desk).Explain(built(t, p), faultErr.Record)
				must(t, err)
				if later.Operator != "" && later.Operator != "twice" {
					t.Errorf("by the record alone it is %q", later.Operator)
				}
			})
		}
	}
}

// TestClockDiffers builds firmware whose timer is declared a tenth slower than it is.
func TestClockDiffers(t *testing.T) {
	p := generated(t, Spec{})
	editFile(t, filepath.Join(p.Dir(), "src", "process.h"), "return 1000000000U;", "return 900000000U;")
	_, err := p.Run(t.Context(), testEnv().desk(), "")
	off := regexp.MustCompile(`\+([4-9]|1[0-8])\.\d % off the reported 900000000$`)
	if !errors.Is(err, device.ErrClock) || !off.MatchString(err.Error()) {
		t.Errorf("got %v", err)
	}
	wantError(t, err, failure.Config)
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
