// This file generates C code through which models with the C interface can be called by name (crt_abi.md §10,
// mlf.md §5).

package generator

import (
	"bytes"
	"fmt"
	"strings"
	"text/template"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/mlf"
)

// Files of generated C, beside the model's sources.
const (
	AdapterFile    = "codegen/host/src/boardsmith_adapter.c"
	SignaturesFile = "codegen/host/src/boardsmith_signatures.c"
)

// Adapter returns a C source with what the device's AOT executor needs of models with the C interface: a packed
// entry tvmgen_<M>_run, a description tvmgen_<M>_get_c_metadata, and the system library that registers both. It
// allocates the model's pools from the arena at the first run; constant pools lie in flash. Pools that placed names,
// with their regions, are variables and constants in sections of their own. It returns nil if no model needs one. Equal
// models and pools give equal bytes.
func Adapter(placed map[string]string, modules ...*mlf.Model) ([]byte, error) {
	var models []adapted
	for _, m := range modules {
		if m.ABI != mlf.ABIUnpacked {
			continue
		}
		a, err := adapt(m, placed)
		if err != nil {
			return nil, fmt.Errorf("adapter for model %s: %w", m.Name, err)
		}
		models = append(models, a)
	}

	if len(models) == 0 {
		return nil, nil
	}
	var out bytes.Buffer
	if err := adapterC.Execute(&out, models); err != nil {
		return nil, fmt.Errorf("adapter: %w", err)
	}
	return out.Bytes(), nil
}

// An adapted model is the input of the text template.
type adapted struct {
	M               string // the name in C
	Inputs, Outputs []adaptedTensor
	Pools           []adaptedPool
	Mapped          bool
	Run             []string // arguments of the model's entry
}

// An adaptedTensor is an argument of the packed entry.
type adaptedTensor struct {
	Field string // in the model's struct
	Name  string // in the description
	Arg   int
	Bytes int64
	Shape []int64
	DType string // initialiser of a DLDataType
}

// An adaptedPool is a pool with the section that it lies in.
type adaptedPool struct {
	mlf.Buffer
	Section string // "": memory of the arena, or where the model's constants are
}

func adaptPool(p mlf.Buffer, placed map[string]string) adaptedPool {
	switch {
	case placed[p.Name] == "":
		return adaptedPool{p, ""}
	case p.Data != "":
		return adaptedPool{p, poolData(p.Name)}
	}
	return adaptedPool{p, poolSpace(p.Name)}
}

func adapt(m *mlf.Model, placed map[string]string) (adapted, error) {
	h := m.Header
	if err := h.CheckNames(); err != nil {
		return adapted{}, err
	}

	if len(h.Devices) > 0 {
		return adapted{}, failure.New(failure.Config,
			"make standalone firmware or C for your own firmware of it, or export it for a target without device contexts",
			"an RPC server has no device contexts, which its operators need: %q", h.Devices)
	}

	a := adapted{M: h.Name, Mapped: h.Mapped}
	for _, p := range h.Pools {
		a.Pools = append(a.Pools, adaptPool(p, placed))
	}

	for i, t := range m.Inputs {
		field := h.Inputs[i].Name
		a.Inputs = append(a.Inputs, adaptTensor(t, field, field, i))
	}
	for i, t := range m.Outputs {
		// In its descriptions TVM numbers the outputs, whatever their names are.
		a.Outputs = append(a.Outputs, adaptTensor(t, h.Outputs[i].Name, fmt.Sprintf("output%d", i), len(m.Inputs)+i))
	}

	for _, param := range h.Run {
		a.Run = append(a.Run, "&"+param)
	}

	if h.Mapped == strings.Contains(strings.Join(h.Run, " "), "puts") {
		return adapted{}, fmt.Errorf("its header must either return the inputs' addresses or take them as arguments")
	}
	return a, nil
}

func adaptTensor(t mlf.Tensor, field, name string, arg int) adaptedTensor {
	return adaptedTensor{
		field, name, arg, t.Bytes, t.Dims(),
		fmt.Sprintf("{%dU, %dU, %dU}", t.DType.Code, t.DType.Bits, t.DType.Lanes),
	}
}

// Args returns the number of the packed entry's arguments.
func (a adapted) Args() int { return len(a.Inputs) + len(a.Outputs) }

// registryNames returns the registry's literal for all models: the number of functions, two per model, in two
// bytes, and the names.
func registryNames(models []adapted) string {
	n := 2 * len(models)
	var b strings.Builder
	fmt.Fprintf(&b, `"\%03o\%03o"`, n&0xff, n>>8)

	for _, m := range models {
		for _, function := range []string{"run", "get_c_metadata"} {
			fmt.Fprintf(&b, "\n    \"tvmgen_%s_%s\\0\"", m.M, function)
		}
	}
	return b.String()
}

// initializer writes shapes and the like for an initialiser.
func initializer(v []int64) string {
	var parts []string
	for _, n := range v {
		parts = append(parts, fmt.Sprint(n))
	}
	return strings.Join(parts, ", ")
}

var adapterC = template.Must(template.New("adapter.c").Funcs(template.FuncMap{
	"names": registryNames, "list": initializer, "join": func(s []string) string { return strings.Join(s, ", ") },
}).Parse(`// SPDX-License-Identifier: 0BSD
//
// Made by boardsmith from the model's header. It lets a model that was exported with the C interface be found and
// called by name, like one with packed functions.
#include <boardsmith/boardsmith.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <tvm/runtime/c_runtime_api.h>
#include <tvm/runtime/crt/error_codes.h>
#include <tvm/runtime/crt/func_registry.h>
#include <tvm/runtime/crt/module.h>
#include <tvm/runtime/crt/platform.h>
#include <tvm/runtime/metadata_types.h>
{{range .}}#include <tvmgen_{{.M}}.h>
{{end}}
// The memory of argument i, or NULL if it is no tensor or a smaller one than size_bytes.
static void* tensor(const TVMValue* args, const int* type_codes, int i, size_t size_bytes) {
  const DLTensor* t = (const DLTensor*)args[i].v_handle;
  size_t given = 0U;
  if ((type_codes[i] != (int)kTVMDLTensorHandle && type_codes[i] != (int)kTVMNDArrayHandle) || t == NULL ||
      t->data == NULL || boardsmith_tensor_bytes(t->ndim, t->shape, t->dtype, &given) != 0 || given < size_bytes) {
    return NULL;
  }
  return (uint8_t*)t->data + (size_t)t->byte_offset;
}

static int refuse(tvm_crt_error_t code, const char* why) {
  TVMAPISetLastError(why);
  return (int)code;
}
{{range $m := .}}
// ---- {{.M}} ----
{{range .Pools}}{{if .Data}}
{{if .Section}}extern const uint8_t {{$m.M}}_pool_{{.Name}}[{{.Bytes}}];
{{else}}static {{end}}const uint8_t {{$m.M}}_pool_{{.Name}}[{{.Bytes}}] __attribute__((section("{{or .Section ".rodata.tvm"}}"), aligned(16))) = { {{.Data}} };
{{else if and .Bytes .Section}}
extern uint8_t {{$m.M}}_pool_{{.Name}}[{{.Bytes}}];
uint8_t {{$m.M}}_pool_{{.Name}}[{{.Bytes}}] __attribute__((section("{{.Section}}"), aligned(16)));
{{else if .Bytes}}
static void* {{$m.M}}_pool_{{.Name}};  // {{.Bytes}} bytes of the arena, from the first run on
{{end}}{{end}}{{range .Pools}}{{if and .Bytes (not .Data) (not .Section)}}
static int {{$m.M}}_take_{{.Name}}(void) {
  const DLDevice cpu = {kDLCPU, 0};
  void* memory = NULL;
  tvm_crt_error_t error = kTvmErrorNoError;
  if ({{$m.M}}_pool_{{.Name}} == NULL) {
    error = TVMPlatformMemoryAllocate((size_t){{.Bytes}} + 15U, cpu, &memory);
    if (error != kTvmErrorNoError) {
      return refuse(error, "no memory for {{$m.M}}'s pool {{.Name}}, {{.Bytes}} bytes");
    }
    {{$m.M}}_pool_{{.Name}} = (void*)(((uintptr_t)memory + 15U) & ~(uintptr_t)15U);
  }
  return 0;
}
{{end}}{{end}}
// tvmgen_{{.M}}_run({{range .Inputs}}{{.Field}}, {{end}}{{range $i, $t := .Outputs}}{{if $i}}, {{end}}{{.Field}}{{end}}): tensors, inputs first.
int32_t boardsmith_{{.M}}_run(TVMValue* args, int* type_codes, int num_args, TVMValue* out_value, int* out_type,
                              void* resource);
int32_t boardsmith_{{.M}}_run(TVMValue* args, int* type_codes, int num_args, TVMValue* out_value, int* out_type,
                              void* resource) {
{{- if .Mapped}}
  struct tvmgen_{{.M}}_inputs inputs;
  struct tvmgen_{{.M}}_outputs outputs;
{{- else}}
  struct tvmgen_{{.M}}_inputs inputs = {0};
  struct tvmgen_{{.M}}_outputs outputs = {0};
{{- end}}
{{- if .Pools}}
  struct tvmgen_{{.M}}_workspace_pools workspace_pools = {0};
{{- end}}
  void* given[{{.Args}}];
  int error = 0;
  (void)out_value;
  (void)out_type;
  (void)resource;
  if (num_args < {{.Args}}) {
    return refuse(kTvmErrorFunctionCallNumArguments, "tvmgen_{{.M}}_run needs {{.Args}} tensors");
  }
{{- range .Inputs}}
  given[{{.Arg}}] = tensor(args, type_codes, {{.Arg}}, {{.Bytes}}U);
{{- end}}
{{- range .Outputs}}
  given[{{.Arg}}] = tensor(args, type_codes, {{.Arg}}, {{.Bytes}}U);
{{- end}}
  for (int i = 0; i < {{.Args}}; i++) {
    if (given[i] == NULL) {
      return refuse(kTvmErrorFunctionCallWrongArgType, "tvmgen_{{.M}}_run: an argument is no tensor or too small");
    }
  }
{{- range .Pools}}
{{- if .Data}}
  workspace_pools.{{.Name}} = (void*)(uintptr_t){{$m.M}}_pool_{{.Name}};  // only ever read
{{- else if and .Bytes .Section}}
  workspace_pools.{{.Name}} = {{$m.M}}_pool_{{.Name}};
{{- else if .Bytes}}
  error = {{$m.M}}_take_{{.Name}}();
  if (error != 0) {
    return error;
  }
  workspace_pools.{{.Name}} = {{$m.M}}_pool_{{.Name}};
{{- end}}
{{- end}}
{{- if .Mapped}}
  inputs = tvmgen_{{.M}}_map_inputs(&workspace_pools);
  outputs = tvmgen_{{.M}}_map_outputs(&workspace_pools);
{{- range .Inputs}}
  (void)memcpy(inputs.{{.Field}}, given[{{.Arg}}], {{.Bytes}}U);
{{- end}}
  error = (int)tvmgen_{{.M}}_run({{join .Run}});
  if (error != 0) {
    return error;
  }
{{- range .Outputs}}
  (void)memcpy(given[{{.Arg}}], outputs.{{.Field}}, {{.Bytes}}U);
{{- end}}
{{- else}}
{{- range .Inputs}}
  inputs.{{.Field}} = given[{{.Arg}}];
{{- end}}
{{- range .Outputs}}
  outputs.{{.Field}} = given[{{.Arg}}];
{{- end}}
  error = (int)tvmgen_{{.M}}_run({{join .Run}});
{{- end}}
  return error;
}
{{range .Inputs}}{{if .Shape}}
static const int64_t {{$m.M}}_shape_{{.Arg}}[] = { {{list .Shape}} };
{{- end}}{{end}}{{range .Outputs}}{{if .Shape}}
static const int64_t {{$m.M}}_shape_{{.Arg}}[] = { {{list .Shape}} };
{{- end}}{{end}}
{{if .Inputs}}
static const struct TVMTensorInfo {{.M}}_inputs[] = {
{{- range .Inputs}}
    {"{{.Name}}", {{if .Shape}}{{$m.M}}_shape_{{.Arg}}{{else}}NULL{{end}}, {{len .Shape}}, {{.DType}}},
{{- end}}
};
{{end}}
static const struct TVMTensorInfo {{.M}}_outputs[] = {
{{- range .Outputs}}
    {"{{.Name}}", {{if .Shape}}{{$m.M}}_shape_{{.Arg}}{{else}}NULL{{end}}, {{len .Shape}}, {{.DType}}},
{{- end}}
};

static const struct TVMMetadata {{.M}}_metadata = {
    .version = TVM_METADATA_VERSION,
    .inputs = {{if .Inputs}}{{.M}}_inputs{{else}}NULL{{end}},
    .num_inputs = {{len .Inputs}},
    .outputs = {{.M}}_outputs,
    .num_outputs = {{len .Outputs}},
    .workspace_pools = NULL,  // the entry takes its pools by itself
    .num_workspace_pools = 0,
    .constant_pools = NULL,
    .num_constant_pools = 0,
    .mod_name = "tvmgen_{{.M}}",
};

int32_t boardsmith_{{.M}}_get_c_metadata(TVMValue* args, int* type_codes, int num_args, TVMValue* out_value, int* out_type,
                                         void* resource);
int32_t boardsmith_{{.M}}_get_c_metadata(TVMValue* args, int* type_codes, int num_args, TVMValue* out_value, int* out_type,
                                         void* resource) {
  (void)args;
  (void)type_codes;
  (void)num_args;
  (void)resource;
  out_value[0].v_handle = (void*)(uintptr_t)&{{.M}}_metadata;  // only ever read
  out_type[0] = (int)kTVMOpaqueHandle;
  return 0;
}
{{end}}
// ---- The system library ----

static const TVMBackendPackedCFunc functions[] = {
{{- range .}}
    boardsmith_{{.M}}_run,
    boardsmith_{{.M}}_get_c_metadata,
{{- end}}
};

static const TVMFuncRegistry registry = {
    {{names .}},
    functions,
};

static const TVMModule system_lib = {&registry};

const TVMModule* TVMSystemLibEntryPoint(void) { return &system_lib; }
`))
