package project

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/internal/testkit/drawn"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
)

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
	for board, model := range map[string]string{
		"mps2_an385":   "digits_i8.graph_llvm_thumbv7m",
		"qemu_riscv32": "digits_i8.graph_llvm_rv32",
	} {
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

// helpers is code that a user's operator calls. The depth of what cannot be followed must be marked as unsure.
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
	for _, board := range drawn.Of(t, "doubts", []string{"mps2_an385", "qemu_riscv32", "microbit", "qemu_riscv64"}, 1) {
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
			text = []byte(begin + helpers + "TVM_DLL int32_t tvmgen_add_fused_add(" + head +
				"{\n  switched += helped(num_args);\n" + body)
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
			for _, name := range []string{
				"recursive", "by_table", "by_volatile", "by_struct", "by_jump", "qsort",
				"med3.constprop.0",
			} {
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

// TestChangedTemplateIsDoubted checks that the template's own pointers count as resolved only while their file is
// unmodified. The board is an STM32, whose chip_init calls through a table.
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
