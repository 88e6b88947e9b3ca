package cmodel_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/cmodel"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/drawn"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
	"github.com/boardsmith/boardsmith/mlf"
)

// A step is a call of an operator with one input, an earlier step or -1 for the model's input, and one output.
type step struct {
	function string
	input    int
	length   int64 // of the output, of floats
}

// chain is a graph model net with the input x and these operators. Its output is the last one's.
func chain(source string, length int64, steps ...step) *mlf.Model {
	nodes, rows := []string{`{"op": "null", "name": "x", "inputs": []}`}, []string{"0", "1"}
	types, shapes := []string{`"float32"`}, []string{fmt.Sprintf("[%d]", length)}
	for i, s := range steps {
		nodes = append(nodes, fmt.Sprintf(`{"op": "tvm_op", "name": "n%d", "attrs": {"func_name": %q, "num_inputs": "1",
			"num_outputs": "1", "flatten_data": "0"}, "inputs": [[%d, 0, 0]]}`, i, s.function, s.input+1))
		rows = append(rows, fmt.Sprint(i+2))
		types = append(types, `"float32"`)
		shapes = append(shapes, fmt.Sprintf("[%d]", s.length))
	}
	last := len(steps)
	graph := fmt.Sprintf(`{"nodes": [%s], "arg_nodes": [0], "heads": [[%d, 0, 0]], "node_row_ptr": [%s],
		"attrs": {"dltype": ["list_str", [%s]], "storage_id": ["list_int", [%s]], "shape": ["list_shape", [%s]]}}`,
		strings.Join(nodes, ","), last, strings.Join(rows, ","), strings.Join(types, ","),
		strings.Join(rows[:last+1], ","), strings.Join(shapes, ","))
	return &mlf.Model{
		Name: "net", Style: "full-model", Executor: mlf.Graph, Interface: "packed", ABI: mlf.ABIPacked,
		Graph:   []byte(graph),
		Sources: []mlf.File{{Name: "codegen/host/src/net_lib1.c", Data: []byte(source)}},
		Inputs:  []mlf.Tensor{vector("x", float, length)},
		Outputs: []mlf.Tensor{vector("y", float, steps[last-1].length)},
	}
}

// operator is the C of a packed function of two tensors, in and out.
func operator(name, body string) string {
	return fmt.Sprintf(`#include <string.h>
#include <tvm/runtime/c_runtime_api.h>
#include <tvm/runtime/c_backend_api.h>
TVM_DLL int32_t %s(void* args, int32_t* arg_type_ids, int32_t num_args, void* out_ret_value, int32_t* out_ret_tcode, void* resource_handle) {
  float* in = (float*)((DLTensor*)((TVMValue*)args)[0].v_handle)->data;
  float* out = (float*)((DLTensor*)((TVMValue*)args)[1].v_handle)->data;
%s
  return 0;
}
`, name, body)
}

const copyFour = "  memcpy(out, in, 16);"

// takes is the body of an operator that fills two pieces of memory.
const takes = `  void* t = TVMBackendAllocWorkspace(1, 0, (uint64_t)%s, 2, 32);
  if (t == NULL) return -5;
  memset(t, 0x55, %[1]s);
  void* u = TVMBackendAllocWorkspace(1, 0, (uint64_t)%s, 2, 32);
  if (u == NULL) return -6;
  memset(u, 0x55, %[2]s);
  if (TVMBackendFreeWorkspace(1, 0, u) != 0) return -1;
  if (TVMBackendFreeWorkspace(1, 0, t) != 0) return -1;
  out[0] = 0;`

// memoryMain runs a chain of two tensors of 4 floats. After the run, the model has no memory.
const memoryMain = `#include <tvm/runtime/c_backend_api.h>
#include <tvm_net.h>

int main(void) {
  const float x[4] = {1.0F, 2.0F, 3.0F, 4.0F};
  float y[4] = {0.0F};
  const TVM_net_input in = {x};
  const TVM_net_output out = {y};
  EXPECT(TVMExecute(&tvm_net, &in, &out, NULL) == %d);
  EXPECT(TVMBackendAllocWorkspace(1, 0, 16, 2, 32) == NULL);
  EXPECT((%[1]d != 0) || ((y[0] > 0.9F) && (y[0] < 1.1F) && (y[3] > 3.9F) && (y[3] < 4.1F)));
  return 0;
}
`

// besides are steps of which the second takes memory while the first one's output is in use.
var besides = []step{{"net_copy", -1, 4}, {"net_take", -1, 1}, {"net_copy", 0, 4}}

// TestMoreThanPlanned runs an operator that takes more memory than was planned for it: the run returns its error, and
// no tensor changes.
func TestMoreThanPlanned(t *testing.T) {
	source := operator("net_copy", copyFour) + operator("net_take", fmt.Sprintf(takes, "32", "32"))
	code := handmade(t, chain(source, 4, besides...))
	check(t, code, fmt.Sprintf(memoryMain, 0), ".c")
	larger := operator("net_copy", copyFour) + operator("net_take", fmt.Sprintf(takes, "32", "48"))
	code.Sources = []mlf.File{{Name: code.Sources[0].Name, Data: []byte(larger)}} // the plan has 64 bytes
	check(t, code, fmt.Sprintf(memoryMain, -6), ".c")
}

// TestLeakedMemory plans what an operator does not free until the main function frees its own.
func TestLeakedMemory(t *testing.T) {
	const leaks = "  void* t = TVMBackendAllocWorkspace(1, 0, 20, 2, 32);\n  if (t == NULL) return -1;\n  out[0] = in[0];"
	body := "  if (net_leak(args, 0, 0, 0, 0, 0) != 0) return -1;\n"
	source := operator("net_copy", copyFour) + operator("net_leak", leaks) + operator("net_take", body+body+body)
	code := handmade(t, chain(source, 4, besides...))
	check(t, code, fmt.Sprintf(memoryMain, 0), ".c")
	if got := code.WorkspaceBytes(); got != 3*32+2*16 { // and the outputs of two steps
		t.Errorf("%d bytes of workspace", got)
	}
}

// TestObjectMemory plans the memory of an operator in an object: its metadata lists 40 bytes for two pieces of 20,
// each of which takes 32.
func TestObjectMemory(t *testing.T) {
	dir := t.TempDir()
	source, object := dir+"/take.c", dir+"/take.o"
	write(t, source, operator("net_take", fmt.Sprintf(takes, "20", "20")))
	output(t, dir, "gcc", "-w", "-I"+crt()+"/include", "-c", source, "-o", object)
	m := chain(operator("net_copy", copyFour), 4, besides...)
	m.Objects = []mlf.File{{Name: "codegen/host/lib/take.o", Data: testkit.ReadFile(t, object)}}
	_, err := cmodel.Generate(archiv, m, cmodel.Options{})
	testkit.WantError(t, err, "", "does not list how much")
	a := *archiv
	a.Files = []mlf.File{{Name: "metadata.json", Data: []byte(`{"memory": {"functions": {"operator_functions": [
		{"function_name": "net_take", "workspace": [{"workspace_size_bytes": 40}]}]}}}`)}}
	code, err := cmodel.Generate(&a, m, cmodel.Options{})
	must(t, err)
	check(t, code, fmt.Sprintf(memoryMain, 0), ".c")
	if len(code.Unsure) != 1 || !strings.Contains(code.Unsure[0], "take.o is not read") {
		t.Errorf("unsure: %q", code.Unsure)
	}
}

// TestPlannedMemory runs ahead-of-time models whose operators allocate with the planned memory, and with less, which
// must be too little.
func TestPlannedMemory(t *testing.T) {
	planned := regexp.MustCompile(`(memory\.end = &boardsmith_operator_memory\.next\[)(\d+)\]`)
	var paths []string
	for _, path := range mlftest.OtherVersions(t) {
		if planned.Match(generate(t, path, cmodel.Options{}).Generated[1].Data) {
			paths = append(paths, path)
		}
	}
	if len(paths) == 0 {
		t.Error("no archive has operators that allocate")
	}
	for _, path := range drawn.Of(t, "planned memory", paths, 1) {
		t.Run(filepath.Base(filepath.Dir(path))+" "+mlftest.Name(path), func(t *testing.T) {
			_, m := mlftest.Open(t, path)
			code := generate(t, path, cmodel.Options{})
			check(t, code, plainMain(code.Name, m, "== 0"), ".c")
			code.Generated[1].Data = planned.ReplaceAll(code.Generated[1].Data, []byte("${1}${2} - 16]"))
			check(t, code, plainMain(code.Name, m, "!= 0"), ".c")
		})
	}
}

// twoModels is an archive of two models, whose operators call a function of a source that belongs to neither.
func twoModels(t *testing.T) *mlf.Archive {
	t.Helper()
	const shared = `#include <tvm/runtime/c_runtime_api.h>
#include <tvm/runtime/c_backend_api.h>
int32_t shared_kernel(void) {
  void* t = TVMBackendAllocWorkspace(1, 0, 100, 2, 32);
  if (t == NULL) return -1;
  return TVMBackendFreeWorkspace(1, 0, t);
}
`
	operator := regexp.MustCompile(`int32_t tvmgen_\w+_fused_\w+\([^()]*\) \{\n`)
	files := []mlf.File{{Name: "codegen/host/src/shared.c", Data: []byte(shared)}}
	modules := map[string]json.RawMessage{}
	for _, name := range []string{"sine.aot_c", "twoin.aot_c"} {
		a, _ := mlftest.Open(t, mlftest.Path(t, name))
		for _, f := range a.Files {
			if f.Name == "metadata.json" {
				var metadata struct{ Modules map[string]json.RawMessage }
				must(t, json.Unmarshal(f.Data, &metadata))
				maps.Copy(modules, metadata.Modules)
				continue
			}
			f.Data = operator.ReplaceAll(f.Data,
				[]byte("int32_t shared_kernel(void);\n${0}  if (shared_kernel() != 0) return -1;\n"))
			if strings.HasPrefix(f.Name, "codegen/") || strings.HasPrefix(f.Name, "src/") {
				files = append(files, f)
			}
		}
	}
	metadata, err := json.Marshal(map[string]any{"version": 7, "modules": modules})
	must(t, err)
	return mlftest.Parse(t, append(files, mlf.File{Name: "metadata.json", Data: metadata})...)
}

// TestPoolsOfMain has the pools of a packed model be those that its main reads, not an operator's behind it.
func TestPoolsOfMain(t *testing.T) {
	a, m := mlftest.Open(t, mlftest.Path(t, "sine.aot_packed"))
	c := code(t, "sine.aot_packed")
	for i, f := range m.Sources {
		m.Sources[i].Data = append(slices.Clip(f.Data),
			operator("behind", "  int32_t global_workspace_4_var_code = arg_type_ids[4];")...)
	}
	behind, err := cmodel.Generate(a, m, cmodel.Options{})
	if err != nil || behind.WorkspaceBytes() != c.WorkspaceBytes() || c.WorkspaceBytes() == 0 {
		t.Errorf("a workspace of %d bytes, %v; want %d", behind.WorkspaceBytes(), err, c.WorkspaceBytes())
	}
}

// TestMemoryOfSharedCode plans what each of two models allocates in a function that both call, and runs both from one
// folder, and each alone.
func TestMemoryOfSharedCode(t *testing.T) {
	a := twoModels(t)
	var codes []*cmodel.Code
	for _, m := range a.Models {
		code, err := cmodel.Generate(a, m, cmodel.Options{})
		must(t, err)
		codes = append(codes, code)
	}
	if len(codes) != 2 {
		t.Fatalf("%d models", len(codes))
	}
	for name, some := range map[string][]*cmodel.Code{"both": codes, "first": codes[:1], "second": codes[1:]} {
		t.Run(name, func(t *testing.T) {
			dir := unpack(t, some...)
			runMain(t, dir, dir+"/main.c")
		})
	}
}

// plainMain runs a model once with inputs of zeros, and expects this result. After the run, the model has no memory.
func plainMain(name string, m *mlf.Model, result string) string {
	var arrays strings.Builder
	list := func(kind string, tensors []mlf.Tensor) string {
		var names []string
		for i, t := range tensors {
			names = append(names, fmt.Sprintf("(void*)%s%d", kind, i))
			fmt.Fprintf(&arrays, "static TVM_WORKSPACE_ALIGNED uint8_t %s%d[%d];\n", kind, i, t.Bytes)
		}
		return fmt.Sprintf("  const TVM_%s_%sput %s = {%s};\n", name, kind, kind, strings.Join(names, ", "))
	}
	body := list("in", m.Inputs) + list("out", m.Outputs)
	return fmt.Sprintf("#include <tvm/runtime/c_backend_api.h>\n#include <tvm_%[1]s.h>\n%[2]sint main(void) {\n%[3]s"+
		"  EXPECT(TVMExecute(&tvm_%[1]s, &in, &out, NULL) %[4]s);\n"+
		"  EXPECT(TVMBackendAllocWorkspace(1, 0, 16, 2, 32) == NULL);\n  return 0;\n}\n",
		name, arrays.String(), body, result)
}

// TestEmptyArena runs a graph whose tensors between operators have no bytes.
func TestEmptyArena(t *testing.T) {
	m := chain(operator("net_none", ""), 0, step{"net_none", -1, 0}, step{"net_none", 0, 0})
	code := handmade(t, m)
	check(t, code, `#include <tvm_net.h>

int main(void) {
  float x[1] = {0.0F};
  const TVM_net_input in = {x};
  const TVM_net_output out = {x};
  EXPECT(TVMExecute(&tvm_net, &in, &out, NULL) == 0);
  return 0;
}
`, ".c")
}
