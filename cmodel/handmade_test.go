package cmodel_test

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"path/filepath"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/cmodel"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/drawn"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/ndarray"
)

var (
	int8s  = ndarray.DType{Code: ndarray.Int, Bits: 8, Lanes: 1}
	float  = ndarray.DType{Code: ndarray.Float, Bits: 32, Lanes: 1}
	archiv = &mlf.Archive{Path: "test.tar", Version: 7, Digest: strings.Repeat("12", 32)}
)

func vector(name string, d ndarray.DType, n int64) mlf.Tensor {
	return mlf.Tensor{Name: name, DType: d, Shape: []int64{n}, Bytes: n * int64(d.Size())}
}

// adder is a graph model: x + p, which is also y, reshaped; the input once more; and an operator without bytes. Its
// operator add takes memory, and returns 77 if the first element of x is 99.
func adder(names ...string) *mlf.Model {
	names = append(names, []string{"x", "empty", "sum", "again", "copy", "nothing"}[len(names):]...)
	params, err := mlftest.EncodeParams([]ndarray.Named{
		{Name: "p", Array: &ndarray.Array{DType: float, Shape: []int64{4}, Data: []byte{
			0, 0, 0x80, 0x3f, 0, 0, 0, 0x40, 0, 0, 0x40, 0x40, 0, 0, 0x80, 0x40,
		}}},
	})
	if err != nil {
		panic(err)
	}
	call := func(f string, inputs string) string {
		return fmt.Sprintf(`{"op": "tvm_op", "name": "n", "attrs": {"func_name": %q, "num_inputs": "%d", "num_outputs": "1",
			"flatten_data": "0"}, "inputs": [%s]}`, f, strings.Count(inputs, "["), inputs)
	}
	graph := fmt.Sprintf(`{"nodes": [
		{"op": "null", "name": %q, "inputs": []}, {"op": "null", "name": "p", "inputs": []},
		{"op": "null", "name": %q, "inputs": []}, %s, %s, %s, %s],
		"arg_nodes": [0, 1, 2], "heads": [[4, 0, 0], [5, 0, 0], [0, 0, 0], [6, 0, 0]],
		"node_row_ptr": [0, 1, 2, 3, 4, 5, 6, 7],
		"attrs": {"dltype": ["list_str", ["float32", "float32", "float32", "float32", "float32", "float32", "float32"]],
		"storage_id": ["list_int", [0, 1, 2, 3, 4, 4, 5]],
		"shape": ["list_shape", [[4], [4], [0], [4], [4], [2, 2], [0]]]}}`, names[0], names[1],
		call("net_add", "[0, 0, 0], [1, 0, 0]"), call("net_add", "[3, 0, 0], [1, 0, 0]"),
		call("__nop", "[4, 0, 0]"), call("net_nothing", "[2, 0, 0]"))
	const operators = `#include <tvm/runtime/c_runtime_api.h>
#include <tvm/runtime/c_backend_api.h>
TVM_DLL int32_t net_add(void* args, int32_t* arg_type_ids, int32_t num_args, void* out_ret_value, int32_t* out_ret_tcode, void* resource_handle) {
  float* a = (float*)((DLTensor*)((TVMValue*)args)[0].v_handle)->data;
  float* b = (float*)((DLTensor*)((TVMValue*)args)[1].v_handle)->data;
  float* y = (float*)((DLTensor*)((TVMValue*)args)[2].v_handle)->data;
  if (a[0] == 99.0f) return 77;
  void* t = TVMBackendAllocWorkspace(1, 0, (uint64_t)16, 2, 32);
  if (t == NULL) return -1;
  void* u = TVMBackendAllocWorkspace(1, 0, (uint64_t)5, 2, 32);
  if (u == NULL) return -1;
  for (int i = 0; i < 4; ++i) ((float*)t)[i] = a[i] + b[i];
  for (int i = 0; i < 5; ++i) ((char*)u)[i] = 0x55;
  for (int i = 0; i < 4; ++i) y[i] = ((float*)t)[i];
  if (TVMBackendFreeWorkspace(1, 0, u) != 0) return -1;
  if (TVMBackendFreeWorkspace(1, 0, t) != 0) return -1;
  return 0;
}
TVM_DLL int32_t net_nothing(void* args, int32_t* arg_type_ids, int32_t num_args, void* out_ret_value, int32_t* out_ret_tcode, void* resource_handle) {
  return 0;
}
`
	y := vector(names[2], float, 4)
	again := mlf.Tensor{Name: names[3], DType: float, Shape: []int64{2, 2}, Bytes: 16}
	return &mlf.Model{
		Name: "net", Style: "full-model", Executor: mlf.Graph, Interface: "packed", ABI: mlf.ABIPacked,
		Graph: []byte(graph), Params: params,
		Sources: []mlf.File{{Name: "codegen/host/src/net_lib1.c", Data: []byte(operators)}},
		Inputs:  []mlf.Tensor{vector(names[0], float, 4), vector(names[1], float, 0)},
		Outputs: []mlf.Tensor{y, again, vector(names[4], float, 4), vector(names[5], float, 0)},
	}
}

// renamed is adder with another name, which its sources have, too.
func renamed(name string, tensors ...string) *mlf.Model {
	m := adder(tensors...)
	m.Name = name
	for i := range m.Sources {
		m.Sources[i].Name = fmt.Sprintf("codegen/host/src/%s_lib%d.c", name, i)
	}
	return m
}

// withHeader is a model of the C interface with the tensors x and y, of 4 bytes each.
func withHeader(h mlf.Header, header, source string) *mlf.Model {
	h.Name, h.Inputs, h.Outputs = "net", []mlf.Buffer{{Name: "x", Bytes: 4}}, []mlf.Buffer{{Name: "y", Bytes: 4}}
	return &mlf.Model{
		Name: "net", Style: "full-model", Executor: mlf.AOT, Interface: "c", ABI: mlf.ABIUnpacked,
		Inputs: []mlf.Tensor{vector("x", int8s, 4)}, Outputs: []mlf.Tensor{vector("y", int8s, 4)}, Header: &h,
		Headers: []mlf.File{{Name: "codegen/host/include/tvmgen_net.h", Data: []byte(header)}},
		Sources: []mlf.File{{Name: "codegen/host/src/net_lib0.c", Data: []byte(source)}},
	}
}

// check builds and runs a program that returns the number of the line of the first expectation that fails.
func check(t *testing.T, c *cmodel.Code, program, extension string, flags ...string) {
	t.Helper()
	dir := unpack(t, c)
	file := filepath.Join(dir, "main"+extension)
	write(t, file, "#include <stdio.h>\n"+
		"#define EXPECT(x) do { if (!(x)) { printf(\"line %d: %s\\n\", __LINE__, #x); return 1; } } while (0)\n"+
		"#line 1\n"+program)
	runMain(t, dir, file, flags...)
}

const adderMain = `#include <string.h>
#include <tvm_net.h>

static TVM_WORKSPACE_ALIGNED uint8_t memory[TVM_net_WORKSPACE_SIZE + 16];

int main(void) {
  static void* list[1];
  static size_t sizes[1];
  TVMContext context = TVM_CONTEXT_INIT(NULL, NULL);
  float x[5] = {1.0F, 2.0F, 3.0F, 4.0F, 5.0F};
  float sum[4] = {0.0F};
  float again[4] = {0.0F};
  float copy[4] = {0.0F};
  TVM_net_input in = {x, NULL};
  TVM_net_output out = {sum, again, copy, NULL};
  EXPECT(TVM_net_INPUT_EMPTY_SIZE == 0);
  EXPECT((TVMGetInterfaceVersion(&tvm_net) == 1) && (TVMGetArchiveVersion(&tvm_net) == 7));
  EXPECT(TVMExecute(&tvm_net, &in, &out, NULL) == 0);
  EXPECT((sum[0] > 2.9F) && (sum[0] < 3.1F) && (sum[3] > 11.9F) && (sum[3] < 12.1F));
  EXPECT((memcmp(again, sum, sizeof sum) == 0) && (memcmp(copy, x, sizeof copy) == 0));

  // Workspaces.
  EXPECT(TVMGetWorkspaceSize(&tvm_net, 1) == 0);
  EXPECT(TVMGetWorkspaceSize(&tvm_net, 0) == TVM_net_WORKSPACE_ARENA_SIZE);
  list[0] = &memory[1];
  sizes[0] = TVM_net_WORKSPACE_ARENA_SIZE;
  EXPECT(TVMSetWorkspaces(&tvm_net, &context, list, sizes) == (int32_t)kTvmErrorFunctionCallInvalidArg);
  list[0] = NULL;
  EXPECT(TVMSetWorkspaces(&tvm_net, &context, list, sizes) == (int32_t)kTvmErrorFunctionCallInvalidArg);
  list[0] = memory;
  sizes[0]--;
  EXPECT(TVMSetWorkspaces(&tvm_net, &context, list, sizes) == (int32_t)kTvmErrorBufferTooSmall);
  EXPECT(context.workspaces == NULL);
  sizes[0]++;
  EXPECT(TVMSetWorkspaces(&tvm_net, &context, list, sizes) == 0);
  x[0] = 5.0F;
  EXPECT((TVMExecute(&tvm_net, &in, &out, &context) == 0) && (sum[0] > 6.9F) && (sum[0] < 7.1F));
  EXPECT(memory[0] != 0U || memory[1] != 0U || memory[2] != 0U || memory[3] != 0U);
  EXPECT((TVMExecute(&tvm_net, &in, &out, NULL) == 0) && (sum[0] > 6.9F));

  // An operator's error arrives, and the next run works.
  x[0] = 99.0F;
  EXPECT(TVMExecute(&tvm_net, &in, &out, NULL) == 77);
  x[0] = 1.0F;
  EXPECT((TVMExecute(&tvm_net, &in, &out, NULL) == 0) && (sum[0] > 2.9F) && (sum[0] < 3.1F));

  // Buffers.
  EXPECT(TVMCheckBuffers(&tvm_net, &in, &out) == 0);
  out.copy = NULL;
  EXPECT(TVMCheckBuffers(&tvm_net, &in, &out) == (int32_t)kTvmErrorFunctionCallInvalidArg);
  out.copy = copy;
  (void)memcpy(&in.x, &(const char*){(const char*)x + 1}, sizeof in.x);
  EXPECT(TVMCheckBuffers(&tvm_net, &in, &out) == (int32_t)kTvmErrorFunctionCallInvalidArg);
#ifdef TVM_CHECK_BUFFERS
  EXPECT(TVMExecute(&tvm_net, &in, &out, NULL) == (int32_t)kTvmErrorFunctionCallInvalidArg);
#endif

  // The parameters are constants.
  EXPECT(TVMSetParameters(&tvm_net, memory, 0, 0) == (int32_t)kTvmErrorExecutorModuleBadContext);
  return 0;
}
`

func TestInterface(t *testing.T) {
	c := handmade(t, adder())
	check(t, c, adderMain, ".c", "-DTVM_CHECK_BUFFERS")
	if drawn.InFull() {
		check(t, c, adderMain, ".c")
	}
}

// TestSmallWorkspace expects an error of the compiler for an array that is too small or not aligned for the workspaces.
func TestSmallWorkspace(t *testing.T) {
	c := handmade(t, adder())
	dir := unpack(t, c)
	const array = "uint8_t memory[TVM_net_WORKSPACE_SIZE"
	for memory, works := range map[string]bool{
		"TVM_WORKSPACE_ALIGNED " + array + "]":                                      true,
		"TVM_WORKSPACE_ALIGNED uint32_t memory[(TVM_net_WORKSPACE_SIZE + 3U) / 4U]": true,
		"TVM_WORKSPACE_ALIGNED " + array + " - 1]":                                  false,
		array + "]":              false,
		"uint32_t memory[1024U]": false,
	} {
		for _, extension := range []string{".c", ".cpp"} {
			file := filepath.Join(dir, "main"+extension)
			write(t, file, fmt.Sprintf(`#include <tvm_net.h>
static %s;
static void* const workspaces[] = TVM_net_WORKSPACES(memory);
static const TVMContext context = TVM_CONTEXT_INIT(workspaces, NULL);
int main(void) { return TVMExecute(&tvm_net, NULL, NULL, &context); }
`, memory))
			err := compile(dir, file, dir+"/main.o")
			if (err == nil) != works || err != nil && !strings.Contains(err.Error(), "negative") &&
				!strings.Contains(err.Error(), "narrowing") && !strings.Contains(err.Error(), "-1") {
				t.Errorf("%s, main%s: %v", memory, extension, err)
			}
		}
	}
}

// TestNames compiles a model whose names are reserved words or collide, as C and as C++.
func TestNames(t *testing.T) {
	m := adder("class", "Class", "a-b", "a_b", "A.B", "2*/\n\"\\")
	m.Name = "my-net"
	c := handmade(t, m)
	var renamed []string
	for _, r := range c.Renamed {
		if r.Reason == "" {
			t.Errorf("no reason for %v", r)
		}
		renamed = append(renamed, r.Kind+" "+r.Name+" "+r.CName)
	}
	const want = "model my-net my_net, input class class_, output a-b a_b, output a_b a_b_2, " +
		"output A.B A_B_3, output 2*/\n\"\\ _2_____"
	testkit.Equal(t, "renamed", strings.Join(renamed, ", "), want)
	const program = `#include <tvm_my_net.h>

int main(void) {
  static float x[4], a[4], b[4], c[4], d[1];
  TVM_my_net_input in;
  TVM_my_net_output out;
  in.class_ = x;
  in.Class = x;
  out.a_b = a;
  out.a_b_2 = b;
  out.A_B_3 = c;
  out._2_____ = d;
  return ((TVM_my_net_OUTPUT_A_B_SIZE + TVM_my_net_INPUT_CLASS__SIZE + TVM_my_net_OUTPUT_A_B_3_INDEX) == 34)
             ? TVMExecute(&tvm_my_net, &in, &out, NULL)
             : 1;
}
`
	check(t, c, program, ".cpp")
	if drawn.InFull() {
		check(t, c, program, ".c")
	}
}

// TestStandaloneNames compiles the buffers of standalone firmware for a model whose names are reserved words or
// collide, and which has tensors without bytes: with buffers for the inputs, and with samples.
func TestStandaloneNames(t *testing.T) {
	m := adder("class", "Class", "a-b", "a_b", "A.B", "2*/\n\"\\")
	c := handmade(t, m)
	samples := []ndarray.Named{
		{Name: "Class", Array: &ndarray.Array{DType: float, Shape: []int64{0}}},
		{Name: "class", Array: &ndarray.Array{DType: float, Shape: []int64{4}, Data: make([]byte, 16)}},
	}
	const program = `#include "boardsmith_standalone.c"

int main(void) {
  const standalone_model_t* const m = &standalone_model;
  EXPECT((m->model->num_inputs == 2) && (m->model->tensors[1].size_bytes == 0) && (m->model->num_outputs == 4));
  EXPECT(TVMCheckBuffers(m->model, m->input, m->output) == 0);
  EXPECT((m->has_samples == 0) == (m->input_data != NULL));
  for (int i = 0; i < 4; i++) {
    EXPECT(((uintptr_t)m->output_data[i] % TVM_WORKSPACE_ALIGNMENT) == 0U);
  }
  EXPECT(TVMExecute(m->model, m->input, m->output, NULL) == 0);
  const float* const sum = (const float*)m->output_data[0];
  EXPECT((sum[0] > 1.9F) && (sum[0] < 2.1F) && (sum[3] > 7.9F) && (sum[3] < 8.1F));
  return 0;
}
`
	for _, given := range [][]ndarray.Named{nil, samples} {
		buffers, err := c.Standalone(given)
		must(t, err)
		dir := t.TempDir()
		write(t, dir+"/"+buffers.Name, string(buffers.Data))
		check(t, c, program, ".c", "-I"+dir)
	}
}

// TestParameters replaces parameters in RAM, and tries a blob that is truncated or changed at every byte: it is
// refused, and nothing changes.
func TestParameters(t *testing.T) {
	m := adder()
	c, err := cmodel.Generate(archiv, m, cmodel.Options{RAMParameters: true})
	must(t, err)
	blob := append([]byte{}, m.Params...)
	blob[len(blob)-13] = 0x41 // the first parameter, 1.0, becomes 8.0
	blob[len(blob)-14] = 0
	check(t, c, fmt.Sprintf(`#include <stdlib.h>
#include <string.h>
#include <tvm_net.h>

static const uint8_t blob[] = {%s};
static const float x[4] = {1.0F, 2.0F, 3.0F, 4.0F};
static float sum[4], again[4], copy[4];

static float first(void) {
  const TVM_net_input in = {x, NULL};
  const TVM_net_output out = {sum, again, copy, NULL};
  return (TVMExecute(&tvm_net, &in, &out, NULL) == 0) ? sum[0] : -1.0F;
}

static uint32_t crc(const uint8_t* data, size_t bytes) {
  uint32_t c = 0xFFFFFFFFU;
  for (size_t i = 0; i < bytes; i++) {
    c ^= data[i];
    for (int bit = 0; bit < 8; bit++) {
      c = ((c & 1U) != 0U) ? ((c >> 1) ^ 0xEDB88320U) : (c >> 1);
    }
  }
  return ~c;
}

int main(void) {
  const int32_t refused = (int32_t)kTvmErrorFunctionCallInvalidArg;
  const size_t data = sizeof blob - 16U;
  EXPECT((first() > 2.9F) && (first() < 3.1F));
  EXPECT(TVM_net_SetParameters(blob, sizeof blob, %#[2]xU + 1U) == refused);
  for (size_t n = 0; n <= sizeof blob + 1U; n++) {  // as an allocation: no read behind it
    uint8_t* const cut = (uint8_t*)malloc(n + 1U);
    EXPECT(cut != NULL);
    (void)memset(cut, 0, n + 1U);
    (void)memcpy(cut, blob, (n < sizeof blob) ? n : sizeof blob);
    EXPECT((n == sizeof blob) || (TVM_net_SetParameters(cut, n, crc(cut, n)) == refused));
    if (n == sizeof blob) {
      for (size_t i = 0; i < data; i++) {
        cut[i] ^= 0x10U;
        EXPECT(TVM_net_SetParameters(cut, n, crc(cut, n)) == refused);
        cut[i] ^= 0x10U;
      }
    }
    free(cut);
    EXPECT((first() > 2.9F) && (first() < 3.1F));
  }
  EXPECT(TVM_net_SetParameters(blob, sizeof blob, %#[2]xU) == 0);
  EXPECT((first() > 16.9F) && (first() < 17.1F));
  EXPECT(TVM_net_NUM_PARAMETERS == 1);
  return 0;
}
`, initializer(&ndarray.Array{Data: blob}), crc32.ChecksumIEEE(blob)), ".c")
	for _, file := range c.Generated {
		if strings.HasSuffix(file.Name, ".h") && !strings.Contains(string(file.Data), "TVM_net_SetParameters") {
			t.Error("TVM_net_SetParameters is not declared")
		}
	}
	constant := handmade(t, m)
	if strings.Contains(string(constant.Generated[0].Data), "SetParameters") {
		t.Error("TVM_net_SetParameters is declared for constants")
	}
}

// TestDevices runs models of the C interface that use device contexts, or whose tensors lie in pools, with stubs for
// TVM's code.
func TestDevices(t *testing.T) {
	const header = `#include <stdint.h>
struct tvmgen_net_inputs { void* x; };
struct tvmgen_net_outputs { void* y; };
struct tvmgen_net_devices { void* npu; };
struct tvmgen_net_workspace_pools { void* weights; void* sram; void* unused; };
int32_t tvmgen_net_run(struct tvmgen_net_inputs* inputs, struct tvmgen_net_outputs* outputs,
  struct tvmgen_net_workspace_pools* workspace_pools, struct tvmgen_net_devices* devices);
#define TVMGEN_NET_WEIGHTS_CONSTANT_POOL_SIZE 4
#define TVMGEN_NET_WEIGHTS_CONSTANT_POOL_DATA 1, 2, 3, 4
`
	const source = `#include <tvmgen_net.h>
int32_t tvmgen_net_run(struct tvmgen_net_inputs* inputs, struct tvmgen_net_outputs* outputs,
  struct tvmgen_net_workspace_pools* workspace_pools, struct tvmgen_net_devices* devices) {
  int8_t* t = workspace_pools->sram;
  if (workspace_pools->unused) return -1;
  for (int i = 0; i < 4; i++) t[i] = ((int8_t*)inputs->x)[i] + ((uint8_t*)workspace_pools->weights)[i];
  for (int i = 0; i < 4; i++) ((int8_t*)outputs->y)[i] = t[i] + *(int*)devices->npu;
  return 0;
}
`
	c := handmade(t, withHeader(mlf.Header{
		Pools: []mlf.Buffer{
			{Name: "weights", Bytes: 4, Data: "TVMGEN_NET_WEIGHTS_CONSTANT_POOL_DATA"},
			{Name: "sram", Bytes: 32},
			{Name: "unused"},
		},
		Devices: []string{"npu"}, Run: []string{"inputs", "outputs", "workspace_pools", "devices"},
	}, header, source))
	const zephyr = `
#define DEVICE_DT_GET(node) node
struct device { int number; };
static inline int device_is_ready(const struct device* d) { return d->number != 0; }
`
	const program = `#include <tvm_net.h>
#include <tvm_zephyr.h>

static struct device npu = {100};

int main(void) {
  static void* const devices[] = {TVM_ZEPHYR_DEVICE(&npu)};
  static void* const none[] = {NULL};
  static const TVMContext context = TVM_CONTEXT_INIT(NULL, devices);
  TVMContext other = TVM_CONTEXT_INIT(NULL, NULL);
  const int8_t x[4] = {1, 2, 3, 4};
  int8_t y[4] = {0};
  const TVM_net_input in = {x};
  const TVM_net_output out = {y};
  EXPECT(TVM_net_DEVICE_NPU_INDEX == 0);
  EXPECT(TVM_net_WORKSPACE_SRAM_SIZE == 32);
  EXPECT(TVMZephyrDevicesReady(&tvm_net, &context) == 0);
  EXPECT(TVMZephyrDevicesReady(&tvm_net, NULL) == (int32_t)kTvmErrorExecutorModuleBadContext);
  EXPECT(TVMZephyrDevicesReady(&tvm_net, &other) == (int32_t)kTvmErrorExecutorModuleBadContext);
  EXPECT((TVMExecute(&tvm_net, &in, &out, &context) == 0) && (y[3] == 108));
  EXPECT(TVMExecute(&tvm_net, &in, &out, NULL) == (int32_t)kTvmErrorExecutorModuleBadContext);
  EXPECT(TVMSetDevice(&tvm_net, &other, none) == (int32_t)kTvmErrorFunctionCallInvalidArg);
  EXPECT(TVMSetDevice(&tvm_net, &other, devices) == 0);
  EXPECT(TVMExecute(&tvm_net, &in, &out, &other) == 0);
  return 0;
}
`
	dir := t.TempDir()
	write(t, dir+"/zephyr/device.h", zephyr)
	check(t, c, program, ".c", "-I"+dir)
}

// TestMapped runs a model of the C interface whose tensors lie in a pool.
func TestMapped(t *testing.T) {
	const header = `#include <stdint.h>
struct tvmgen_net_inputs { void* x; };
struct tvmgen_net_outputs { void* y; };
struct tvmgen_net_workspace_pools { void* sram; };
struct tvmgen_net_inputs tvmgen_net_map_inputs(struct tvmgen_net_workspace_pools* workspace_pools);
struct tvmgen_net_outputs tvmgen_net_map_outputs(struct tvmgen_net_workspace_pools* workspace_pools);
int32_t tvmgen_net_run(struct tvmgen_net_workspace_pools* workspace_pools);
`
	const source = `#include <tvmgen_net.h>
struct tvmgen_net_inputs tvmgen_net_map_inputs(struct tvmgen_net_workspace_pools* workspace_pools) {
  struct tvmgen_net_inputs m = {&((uint8_t*)workspace_pools->sram)[16]};
  return m;
}
struct tvmgen_net_outputs tvmgen_net_map_outputs(struct tvmgen_net_workspace_pools* workspace_pools) {
  struct tvmgen_net_outputs m = {workspace_pools->sram};
  return m;
}
int32_t tvmgen_net_run(struct tvmgen_net_workspace_pools* workspace_pools) {
  int8_t* p = workspace_pools->sram;
  if (p[16] == 99) return -7;
  for (int i = 0; i < 4; i++) p[i] = p[16 + i] * 2;
  return 0;
}
`
	c := handmade(t, withHeader(mlf.Header{
		Mapped: true, Pools: []mlf.Buffer{{Name: "sram", Bytes: 32}}, Run: []string{"workspace_pools"},
	}, header, source))
	check(t, c, `#include <tvm_net.h>

static TVM_WORKSPACE_ALIGNED uint8_t memory[TVM_net_WORKSPACE_SIZE];
static void* const workspaces[] = TVM_net_WORKSPACES(memory);
static const TVMContext context = TVM_CONTEXT_INIT(workspaces, NULL);

int main(void) {
  int8_t x[4] = {1, 2, 3, 4};
  int8_t y[4] = {0};
  const TVM_net_input in = {x};
  const TVM_net_output out = {y};
  EXPECT((TVMExecute(&tvm_net, &in, &out, NULL) == 0) && (y[3] == 8) && (memory[16] == 0U));
  x[3] = 5;
  EXPECT((TVMExecute(&tvm_net, &in, &out, &context) == 0) && (y[3] == 10) && (memory[19] == 5U));
  x[0] = 99;
  EXPECT(TVMExecute(&tvm_net, &in, &out, NULL) == -7);
  return 0;
}
`, ".c")
}

// TestRefused expects errors for archives that the C cannot wrap.
func TestRefused(t *testing.T) {
	many := make([]step, 10000)
	for i := range many {
		many[i] = step{"net_copy", i - 1, 4}
	}
	for want, change := range map[string]func(*mlf.Model){
		"no outputs": func(m *mlf.Model) { m.Outputs = nil },
		"function tvmgen_net___tvm_main__ not found": func(m *mlf.Model) { m.Executor = mlf.AOT },
		`argument "empty"`:                           func(m *mlf.Model) { m.Inputs = m.Inputs[:1] },
		"more than 8192": func(m *mlf.Model) {
			*m = *chain(operator("net_copy", copyFour), 4, many...)
		},
		"void* t = TVMBackendAllocWorkspace(1, 0, n, 2, 32);": func(m *mlf.Model) {
			m.Sources[0].Data = bytes.ReplaceAll(m.Sources[0].Data, []byte("(uint64_t)16"), []byte("n"))
		},
	} {
		m := adder()
		change(m)
		_, err := cmodel.Generate(archiv, m, cmodel.Options{})
		testkit.WantError(t, err, "", want)
	}
	inRAM := cmodel.Options{RAMParameters: true}
	m := adder()
	m.Params = nil
	_, err := cmodel.Generate(archiv, m, inRAM)
	testkit.WantError(t, err, "", "p")
	a, m := mlftest.Open(t, mlftest.Path(t, "sine.aot_c"))
	if _, err := cmodel.Generate(a, m, inRAM); err == nil {
		t.Error("parameters of an ahead-of-time model in RAM")
	}
}
