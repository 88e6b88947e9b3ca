package project

import (
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/drawn"
	"github.com/boardsmith/boardsmith/internal/testkit/rpctest"
	"github.com/boardsmith/boardsmith/internal/testkit/transporttest"
	"github.com/boardsmith/boardsmith/internal/tvmrpc"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/ndarray"
	"github.com/boardsmith/boardsmith/rpc"
	"github.com/boardsmith/boardsmith/transport"
)

// ramOperators are operators that need something of the firmware, of the C library or of a start.
const ramOperators = `
#include <errno.h>
#include <math.h>
#include <tvm/runtime/c_backend_api.h>
#include <tvm/runtime/c_runtime_api.h>
#define PACKED(name) int name(TVMValue* args, int* codes, int n, TVMValue* out, int* type, void* resource)
static int calls;
static float table[3] = {1, 2, 3};
static int started = STARTED;
__attribute__((constructor)) static void start(void) { started += 40; }
PACKED(count) {  // static data: what begins as zero and what does not
  calls++;
  table[1] += 1;
  out->v_int64 = args[0].v_int64 + 10 * calls + (int)table[1];
  *type = kTVMArgInt;
  return 0;
}
PACKED(begun) { out->v_int64 = started; *type = kTVMArgInt; return 0; }
PACKED(root) {
  out->v_int64 = (int64_t)sqrtf((float)args[0].v_int64);
  *type = kTVMArgInt;
  return 0;
}
PACKED(overflow) {  // errno is a variable of the thread in some C libraries, of which not all have expf set it
  volatile float x = 1e9f;
  errno = EDOM;
  const float y = expf(x);
  out->v_int64 = isinf(y) && (errno == EDOM || errno == ERANGE);
  *type = kTVMArgInt;
  return 0;
}
PACKED(workspace) {
  unsigned char* w = TVMBackendAllocWorkspace(1, 0, 100, 2, 8);
  if (w == 0) return -1;
  w[99] = 7;
  out->v_int64 = w[99];
  *type = kTVMArgInt;
  return TVMBackendFreeWorkspace(1, 0, w);
}
PACKED(fails) { TVMAPISetLastError("no such luck"); return -1; }
// as in objects of TVM's LLVM, for a loader to set
__attribute__((weak)) void* (*__TVMBackendAllocWorkspace)(int, int, uint64_t, int, int);
__attribute__((weak)) int (*__TVMBackendFreeWorkspace)(int, int, void*);
__attribute__((weak)) void (*__TVMAPISetLastError)(const char*);
PACKED(variables) {
  void* w = __TVMBackendAllocWorkspace(1, 0, 100, 2, 8);
  if (w == 0 || __TVMBackendFreeWorkspace(1, 0, w) != 0) return 0;
  __TVMAPISetLastError("by a variable");
  return -1;
}
`

func ramProgram(flags ...string) Operators {
	o := operators(ramOperators, "count", "begun", "root", "overflow", "workspace", "fails", "variables")
	o.Flags = append([]string{"-DSTARTED=2"}, flags...)
	return o
}

// ramBoards are the emulated boards with RAM to spare for a window, with the options that make room for it.
func ramBoards(t *testing.T) (names []string) {
	for _, name := range emulated(t) {
		b := findBoard(t, name)
		if _, err := b.Settle(ramOptions(name)); err == nil && slices.Contains(b.Templates, "baremetal") {
			names = append(names, name)
		}
	}
	return names
}

func ramOptions(board string) boards.Options {
	o := boards.Options{UploadKiB: 16}
	switch board {
	case "netduinoplus2":
		o.ArenaKiB = 48
	case "lm3s6965evb":
		o.ArenaKiB = 16
	}
	return o
}

// openRAM runs firmware with a window for code, and reads what linking for it requires.
func openRAM(t *testing.T, board string) (*rpc.Session, *OperatorLinker, *Project) {
	t.Helper()
	p := generated(t, Spec{Board: board, Options: ramOptions(board)})
	return running(t, p), linkerOf(t, p), p
}

// uploaded links operators for the first free part and uploads them.
func uploaded(t *testing.T, s *rpc.Session, l *OperatorLinker, o Operators) rpc.Module {
	t.Helper()
	windows, err := s.Windows(t.Context())
	must(t, err)
	if len(windows) == 0 {
		t.Fatal("no part of the window is free")
	}
	p, err := l.Link(t.Context(), o, windows[0])
	must(t, err)
	m, err := s.Upload(t.Context(), p)
	must(t, err)
	return m
}

// TestOperatorsInRAM uploads operators and calls them, two programs at once, over unlinking, a reset and a new program.
func TestOperatorsInRAM(t *testing.T) {
	t.Parallel()
	for _, board := range drawn.Of(t, "ram", ramBoards(t), 1) {
		t.Run(board, func(t *testing.T) {
			s, l, p := openRAM(t, board)
			before, err := s.Windows(t.Context())
			must(t, err)
			first := uploaded(t, s, l, ramProgram())
			second := uploaded(t, s, l, ramProgram("-O1"))
			for i, m := range []rpc.Module{first, first, second} {
				calls := int64([]int{1, 2, 1}[i])
				const large = int64(1) << 40
				for name, want := range map[string]int64{
					"count": large + 11*calls + 2, "begun": 42, "root": 1 << 20, "overflow": 1, "workspace": 7,
				} {
					wantCall(t, want, m, name, large)
				}
			}
			_, err = callIn(t, first, "variables")
			wantError(t, err, "", "by a variable")
			_, err = callIn(t, first, "fails")
			wantError(t, err, "", "no such luck")
			f, err := first.Function(t.Context(), "root")
			must(t, err)
			must(t, first.Unlink(t.Context()))
			if _, err := f.Call(t.Context(), 16); err == nil {
				t.Error("an unlinked function was called")
			}
			third := uploaded(t, s, l, ramProgram("-Os")) // takes the place and the handle of the first
			if _, err := f.Call(t.Context(), 16); err == nil {
				t.Error("a function of an unlinked module led into the module that came after it")
			}
			if _, err := first.Function(t.Context(), "root"); err == nil {
				t.Error("an unlinked module led to the one that came after it")
			}
			must(t, first.Unlink(t.Context()))
			wantCall(t, 4, third, "root", 16)
			wantCall(t, 4, second, "root", 16)
			must(t, s.Close(t.Context()))
			after, err := running(t, p).Windows(t.Context())
			must(t, err)
			if board != "host" && fmt.Sprint(before) != fmt.Sprint(after) {
				t.Errorf("windows %v, after another start %v", before, after)
			}
		})
	}
}

// TestFaultInRAM: a fault in uploaded code is explained by its function and line, as one of the firmware is.
func TestFaultInRAM(t *testing.T) {
	t.Parallel()
	const source = `#include <tvm/runtime/c_runtime_api.h>
static __attribute__((noinline)) void fails(void) {
  __builtin_trap();
}
int crash(TVMValue* args, int* codes, int n, TVMValue* out, int* type, void* resource) { fails(); return 1; }
int good(TVMValue* args, int* codes, int n, TVMValue* out, int* type, void* resource) { return 0; }
`
	for _, board := range drawn.Of(t, "faults in RAM", []string{"mps2_an385", "qemu_riscv32", "host"}, 1) {
		t.Run(board, func(t *testing.T) {
			s, l, _ := openRAM(t, board)
			for range 2 { // the session goes on with the device that was reset
				_, err := callIn(t, uploaded(t, s, l, operators(source, "crash", "good")), "crash", 1)
				wantError(t, err, "", "in fails at f.c:3")
				if f := faultOf(t, err).Frames; len(f) == 0 || f[0].Function != "fails" || f[0].File != "f.c" || f[0].Line != 3 {
					t.Errorf("the fault is at %+v", f)
				}
			}
			windows, err := s.Windows(t.Context())
			if err != nil || len(windows) != 1 {
				t.Errorf("windows after a reset: %v, %v", windows, err)
			}
		})
	}
}

// TestFill: a device computes the same numbers of a seed as the host.
func TestFill(t *testing.T) {
	t.Parallel()
	for _, board := range drawn.Of(t, "boards that fill", []string{"mps2_an385", "qemu_riscv32", "host"}, 1) {
		t.Run(board, func(t *testing.T) {
			s, _, _ := openRAM(t, board)
			for _, name := range []string{
				"int8", "uint16", "int32", "uint64", "bool", "float16", "float32", "float64", "bfloat16", "float32x2",
			} {
				d, err := ndarray.ParseDType(name)
				must(t, err)
				for _, shape := range [][]int64{{}, {3}, {37, 11}} {
					for _, seed := range []uint64{1, 0x8000000000000001} {
						want, err := ndarray.Fill(d, shape, seed)
						must(t, err)
						x, err := s.Empty(t.Context(), d, shape)
						must(t, err)
						must(t, x.Fill(t.Context(), seed))
						got, err := x.Array(t.Context())
						must(t, err)
						if !got.Equal(want) {
							t.Errorf("%s%v of %#x: % .40x, want % .40x", name, shape, seed, got.Data, want.Data)
						}
						must(t, x.Free(t.Context()))
					}
				}
			}
			d, err := ndarray.ParseDType("handle")
			must(t, err)
			x, err := s.Empty(t.Context(), d, []int64{2})
			must(t, err)
			refusalOf(t, x.Fill(t.Context(), 1))
		})
	}
}

// pendOperators are operators that take as many steps as their first argument says. In each step, pend has the UART
// interrupt without a byte of the host: on a Cortex-M all enabled interrupts are set pending; on RISC-V the UART
// receives its own byte, a 0 between two frames.
const pendOperators = `
#include <tvm/runtime/c_runtime_api.h>
#define PACKED(name) int name(TVMValue* args, int* codes, int n, TVMValue* out, int* type, void* resource)
static volatile int sink;
#if defined(__arm__)
static void interrupt(void) {
  for (int i = 0; i < 8; i++) ((volatile uint32_t*)0xE000E200)[i] = ((volatile uint32_t*)0xE000E100)[i];
  __asm__ volatile("dsb\nisb");
}
#else
static void interrupt(void) {
  volatile uint8_t* const uart = (volatile uint8_t*)0x10000000;
  const uint8_t before = uart[4];
  uart[4] = before | 0x10;
  uart[0] = 0;
  uart[4] = before;
}
#endif
PACKED(quiet) { for (int64_t i = 0; i < args[0].v_int64; i++) sink++; return 0; }
PACKED(pend) { for (int64_t i = 0; i < args[0].v_int64; i++) { sink++; interrupt(); } return 0; }
`

// TestInterruptsOfMeasurements has the device count the interrupts during each sample, other than its tick.
func TestInterruptsOfMeasurements(t *testing.T) {
	t.Parallel()
	for _, board := range drawn.Of(t, "boards that count interrupts", []string{"mps2_an385", "qemu_riscv32", "host"}, 1) {
		t.Run(board, func(t *testing.T) {
			s, l, _ := openRAM(t, board)
			o := operators(pendOperators, "quiet", "pend")
			if board == "host" {
				o = ramProgram()
			}
			m := uploaded(t, s, l, o)
			measure := func(name string, repeat, n int) []int {
				t.Helper()
				samples, err := m.Time(t.Context(), name, rpc.TimeOptions{Number: 2, Repeat: repeat}, n)
				must(t, err)
				counts, err := s.TimedInterrupts(t.Context())
				must(t, err)
				if counts != nil && len(counts) != len(samples) {
					t.Fatalf("%d counts of %d samples", len(counts), len(samples))
				}
				return counts
			}
			if board == "host" {
				if counts := measure("begun", 3, 0); counts != nil {
					t.Errorf("a process counts interrupts: %v", counts)
				}
				return
			}
			const ticks = 3_000_000 // steps: some of the device's ticks long
			timeOf := func(n int) float64 {
				samples, err := m.Time(t.Context(), "quiet", rpc.TimeOptions{Number: 1}, n)
				must(t, err)
				return samples[0]
			}
			short, twice, long := timeOf(10_000), timeOf(20_000), timeOf(ticks)
			undisturbed := short + (twice-short)*(ticks/10_000-1)
			if share := long/undisturbed - 1; !(share > 0 && share < 1./1000) {
				t.Errorf("of %v s, the tick takes the share %v", long, share)
			}
			for _, c := range []struct {
				name      string
				repeat, n int
			}{{"quiet", 3, ticks}, {"pend", 3, 5}, {"pend", 70, 1}, {"quiet", 2, 5}, {"pend", 1, 130}} {
				want := 0
				if c.name == "pend" {
					want = min(2*c.n, 255)
				}
				for i, got := range measure(c.name, c.repeat, c.n) {
					if got != want {
						t.Errorf("%s(%d): sample %d had %d interrupts, want %d", c.name, c.n, i, got, want)
					}
				}
			}
		})
	}
}

// TestOperatorsRefused: each failure of a program has its class.
func TestOperatorsRefused(t *testing.T) {
	t.Parallel()
	p := generated(t, Spec{Board: "mps2_an385", Options: ramOptions("mps2_an385")})
	l := linkerOf(t, p)
	w := rpc.Window{Base: 0x20010000, Bytes: 4096, Alignment: 32}
	for _, c := range []struct {
		name, source string
		class        failure.Class
		tool         bool
	}{
		{"a syntax error", "int f( {", failure.Compile, true},
		{"an unknown function", "int g(void); int f(void) { return g(); }", failure.Link, true},
		{"no entry", "int g(void) { return 1; }", failure.Link, false},
		{
			"a thread's variable", "__thread int v = 3; int f(void) { return v++; } void* __aeabi_read_tp(void) { return 0; }",
			failure.Link, false,
		},
		{"too large", "static char all[5000]; int f(int i) { return all[i]++; }", failure.DoesNotFit, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := l.Link(t.Context(), operators(c.source, "f"), w)
			if wantError(t, err, c.class); errors.As(err, new(*ToolError)) != c.tool {
				t.Errorf("of a tool: %v: %v", !c.tool, err)
			}
			if c.class == failure.DoesNotFit && misfitOf(t, err).Option != "upload_kib=8" {
				t.Errorf("%v does not name upload_kib=8", err)
			}
		})
	}
	f := operators("int f(void) { return 0; }")
	_, err := l.Link(t.Context(), f, w)
	wantError(t, err, failure.Config)
	_, err = l.Archive(t.Context(), map[string]Operators{"g": f}, nil)
	wantError(t, err, failure.Config)
	f.Entries = []string{"f"}
	_, err = p.LoadRAM(t.Context(), withoutWindows(t), f)
	wantError(t, err, failure.DoesNotFit)
}

// withoutWindows opens a session with a device that has no free RAM for code.
func withoutWindows(t *testing.T) *rpc.Session {
	host, far := transporttest.Pair()
	d := &rpctest.Device{Globals: map[string]rpctest.Func{
		"boardsmith.memory": func(*rpctest.Device, []tvmrpc.Value) ([]tvmrpc.Value, error) {
			return rpctest.Result(tvmrpc.Raw([]byte{1, 0})), nil
		},
	}}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = d.Serve(context.Background(), far)
	}()
	link, err := transport.Dial(t.Context(), host, transport.SessionOptions{})
	must(t, err)
	s := rpc.New(link, rpc.Options{})
	t.Cleanup(func() {
		_ = s.Close(context.Background())
		<-ended
	})
	return s
}

// TestOperatorNames: files reach the tools as files, whatever their names are, and none replaces another one.
func TestOperatorNames(t *testing.T) {
	t.Parallel()
	p := generated(t, Spec{Options: ramOptions("host")})
	l := linkerOf(t, p)
	made := filepath.Join(t.TempDir(), "made")
	const entry = "#include <math.h>\nint f(double* x) { *x = cos(*x); return 0; }"
	compiled := filepath.Join(t.TempDir(), "f.o")
	writeFile(t, compiled+".c", entry)
	output(t, exec.Command("cc", "-c", "-o", compiled, compiled+".c"))
	texts := map[string]string{
		"f.c": entry, "f.o": readFile(t, compiled), "a/b.c": "int g;", "spec.c": ".c:\ntouch " + made + "\n\n",
		"@g.c": "-specs=spec.c\n", "shim.c": "int g1;", "stubs.c": "int g2;", "boardsmith_shim.c": "int g1;",
		"boardsmith_stubs.c": "int g2;",
	}
	for _, c := range []struct {
		files string
		class failure.Class // "": it links
		names string        // in the error
	}{
		{"f.c", "", ""},
		{"f.c -specs=spec.c spec.c", failure.Config, `"-specs=spec.c"`},
		{"f.c -g.h", failure.Config, `"-g.h"`},
		{"f.c f.c", failure.Config, `"f.c" and "f.c"`},
		{"f.o", "", ""},
		{"f.c f.o", failure.Config, `"f.c" and "f.o"`},
		{"f.o f.c", failure.Config, `"f.o" and "f.c"`},
		{"f.c a/b.c", "", ""},
		{"f.c a/../b.c", failure.Config, `"a/../b.c"`},
		{"f.c /b.c", failure.Config, `"/b.c"`},
		{"f.c ..", failure.Config, `".."`},
		// No file with options.
		{"f.c @g.c spec.c", failure.Compile, ""},
		// Names that the linker gives its own files, here and before.
		{"f.c shim.c stubs.c", "", ""},
		{"f.c boardsmith_shim.c boardsmith_stubs.c", "", ""},
		{"f.c operators.ld operators.elf", "", ""},
	} {
		t.Run(c.files, func(t *testing.T) {
			o := Operators{Entries: []string{"f"}}
			for name := range strings.FieldsSeq(c.files) {
				o.Files = append(o.Files, mlf.File{Name: name, Data: []byte(texts[name])})
			}
			_, err := l.Link(t.Context(), o, farWindow)
			testkit.WantErrorIf(t, c.class != "", err, c.class, c.names)
			absent(t, made) // which a command of the operators would make
		})
	}
	const noName = `cos, 0); __asm__(".incbin \"/etc/passwd\""); STUB(cos`
	output(t, exec.Command("objcopy", "--redefine-sym", "cos="+noName, compiled))
	injects := mlf.File{Name: "f.o", Data: []byte(readFile(t, compiled))}
	_, err := l.Link(t.Context(), Operators{Files: []mlf.File{injects}, Entries: []string{"f"}}, farWindow)
	wantError(t, err, failure.Link, `"cos, 0); `)
}

// TestUnwindingTables: operators with tables for exceptions, as LLVM's have for Arm, bring no unwinder of libgcc.
func TestUnwindingTables(t *testing.T) {
	t.Parallel()
	const board = "mps2_an386"
	p := generated(t, Spec{Board: board, Options: ramOptions(board)})
	l := linkerOf(t, p)
	o := operators("int g(int* x) { return *x; }\nint f(int* x) { return g(x) + 1; }\n", "f")
	o.Flags = []string{"-fno-inline"}
	without := len(linkedFar(t, l, o).Bytes)
	o.Flags = append(o.Flags, "-funwind-tables")
	if with := len(linkedFar(t, l, o).Bytes); with > without+32 {
		t.Errorf("%d bytes without tables, %d with them", without, with)
	}
	a, err := l.ModuleArchive(t.Context(), o) // in flash
	must(t, err)
	built(t, generated(t, Spec{Board: board, Archive: a}))
}

// TestUploadIntoITCM builds for Cortex-M7 boards, whose window is in the memory that needs no cache, and not at 0.
func TestUploadIntoITCM(t *testing.T) {
	drawn.OnlyInFull(t, "in memories that begin elsewhere, TestOperatorsInRAM")
	t.Parallel()
	for _, c := range drawn.Of(t, "itcm", []struct {
		board string
		kib   int
	}{{"nucleo_f746zg", 8}, {"stm32f746g_disco", 8}, {"nucleo_h743zi", 32}, {"mimxrt1060_evk", 64}}, 1) {
		t.Run(c.board, func(t *testing.T) {
			spec := Spec{Board: c.board, Options: boards.Options{UploadKiB: c.kib}}
			if got := symbolsOf(t, built(t, generated(t, spec)))["bare_upload_start"]; got != uint64(c.kib)*1024 {
				t.Errorf("the window of %d KiB begins at %#x", c.kib, got)
			}
			spec.Options.UploadKiB *= 2
			_, err := generate(t, spec)
			wantError(t, err, failure.DoesNotFit)
		})
	}
}

// TestOperatorLinkerShared has goroutines link with one linker: equal operators become equal programs.
func TestOperatorLinkerShared(t *testing.T) {
	t.Parallel()
	p := generated(t, Spec{Board: "mps2_an385", Options: ramOptions("mps2_an385")})
	l := linkerOf(t, p)
	w := rpc.Window{Base: 0x20010000, Bytes: 16384, Alignment: 32}
	var all [4]rpc.Program
	var group sync.WaitGroup
	for i := range all {
		group.Go(func() {
			var err error
			if all[i], err = l.Link(t.Context(), ramProgram(), w); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	for i := range all {
		if string(all[i].Bytes) != string(all[0].Bytes) || len(all[i].Bytes) == 0 {
			t.Errorf("program %d differs", i)
		}
	}
}

// residentOperators lie in flash, beside a window.
const residentOperators = `
#include <tvm/runtime/c_runtime_api.h>
#define PACKED(name) int name(TVMValue* args, int* codes, int n, TVMValue* out, int* type, void* resource)
PACKED(jump) {
  *type = kTVMArgInt;
  out->v_int64 = ((int (*)(void))(uintptr_t)args[0].v_int64)();
  return 0;
}
PACKED(root) { *type = kTVMArgInt; out->v_int64 = 1000 + args[0].v_int64; return 0; }
`

// TestResidentBesideRAM has a program in RAM with a function that the firmware has, too: each is called by its module.
// After the program was unlinked, a jump to where it was is a fault.
func TestResidentBesideRAM(t *testing.T) {
	t.Parallel()
	for _, board := range drawn.Of(t, "resident",
		[]string{"host", "mps2_an385", "mps2_an500", "qemu_riscv32", "qemu_riscv64"}, 1) {
		t.Run(board, func(t *testing.T) {
			blank, err := Operators{}.Archive()
			must(t, err)
			spec := Spec{Board: board, Archive: blank, Options: ramOptions(board)}
			l := linkerOf(t, generated(t, spec))
			spec.Archive, err = l.Archive(t.Context(), map[string]Operators{
				"jump": operators(residentOperators, "jump"), "root": operators(residentOperators, "root"),
			}, nil)
			must(t, err)
			p := generated(t, spec)
			s := running(t, p)
			lib, err := s.SystemLib(t.Context())
			must(t, err)
			o := operators(ramOperators+"\nint plain(void);\nint plain(void) { return 42; }\n"+
				"PACKED(where) { out->v_int64 = (int64_t)(uintptr_t)&plain; *type = kTVMArgInt; return 0; }\n", "root", "where")
			o.Flags = []string{"-DSTARTED=2"}
			m := uploaded(t, s, l, o)
			wantCall(t, 4, m, "root", 16)
			wantCall(t, 1016, lib, "root", 16)
			at, err := callIn(t, m, "where")
			must(t, err)
			wantCall(t, 42, lib, "jump", at)
			must(t, m.Unlink(t.Context()))
			_, err = callIn(t, lib, "jump", at)
			if strings.HasPrefix(board, "qemu_riscv") {
				return // machine mode executes all RAM (docs/faults.md)
			}
			faultOf(t, err)
		})
	}
}

// TestUploadedErrno: uploaded code may set errno at the thread pointer, where no variable of the firmware lies.
func TestUploadedErrno(t *testing.T) {
	t.Parallel()
	all := elfSymbols(t, generated(t, Spec{Board: "qemu_riscv32", Options: boards.Options{UploadKiB: 16}}))
	at := slices.IndexFunc(all, func(s elf.Symbol) bool { return s.Name == "cpu_uploaded_errno" })
	if at < 0 || all[at].Value != 0 || all[at].Size < 16 || elf.ST_TYPE(all[at].Info) != elf.STT_TLS {
		t.Errorf("its room begins %+v", all[max(at, 0)])
	}
}
