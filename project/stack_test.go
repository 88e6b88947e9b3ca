package project

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/internal/drawn"
	"github.com/boardsmith/boardsmith/mlf/mlftest"
)

var edgeLine = regexp.MustCompile(`edge: \{ sourcename: "([^"]*)" targetname: "([^"]*)"`)

var suLine = regexp.MustCompile(`title: "([^"]*)" label: "[^"]*\\n(\d+) bytes \(([a-z,]+)\)`)

// A compiled is what GCC says of all functions of one name (-fcallgraph-info=su).
type compiled struct {
	frames []int64
	calls  []string
}

const indirectCall = "__indirect_call" // GCC's name for what a pointer points to

func plainName(title string) string {
	name, _, _ := strings.Cut(title[strings.LastIndexByte(title, ':')+1:], ".") // file.c:name.constprop.0
	return name
}

// compilerSays reads what GCC wrote beside its objects, by name.
func compilerSays(t *testing.T, dir string) map[string]*compiled {
	t.Helper()
	all := map[string]*compiled{}
	of := func(title []byte) *compiled {
		name := plainName(string(title))
		if all[name] == nil {
			all[name] = &compiled{}
		}
		return all[name]
	}
	for _, pattern := range []string{
		"build/model/*.ci", "build/crt/*/*.ci", "build/src/*.ci", "build/src/*/*.ci", "build/src/*/*/*.ci",
	} {
		files, err := filepath.Glob(filepath.Join(dir, pattern))
		must(t, err)
		for _, f := range files {
			data, err := os.ReadFile(f)
			must(t, err)
			for _, m := range suLine.FindAllSubmatch(data, -1) {
				n, err := strconv.ParseInt(string(m[2]), 10, 64)
				must(t, err)
				of(m[1]).frames = append(of(m[1]).frames, n)
			}
			for _, m := range edgeLine.FindAllSubmatch(data, -1) {
				of(m[1]).calls = append(of(m[1]).calls, plainName(string(m[2])))
			}
		}
	}
	return all
}

// makesCall says whether a function calls another, or a pointer, by its machine code.
func (p *program) makesCall(f *codeFunction, name string) bool {
	if name == indirectCall {
		return f.pointers
	}
	alias, known := p.symbols[name] // one of several names
	return slices.ContainsFunc(slices.Concat(f.calls, f.tails), func(addr uint64) bool {
		addr = p.codeAddress(addr)
		g := p.function(addr)
		return g != nil && strings.TrimPrefix(plainName(g.name), "__wrap_") == name || known && p.codeAddress(alias.Value) == addr
	})
}

// TestFrames holds the frames that are read off machine code against those that the compiler says it made, on every
// kind of core, with and without optimisation.
func TestFrames(t *testing.T) {
	t.Parallel()
	type build struct {
		board, model string
		options      boards.Options
	}
	for _, c := range drawn.Of(t, "frames", []build{
		{"mps2_an385", "conv_f32.graph", boards.Options{}},
		{"mps2_an386", "dscnn_i8.aot_packed", boards.Options{RuntimeOpt: "O0", OperatorOpt: "O0"}},
		{"mps2_an521", "sine.graph_linked", boards.Options{OperatorOpt: "O3"}},
		{"mps3_an547", "conv_f32.aot_c", boards.Options{OperatorOpt: "Os"}},
		{"microbit", "add.graph", boards.Options{}},
		{"stm32vldiscovery", "add.aot_c", boards.Options{OperatorOpt: "Os"}},
		{"rpi_pico", "dscnn_i8.graph", boards.Options{RuntimeOpt: "O2", OperatorOpt: "O0"}},
		{"qemu_riscv32", "conv_f32.graph", boards.Options{}},
		{"qemu_riscv64", "dscnn_i8.aot_packed", boards.Options{RuntimeOpt: "O0", OperatorOpt: "O3"}},
	}, 3) {
		t.Run(c.board, func(t *testing.T) {
			p := generated(t, filepath.Join(t.TempDir(), "p"), Spec{Board: c.board, Model: mlftest.Path(t, c.model), Options: c.options})
			needTools(t, p, "make", p.Board().Toolchain.CC)
			cmd := exec.Command("make", "-j2", "-C", p.dir) // not Build: a cache would have no such files
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			l, err := p.layout(filepath.Join(p.dir, "build/firmware.elf"), filepath.Join(p.dir, "build/firmware.map"))
			must(t, err)
			defer l.image.Close()
			code, err := readProgram(l)
			must(t, err)
			says := compilerSays(t, p.dir)
			compared := 0
			for _, f := range code.functions {
				want := says[plainName(f.name)]
				if want == nil || len(want.frames) == 0 {
					continue
				}
				compared++
				frame := f.frame
				if l.image.Machine == elf.EM_ARM {
					frame -= argumentsPushed[f.name]
				}
				if !slices.Contains(want.frames, frame) {
					t.Errorf("%s: %d bytes, the compiler says %d", f.name, frame, want.frames)
				}
				if len(want.frames) > 1 {
					continue // who of them calls whom is not known
				}
				for _, name := range want.calls {
					if strings.HasPrefix(name, "__") && name != indirectCall {
						continue // a helper for arithmetic: it lists some that it then did without
					}
					if !code.makesCall(f, name) {
						t.Errorf("%s: no call of %s is found", f.name, name)
					}
				}
			}
			if compared < 60 {
				t.Errorf("only %d functions were compared", compared)
			}
		})
	}
}

// argumentsPushed are bytes of arguments that came in registers and that a function pushes before all else, which GCC
// counts as its caller's: of functions with "...", and with a struct half in registers.
var argumentsPushed = map[string]int64{"TVMLogf": 16, "TVMAPIErrorf": 16, "TVMNDArray_Create": 8, "TVMNDArray_Empty": 8}

func needTools(t *testing.T, p *Project, tools ...string) {
	t.Helper()
	for _, tool := range tools {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("no %s", tool)
		}
	}
}

// TestParallelLoops follows LLVM's loops, whose address is computed from PC on Arm.
func TestParallelLoops(t *testing.T) {
	t.Parallel()
	for board, model := range map[string]string{"mps2_an385": "digits_i8.graph_llvm_thumbv7m", "qemu_riscv32": "digits_i8.graph_llvm_rv32"} {
		t.Run(board, func(t *testing.T) {
			p := generated(t, filepath.Join(t.TempDir(), "p"), Spec{Board: board, Model: mlftest.Path(t, model)})
			needTools(t, p, "make", p.Board().Toolchain.CC)
			u, err := p.Usage(built(t, p))
			must(t, err)
			if len(u.Stack.Unsure) > 0 {
				t.Errorf("%d bytes, unsure: %q", u.Stack.Need, u.Stack.Unsure)
			}
			t.Logf("%d bytes by %q", u.Stack.Need, u.Stack.Path)
		})
	}
}

// helpers are code that an operator of a user's calls: the depth of what cannot be followed is said to be unsure.
const helpers = `
#include <stdlib.h>
typedef int (*helper_t)(int);
#define APART __attribute__((noinline)) static
APART int recursive(int n) { volatile char room[1024]; room[n & 1023] = 1; return (n > 0) ? recursive(n - 1) + room[3] : 0; }
APART int large(int n) { volatile char room[20000]; room[n] = 1; return room[3]; }
APART int larger(int n) { volatile char room[40000]; room[n] = 1; return room[3]; }
static helper_t const in_flash[4] = {larger, large, larger, large};
static helper_t volatile in_ram[2] = {large, large};
static struct { int n; helper_t f; } kept;
APART int by_table(int n) { return in_flash[n & 3](n) + 1; }
APART int by_volatile(int n) { return in_ram[n & 1](n) + 1; }
APART int by_struct(int n) { if (n > 3) { kept.f = large; } return kept.f(n) + 1; }
APART int by_jump(int n) { return in_flash[n & 3](n); }
static helper_t const always = large;
APART int by_constant(int n) { return always(n) + 1; }
volatile int switched;
APART void by_switch(int n) {
  switch (n) {
    case 0: switched = 3; break;
    case 1: switched += 5; break;
    case 2: switched *= 7; break;
    case 3: switched -= 9; break;
    case 4: switched ^= 11; break;
    case 5: switched /= 13; break;
    case 6: switched <<= 3; break;
    default: break;
  }
}
static int compared(const void* a, const void* b) { return *(const int*)a - *(const int*)b; }
static int helped(int n) {
  int some[3] = {n, 2, 1};
  qsort(some, 3, sizeof(some[0]), compared);
  by_switch(some[0]);
  return recursive(n) + by_table(n) + by_volatile(n) + by_struct(n) + by_jump(n) + by_constant(n);
}
`

// TestStackDoubts has the walk name each function of a model that it cannot follow, and no other.
func TestStackDoubts(t *testing.T) {
	t.Parallel()
	for _, board := range drawn.Of(t, "doubts", []string{"mps2_an385", "qemu_riscv32", "microbit", "qemu_riscv64"}, 2) {
		t.Run(board, func(t *testing.T) {
			p := generated(t, filepath.Join(t.TempDir(), "p"), Spec{
				Board: board, Model: mlftest.Path(t, "add.graph"), Options: boards.Options{StackBytes: 4096},
			})
			needTools(t, p, "make", p.Board().Toolchain.CC)
			image := built(t, p)
			operator := filepath.Join(p.dir, "model/codegen/host/src/add_lib1.c")
			text, err := os.ReadFile(operator)
			must(t, err)
			begin, rest, ok := strings.Cut(string(text), "TVM_DLL int32_t tvmgen_add_fused_add(")
			head, body, ok2 := strings.Cut(rest, "{\n")
			if !ok || !ok2 {
				t.Fatalf("%s", text)
			}
			text = []byte(begin + helpers + "TVM_DLL int32_t tvmgen_add_fused_add(" + head + "{\n  switched += helped(num_args);\n" + body)
			must(t, os.WriteFile(operator, text, 0o644))
			cmd := exec.Command("make", "-C", p.dir) // not Build, which refuses what needs so much stack
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			u, err := p.Usage(image)
			must(t, err)
			of := map[string]bool{}
			for _, why := range u.Stack.Unsure {
				name, _, _ := strings.Cut(why, " ")
				of[name] = true
			}
			for _, name := range []string{"recursive", "by_table", "by_volatile", "by_struct", "by_jump", "qsort", "med3.constprop.0"} {
				if !of[name] && !strings.HasPrefix(name, "med3") { // that is in newlib's qsort, or a part of it
					t.Errorf("%s is not in doubt: %q", name, u.Stack.Unsure)
				}
				delete(of, name)
			}
			if len(of) > 0 {
				t.Errorf("without a reason in doubt: %q", u.Stack.Unsure)
			}
			if u.Stack.Need < 40500 || u.Stack.Need > 43000 {
				t.Errorf("%d bytes are needed: %q", u.Stack.Need, u.Stack.Path)
			}
		})
	}
}

// TestChangedTemplateIsDoubted trusts the template's own pointers as long as nobody has changed the file they are in. The
// board is an STM32, whose chip_init calls through a table.
func TestChangedTemplateIsDoubted(t *testing.T) {
	t.Parallel()
	p := generated(t, filepath.Join(t.TempDir(), "p"), Spec{Board: "netduinoplus2", Model: mlftest.Path(t, "add.graph")})
	needTools(t, p, "make", p.Board().Toolchain.CC)
	image := built(t, p)
	sure, err := p.Usage(image)
	must(t, err)
	name := filepath.Join(p.dir, "src/platform.c")
	text, err := os.ReadFile(name)
	must(t, err)
	must(t, os.WriteFile(name, append(text, "// mine\n"...), 0o644))
	u, err := p.Usage(image)
	must(t, err)
	want := []string{"TVMPlatformMemoryAllocate calls through a pointer", "TVMPlatformMemoryFree calls through a pointer"}
	if len(sure.Stack.Unsure) > 0 || !slices.Equal(u.Stack.Unsure, want) || u.Stack.Need < sure.Stack.Need {
		t.Errorf("%d bytes, %q; changed %d bytes, %q", sure.Stack.Need, sure.Stack.Unsure, u.Stack.Need, u.Stack.Unsure)
	}
}

// TestLoadOfPC tells the ways to load PC on Arm apart: a veneer, a switch, a call in place of returning, a return.
func TestLoadOfPC(t *testing.T) {
	for _, c := range []struct {
		name     string
		code     []byte
		tails    []uint64
		indirect bool
		table    bool
	}{
		{"LDR PC, [PC, #16]", []byte{0xdf, 0xf8, 0x10, 0xf0}, []uint64{0x1014 * 3}, false, false},
		{"LDR PC, [PC], of what is not known", []byte{0xdf, 0xf8, 0x00, 0xf0}, nil, true, false},
		{"LDR PC, [R3, R0, LSL #2]", []byte{0x53, 0xf8, 0x20, 0xf0}, nil, false, true},
		{"LDR PC, [R3, #4]", []byte{0xd3, 0xf8, 0x04, 0xf0}, nil, true, false},
		{"LDR PC, [SP], #4", []byte{0x5d, 0xf8, 0x04, 0xfb}, nil, false, false},
	} {
		f := &codeFunction{addr: 0x1000, size: 4, narrow: true}
		f.settle(func(f *codeFunction) { decodeThumb(f, c.code, blindView{}) })
		if !slices.Equal(f.tails, c.tails) || f.indirect != c.indirect || f.flow.table != c.table {
			t.Errorf("%s: to %#x, indirect %v, table %v", c.name, f.tails, f.indirect, f.flow.table)
		}
	}
}

// FuzzStackCode gives the decoders any code: they end, and find no frame that is negative.
func FuzzStackCode(f *testing.F) {
	f.Add([]byte{0x2d, 0xe9, 0xf0, 0x4f, 0x89, 0xb0, 0x00, 0x47, 0xfe, 0xe7, 0xdf, 0xe8, 0x00, 0xf0}) // push, sub sp, bx, b, tbb
	f.Add([]byte{0x41, 0x11, 0x06, 0xc6, 0x13, 0x01, 0x01, 0xe0, 0x97, 0x00, 0x00, 0x00, 0xe7, 0x80, 0x40, 0x01})
	f.Fuzz(func(t *testing.T, code []byte) {
		for machine, decode := range decoders {
			for _, size := range []int{4, 8} {
				g := &codeFunction{addr: 0x1000, size: uint64(len(code)), narrow: size == 4}
				g.settle(func(g *codeFunction) { decode(g, code, blindView{}) })
				if g.frame < 0 {
					t.Errorf("%v: a frame of %d bytes", machine, g.frame)
				}
			}
		}
	})
}

// blindView knows of nothing but code.
type blindView struct{}

func (blindView) isData(uint64) bool                      { return false }
func (blindView) constant(a uint64, _ int) (uint64, bool) { return a * 3, a%5 != 0 }
func (blindView) begins(p uint64) (uint64, bool)          { return p &^ 1, p%7 == 0 }
