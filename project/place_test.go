package project

import (
	"context"
	"debug/elf"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/internal/testkit/boardstest"
	"github.com/boardsmith/boardsmith/internal/testkit/drawn"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
	"github.com/boardsmith/boardsmith/internal/testkit/rpctest"
)

// This file tests where the linker script places unusual sections: variables with an alignment of their own,
// constructors, sections with unknown names.

// ownVariables gives the resident part variables with a value, and constructors.
const ownVariables = `#include <stdint.h>
#include <tvm/runtime/c_runtime_api.h>
int own_value(TVMValue* args, int* type_codes, int num_args, TVMValue* out_value, int* out_type, void* resource_handle);
static volatile int32_t value = 40;
static volatile int32_t order = 0;
__attribute__((constructor)) static void last(void) { value += (order == 1) ? 1 : 100; }
__attribute__((constructor(200))) static void first(void) { order = 1; }
int own_value(TVMValue* args, int* type_codes, int num_args, TVMValue* out_value, int* out_type, void* resource_handle) {
  (void)args;
  (void)type_codes;
  (void)num_args;
  (void)resource_handle;
  out_value->v_int64 = value;
  *out_type = kTVMArgInt;
  return 0;
}
`

// alignedOperator multiplies by variables that are aligned to a cache line and changed by a constructor.
var alignedOperator = strings.NewReplacer(
	"TVM_DLL int32_t twice", `static volatile int32_t before = 7;
static volatile int32_t factors[20] __attribute__((aligned(64))) = {0, 2, 2, 2, 2};
__attribute__((constructor)) static void more(void) { factors[0] = before - 5; }
TVM_DLL int32_t twice`,
	"in[i] * 2", "in[i] * factors[i] + (int32_t)((uintptr_t)factors % 64)").Replace(mlftest.TinyOperator)

// TestAlignedData runs a model whose variables are aligned more than the resident part's, of which there are some.
func TestAlignedData(t *testing.T) {
	t.Parallel()
	emulated := []string{"microbit", "mps2_an385", "qemu_riscv32", "qemu_riscv64"}
	for _, board := range drawn.Of(t, "boards of aligned data", emulated, 1) {
		t.Run(board, func(t *testing.T) {
			name, path := boardstest.With(t, board, "own.c", ownVariables, map[string]string{"own.value": "own_value"})
			e := testEnv()
			e.Path = []string{path}
			needBoardTools(t, name, e.Path)
			model := mlftest.Tiny(t, map[string]string{"codegen/host/src/lib1.c": alignedOperator})
			p := generated(t, filepath.Join(t.TempDir(), "p"), Spec{Board: name, Model: model}, e)
			i := built(t, p)
			checkLoadAddresses(t, i)
			s, err := p.Run(t.Context(), testEnv().desk(), "")
			must(t, err)
			defer s.Close(context.Background())
			own, err := s.Function(t.Context(), "own.value")
			must(t, err)
			if got, err := own.Call(t.Context()); err != nil || got != int64(41) {
				t.Errorf("the resident part's variable is %v, %v, want 41", got, err)
			}
			rpctest.CallTwice(t, s)
		})
	}
}

// checkLoadAddresses checks that the distance between load address and address is the same for all variables, and that
// the raw image contains no more than the ELF file's segments.
func checkLoadAddresses(t *testing.T, i *image.Image) {
	t.Helper()
	f, err := elf.Open(i.Path)
	must(t, err)
	defer f.Close()
	var low, high uint64
	distances := map[uint64]bool{}
	for _, p := range f.Progs {
		if p.Type != elf.PT_LOAD || p.Filesz == 0 {
			continue
		}
		if p.Flags&elf.PF_W != 0 {
			distances[p.Paddr-p.Vaddr] = true
		}
		if low == 0 && high == 0 {
			low = p.Paddr
		}
		low, high = min(low, p.Paddr), max(high, p.Paddr+p.Filesz)
	}
	if len(distances) != 1 {
		t.Errorf("variables are copied by distances of %v", slices.Sorted(maps.Keys(distances)))
	}
	info, err := os.Stat(i.Bin)
	must(t, err)
	if uint64(info.Size()) != high-low {
		t.Errorf("%s has %d bytes, the image %d", i.Bin, info.Size(), high-low)
	}
}

// inOwnSection is ownVariables with a constant where the linker script has no place for it.
var inOwnSection = strings.Replace(ownVariables, "static volatile int32_t value =",
	`static const int32_t weight __attribute__((section(".my_weights"))) = 1;
static volatile int32_t value = 0 *`, 1) + "\nconst int32_t* own_weight(void);\nconst int32_t* own_weight(void) { return &weight; }\n"

// TestUnknownSection has a model, and a port, put something where the linker script has no place for it.
func TestUnknownSection(t *testing.T) {
	t.Parallel()
	needBoardTools(t, "mps2_an385", nil)
	const here = `volatile const int32_t here[4] __attribute__((section(".my_weights"))) = {2, 2, 2, 2};` + "\n"
	operator := strings.NewReplacer("TVM_DLL int32_t twice", here+"TVM_DLL int32_t twice", "in[i] * 2",
		"in[i] * here[i]").Replace(mlftest.TinyOperator)
	mustNotLink(t, Spec{
		Board: "mps2_an385",
		Model: mlftest.Tiny(t, map[string]string{"codegen/host/src/lib1.c": operator}),
	}, testEnv())

	name, path := boardstest.With(t, "mps2_an385", "own.c", inOwnSection, map[string]string{"own.value": "own_value"})
	e := testEnv()
	e.Path = []string{path}
	mustNotLink(t, Spec{Board: name, Model: mlftest.Tiny(t, nil)}, e)
}

func mustNotLink(t *testing.T, s Spec, e env) {
	t.Helper()
	p := generated(t, filepath.Join(t.TempDir(), "p"), s, e)
	_, err := p.Build(t.Context())
	if failure.Of(err) != failure.Link || !strings.Contains(err.Error(), "orphan section `.my_weights'") {
		t.Errorf("got %v", err)
	}
}

// TestEveryByteHasAChecksum has the linker place what the script does not name, as it does without our flags: behind
// the resident part.
func TestEveryByteHasAChecksum(t *testing.T) {
	t.Parallel()
	name, path := boardstest.With(t, "microbit", "own.c", inOwnSection, map[string]string{"own.value": "own_value"})
	e := testEnv()
	e.Path = []string{path}
	needBoardTools(t, name, e.Path)
	p := generated(t, filepath.Join(t.TempDir(), "p"), Spec{Board: name, Model: mlftest.Tiny(t, nil)}, e)
	if out, err := exec.Command("make", "-C", p.Dir(), "STRICT=").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	const want = "(section .my_weights) are outside the ranges"
	file := filepath.Join(p.Dir(), "build", "firmware.elf")
	data, err := os.ReadFile(file)
	must(t, err)
	loose := &image.Image{
		Path: file, Digest: image.DigestOf(data), Board: p.Board().Name, Landmarks: p.state.Template.Landmarks,
	}
	e.Programmer, e.StateDir = "openocd", t.TempDir()
	e.Tool = func(name string) (string, error) { return name, nil }
	if _, err := e.desk().FlashCommands(t.Context(), p.Board(), "", loose); failure.Of(err) != failure.Config ||
		!strings.Contains(err.Error(), want) {
		t.Errorf("got %v", err)
	}
	if _, _, err := p.linked().Inspect(); failure.Of(err) != failure.Link || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v", err)
	}
}
