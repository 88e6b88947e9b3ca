//go:build linux

package project

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/drawn"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
)

// cmsisVariable names a folder with Arm's CMSIS-NN.
const cmsisVariable = "BOARDSMITH_CMSIS_NN"

// TestKernelLibrary runs an operator that calls a vendor's kernels, which docs/templates.md describes as a library, and
// compares with a computation in Go. Here the kernel is a stand-in with the interface and the folders of CMSIS-NN's.
func TestKernelLibrary(t *testing.T) {
	drawn.OnlyInFull(t, "TestLibraries and TestOwnLibrary")
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "nn")
	putFiles(t, filepath.Join(dir, "CMSIS-NN"), standIn)
	checkKernels(t, dir, denseOperator, denseInGo, compiledWays...)
}

// TestCMSISNN is TestKernelLibrary and TestTensorFlowLite with CMSIS-NN itself, and a convolution.
func TestCMSISNN(t *testing.T) {
	t.Parallel()
	from := os.Getenv(cmsisVariable)
	if from == "" {
		t.Skip(cmsisVariable + " names no folder with Arm's CMSIS-NN")
	}
	dir := filepath.Join(t.TempDir(), "nn")
	must(t, os.CopyFS(filepath.Join(dir, "CMSIS-NN"), withoutGit{os.DirFS(from)}))
	checkKernels(t, dir, denseOperator, denseInGo, compiledWays...)
	checkKernels(t, dir, convOperator, convInGo, "firmware")
	library, spec := generatedNetwork(t)
	must(t, os.CopyFS(library, os.DirFS(dir)))
	checkNetwork(t, spec, "mps2_an386", "host", "qemu_riscv32")
}

// withoutGit leaves out git's own folder.
type withoutGit struct{ fs.FS }

func (w withoutGit) ReadDir(name string) ([]fs.DirEntry, error) {
	all, err := fs.ReadDir(w.FS, name)
	return slices.DeleteFunc(all, func(e fs.DirEntry) bool { return e.Name() == ".git" }), err
}

// TestTensorFlowLite exports the network of examples/cmsis-nn. Its outputs must be those of TensorFlow Lite's reference
// kernels.
func TestTensorFlowLite(t *testing.T) {
	t.Parallel()
	dir, s := generatedNetwork(t)
	writeIn(t, dir, "library.json", describedLibrary(t))
	putFiles(t, filepath.Join(dir, "CMSIS-NN"), standIn)
	checkNetwork(t, s, "mps2_an386", "host")
}

// generatedNetwork exports a network; the library that it calls is to be put into the folder.
func generatedNetwork(t *testing.T) (string, Spec) {
	t.Helper()
	python := os.Getenv("BOARDSMITH_RELAX_PYTHON")
	if python == "" {
		tool, err := testkit.FindTool("check-model")
		if err != nil {
			t.Skipf("BOARDSMITH_RELAX_PYTHON is not set, and setup has installed no Python with tflite: %v", err)
		}
		python = filepath.Join(filepath.Dir(tool), "python")
	}
	model := filepath.Join(t.TempDir(), "dense.tar")
	cmd := exec.CommandContext(t.Context(), python, "-m", "boardsmith", "../examples/cmsis-nn/dense.tflite", model,
		"--no-check")
	cmd.Env = append(os.Environ(), "PYTHONPATH=../python", "PYTHONDONTWRITEBYTECODE=1")
	output(t, cmd)
	library := filepath.Join(t.TempDir(), "nn")
	return library, Spec{Model: model, Libraries: []string{library}}
}

// checkNetwork runs the network on boards.
func checkNetwork(t *testing.T, s Spec, boards ...string) {
	t.Helper()
	samples := arraysOf(t, "../examples/cmsis-nn/dense.npz")
	const inputs, outputs = 40, 12
	for _, s.Board = range boards {
		got, err := goWay(t, "firmware", s, samples[0].Array.Data[:inputs])
		if want := samples[1].Array.Data[:outputs]; err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: got %v, %v, want %v", s.Board, got, err, want)
		}
	}
}

// describedLibrary returns the library.json for CMSIS-NN in docs/templates.md, which examples/cmsis-nn has, too.
func describedLibrary(t *testing.T) string {
	t.Helper()
	page := readFile(t, "../docs/templates.md")
	_, rest, found := strings.Cut(page, "<!-- nn/library.json, the text of a test -->\n```json\n")
	text, _, ended := strings.Cut(rest, "```")
	if !found || !ended {
		t.Fatal("docs/templates.md has no library.json for CMSIS-NN")
	}
	if file := readFile(t, "../examples/cmsis-nn/nn/library.json"); file != text {
		t.Errorf("examples/cmsis-nn has another library.json: %s", file)
	}
	return text
}

// checkKernels runs an operator that calls the library in dir, in several ways, and compares with want. Without the
// library, the compiler's error names the header.
func checkKernels(t *testing.T, dir string, o kernelOperator, want func(k kernelOperator, in []int8) []int8,
	ways ...string,
) {
	t.Helper()
	writeIn(t, dir, "library.json", describedLibrary(t))
	o.draw()
	in := o.drawInt8(o.inputs)
	model := mlftest.Tiny(t, map[string]string{
		"metadata.json": o.metadata(), "codegen/host/src/lib1.c": o.source(),
	})
	s := Spec{Board: "mps2_an386", Model: model, Libraries: []string{dir}}
	for _, way := range ways {
		got, err := goWay(t, way, s, asBytes(in))
		if err != nil {
			t.Fatalf("%s: %v; %s", way, err, failure.Next(err))
		}
		if w := asBytes(want(o, in)); way != "library" && !slices.Equal(got, w) {
			t.Errorf("%s: got %v, want %v", way, got, w)
		}
	}
	s.Libraries = nil
	_, err := goWay(t, ways[0], s, nil)
	wantError(t, err, failure.Compile, "includes arm_nnfunctions.h", "Spec.Libraries")
}

// A kernelOperator is an operator on int8 tensors with constants of its own.
type kernelOperator struct {
	inputs, outputs, channels, depth int // sizes: of input and output; output channels, and weights for each
	body                             string

	weights    []int8
	biases     []int32
	multiplier []int32 // Q31
	shift      []int32 // negative: to the right
	random     *rand.Rand
}

const (
	inputOffset  = 3
	outputOffset = -5
)

func (o *kernelOperator) draw() {
	o.random = rand.New(rand.NewPCG(1, 2))
	o.weights = o.drawInt8(o.channels * o.depth)
	for range o.channels {
		o.biases = append(o.biases, int32(o.random.IntN(2001))-1000)
		o.multiplier = append(o.multiplier, 1<<30+int32(o.random.IntN(1<<30)))
		o.shift = append(o.shift, -7-int32(o.random.IntN(2)))
	}
}

func (o *kernelOperator) drawInt8(n int) (values []int8) {
	for range n {
		values = append(values, int8(o.random.IntN(256)-128))
	}
	return values
}

func asBytes(values []int8) (data []byte) {
	for _, v := range values {
		data = append(data, byte(v))
	}
	return data
}

func (o *kernelOperator) metadata() string {
	argument := func(n int) string {
		return fmt.Sprintf(`{"size_bytes": %d, "shape": [%d], "dtype": "int8", "input_binding": null}`, n, n)
	}
	return `{"version": 7, "model_name": "twice", "export_datetime": "2020-01-01 00:00:00Z", "memory": {"twice": [` +
		argument(o.inputs) + ", " + argument(o.outputs) +
		`]}, "target": ["c -keys=cpu"], "executors": [], "style": "operator"}`
}

// list returns values as C.
func list[T any](values []T) string {
	return strings.Join(strings.Fields(strings.Trim(fmt.Sprint(values), "[]")), ", ")
}

func (o *kernelOperator) source() string {
	return fmt.Sprintf(`// tvm target: cmsis-nn -keys=cmsis-nn,cpu
#include <arm_nnfunctions.h>
#include <tvm/runtime/c_runtime_api.h>
#include <tvm/runtime/c_backend_api.h>
static const int8_t weights[] = {%s};
static const int32_t biases[] = {%s};
static int32_t multiplier[] = {%s};
static int32_t shift[] = {%s};
enum { INPUTS = %d, OUTPUTS = %d, CHANNELS = %d, DEPTH = %d, IN_OFFSET = %d, OUT_OFFSET = %d };
TVM_DLL int32_t twice(void* args, int32_t* arg_type_ids, int32_t num_args, void* out_ret_value,
                      int32_t* out_ret_tcode, void* resource_handle) {
  const int8_t* in = (const int8_t*)((DLTensor*)(((TVMValue*)args)[0].v_handle))->data;
  int8_t* out = (int8_t*)((DLTensor*)(((TVMValue*)args)[1].v_handle))->data;
%s
}
`, list(o.weights), list(o.biases), list(o.multiplier), list(o.shift), o.inputs, o.outputs, o.channels, o.depth,
		inputOffset, outputOffset, o.body)
}

// requantized scales a sum as TensorFlow Lite's reference does, with two roundings.
func (o *kernelOperator) requantized(sum int32, channel int) int8 {
	high := int32((int64(sum)*int64(o.multiplier[channel]) + 1<<30) >> 31)
	right := uint(-o.shift[channel])
	scaled, remainder, threshold := high>>right, high&(1<<right-1), int32(1<<right-1)>>1
	if scaled < 0 {
		threshold++
	}
	if remainder > threshold {
		scaled++
	}
	return int8(min(max(scaled+outputOffset, -128), 127))
}

// denseOperator calls a fully connected layer of 40 inputs and 12 outputs.
var denseOperator = kernelOperator{inputs: 40, outputs: 12, channels: 12, depth: 40, body: `
  const cmsis_nn_context context = {NULL, 0};
  const cmsis_nn_fc_params layer = {.input_offset = IN_OFFSET, .output_offset = OUT_OFFSET, .activation = {-128, 127}};
  const cmsis_nn_per_tensor_quant_params scale = {multiplier[0], shift[0]};
  const cmsis_nn_dims in_dims = {1, 1, 1, INPUTS}, weight_dims = {INPUTS, 1, 1, OUTPUTS};
  const cmsis_nn_dims bias_dims = {1, 1, 1, OUTPUTS}, out_dims = {1, 1, 1, OUTPUTS};
  return arm_fully_connected_s8(&context, &layer, &scale, &in_dims, in, &weight_dims, weights, &bias_dims, biases,
                                &out_dims, out) == ARM_CMSIS_NN_SUCCESS ? 0 : -1;`}

func denseInGo(o kernelOperator, in []int8) (out []int8) {
	for channel := range o.channels {
		sum := o.biases[channel]
		for i, x := range in {
			sum += (int32(x) + inputOffset) * int32(o.weights[channel*o.depth+i])
		}
		out = append(out, o.requantized(sum, 0))
	}
	return out
}

// convOperator calls a convolution of 3 × 3 with padding, from 6 × 5 × 4 to 6 × 5 × 8.
var convOperator = kernelOperator{inputs: 120, outputs: 240, channels: 8, depth: 36, body: `
  const cmsis_nn_conv_params layer = {.input_offset = IN_OFFSET, .output_offset = OUT_OFFSET, .stride = {1, 1},
    .padding = {1, 1}, .dilation = {1, 1}, .activation = {-128, 127}};
  const cmsis_nn_per_channel_quant_params scale = {multiplier, shift};
  const cmsis_nn_dims in_dims = {1, 6, 5, 4}, weight_dims = {CHANNELS, 3, 3, 4}, out_dims = {1, 6, 5, CHANNELS};
  const cmsis_nn_dims bias_dims = {1, 1, 1, CHANNELS};
  const int32_t bytes = arm_convolve_wrapper_s8_get_buffer_size(&layer, &in_dims, &weight_dims, &out_dims);
  void* memory = TVMBackendAllocWorkspace(1, 0, 4096, 2, 8);
  if (memory == NULL || bytes > 4096) {
    return -1;
  }
  const cmsis_nn_context context = {memory, bytes};
  const int32_t result = arm_convolve_wrapper_s8(&context, &layer, &scale, &in_dims, in, &weight_dims, weights,
                                                 &bias_dims, biases, &out_dims, out);
  return (TVMBackendFreeWorkspace(1, 0, memory) == 0 && result == ARM_CMSIS_NN_SUCCESS) ? 0 : -1;`}

func convInGo(o kernelOperator, in []int8) (out []int8) {
	const height, width, depth = 6, 5, 4
	for y := range height {
		for x := range width {
			for channel := range o.channels {
				sum := o.biases[channel]
				for k := range o.depth {
					row, column, c := y+k/(3*depth)-1, x+k/depth%3-1, k%depth
					if row >= 0 && row < height && column >= 0 && column < width {
						value := int32(in[(row*width+column)*depth+c]) + inputOffset
						sum += value * int32(o.weights[channel*o.depth+k])
					}
				}
				out = append(out, o.requantized(sum, channel))
			}
		}
	}
	return out
}

// standIn are the files of the stand-in, below its folder.
var standIn = map[string]string{
	"Source/BasicMathFunctions/arm_add_f32.c": "#error \"not enabled\"\n",
	"Tests/TestData/arm_nnfunctions.h":        "#error \"a test's\"\n",
	"Include/arm_nnfunctions.h": `#ifndef ARM_NNFUNCTIONS_H
#define ARM_NNFUNCTIONS_H
#include <stddef.h>
#include <stdint.h>
typedef enum { ARM_CMSIS_NN_SUCCESS = 0, ARM_CMSIS_NN_ARG_ERROR = -1 } arm_cmsis_nn_status;
typedef struct { void* buf; int32_t size; } cmsis_nn_context;
typedef struct { int32_t n, h, w, c; } cmsis_nn_dims;
typedef struct { int32_t multiplier, shift; } cmsis_nn_per_tensor_quant_params;
typedef struct { int32_t min, max; } cmsis_nn_activation;
typedef struct {
  int32_t input_offset, filter_offset, output_offset;
  cmsis_nn_activation activation;
} cmsis_nn_fc_params;
arm_cmsis_nn_status arm_fully_connected_s8(const cmsis_nn_context*, const cmsis_nn_fc_params*,
  const cmsis_nn_per_tensor_quant_params*, const cmsis_nn_dims*, const int8_t*, const cmsis_nn_dims*, const int8_t*,
  const cmsis_nn_dims*, const int32_t*, const cmsis_nn_dims*, int8_t*);
int32_t arm_fully_connected_s8_get_buffer_size(const cmsis_nn_dims*);
#endif
`,
	"Include/Internal/arm_sums.h": `static int32_t scaled(int64_t sum, int64_t multiplier, int32_t shift) {
  const int32_t high = (int32_t)((sum * multiplier + (1 << 30)) >> 31);
  const int32_t mask = (1 << -shift) - 1;
  const int32_t value = high >> -shift;
  return value + ((high & mask) > (mask >> 1) + (value < 0));
}
`,
	"Source/FullyConnectedFunctions/arm_fully_connected_s8.c": `#include "arm_nnfunctions.h"
#include "Internal/arm_sums.h"
arm_cmsis_nn_status arm_fully_connected_s8(const cmsis_nn_context* context, const cmsis_nn_fc_params* layer,
  const cmsis_nn_per_tensor_quant_params* scale, const cmsis_nn_dims* in_dims, const int8_t* in,
  const cmsis_nn_dims* weight_dims, const int8_t* weights, const cmsis_nn_dims* bias_dims, const int32_t* biases,
  const cmsis_nn_dims* out_dims, int8_t* out) {
  if (context == NULL || in_dims->n != 1) {
    return ARM_CMSIS_NN_ARG_ERROR;
  }
  for (int32_t o = 0; o < out_dims->c; o++) {
    int32_t sum = biases[o];
    for (int32_t i = 0; i < weight_dims->n; i++) {
      sum += (in[i] + layer->input_offset) * weights[(o * weight_dims->n) + i];
    }
    int32_t value = scaled(sum, scale->multiplier, scale->shift) + layer->output_offset;
    value = value < layer->activation.min ? layer->activation.min : value;
    out[o] = (int8_t)(value > layer->activation.max ? layer->activation.max : value);
  }
  return ARM_CMSIS_NN_SUCCESS;
}
int32_t arm_fully_connected_s8_get_buffer_size(const cmsis_nn_dims* weight_dims) { return (int32_t)(weight_dims == NULL); }
`,
}
