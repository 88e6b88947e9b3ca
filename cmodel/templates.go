// This file holds the texts of the generated C.

package cmodel

const headerText = `{{define "header"}}{{$m := .C}}// SPDX-License-Identifier: 0BSD
//
// Made by boardsmith for model {{comment .M.Name}}: what a program needs to run it with tvm_micro_runtime.h.
#ifndef TVM_{{.C}}_H_
#define TVM_{{.C}}_H_

#include <stdint.h>
#include <tvm_micro_runtime.h>
{{- if .Target}}

#include "tvm_target.h"
{{- end}}

#if TVM_MICRO_RUNTIME_VERSION != 1
#error "tvm_{{.C}}.h was made for another version of tvm_micro_runtime.h: generate it again"
#endif

#ifdef __cplusplus
extern "C" {
#endif

// The first four bytes of the archive's SHA-256, and the version of its format.
#define TVM_{{.C}}_ID {{printf "%#08xU" .ID}}
#define TVM_{{.C}}_ARCHIVE_VERSION {{.Archive.Version}}

#define TVM_{{.C}}_NUM_INPUTS {{len .Inputs}}
#define TVM_{{.C}}_NUM_OUTPUTS {{len .Outputs}}
#define TVM_{{.C}}_NUM_WORKSPACES {{len .Workspaces}}
#define TVM_{{.C}}_NUM_DEVICES {{len .Devices}}
{{range .Inputs}}
// Input {{comment .String}}
#define TVM_{{$m}}_INPUT_{{.Macro}}_SIZE {{.Bytes}}
#define TVM_{{$m}}_INPUT_{{.Macro}}_INDEX {{.Index}}
{{end}}{{range .Outputs}}
// Output {{comment .String}}
#define TVM_{{$m}}_OUTPUT_{{.Macro}}_SIZE {{.Bytes}}
#define TVM_{{$m}}_OUTPUT_{{.Macro}}_INDEX {{.Index}}
{{end}}{{range .Workspaces}}
// Workspace {{comment .Name}}
#define TVM_{{$m}}_WORKSPACE_{{.Macro}}_SIZE {{.Bytes}}
#define TVM_{{$m}}_WORKSPACE_{{.Macro}}_INDEX {{.Index}}
{{end}}{{range .Devices}}
// Device {{comment .Name}}
#define TVM_{{$m}}_DEVICE_{{.Macro}}_INDEX {{.Index}}
{{end}}
// The bytes of one buffer for all workspaces; at least 1, so that it can be the size of an array.
#define TVM_{{.C}}_WORKSPACE_SIZE {{.BufferBytes}}

// The list of workspaces in the array buffer: static void* const list[] = TVM_{{.C}}_WORKSPACES(buffer);
// Does not compile if the array is too small, or defined without TVM_WORKSPACE_ALIGNED.
#define TVM_{{.C}}_WORKSPACES(buffer) \
  { \
{{- range .Workspaces}}
    &((uint8_t*)(buffer))[{{.Offset}}U + TVM_CHECK_SIZE(buffer, TVM_{{$m}}_WORKSPACE_SIZE) + TVM_CHECK_ALIGNED(buffer)], \
{{- else}}
    &((uint8_t*)(buffer))[TVM_CHECK_SIZE(buffer, TVM_{{$m}}_WORKSPACE_SIZE) + TVM_CHECK_ALIGNED(buffer)] \
{{- end}}
  }

// Where the model's inputs are. The model only reads them.
typedef struct TVM_{{.C}}_input {
{{- range .Inputs}}
  const {{.Type}}* {{.C}};
{{- else}}
  const void* none;  // the model has no inputs
{{- end}}
} TVM_{{.C}}_input;

// Where the model writes its outputs.
typedef struct TVM_{{.C}}_output {
{{- range .Outputs}}
  {{.Type}}* {{.C}};
{{- end}}
} TVM_{{.C}}_output;

extern const TVMModel tvm_{{.C}};
{{if .RAM}}
#define TVM_{{.C}}_NUM_PARAMETERS {{len .Graph.Params}}

// TVMSetParameters for this model.
static inline int32_t TVM_{{.C}}_SetParameters(const void* blob, size_t blob_bytes, uint32_t crc32) {
  return TVMSetParameters(&tvm_{{.C}}, blob, blob_bytes, crc32);
}
{{end}}
#ifdef __cplusplus
}
#endif

#endif  // TVM_{{.C}}_H_
{{end}}`

const sourceText = `{{define "source"}}{{$g := .}}{{$m := .C}}// SPDX-License-Identifier: 0BSD
//
// Made by boardsmith for model {{comment .M.Name}}.
#include "tvm_{{.C}}.h"

{{if .HasMemory}}#include <boardsmith/model_parts.h>
{{end}}#include <string.h>
#include <tvm/runtime/c_runtime_api.h>
{{if .Header}}#include <{{.Header}}>
{{end}}{{range .Shapes}}
static const int64_t {{$g.ShapeRef .}}[] = { {{- list .Dims -}} };
{{- end}}

static const TVMModelTensor model_tensors[] = {
{{- range .Inputs}}
    { {{- quote .Name}}, {{$g.ShapeRef .Tensor}}, {{.Bytes}}U, {{dtype .DType}}, {{len .Dims}}},
{{- end}}
{{- range .Outputs}}
    { {{- quote .Name}}, {{$g.ShapeRef .Tensor}}, {{.Bytes}}U, {{dtype .DType}}, {{len .Dims}}},
{{- end}}
};
{{range .Constants}}
// Constants of the operators. Some members have attributes without effect.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wattributes"
{{.Definition}}
#pragma GCC diagnostic pop
{{end}}
{{- if .Workspaces}}
static const TVMModelWorkspace model_workspaces[] = {
{{- range .Workspaces}}
    { {{- quote .Name}}, {{.Bytes}}U},
{{- end}}
};

// Defined as 0, it leaves the built-in workspaces out: every run then needs a context.
#ifndef TVM_{{.C}}_BUILTIN_WORKSPACE
#define TVM_{{.C}}_BUILTIN_WORKSPACE 1
#endif
#if TVM_{{.C}}_BUILTIN_WORKSPACE
static TVM_WORKSPACE_ALIGNED uint8_t memory[TVM_{{.C}}_WORKSPACE_SIZE];
static void* const built_in[] = TVM_{{.C}}_WORKSPACES(memory);
#endif
{{end}}
{{- if eq .Entry "packed"}}{{template "packed tables" .}}{{end}}
{{- if eq .Entry "graph"}}{{template "graph tables" .}}{{end}}
{{- if eq .Entry "unpacked"}}
int32_t {{.Call}}({{range $i, $a := .Args}}{{if $i}}, {{end}}{{$g.ParamType $a}}{{else}}void{{end}});
{{end}}
{{- $given := ""}}{{if eq .Entry "header"}}{{$given = "_given"}}{{end}}
static int32_t {{if .Memory}}run_with_memory{{else}}run{{end}}
{{- ""}}(const void* inputs{{$given}}, const void* outputs{{$given}}, const TVMContext* context) {
  const TVM_{{.C}}_input* const in = (const TVM_{{.C}}_input*)inputs{{$given}};
  const TVM_{{.C}}_output* const out = (const TVM_{{.C}}_output*)outputs{{$given}};
{{- if .Workspaces}}
  void* const* workspaces = (context != NULL) ? context->workspaces : NULL;
  if (workspaces == NULL) {
#if TVM_{{.C}}_BUILTIN_WORKSPACE
    workspaces = built_in;
#else
    return (int32_t)kTvmErrorExecutorModuleBadContext;
#endif
  }
{{- else if not .Devices}}
  (void)context;
{{- end}}
{{- if not .Inputs}}
  (void)in;
{{- end}}
{{- with .Memory}}
  boardsmith_operator_memory.next = (uint8_t*)workspaces[{{.Index}}];
  boardsmith_operator_memory.end = &boardsmith_operator_memory.next[{{.Bytes}}];
{{- end}}
{{- if eq .Entry "unpacked"}}
  return {{.Call}}({{range $i, $a := .Args}}{{if $i}}, {{end}}{{if or (ge $a.Constant 0) (ge $a.Workspace 0)}}(uint8_t*){{end}}{{$g.Value $a}}{{end}});
{{- end}}
{{- if eq .Entry "packed"}}{{template "packed run" .}}{{end}}
{{- if eq .Entry "header"}}{{template "header run" .}}{{end}}
{{- if eq .Entry "graph"}}{{template "graph run" .}}{{end}}
}
{{- if .Memory}}

static int32_t run(const void* inputs, const void* outputs, const TVMContext* context) {
  const int32_t error = run_with_memory(inputs, outputs, context);
  boardsmith_operator_memory.next = NULL;  // the memory is the caller's again
  boardsmith_operator_memory.end = NULL;
  return error;
}
{{- end}}
{{- if .RAM}}

static const TVMModelTensor parameter_tensors[] = {
{{- range .Graph.Params}}
    { {{- quote .Name}}, {{$g.ParamShape .}}, {{len .Array.Data}}U, {{dtype .Array.DType}}, {{len .Array.Shape}}},
{{- end}}
};

static void* const parameter_data[] = {
{{- range .Graph.Params}}
    parameter_{{.Index}},
{{- end}}
};

static const TVMModelParameters model_parameters = { {{- len .Graph.Params}}, parameter_tensors, parameter_data};
{{- end}}

const TVMModel tvm_{{.C}} = {
    .run = run,
    .name = {{quote .M.Name}},
    .interface_version = TVM_MICRO_RUNTIME_VERSION,
    .archive_version = TVM_{{.C}}_ARCHIVE_VERSION,
    .num_workspaces = TVM_{{.C}}_NUM_WORKSPACES,
    .num_devices = TVM_{{.C}}_NUM_DEVICES,
    .num_inputs = TVM_{{.C}}_NUM_INPUTS,
    .num_outputs = TVM_{{.C}}_NUM_OUTPUTS,
    .tensors = model_tensors,
    .workspaces = {{if .Workspaces}}model_workspaces{{else}}NULL{{end}},
    .parameters = {{if .RAM}}&model_parameters{{else}}NULL{{end}},
};
{{end}}

{{define "packed tables"}}{{$g := .}}
int {{.Call}}(TVMValue* args, int* type_codes, int num_args, TVMValue* out_value, int* out_type, void* resource);

// The arguments of {{.Call}}. Each run sets the addresses.
static DLTensor tensors[] = {
{{- range .Args}}{{$t := $g.Tensor .}}
{{- if $t}}
    {NULL, {kDLCPU, 0}, {{len $t.Dims}}, {{dtype $t.DType}}, (int64_t*){{$g.ShapeRef $t.Tensor}}, NULL, 0},
{{- else}}
    {NULL, {kDLCPU, 0}, 0, {kDLUInt, 8U, 1U}, NULL, NULL, 0},
{{- end}}{{end}}
};

static const TVMValue args[] = {
{{- range $i, $a := .Args}}
    {.v_handle = &tensors[{{$i}}]},
{{- end}}
};

static const int type_codes[] = {
{{- range .Args}}
    (int)kTVMDLTensorHandle,
{{- end}}
};
{{end}}

{{define "packed run"}}{{$g := .}}
  TVMValue result;
  int result_type = (int)kTVMNullptr;
  result.v_handle = NULL;
{{- range $i, $a := .Args}}
  tensors[{{$i}}].data = {{$g.Value $a}};
{{- end}}
  // The function only reads its arguments.
  return {{.Call}}((TVMValue*)args, (int*)type_codes, {{len .Args}}, &result, &result_type, NULL);{{end}}

{{define "header run"}}{{$g := .}}{{$h := .M.Header}}
  struct tvmgen_{{$h.Name}}_inputs inputs;
  struct tvmgen_{{$h.Name}}_outputs outputs;
{{- if $h.Pools}}
  struct tvmgen_{{$h.Name}}_workspace_pools workspace_pools;
{{- end}}
{{- if $h.Devices}}
  struct tvmgen_{{$h.Name}}_devices devices;
  if ((context == NULL) || (context->devices == NULL)) {
    return (int32_t)kTvmErrorExecutorModuleBadContext;
  }
{{- range $i, $d := $h.Devices}}
  devices.{{$d}} = context->devices[{{$i}}];
{{- end}}
{{- end}}
{{- if $h.Pools}}
  (void)memset(&workspace_pools, 0, sizeof workspace_pools);
{{- range .Workspaces}}{{if .Field}}
  workspace_pools.{{.Field}} = workspaces[{{.Index}}];
{{- end}}{{end}}
{{- range .Constants}}
  workspace_pools.{{.Field}} = (void*){{.C}};  // only read
{{- end}}
{{- end}}
{{- if $h.Mapped}}
  inputs = tvmgen_{{$h.Name}}_map_inputs(&workspace_pools);
  outputs = tvmgen_{{$h.Name}}_map_outputs(&workspace_pools);
{{- range $i, $t := .Inputs}}{{if $t.Bytes}}
  (void)memcpy(inputs.{{(index $h.Inputs $i).Name}}, in->{{$t.C}}, {{$t.Bytes}}U);
{{- end}}{{end}}
  const int32_t error = {{.Call}}({{range $i, $p := $h.Run}}{{if $i}}, {{end}}&{{$p}}{{end}});
  if (error != 0) {
    return error;
  }
{{- range $i, $t := .Outputs}}{{if $t.Bytes}}
  (void)memcpy(out->{{$t.C}}, outputs.{{(index $h.Outputs $i).Name}}, {{$t.Bytes}}U);
{{- end}}{{end}}
  return 0;
{{- else}}
{{- range $i, $t := .Inputs}}
  inputs.{{(index $h.Inputs $i).Name}} = (void*)in->{{$t.C}};  // only read
{{- end}}
{{- range $i, $t := .Outputs}}
  outputs.{{(index $h.Outputs $i).Name}} = out->{{$t.C}};
{{- end}}
  return {{.Call}}({{range $i, $p := $h.Run}}{{if $i}}, {{end}}&{{$p}}{{end}});
{{- end}}{{end}}

{{define "graph tables"}}{{$g := .}}{{$m := .C}}{{with .Graph}}{{range .Functions}}
int {{.}}(TVMValue* args, int* type_codes, int num_args, TVMValue* out_value, int* out_type, void* resource);
{{- end}}
{{range .Params}}
// Parameter {{comment .Name}}
static {{if not $g.RAM}}const {{end}}{{dataType .Array}} parameter_{{.Index}}[{{elements .Array}}] __attribute__((aligned(16))) = {
    {{data .Array}}};
{{end}}
{{- if .Consts}}
static const DLTensor parameters[] = {
{{- range .Consts}}
    {(void*)parameter_{{.Param}}, {kDLCPU, 0}, {{len .Shape}}, {{dtype .DType}}, (int64_t*){{$g.ShapeRef .Tensor}}, NULL, 0},
{{- end}}
};
{{end}}
{{- if .Arena}}
#if TVM_{{$m}}_BUILTIN_WORKSPACE
#define AT(offset) (&memory[offset])
static uint8_t* bound = memory;  // the workspace of tensors
#else
#define AT(offset) NULL
static uint8_t* bound;  // the workspace of tensors
#endif
{{end}}
{{- if or .Tensors .Arena}}
static DLTensor tensors[] = {
{{- range .Tensors}}
    {NULL, {kDLCPU, 0}, {{len .Shape}}, {{dtype .DType}}, (int64_t*){{$g.ShapeRef .Tensor}}, NULL, 0},
{{- end}}
{{- range .Arena}}
    {AT({{.Offset}}), {kDLCPU, 0}, {{len .Shape}}, {{dtype .DType}}, (int64_t*){{$g.ShapeRef .Tensor}}, NULL, 0},
{{- end}}
};
{{end}}
{{- if .Arena}}
static const uint32_t offsets[] = {
{{- range .Arena}}
    {{.Offset}}U,
{{- end}}
};
{{end}}
{{- if .Calls}}
static const TVMValue args[] = {
{{- range .Calls}}{{range .Args}}
    {.v_handle = (void*)&{{if ge .Param 0}}parameters{{else}}tensors{{end}}[{{.Place}}]},
{{- end}}{{end}}
};

static const int type_codes[{{.MostArgs}}] = { {{- range $i, $t := $g.TypeCodes}}{{if $i}}, {{end}}{{$t}}{{end -}} };

static const boardsmith_graph_call_t calls[] = {
{{- range .Calls}}
    { {{- .Func}}, &args[{{.First}}], {{len .Args}}, {{.MemoryAt}}U, {{.MemoryBytes}}U},
{{- end}}
};
{{end}}{{end}}{{end}}

{{define "graph run"}}{{$g := .}}{{with .Graph}}
{{- if .Arena}}
  uint8_t* const workspace = (uint8_t*)workspaces[0];
  if (workspace != bound) {
    boardsmith_graph_bind(&tensors[{{len .Tensors}}], offsets, {{len .Arena}}U, workspace);
    bound = workspace;
  }
{{- end}}
{{- range $i, $t := .Tensors}}
  tensors[{{$i}}].data = {{$g.Value $t.Bound}};
{{- end}}
{{- if .Copies}}
{{- if .Calls}}
  const int32_t error = boardsmith_graph_run(calls, {{len .Calls}}U, type_codes, {{if $g.Workspaces}}(uint8_t*)workspaces[0]{{else}}NULL{{end}});
  if (error != 0) {
    return error;
  }
{{- end}}
{{- range .Copies}}{{$t := index $g.Outputs .Output}}{{if $t.Bytes}}
  (void)memcpy(out->{{$t.C}}, {{if ge .From.Param 0}}parameters{{else}}tensors{{end}}[{{.From.Place}}].data, {{$t.Bytes}}U);
{{- end}}{{end}}
  return 0;
{{- else}}
  return boardsmith_graph_run(calls, {{len .Calls}}U, type_codes, {{if $g.Workspaces}}(uint8_t*)workspaces[0]{{else}}NULL{{end}});
{{- end}}{{end}}{{end}}
`

const exampleText = `{{define "example"}}static int32_t run_{{.C}}(void) {
{{- range .Inputs}}
  static {{.Type}} in_{{.C}}[{{.Count}}];
{{- end}}{{range .Outputs}}
  static {{.Type}} out_{{.C}}[{{.Count}}];
{{- end}}
  const TVM_{{.C}}_input input = { {{- range $i, $t := .Inputs}}{{if $i}}, {{end}}in_{{$t.C}}{{else}}NULL{{end -}} };
  const TVM_{{.C}}_output output = { {{- range $i, $t := .Outputs}}{{if $i}}, {{end}}out_{{$t.C}}{{end -}} };
  return TVMExecute(&tvm_{{.C}}, &input, &output, NULL);
}

{{end}}`
