package project

import (
	"bytes"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/executor"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/firmware"
	"github.com/boardsmith/boardsmith/internal/paramblob"
	"github.com/boardsmith/boardsmith/internal/testkit/drawn"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
	"github.com/boardsmith/boardsmith/internal/testkit/rpctest"
	"github.com/boardsmith/boardsmith/internal/testkit/transporttest"
	"github.com/boardsmith/boardsmith/internal/tvmrpc"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/ndarray"
	"github.com/boardsmith/boardsmith/rpc"
	"github.com/boardsmith/boardsmith/rpc/fault"
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

var ramEntries = []string{"count", "begun", "root", "overflow", "workspace", "fails", "variables"}

func ramProgram(flags ...string) Operators {
	return Operators{
		Files: []mlf.File{{Name: "a.c", Data: []byte(ramOperators)}}, Entries: ramEntries,
		Flags: append([]string{"-DSTARTED=2"}, flags...),
	}
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
	needBoardTools(t, board, nil)
	p := generated(t, Spec{Board: board, Options: ramOptions(board)})
	s := running(t, p)
	l := linkerOf(t, p)
	return s, l, p
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

// callIn calls a function of a session or a module, and returns its number.
func callIn(t *testing.T, m interface {
	Function(ctx context.Context, name string) (rpc.Function, error)
}, name string, args ...any,
) (int64, error) {
	t.Helper()
	f, err := m.Function(t.Context(), name)
	must(t, err)
	n, err := f.Call(t.Context(), args...)
	number, _ := n.(int64)
	return number, err
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
				for _, c := range []struct {
					name string
					want int64
				}{
					{"count", large + 11*calls + 2}, {"begun", 42}, {"root", 1 << 20}, {"overflow", 1}, {"workspace", 7},
				} {
					if got, err := callIn(t, m, c.name, large); err != nil || got != c.want {
						t.Errorf("%s of program %d: %d, %v, want %d", c.name, i, got, err, c.want)
					}
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
			if got, err := callIn(t, third, "root", 16); err != nil || got != 4 {
				t.Errorf("after another Unlink of the first: %d, %v", got, err)
			}
			if got, err := callIn(t, second, "root", 16); err != nil || got != 4 {
				t.Errorf("after the other program was unlinked: %d, %v", got, err)
			}
			if err := s.Close(t.Context()); err != nil {
				t.Error(err)
			}
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
			o := Operators{Files: []mlf.File{{Name: "bad.c", Data: []byte(source)}}, Entries: []string{"crash", "good"}}
			for range 2 { // the session goes on with the device that was reset
				m := uploaded(t, s, l, o)
				_, err := callIn(t, m, "crash", 1)
				var faultErr *fault.Error
				if !errors.As(err, &faultErr) || len(faultErr.Frames) == 0 {
					t.Fatalf("no fault with frames: %v", err)
				}
				at := faultErr.Frames[0]
				if at.Function != "fails" || filepath.Base(at.File) != "bad.c" || at.Line != 3 {
					t.Errorf("the fault is at %+v, not in fails, bad.c:3", at)
				}
				if strings.Contains(at.File, "/") || !strings.Contains(err.Error(), "in fails at bad.c:3") {
					t.Errorf("the error's text is %q", err)
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
			var refused *rpc.DeviceError
			if err := x.Fill(t.Context(), 1); !errors.As(err, &refused) {
				t.Errorf("handles were filled: %v", err)
			}
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
			o := Operators{Files: []mlf.File{{Name: "a.c", Data: []byte(pendOperators)}}, Entries: []string{"quiet", "pend"}}
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
	needBoardTools(t, "mps2_an385", nil)
	p := generated(t, Spec{Board: "mps2_an385", Options: ramOptions("mps2_an385")})
	l := linkerOf(t, p)
	w := rpc.Window{Base: 0x20010000, Bytes: 4096, Alignment: 32}
	for _, c := range []struct {
		name, source, entry string
		class               failure.Class
		tool                bool
	}{
		{"a syntax error", "int f( {", "f", failure.Compile, true},
		{"an unknown function", "int g(void); int f(void) { return g(); }", "f", failure.Link, true},
		{"no entry", "int g(void) { return 1; }", "f", failure.Link, false},
		{
			"a thread's variable", "__thread int v = 3; int f(void) { return v++; } void* __aeabi_read_tp(void) { return 0; }",
			"f", failure.Link, false,
		},
		{"too large", "static char all[5000]; int f(int i) { return all[i]++; }", "f", failure.DoesNotFit, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := l.Link(t.Context(), Operators{
				Files:   []mlf.File{{Name: "a.c", Data: []byte(c.source)}},
				Entries: []string{c.entry},
			}, w)
			var tool *ToolError
			if failure.Of(err) != c.class || errors.As(err, &tool) != c.tool {
				t.Errorf("class %q: %v", failure.Of(err), err)
			}
			var fit *FitError
			if c.class == failure.DoesNotFit && (!errors.As(err, &fit) || fit.Option != "upload_kib=8") {
				t.Errorf("%v does not name upload_kib=8", err)
			}
		})
	}
	f := Operators{Files: []mlf.File{{Name: "a.c", Data: []byte("int f(void) { return 0; }")}}}
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
	needBoardTools(t, "host", nil)
	p := generated(t, Spec{Options: ramOptions("host")})
	l := linkerOf(t, p)
	made := filepath.Join(t.TempDir(), "made")
	specs := mlf.File{Name: "spec.c", Data: []byte(".c:\ntouch " + made + "\n\n")}
	entry := mlf.File{Name: "f.c", Data: []byte("#include <math.h>\nint f(double* x) { *x = cos(*x); return 0; }")}
	compiled := filepath.Join(t.TempDir(), "f.o")
	cc := exec.CommandContext(t.Context(), "cc", "-x", "c", "-c", "-o", compiled, "-")
	cc.Stdin = bytes.NewReader(entry.Data)
	must(t, cc.Run())
	code := readFile(t, compiled)
	defines := func(file, variable string) mlf.File {
		return mlf.File{Name: file, Data: []byte("int " + variable + ";")}
	}
	object := mlf.File{Name: "f.o", Data: code}
	const noName = `cos, 0); __asm__(".incbin \"/etc/passwd\""); STUB(cos`
	must(t, exec.CommandContext(t.Context(), "objcopy", "--redefine-sym", "cos="+noName, compiled).Run())
	code = readFile(t, compiled)
	injects := mlf.File{Name: "f.o", Data: code}
	for _, c := range []struct {
		files []mlf.File
		class failure.Class // "": it links
		names string        // in the error
	}{
		{[]mlf.File{entry}, "", ""},
		{[]mlf.File{entry, {Name: "-specs=spec.c", Data: nil}, specs}, failure.Config, `"-specs=spec.c"`},
		{[]mlf.File{entry, {Name: "-g.h", Data: nil}}, failure.Config, `"-g.h"`},
		{[]mlf.File{entry, {Name: "f.c", Data: []byte("int g;")}}, failure.Config, `"f.c" and "f.c"`},
		{[]mlf.File{object}, "", ""},
		{[]mlf.File{injects}, failure.Link, `"cos, 0); `},
		{[]mlf.File{entry, object}, failure.Config, `"f.c" and "f.o"`},
		{[]mlf.File{object, entry}, failure.Config, `"f.o" and "f.c"`},
		{[]mlf.File{entry, {Name: "a/b.c", Data: []byte("int g;")}}, "", ""},
		{[]mlf.File{entry, {Name: "a/../b.c", Data: nil}}, failure.Config, `"a/../b.c"`},
		{[]mlf.File{entry, {Name: "/b.c", Data: nil}}, failure.Config, `"/b.c"`},
		{[]mlf.File{entry, {Name: "..", Data: nil}}, failure.Config, `".."`},
		// No file with options.
		{[]mlf.File{entry, {Name: "@g.c", Data: []byte("-specs=spec.c\n")}, specs}, failure.Compile, ""},
		// Names that the linker gives its own files, here and before.
		{[]mlf.File{entry, defines("shim.c", "g1"), defines("stubs.c", "g2")}, "", ""},
		{[]mlf.File{entry, defines("boardsmith_shim.c", "g1"), defines("boardsmith_stubs.c", "g2")}, "", ""},
		{[]mlf.File{entry, {Name: "operators.ld", Data: nil}, {Name: "operators.elf", Data: nil}}, "", ""},
	} {
		_, err := l.Link(t.Context(), Operators{Files: c.files, Entries: []string{"f"}},
			rpc.Window{Base: 1 << 30, Bytes: 1 << 20})
		if failure.Of(err) != c.class || err != nil && !strings.Contains(err.Error(), c.names) {
			t.Errorf("%s, class %q: got %q, %v", c.files[len(c.files)-1].Name, c.class, failure.Of(err), err)
		}
		if _, err := os.Stat(made); err == nil {
			t.Fatalf("%s: the compiler has run a command of the operators", c.files[1].Name)
		}
	}
}

// TestUnwindingTables: operators with tables for exceptions, as LLVM's have for Arm, bring no unwinder of libgcc.
func TestUnwindingTables(t *testing.T) {
	drawn.OnlyInFull(t, "TestEveryChipBuilds")
	t.Parallel()
	const board = "mps2_an386"
	needBoardTools(t, board, nil)
	p := generated(t, Spec{Board: board, Options: ramOptions(board)})
	l := linkerOf(t, p)
	source := []byte("int g(int* x) { return *x; }\nint f(int* x) { return g(x) + 1; }\n")
	var sizes [2]int
	for i, flags := range [][]string{nil, {"-funwind-tables"}} {
		program, err := l.Link(t.Context(), Operators{
			Files: []mlf.File{{Name: "f.c", Data: source}}, Entries: []string{"f"}, Flags: append(flags, "-fno-inline"),
		}, rpc.Window{Base: 1 << 29, Bytes: 1 << 16})
		must(t, err)
		sizes[i] = len(program.Bytes)
	}
	if sizes[1] > sizes[0]+32 {
		t.Errorf("%d bytes without tables, %d with them", sizes[0], sizes[1])
	}
	a, err := l.ModuleArchive(t.Context(), Operators{ // in flash
		Files: []mlf.File{{Name: "f.c", Data: source}}, Entries: []string{"f"},
		Flags: []string{"-funwind-tables", "-fno-inline"},
	})
	must(t, err)
	built(t, generated(t, Spec{Board: board, Archive: a}))
}

// TestUploadIntoITCM builds for Cortex-M7 boards, whose window is in the memory that needs no cache, and not at 0.
func TestUploadIntoITCM(t *testing.T) {
	drawn.OnlyInFull(t, "TestOperatorsInRAM")
	t.Parallel()
	for _, c := range drawn.Of(t, "itcm", []struct {
		board string
		kib   int
	}{{"nucleo_f746zg", 8}, {"stm32f746g_disco", 8}, {"nucleo_h743zi", 32}, {"mimxrt1060_evk", 64}}, 1) {
		t.Run(c.board, func(t *testing.T) {
			needBoardTools(t, c.board, nil)
			spec := Spec{Board: c.board, Model: mlftest.Tiny(t, nil), Options: boards.Options{UploadKiB: c.kib}}
			i := built(t, generated(t, spec))
			f := openELF(t, i)
			at, err := firmware.Symbols(f, i.Path)
			must(t, err)
			if got := at["bare_upload_start"]; got != uint64(c.kib)*1024 {
				t.Errorf("the window of %d KiB begins at %#x", c.kib, got)
			}
			spec.Options.UploadKiB *= 2
			_, err = generate(t, spec)
			wantError(t, err, failure.DoesNotFit)
		})
	}
}

// TestOperatorLinkerShared has goroutines link with one linker: equal operators become equal programs.
func TestOperatorLinkerShared(t *testing.T) {
	t.Parallel()
	needBoardTools(t, "mps2_an385", nil)
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
			needBoardTools(t, board, nil)
			blank, err := Operators{}.Archive()
			must(t, err)
			spec := Spec{Board: board, Archive: blank, Options: ramOptions(board)}
			l := linkerOf(t, generated(t, spec, testEnv()))
			own := Operators{Files: []mlf.File{{Name: "resident.c", Data: []byte(residentOperators)}}}
			jump, root := own, own
			jump.Entries, root.Entries = []string{"jump"}, []string{"root"}
			spec.Archive, err = l.Archive(t.Context(), map[string]Operators{"jump": jump, "root": root}, nil)
			must(t, err)
			p := generated(t, spec)
			s := running(t, p)
			lib, err := s.SystemLib(t.Context())
			must(t, err)
			source := ramOperators + "\nint plain(void);\nint plain(void) { return 42; }\n" +
				"PACKED(where) { out->v_int64 = (int64_t)(uintptr_t)&plain; *type = kTVMArgInt; return 0; }\n"
			m := uploaded(t, s, l, Operators{
				Files: []mlf.File{{Name: "a.c", Data: []byte(source)}}, Entries: append(ramEntries, "where"),
				Flags: []string{"-DSTARTED=2"},
			})
			if got, err := callIn(t, m, "root", 16); err != nil || got != 4 {
				t.Errorf("in RAM: %d, %v", got, err)
			}
			if got, err := callIn(t, lib, "root", 16); err != nil || got != 1016 {
				t.Errorf("in flash: %d, %v", got, err)
			}
			at, err := callIn(t, m, "where")
			must(t, err)
			if got, err := callIn(t, lib, "jump", at); err != nil || got != 42 {
				t.Errorf("a jump into the open window: %d, %v", got, err)
			}
			must(t, m.Unlink(t.Context()))
			_, err = callIn(t, lib, "jump", at)
			if strings.HasPrefix(board, "qemu_riscv") {
				return // machine mode executes all RAM (docs/faults.md)
			}
			var faultErr *fault.Error
			if !errors.As(err, &faultErr) {
				t.Fatalf("a jump into the closed window: %v", err)
			}
			t.Log(faultErr)
		})
	}
}

// TestUploadedErrno: uploaded code may set errno at the thread pointer, where no variable of the firmware lies.
func TestUploadedErrno(t *testing.T) {
	t.Parallel()
	const board = "qemu_riscv32"
	needBoardTools(t, board, nil)
	spec := Spec{Board: board, Model: mlftest.Tiny(t, nil), Options: boards.Options{UploadKiB: 16}}
	i := built(t, generated(t, spec))
	f := openELF(t, i)
	all, err := f.Symbols()
	must(t, err)
	at := slices.IndexFunc(all, func(s elf.Symbol) bool { return s.Name == "cpu_uploaded_errno" })
	if at < 0 || all[at].Value != 0 || all[at].Size < 16 || elf.ST_TYPE(all[at].Info) != elf.STT_TLS {
		t.Errorf("its room begins %+v", all[max(at, 0)])
	}
}

// ffiOperators are operators with TVM 0.21's ABI, as its code generators write them. The weak variables are as in
// objects of its LLVM.
const ffiOperators = `#define TVM_EXPORTS
#include "tvm/ffi/extra/c_env_api.h"
#include "tvm/runtime/base.h"
#include "tvm/runtime/c_backend_api.h"
#include "tvm/ffi/c_api.h"
#include <math.h>
#include <stdbool.h>
#include <string.h>
void* __tvm_ffi__library_ctx = NULL;
#define FFI(name) \
  TVM_DLL int32_t __tvm_ffi_##name(void* self_handle, void* args, int32_t num_args, void* result); \
  TVM_DLL int32_t __tvm_ffi_##name(void* self_handle, void* args, int32_t num_args, void* result)
#define ARG(i) (((TVMFFIAny*)args)[i])
#define RESULT (*(TVMFFIAny*)result)
__attribute__((weak)) void* (*__TVMBackendAllocWorkspace)(int, int, uint64_t, int, int);
__attribute__((weak)) int (*__TVMBackendFreeWorkspace)(int, int, void*);
__attribute__((weak)) int (*__TVMBackendParallelLaunch)(FTVMParallelLambda, void*, int);
__attribute__((weak)) int (*__TVMFFIEnvModLookupFromImports)(void*, const char*, void**);
__attribute__((weak)) int (*__TVMFFIHandleInitOnce)(void**, int (*)(void**));
FFI(types) {  // the types of all arguments, as digits
  RESULT.v_int64 = 0;
  for (int i = 0; i < num_args; i++) {
    if (ARG(i).zero_padding != 0) return -1;
    RESULT.v_int64 = RESULT.v_int64 * 10 + ARG(i).type_index;
  }
  RESULT.type_index = kTVMFFIInt;
  return 0;
}
FFI(both) {  // a tensor, a number, a float and a text
  const DLTensor* t = ARG(0).v_ptr;
  RESULT.type_index = kTVMFFIFloat;
  RESULT.v_float64 = ((float*)t->data)[1] + (double)ARG(1).v_int64 + ARG(2).v_float64 + (double)strlen(ARG(3).v_c_str);
  return 0;
}
FFI(truth) { RESULT.type_index = kTVMFFIBool; RESULT.v_int64 = 1; return 0; }
FFI(text) { RESULT.type_index = kTVMFFIRawStr; RESULT.v_c_str = "a text"; return 0; }
FFI(nothing) { return 0; }
FFI(object) { RESULT.type_index = kTVMFFITensor; RESULT.v_ptr = args; return 0; }
FFI(silent) { return -1; }
FFI(seven) { return 7; }
extern void no_such_hook(void) __attribute__((weak));
extern int no_such_number __attribute__((weak));
FFI(hooks) {  // weak symbols that nothing defines are 0
  if (no_such_hook != NULL) no_such_hook();
  RESULT.type_index = kTVMFFIInt;
  RESULT.v_int64 = (&no_such_number == NULL) ? 3 : no_such_number;
  return 0;
}
FFI(refuses) {
  const char* parts[3] = {"Mismatched ", "a", ".ndim on argument #0"};
  TVMFFIErrorSetRaisedFromCStrParts("ValueError", parts, 3);
  return -1;
}
FFI(refuses_once) { TVMFFIErrorSetRaisedFromCStr("TypeError", "only tensors"); return -1; }
FFI(workspace) {
  uint8_t* w = __TVMBackendAllocWorkspace(1, 0, 100ULL, 2, 8);
  if (w == NULL) return -1;
  w[99] = 7;
  RESULT.type_index = kTVMFFIInt;
  RESULT.v_int64 = w[99];
  return __TVMBackendFreeWorkspace(1, 0, w);
}
FFI(huge) { return (__TVMBackendAllocWorkspace(1, 0, 1ULL << 40, 2, 8) == NULL) ? -1 : 0; }
static int task(int id, TVMParallelGroupEnv* env, void* data) {
  *(int64_t*)data += 10 * (id + 1) + env->num_task;
  return TVMBackendParallelBarrier(id, env);
}
FFI(parallel) { RESULT.type_index = kTVMFFIInt; return __TVMBackendParallelLaunch(task, &RESULT.v_int64, 4); }
static void* handle;
static int look_up(void** out) { return __TVMFFIEnvModLookupFromImports(__tvm_ffi__library_ctx, "other.f", out); }
FFI(calls) {
  if (__TVMFFIHandleInitOnce(&handle, look_up) != 0) return -1;
  return TVMFFIFunctionCall(handle, args, num_args, result);
}
`

// TestFFIOperators calls operators with TVM 0.21's ABI, of two files that both define TVM's variable.
func TestFFIOperators(t *testing.T) {
	t.Parallel()
	for _, board := range []string{"host", "mps2_an386", "qemu_riscv32"} {
		t.Run(board, func(t *testing.T) {
			t.Parallel()
			s, l, _ := openRAM(t, board)
			entries := []string{
				"types", "both", "truth", "text", "nothing", "object", "silent", "seven", "refuses", "refuses_once", "workspace",
				"huge", "parallel", "calls", "hooks", "other",
			}
			m := uploaded(t, s, l, Operators{ABI: mlf.ABITVMFFI, Entries: entries, Files: []mlf.File{
				{Name: "lib0.c", Data: []byte(ffiOperators)},
				{Name: "lib1.c", Data: []byte(strings.ReplaceAll(ffiOperators[:strings.Index(ffiOperators, "FFI(types)")],
					"static", "") + "FFI(other) { return 0; }\n")},
			}})
			tensor, err := s.NewArray(t.Context(), &ndarray.Array{
				DType: ndarray.DType{Code: ndarray.Float, Bits: 32, Lanes: 1}, Shape: []int64{2},
				Data: []byte{0, 0, 0, 0, 0, 0, 0x20, 0x41}, // 0 and 10
			})
			must(t, err)
			many := make([]any, 25)
			for i := range many {
				many[i] = 1
			}
			for _, c := range []struct {
				name string
				args []any
				want any    // or
				err  string // contained in the error
			}{
				{"types", []any{tensor, 1, 1.5, "text", []byte("bytes"), nil}, int64(713890), ""},
				{"types", many[:18], int64(111111111111111111), ""},
				{"types", many, nil, "too many arguments"},
				{"types", []any{m}, nil, "an argument is a function, a module or an object"},
				{"both", []any{tensor, int64(-3), 0.25, "four"}, 11.25, ""},
				{"truth", nil, int64(1), ""},
				{"text", nil, "a text", ""},
				{"nothing", nil, nil, ""},
				{"other", nil, nil, ""},
				{"object", nil, nil, "object: returned an object of TVM"},
				{"silent", nil, nil, "silent: failed without an error text"},
				{"seven", nil, nil, "seven: failed without an error text"},
				{"refuses", nil, nil, "ValueError: Mismatched a.ndim on argument #0"},
				{"refuses_once", nil, nil, "TypeError: only tensors"},
				{"silent", nil, nil, "silent: failed without an error text"}, // nor that of the last call
				{"workspace", nil, int64(7), ""},
				{"huge", nil, nil, "out of workspace memory"},
				{"parallel", nil, int64(11), ""},
				{"hooks", nil, int64(3), ""},
				{"calls", nil, nil, "other.f: the operator calls this function by name"},
			} {
				f, err := m.Function(t.Context(), c.name)
				must(t, err)
				got, err := f.Call(t.Context(), c.args...)
				failed := err != nil && c.err != "" && strings.Contains(err.Error(), c.err)
				if !failed && (err != nil || c.err != "" || got != c.want) {
					t.Errorf("%s(%v): %v, %v, want %v%s", c.name, c.args, got, err, c.want, c.err)
				}
			}
			_, err = m.Time(t.Context(), "silent", rpc.TimeOptions{Number: 1, Repeat: 1})
			wantError(t, err, "", "without an error text")
		})
	}
}

// TestWrongArguments calls a model's functions with scalars where they take tensors, and with too few and too many
// tensors: the firmware refuses the calls, goes on without a reset, and still accepts right ones. Parts of the archive
// lie in flash or, as LOAD=ram has it, in RAM. A full run draws six of the twelve.
func TestWrongArguments(t *testing.T) {
	t.Parallel()
	type loaded struct{ board, archive, load string }
	var all []loaded
	for _, board := range []string{"host", "mps2_an385"} {
		for _, archive := range []string{"matmul_00", "add.graph", "add.aot_packed"} {
			all = append(all, loaded{board, archive, "flash"}, loaded{board, archive, "RAM"})
		}
	}
	for _, c := range drawn.Of(t, "wrong arguments", all, 1) {
		t.Run(c.board+"/"+c.archive+"/"+c.load, func(t *testing.T) {
			needBoardTools(t, c.board, nil)
			p := generated(t, Spec{Board: c.board, Model: mlftest.Path(t, c.archive)})
			_, m, err := p.Model()
			must(t, err)
			s, lib := started(t, p, c.load)
			for _, signature := range m.Signatures() {
				refuses(t, s, lib, signature)
			}
		})
	}
}

// started runs the project's model, and returns the module of its functions.
func started(t *testing.T, p *Project, load string) (*rpc.Session, rpc.Module) {
	t.Helper()
	ctx := t.Context()
	if load == "flash" {
		s := running(t, p)
		lib, err := s.SystemLib(ctx)
		must(t, err)
		return s, lib
	}
	r, err := p.Resident(ctx, filepath.Join(t.TempDir(), "r"), Spec{})
	must(t, err)
	t.Cleanup(func() { _ = r.Close() })
	s, err := r.Run(ctx, testEnv().desk(), "")
	must(t, err)
	t.Cleanup(func() { _ = s.Close(ctx) })
	o, err := p.ModelOperators()
	must(t, err)
	lib, err := r.LoadRAM(ctx, s, o)
	must(t, err)
	return s, lib
}

// refuses calls a function, and has it timed, with arguments that do not match its signature. A tensor of before keeps
// its elements: the device was not reset.
func refuses(t *testing.T, s *rpc.Session, lib rpc.Module, signature mlf.Signature) {
	t.Helper()
	f, err := lib.Function(t.Context(), signature.Function)
	must(t, err)
	dtype, err := ndarray.ParseDType("int32")
	must(t, err)
	x, err := s.Empty(t.Context(), dtype, []int64{4096})
	must(t, err)
	marks := bytes.Repeat([]byte{1, 2, 3, 0}, 4096)
	must(t, x.Write(t.Context(), marks))
	tensors := make([]any, signature.MaxTensors+1)
	for i := range tensors {
		tensors[i] = x
	}
	right := tensors[:signature.MinTensors]
	cases := map[string][]any{"none": {}, "too few": tensors[1:signature.MinTensors], "too many": tensors}
	for name, wrong := range map[string]any{
		"int": 1, "far int": 0x18000000, "string": "tensor", "null": nil, "float": 1.5,
	} {
		for i := range right {
			with := append([]any{}, right...)
			with[i] = wrong
			cases[name] = with
			check(t, s, lib, f, name, with)
		}
		check(t, s, lib, f, name+" first", append([]any{wrong}, right...))
	}
	for name, args := range cases {
		check(t, s, lib, f, name, args)
	}
	got := make([]byte, len(marks))
	if err := x.Read(t.Context(), got); err != nil || !bytes.Equal(got, marks) {
		t.Errorf("%s: the tensor has changed: %v", signature.Function, err)
	}
	if fault, err := s.PriorFault(t.Context()); err != nil || fault != nil {
		t.Errorf("%s: a fault: %v, %v", signature.Function, fault, err)
	}
	if _, err := f.Call(t.Context(), right...); err != nil {
		t.Errorf("%s: %v", signature.Function, err)
	}
	if _, err := f.Call(t.Context(), append(append([]any{}, right...), 7, "more")...); err != nil {
		t.Errorf("%s with scalars behind its tensors: %v", signature.Function, err)
	}
}

// check calls a function, directly and by a time evaluator: an error that names it.
func check(t *testing.T, s *rpc.Session, lib rpc.Module, f rpc.Function, name string, args []any) {
	t.Helper()
	_, err := f.Call(t.Context(), args...)
	var refused *rpc.DeviceError
	if !errors.As(err, &refused) || !strings.Contains(refused.Message, f.Name()) ||
		!strings.Contains(refused.Message, "tensors") || failure.Of(err) != failure.Config {
		t.Errorf("%s(%s): %v", f.Name(), name, err)
	}
	_, err = lib.Time(t.Context(), f.Name(), rpc.TimeOptions{Number: 2}, args...)
	if !errors.As(err, &refused) || !strings.Contains(refused.Message, f.Name()) {
		t.Errorf("timing %s(%s): %v", f.Name(), name, err)
	}
}

// graphPacket is larger than all graphs and some of their parameters.
const graphPacket = 1 << 16

// TestGraphOnDevice runs graphs with the device's executor. Its outputs are those of the host's, which calls the same
// operators.
func TestGraphOnDevice(t *testing.T) {
	t.Parallel()
	var graphs []string
	for _, path := range mlftest.Archives(t) {
		if name := mlftest.Name(path); strings.HasSuffix(name, ".graph") || strings.HasSuffix(name, ".graph_linked") {
			graphs = append(graphs, path)
		}
	}
	on := []string{"host"}
	if drawn.InFull() { // takes seconds for each
		on = append(on, "mps2_an385")
	}
	for _, board := range on {
		for _, path := range drawn.Of(t, "graphs on "+board, graphs, 1) {
			t.Run(board+"/"+mlftest.Name(path), func(t *testing.T) {
				t.Parallel()
				needBoardTools(t, board, nil)
				o := boards.Options{GraphExecutor: "device", PacketBytes: graphPacket, ArenaKiB: 1024}
				p := generated(t, Spec{Board: board, Model: path, Options: o})
				s := running(t, p)
				_, m, err := p.Model()
				must(t, err)
				file, _ := mlftest.Arrays(path)
				inputs, err := ndarray.ReadNPZ(file)
				must(t, err)
				want := outputsOfHost(t, s, m, inputs)
				got := outputsOfDevice(t, s, m, inputs)
				if len(got) != len(want) {
					t.Fatalf("%d outputs, want %d", len(got), len(want))
				}
				for i := range want {
					if !bytes.Equal(got[i], want[i]) {
						t.Errorf("output %d: % x, want % x", i, got[i], want[i])
					}
				}
			})
		}
	}
}

// outputsOfHost runs the model with the executor on the host.
func outputsOfHost(t *testing.T, s *rpc.Session, m *mlf.Model, inputs []ndarray.Named) (outputs [][]byte) {
	t.Helper()
	e, err := executor.Open(t.Context(), s, m)
	must(t, err)
	for _, in := range inputs {
		must(t, e.SetInput(t.Context(), in.Name, in.Array))
	}
	must(t, e.Run(t.Context()))
	for i := range e.Outputs() {
		a, err := e.Output(t.Context(), i)
		must(t, err)
		outputs = append(outputs, a.Data)
	}
	must(t, e.Close(t.Context()))
	return outputs
}

// outputsOfDevice runs the model with the executor on the device, as TVM's host does.
func outputsOfDevice(t *testing.T, s *rpc.Session, m *mlf.Model, inputs []ndarray.Named) (outputs [][]byte) {
	t.Helper()
	create, err := s.Function(t.Context(), "tvm.graph_executor.create")
	must(t, err)
	lib, err := s.SystemLib(t.Context())
	must(t, err)
	graph, err := create.Call(t.Context(), string(m.Graph), lib, int(tvmrpc.CPU.Type), int(tvmrpc.CPU.ID))
	must(t, err)
	call := func(name string, args ...any) any {
		t.Helper()
		f, err := graph.(rpc.Module).Function(t.Context(), name)
		must(t, err)
		result, err := f.Call(t.Context(), args...)
		must(t, err)
		return result
	}
	params, err := paramblob.Parse(m.Params)
	if m.Params != nil {
		must(t, err)
	}
	if len(m.Params) > graphPacket/2 { // too long for a call
		inputs = slices.Concat(params, inputs)
	} else if len(params) > 0 {
		call("load_params", m.Params)
	}
	for _, in := range inputs {
		must(t, call("get_input", in.Name).(*rpc.Tensor).Write(t.Context(), in.Array.Data))
	}
	call("run")
	for i := range int(call("get_num_outputs").(int64)) {
		output := call("get_output", i).(*rpc.Tensor)
		data := make([]byte, output.Bytes())
		must(t, output.Read(t.Context(), data))
		outputs = append(outputs, data)
	}
	return outputs
}
