package generator

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
	"github.com/boardsmith/boardsmith/mlf"
)

var (
	must      = testkit.Must
	writeFile = testkit.WriteFile
)

// compileC runs gcc in a folder with warnings as errors, or skips the test without it.
func compileC(t *testing.T, dir string, args ...string) {
	t.Helper()
	testkit.Need(t, "gcc")
	crt, err := filepath.Abs(filepath.Join("..", "..", "..", "crt"))
	must(t, err)
	cmd := exec.Command("gcc", append([]string{
		"-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Wcast-qual", "-Werror",
		"-I" + filepath.Join(crt, "include"), "-I" + filepath.Join(crt, "test", "config"), "-I.",
	}, args...)...)
	cmd.Dir = dir
	testkit.Output(t, cmd)
}

// adapterIn writes the adapter of an archive's models and their headers into a folder.
func adapterIn(t *testing.T, a *mlf.Archive) string {
	t.Helper()
	dir := t.TempDir()
	src, err := Adapter(nil, a.Models...)
	if err != nil || src == nil {
		t.Fatalf("%s: no adapter: %v", a.Path, err)
	}
	again, err := Adapter(nil, a.Models...)
	if err != nil || !bytes.Equal(src, again) {
		t.Fatalf("%s: the adapter differs from one time to the next, %v", a.Path, err)
	}
	writeFile(t, filepath.Join(dir, "adapter.c"), string(src))
	for _, m := range a.Models {
		for _, f := range append(m.Headers, m.Sources...) {
			writeFile(t, filepath.Join(dir, filepath.Base(f.Name)), string(f.Data))
		}
	}
	return dir
}

func TestAdaptersOfTVMsArchivesCompile(t *testing.T) {
	t.Parallel()
	n := 0
	for _, path := range mlftest.Archives(t) {
		a, err := mlf.Open(path)
		must(t, err)
		if a.Models[0].Interface != "c" {
			if src, err := Adapter(nil, a.Models...); src != nil || err != nil {
				t.Errorf("%s: has packed functions, and got an adapter of %d bytes, %v", path, len(src), err)
			}
			continue
		}
		compileC(t, adapterIn(t, a), "-c", "adapter.c")
		n++
	}
	if n < 8 {
		t.Errorf("only %d archives with the C interface", n)
	}
}

// Two models in one archive: one needs a workspace pool and a constant pool from its caller, the other has its inputs
// and outputs in a pool.
var adapterArchive = []mlf.File{
	member("metadata.json", `{"version": 7, "modules": {
		"pools": {"model_name": "pools", "style": "full-model", "executors": ["aot"], "target": ["c"], "memory": {"functions": {"main": [{
			"device": 1, "workspace_size_bytes": 40, "constants_size_bytes": 4, "io_size_bytes": 8,
			"inputs": {"x-in:0": {"size": 4, "dtype": "int8"}}, "outputs": {"output": {"size": 4, "dtype": "int8"}}}]}}},
		"mapped": {"model_name": "mapped", "style": "full-model", "executors": ["aot"], "target": ["c"], "memory": {"functions": {"main": [{
			"device": 1, "workspace_size_bytes": 8, "constants_size_bytes": 0, "io_size_bytes": 8,
			"inputs": {"a": {"size": 4, "dtype": "float32"}}, "outputs": {"output": {"size": 4, "dtype": "float32"}}}]}}}}}`),
	member("src/pools.relay", "def @main(%x-in:0: Tensor[(2, 2), int8]) -> Tensor[(2, 2), int8] {\n}"),
	member("src/mapped.relay", "def @main(%a: float32 /* ty=float32 */) -> float32 {\n}"),
	member("codegen/host/include/tvmgen_pools.h", `#include <stdint.h>
#define TVMGEN_POOLS_X_IN_0_SIZE 4
#define TVMGEN_POOLS_OUTPUT_SIZE 4
struct tvmgen_pools_inputs { void* x_in_0; };
struct tvmgen_pools_outputs { void* output; };
struct tvmgen_pools_workspace_pools { void* flash; void* sram; void* idle; };
int32_t tvmgen_pools_run(struct tvmgen_pools_inputs* inputs, struct tvmgen_pools_outputs* outputs, struct tvmgen_pools_workspace_pools* workspace_pools);
#define TVMGEN_POOLS_WORKSPACE_SIZE 40
#define TVMGEN_POOLS_SRAM_WORKSPACE_POOL_SIZE 40
#define TVMGEN_POOLS_FLASH_CONSTANT_POOL_SIZE 4
#define TVMGEN_POOLS_FLASH_CONSTANT_POOL_DATA 0x01, 0x02, 0x03, 0x04
`),
	member("codegen/host/include/tvmgen_mapped.h", `#include <stdint.h>
#define TVMGEN_MAPPED_A_SIZE 4
#define TVMGEN_MAPPED_OUTPUT_SIZE 4
struct tvmgen_mapped_inputs { void* a; };
struct tvmgen_mapped_outputs { void* output; };
struct tvmgen_mapped_workspace_pools { void* ram; };
struct tvmgen_mapped_inputs tvmgen_mapped_map_inputs(struct tvmgen_mapped_workspace_pools* workspace_pools);
struct tvmgen_mapped_outputs tvmgen_mapped_map_outputs(struct tvmgen_mapped_workspace_pools* workspace_pools);
int32_t tvmgen_mapped_run(struct tvmgen_mapped_workspace_pools* workspace_pools);
#define TVMGEN_MAPPED_RAM_WORKSPACE_POOL_SIZE 8
`),
	member("codegen/host/src/pools_lib0.c", `#include <tvmgen_pools.h>
int32_t tvmgen_pools_run(struct tvmgen_pools_inputs* inputs, struct tvmgen_pools_outputs* outputs, struct tvmgen_pools_workspace_pools* workspace_pools) {
  if (workspace_pools->idle != 0 || ((uintptr_t)workspace_pools->sram & 15U) != 0U) { return -1; }
  for (int i = 0; i < 4; i++) {
    ((int8_t*)workspace_pools->sram)[36 + i] = ((const int8_t*)workspace_pools->flash)[i];
    ((int8_t*)outputs->output)[i] = (int8_t)(((int8_t*)inputs->x_in_0)[i] + ((int8_t*)workspace_pools->sram)[36 + i]);
  }
  return 0;
}
`),
	member("codegen/host/src/mapped_lib0.c", `#include <tvmgen_mapped.h>
struct tvmgen_mapped_inputs tvmgen_mapped_map_inputs(struct tvmgen_mapped_workspace_pools* workspace_pools) {
  struct tvmgen_mapped_inputs in = {workspace_pools->ram};
  return in;
}
struct tvmgen_mapped_outputs tvmgen_mapped_map_outputs(struct tvmgen_mapped_workspace_pools* workspace_pools) {
  struct tvmgen_mapped_outputs out = {(uint8_t*)workspace_pools->ram + 4};
  return out;
}
int32_t tvmgen_mapped_run(struct tvmgen_mapped_workspace_pools* workspace_pools) {
  float* ram = workspace_pools->ram;
  ram[1] = ram[0] * 2.0F;
  return 0;
}
`),
}

func member(name, text string) mlf.File { return mlf.File{Name: name, Data: []byte(text)} }

// adapterHarness calls both models through the system library, as a device does.
const adapterHarness = `#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <boardsmith/boardsmith.h>
#include <tvm/runtime/crt/module.h>
#include <tvm/runtime/crt/platform.h>
#include <tvm/runtime/metadata_types.h>
static size_t left = 64, taken;
static char last[200];
void TVMAPISetLastError(const char* msg) { (void)snprintf(last, sizeof(last), "%s", msg); }
tvm_crt_error_t TVMPlatformMemoryAllocate(size_t n, DLDevice dev, void** out) {
  (void)dev;
  if (n > left) { return kTvmErrorPlatformNoMemory; }
  taken++;
  *out = (char*)malloc(n + 1U) + 1;  /* badly aligned on purpose; kept until the end */
  return kTvmErrorNoError;
}
int boardsmith_tensor_bytes(int32_t ndim, const int64_t* shape, DLDataType dtype, size_t* size) {
  *size = (size_t)dtype.bits / 8U;
  for (int i = 0; i < ndim; i++) { *size *= (size_t)shape[i]; }
  return 0;
}
static TVMBackendPackedCFunc find(const char* name) {
  const TVMFuncRegistry* r = TVMSystemLibEntryPoint()->registry;
  int i = 0;
  for (const char* n = r->names + 2; *n != '\0'; n += strlen(n) + 1U, i++) {
    if (strcmp(n, name) == 0) { return r->funcs[i]; }
  }
  (void)printf("no %s\n", name);
  exit(1);
}
static const struct TVMMetadata* describe(const char* name) {
  TVMValue v;
  int code = 0;
  if (find(name)(NULL, NULL, 0, &v, &code, NULL) != 0 || code != 3) { exit(2); }
  return v.v_handle;
}
static int run(const char* name, void* in, void* out, const struct TVMMetadata* m, int n) {
  DLTensor t[2] = {{.data = in, .ndim = (int32_t)m->inputs[0].num_shape, .dtype = m->inputs[0].dtype, .byte_offset = 1},
                   {.data = out, .ndim = (int32_t)m->outputs[0].num_shape, .dtype = m->outputs[0].dtype}};
  int64_t shape[2] = {2, 2};
  TVMValue args[2] = {{.v_handle = &t[0]}, {.v_handle = &t[1]}};
  int codes[2] = {7, 13};
  t[0].shape = shape;
  t[1].shape = shape;
  return find(name)(args, codes, n, NULL, NULL, NULL);
}
int main(void) {
  const struct TVMMetadata* m = describe("tvmgen_pools_get_c_metadata");
  int8_t in[5] = {0, 10, 20, 30, 40}, out[4] = {0};
  (void)printf("%d %s %s/%d %d\n", TVMSystemLibEntryPoint()->registry->names[0], m->mod_name, m->inputs[0].name, (int)m->inputs[0].num_shape, (int)m->inputs[0].shape[1]);
  if (run("tvmgen_pools_run", in, out, m, 2) != 0 || run("tvmgen_pools_run", in, out, m, 2) != 0) { return 3; }
  (void)printf("%d %d %d %d, taken %d\n", out[0], out[1], out[2], out[3], (int)taken);
  (void)printf("%x %s\n", (unsigned)run("tvmgen_pools_run", in, out, m, 1), last);
  (void)printf("%x %s\n", (unsigned)run("tvmgen_pools_run", NULL, out, m, 2), last);
  m = describe("tvmgen_mapped_get_c_metadata");
  char bytes[5];
  float f = 1.5F, g = 0.0F;
  (void)memcpy(bytes + 1, &f, 4);
  left = 8;
  (void)printf("%x %s\n", (unsigned)run("tvmgen_mapped_run", bytes, &g, m, 2), last);
  left = 64;
  if (run("tvmgen_mapped_run", bytes, &g, m, 2) != 0) { return 4; }
  (void)printf("%g, rank %d %s\n", (double)g, (int)m->inputs[0].num_shape, m->outputs[0].name);
  return 0;
}
`

func TestAdaptersRun(t *testing.T) {
	t.Parallel()
	a := mlftest.Parse(t, adapterArchive...)
	must(t, mlftest.Check(a))
	dir := adapterIn(t, a)
	writeFile(t, filepath.Join(dir, "main.c"), adapterHarness)
	compileC(t, dir, "-o", "run", "-Wno-cast-qual", "main.c", "adapter.c", "pools_lib0.c", "mapped_lib0.c")
	got, err := exec.Command(filepath.Join(dir, "run")).CombinedOutput()
	want := strings.Join([]string{
		"4 tvmgen_pools x_in_0/2 2",
		"11 22 33 44, taken 1",
		"800 tvmgen_pools_run needs 2 tensors",
		"801 tvmgen_pools_run: an argument is no tensor or too small",
		"503 no memory for mapped's pool ram, 8 bytes",
		"3, rank 0 output0", "",
	}, "\n")
	if err != nil || string(got) != want {
		t.Errorf("%v, the models returned\n%s\nwant\n%s", err, got, want)
	}
}

func TestAdapterRefusesDevices(t *testing.T) {
	t.Parallel()
	files := append([]mlf.File{}, adapterArchive...)
	for i, f := range files {
		if strings.HasSuffix(f.Name, "tvmgen_mapped.h") {
			files[i].Data = append([]byte("struct tvmgen_mapped_devices { void* npu; };\n"), f.Data...)
		}
	}
	a := mlftest.Parse(t, files...)
	_, err := Adapter(nil, a.Models...)
	testkit.WantError(t, err, "", "npu")
	testkit.WantError(t, mlftest.Check(a), "", "npu")
}
