package cmodel_test

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/cmodel"
	"github.com/boardsmith/boardsmith/internal/testkit/drawn"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/ndarray"
)

// jsonMain runs a graph with the executor that parses JSON on the device, and prints what it has taken of its arena.
const jsonMain = `#include <stdlib.h>
#include <tvm/runtime/crt/crt.h>
#include <tvm/runtime/crt/graph_executor.h>
#include <tvm/runtime/crt/module.h>
#include <tvm/runtime/crt/platform.h>

static const char graph[] = %s;
static const uint8_t params[] = {%s};

// Counts what is in use. Memory is not used again, and not counted as part of the firmware.
static uint8_t arena[1U << 20] __attribute__((aligned(16)));
static uint32_t next, in_use, most;

tvm_crt_error_t TVMPlatformMemoryAllocate(size_t bytes, DLDevice dev, void** out) {
  *(uint32_t*)&arena[next] = bytes;
  *out = &arena[next + 16U];
  next += ((bytes + 15U) & ~15U) + 16U;
  in_use += bytes;
  most = (in_use > most) ? in_use : most;
  return kTvmErrorNoError;
}

tvm_crt_error_t TVMPlatformMemoryFree(void* memory, DLDevice dev) {
  in_use -= *(uint32_t*)((uint8_t*)memory - 16);
  return kTvmErrorNoError;
}

void TVMPlatformAbort(tvm_crt_error_t error) { halt(); for (;;) {} }
tvm_crt_error_t TVMPlatformTimerStart(void) { return kTvmErrorNoError; }
tvm_crt_error_t TVMPlatformTimerStop(double* seconds) { return kTvmErrorNoError; }
void TVMLogf(const char* format, ...) {}

int main(void) {
  const DLDevice cpu = {kDLCPU, 0};
  TVMModuleHandle module;
  TVMGraphExecutor* executor;
  int error = (int)TVMInitializeRuntime();
  error = error ? error : TVMModCreateFromCModule(TVMSystemLibEntryPoint(), &module);
  error = error ? error : TVMGraphExecutor_Create(graph, module, &cpu, &executor);
  error = error ? error : TVMGraphExecutor_LoadParams(executor, (const char*)params, sizeof params);
  error = error ? error : TVMGraphExecutor_Run(executor);
  print("most", error ? 0U : most);
  return 0;
}
`

// arenaBytes is the size of jsonMain's arena.
const arenaBytes = 1 << 20

// A footprint is a firmware's memory in bytes.
type footprint struct{ flash, ram int }

// TestSizes compares firmware for a Cortex-M3 that runs a graph as tables with one that parses the graph's JSON: it
// takes less flash and less RAM. It logs both, and the ahead-of-time variant of the model.
func TestSizes(t *testing.T) {
	if !drawn.InFull() {
		t.Skip("only in a full run")
	}
	for _, tool := range []string{"arm-none-eabi-gcc", "qemu-system-arm"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not installed", tool)
		}
	}
	for _, name := range []string{"conv_f32", "dscnn_i8"} {
		graph, aot := tablesSize(t, name+".graph"), tablesSize(t, name+".aot_c")
		parsed := jsonSize(t, name+".graph")
		t.Logf("%s: flash and RAM as tables %v, ahead of time %v, by JSON %v", name, graph, aot, parsed)
		if graph.flash >= parsed.flash || graph.ram >= parsed.ram {
			t.Errorf("%s: as tables %v, by JSON %v", name, graph, parsed)
		}
	}
}

// tablesSize returns the memory of a firmware that runs the archive once.
func tablesSize(t *testing.T, archive string) footprint {
	t.Helper()
	_, m := open(t, mlftest.Path(t, archive))
	dir := unpack(t, generate(t, mlftest.Path(t, archive), cmodel.Options{}))
	var in, out []string
	for _, x := range m.Inputs {
		in = append(in, fmt.Sprintf("(const void*)0x20200000 /* %s */", x.Name))
	}
	for _, x := range m.Outputs {
		out = append(out, fmt.Sprintf("(void*)0x20300000 /* %s */", x.Name))
	}
	write(t, filepath.Join(dir, "main.c"), fmt.Sprintf(`#include <tvm_%[1]s.h>
int main(void) {
  const TVM_%[1]s_input input = {%[2]s};
  const TVM_%[1]s_output output = {%[3]s};
  return (int)TVMExecute(&tvm_%[1]s, &input, &output, NULL);
}
`, m.Name, strings.Join(in, ", "), strings.Join(out, ", ")))
	sources, _ := filepath.Glob(filepath.Join(dir, "src", "*.c"))
	elf := linkM3(t, dir, sources, "-I"+filepath.Join(dir, "include"))
	flash, ram := sections(t, elf)
	return footprint{flash, ram}
}

// jsonSize is tablesSize with the executor that parses JSON.
func jsonSize(t *testing.T, archive string) footprint {
	t.Helper()
	_, m := open(t, mlftest.Path(t, archive))
	dir := t.TempDir()
	write(t, filepath.Join(dir, "main.c"), fmt.Sprintf(jsonMain, strconv.QuoteToASCII(string(m.Graph)),
		initializer(&ndarray.Array{Data: m.Params})))
	sources, _ := filepath.Glob(filepath.Join(crt(), "src", "*", "*.c"))
	sources = append(sources, unpackSources(t, dir, m)...)
	elf := linkM3(t, dir, sources, "-I"+filepath.Join(crt(), "src"))
	said, err := run(dir, "qemu-system-arm", "-machine", "mps2-an385", "-display", "none", "-monitor", "none", "-serial",
		"none", "-semihosting-config", "enable=on,target=native", "-kernel", elf)
	taken, numErr := strconv.Atoi(strings.TrimPrefix(strings.TrimSpace(said), "most "))
	if err != nil || numErr != nil || taken == 0 {
		t.Fatalf("%v %v\n%s", err, numErr, said)
	}
	flash, ram := sections(t, elf)
	return footprint{flash, ram - arenaBytes + taken}
}

func unpackSources(t *testing.T, dir string, m *mlf.Model) (names []string) {
	for _, f := range m.Sources {
		name := filepath.Join(dir, filepath.Base(f.Name))
		write(t, name, string(f.Data))
		names = append(names, name)
	}
	return names
}

// linkM3 links main.c and sources for mps2_an385, with the start of cost.c.
func linkM3(t *testing.T, dir string, sources []string, flags ...string) string {
	t.Helper()
	elf := filepath.Join(dir, "size.elf")
	args := slices.Concat([]string{
		"-mcpu=cortex-m3", "-mthumb", "-Os", "-std=gnu11", "-w", "--specs=nano.specs", "-ffunction-sections",
		"-fdata-sections", "-nostartfiles", "-Wl,--gc-sections", "-T", filepath.Join(crt(), "measure", "link.ld"),
		`-DCOST_CASE="` + filepath.Join(dir, "main.c") + `"`, "-I" + filepath.Join(crt(), "include"),
		"-I" + filepath.Join(crt(), "measure", "config"), "-o", elf, filepath.Join("testdata", "cost.c"),
	}, flags, sources, []string{"-lm"})
	if said, err := run(".", "arm-none-eabi-gcc", args...); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	return elf
}

// sections returns the bytes of an image in flash and in RAM.
func sections(t *testing.T, elf string) (flash, ram int) {
	t.Helper()
	said, err := run(".", "arm-none-eabi-size", elf)
	lines := strings.Split(strings.TrimSpace(said), "\n")
	words := strings.Fields(lines[len(lines)-1])
	if err != nil || len(words) < 3 {
		t.Fatalf("%v\n%s", err, said)
	}
	var n [3]int
	for i := range n {
		if n[i], err = strconv.Atoi(words[i]); err != nil {
			t.Fatal(err)
		}
	}
	return n[0] + n[1], n[1] + n[2]
}
