package mlf_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/tensorlist"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/ndarray"
)

func member(name, text string) mlf.File { return mlf.File{Name: name, Data: []byte(text)} }

const graphJSON = `{"nodes": [
	{"op": "null", "name": "x", "inputs": []}, {"op": "null", "name": "p0", "inputs": []},
	{"op": "tvm_op", "name": "n", "attrs": {"func_name": "tvmgen_net_add", "num_inputs": "2", "num_outputs": "1", "flatten_data": "0", "hash": "1"}, "inputs": [[0, 0, 0], [1, 0, 0]]}],
	"arg_nodes": [0, 1], "heads": [[2, 0, 0]], "node_row_ptr": [0, 1, 2, 3],
	"attrs": {"dltype": ["list_str", ["int8", "int8", "int8"]], "storage_id": ["list_int", [0, 1, 2]], "shape": ["list_shape", [[2, 3], [3], [2, 3]]]}}`

const graphLib = `#include <tvm/runtime/crt/module.h>
TVM_DLL int32_t tvmgen_net_add(TVMValue* args, int* type_code, int num_args, TVMValue* out_value, int* out_type_code, void* resource_handle);
static const TVMFuncRegistry _tvm_func_registry = {
    "\001\000tvmgen_net_add\000",    _tvm_func_array,
};
const TVMModule* TVMSystemLibEntryPoint(void) {
    return &_tvm_system_lib;
}
`

const metadata7 = `{"version": 7, "modules": {"net": {"model_name": "net", "style": "full-model", "executors": ["graph"], "target": ["c -model=host"],
	"memory": {"functions": {"main": [{"device": 1, "workspace_size_bytes": 5, "constants_size_bytes": 3, "io_size_bytes": 12,
	"inputs": {"x": {"size": 6, "dtype": "int8"}}, "outputs": {"y": {"size": 6, "dtype": "int8"}}}], "operator_functions": []}, "sids": []}}}}`

// graphModel is a small archive with a graph, in version 7.
func graphModel() []mlf.File {
	params, err := mlftest.EncodeParams([]ndarray.Named{{
		Name:  "p0",
		Array: &ndarray.Array{DType: ndarray.DType{Bits: 8, Lanes: 1}, Shape: []int64{3}, Data: []byte{1, 2, 3}},
	}})
	if err != nil {
		panic(err)
	}
	return []mlf.File{
		member("metadata.json", metadata7),
		member("codegen/host/src/net_lib0.c", graphLib),
		member("codegen/host/src/net_lib1.c",
			"TVM_DLL int32_t tvmgen_net_add(void* args, int32_t* arg_type_ids, int32_t num_args, void* out_ret_value, "+
				"int32_t* out_ret_tcode, void* resource_handle) {\n"),
		member("parameters/net.params", string(params)),
		member("src/net.relay", "def @main(%x: Tensor[(2, 3), int8], %p0: Tensor[(3), int8]) -> Tensor[(2, 3), int8] {\n}\n"),
		member("executor-config/graph/net.graph", graphJSON),
	}
}

// change returns the files with some replaced or, for an empty text, removed.
func change(files []mlf.File, texts map[string]string) []mlf.File {
	var out []mlf.File
	for _, f := range files {
		text, ok := texts[f.Name]
		switch {
		case ok && text == "":
			continue
		case ok && strings.HasPrefix(text, "-> "):
			f.Name = text[3:]
		case ok:
			f.Data = []byte(text)
		}
		out = append(out, f)
	}
	return out
}

// older rewrites graphModel as TVM wrote it in an older version of the format.
func older(version int) []mlf.File {
	flat := map[string]any{"version": version, "model_name": "net", "export_datetime": "2021-01-01 00:00:00Z"}
	sids := []any{map[string]any{"storage_id": 0, "size_bytes": 6, "input_binding": "x"}}
	flat["memory"] = any(sids)
	if version >= 2 {
		flat["memory"] = map[string]any{"functions": map[string]any{"main": []any{map[string]any{
			"device":               1,
			"workspace_size_bytes": 5, "constants_size_bytes": 3, "io_size_bytes": 12,
		}}}, "sids": sids}
	}
	flat["target"] = map[string]string{"12": "ext", "1": "c -model=host"}
	if version >= 6 {
		flat["target"] = []string{"c -model=host", "ext"}
	}
	if version >= 4 {
		flat["style"] = "full-model"
	}
	names := map[string]string{
		"src/net.relay":                   "-> src/relay.txt",
		"executor-config/graph/net.graph": "-> executor-config/graph/graph.json",
	}
	flat["executors"] = []string{"graph"}
	if version < 5 {
		flat["runtimes"] = flat["executors"]
		delete(flat, "executors")
		names["executor-config/graph/net.graph"] = "-> runtime-config/graph/graph.json"
	}
	if version < 4 {
		names["src/net.relay"] = "-> relay.txt"
	}
	if version < 3 {
		names["codegen/host/src/net_lib0.c"] = "-> codegen/host/src/lib0.c"
		names["codegen/host/src/net_lib1.c"] = "-> codegen/host/src/lib1.c"
	}
	text, err := json.Marshal(flat)
	if err != nil {
		panic(err)
	}
	names["metadata.json"] = string(text)
	return change(graphModel(), names)
}

func TestAllVersions(t *testing.T) {
	for version := 1; version <= 7; version++ {
		files := graphModel()
		output, workspace := "y", int64(5)
		if version < 7 {
			files, output = older(version), "output"
		}
		if version == 1 {
			workspace = 0
		}
		a := mlftest.Parse(t, files...)
		m := a.Models[0]
		if a.Version != version || m.Name != "net" || m.Executor != mlf.Graph || m.Style != "full-model" ||
			len(m.Sources) != 2 {
			t.Errorf("version %d reads as %d %+v", version, a.Version, m)
		}
		if fmt.Sprint(m.Inputs) != "[x int8 (2, 3)]" || fmt.Sprint(m.Outputs) != "["+output+" int8 (2, 3)]" ||
			m.Workspace != workspace {
			t.Errorf("version %d: %v -> %v, workspace %d", version, m.Inputs, m.Outputs, m.Workspace)
		}
		if err := mlftest.Check(a); err != nil || !slices.Equal(m.Functions, []string{"tvmgen_net_add"}) {
			t.Errorf("version %d: %v, functions %q", version, err, m.Functions)
		}
	}
}

func TestSeveralModules(t *testing.T) {
	files := append(graphModel(), cModel("small", "", "void* x_in_0;", "uint8_t* pool_var")[1:]...)
	meta := strings.Replace(metadata7, `"modules": {`, `"modules": {`+cModule("small")+`, `, 1)
	a := mlftest.Parse(t, change(files, map[string]string{"metadata.json": meta})...)
	if len(a.Models) != 2 {
		t.Fatalf("%d modules", len(a.Models))
	}
	net, err := a.Model("net")
	if err != nil || len(net.Sources) != 2 || net.Header != nil {
		t.Errorf("net: %+v, %v", net, err)
	}
	small, err := a.Model("small")
	if err != nil || len(small.Sources) != 1 || small.Header == nil || small.Interface != "c" {
		t.Errorf("small: %+v, %v", small, err)
	}
	_, err = a.Model("")
	testkit.WantError(t, err, "", "net")
	_, err = a.Model("smal")
	testkit.WantError(t, err, "", `"small"`)
}

func cModule(name string) string {
	return fmt.Sprintf(`%q: {"model_name": %q, "style": "full-model", "executors": ["aot"], "target": ["c"],
	"memory": {"functions": {"main": [{"device": 1, "workspace_size_bytes": 0, "constants_size_bytes": 0, "io_size_bytes": 12,
	"inputs": {"x-in:0": {"size": 6, "dtype": "int8"}}, "outputs": {"y": {"size": 6, "dtype": "int8"}}}]}}}`, name, name)
}

// cModel is an archive of a model with the C interface. more goes into the source, inputs into the struct, pool is a
// parameter of its main function.
func cModel(name, more, inputs, pool string) []mlf.File {
	low := strings.ToLower(name)
	return []mlf.File{
		member("metadata.json", `{"version": 7, "modules": {`+cModule(name)+`}}`),
		member("codegen/host/include/tvmgen_"+low+".h",
			"#include <stdint.h>\nstruct tvmgen_"+low+"_inputs { "+inputs+" };\nstruct tvmgen_"+low+"_outputs { void* y; };\n"+
				"int32_t tvmgen_"+low+"_run(struct tvmgen_"+low+"_inputs* inputs, struct tvmgen_"+low+"_outputs* outputs);\n"),
		member("codegen/host/src/"+name+"_lib0.c",
			more+"#include <tvmgen_"+name+".h>\nTVM_DLL int32_t tvmgen_"+name+"___tvm_main__(void* x,void* y,"+pool+");\n"),
		member("src/"+name+".relay", "def @main(%x-in:0: Tensor[(2, 3), int8]) -> Tensor[(6), int8] {\n}\n"),
	}
}

// TestCheckExplains: Check rejects archives that no compiler accepts (mlf.md §5, §6).
func TestCheckExplains(t *testing.T) {
	good := cModel("small", "", "void* x_in_0;", "uint8_t* pool_0_var")
	must(t, mlftest.Check(mlftest.Parse(t, good...)))
	packed := strings.Replace(graphLib, "tvmgen_net_add", "tvmgen_net___tvm_main__", -1)
	aot := change(graphModel(), map[string]string{
		"metadata.json":                   strings.Replace(metadata7, `"graph"`, `"aot"`, 1),
		"codegen/host/src/net_lib0.c":     packed + "TVM_DLL int32_t tvmgen_net___tvm_main__(void* x,void* y);\n",
		"executor-config/graph/net.graph": "",
	})
	clash := cModel("small", "", "void* x_in_0; void* x_in_0;", "uint8_t* p_var")
	clash[0].Data = []byte(strings.Replace(string(clash[0].Data), `"x-in:0"`,
		`"x.in:0": {"size": 6, "dtype": "int8"}, "x-in:0"`, 1))
	for _, c := range map[string]struct {
		files []mlf.File
		want  string
	}{
		"capitals": {cModel("Small", "", "void* x_in_0;", "uint8_t* p_var"), "capitals"},
		"clash":    {clash, `both called "x_in_0"`},
		"no system library": {
			change(graphModel(), map[string]string{"codegen/host/src/net_lib0.c": ""}),
			"without a system library",
		},
		"no entry": {
			change(aot, map[string]string{"codegen/host/src/net_lib0.c": graphLib}),
			"lacks tvmgen_net_get_c_metadata",
		},
		"no run function": {change(aot,
			map[string]string{"codegen/host/src/net_lib0.c": strings.Replace(graphLib, "tvmgen_net_add",
				"tvmgen_net_get_c_metadata", -1)}), "lacks tvmgen_net_run"},
		"operator missing": {
			change(graphModel(), map[string]string{"codegen/host/src/net_lib0.c": packed}),
			`calls "tvmgen_net_add"`,
		},
		"new convention": {
			change(graphModel(), map[string]string{"codegen/host/src/net_lib1.c": "int32_t __tvm_ffi_main(void* self, " +
				"TVMFFIAny* args, int32_t n, TVMFFIAny* result) {"}),
			"TVM 0.21",
		},
		"C++": {change(graphModel(),
			map[string]string{"codegen/host/src/net_lib1.c": "-> codegen/host/src/net_lib1.cc"}), "C++"},
	} {
		a, err := mlf.Parse("x.tar", mlftest.Tar(t, c.files...))
		if err == nil {
			err = mlftest.Check(a)
		}
		wantStep(t, err, c.want, "x.tar")
	}
}

// TestKeywordNames: a member of the C interface whose name is a keyword of C is named, not one of C++.
func TestKeywordNames(t *testing.T) {
	for _, name := range []string{"default", "_Bool", "linux", "class"} {
		m := mlftest.Parse(t, cModel("small", "", "void* "+name+";", "uint8_t* p_var")...).Models[0]
		err := m.Header.CheckNames()
		isOfC := name != "class"
		words := "tvmgen_small.h does not compile: its tensor, pool or device " + name + " has"
		if isOfC != (err != nil && strings.Contains(err.Error(), words) &&
			failure.Of(err) == failure.Config && failure.Next(err) != "") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestCInterfaceOrder(t *testing.T) {
	a := mlftest.Parse(t, cModel("small", "", "void* x_in_0;", "uint8_t* p_var")...)
	m := a.Models[0]
	testkit.Equal(t, "tensors", fmt.Sprint(m.Inputs, m.Outputs), "[x-in:0 int8 (2, 3)] [y int8 (6,)]")
	for _, name := range []string{"x-in:0", "x_in_0"} {
		if i, err := tensorlist.Lookup("input", m.Inputs, name); i != 0 || err != nil {
			t.Errorf("%q is input %d, %v", name, i, err)
		}
	}
	_, err := tensorlist.Lookup("input", m.Inputs, "x-in")
	if err == nil || failure.Of(err) != failure.Config || !strings.Contains(err.Error(), "x-in:0 int8 (2, 3)") ||
		failure.Next(err) != `did you mean "x-in:0"?` {
		t.Errorf("%v, next %q", err, failure.Next(err))
	}
	both := []mlf.Tensor{{Name: "a-b"}, {Name: "a.b"}}
	if i, err := tensorlist.Lookup("input", both, "a_b"); err == nil {
		t.Errorf("a_b, which is ambiguous, is input %d", i)
	}
	if i, err := tensorlist.Lookup("input", both, "a.b"); i != 1 || err != nil {
		t.Errorf("a.b is input %d, %v", i, err)
	}
}

// TestShapesInMetadata: shapes in metadata.json need no Relay text, and take precedence over it.
func TestShapesInMetadata(t *testing.T) {
	files := cModel("small", "", "void* x_in_0;", "uint8_t* p_var")
	text := string(files[0].Data)
	for _, change := range []string{`"size": 6|"shape": [3, 2, 1], "size": 6`, `"y": {|"y": {"shape": [1, 6],`} {
		from, to, _ := strings.Cut(change, "|")
		if !strings.Contains(text, from) {
			t.Fatalf("%q is not in %s", from, text)
		}
		text = strings.Replace(text, from, to, 1)
	}
	files[0] = member(files[0].Name, text)
	for _, relay := range []int{0, 1} {
		m := mlftest.Parse(t, files[:len(files)-1+relay]...).Models[0]
		testkit.Equal(t, "tensors", fmt.Sprint(m.Inputs, m.Outputs), "[x-in:0 int8 (3, 2, 1)] [y int8 (1, 6)]")
	}
}

func TestOperators(t *testing.T) {
	archive := func(tir string) []mlf.File {
		return []mlf.File{
			member("metadata.json", `{"version": 7, "model_name": "f", "memory": {"f": [{"size_bytes": 4, "shape": [4], "dtype": "int8", "input_binding": null},
				{"size_bytes": 4, "shape": [], "dtype": "float32"}, {"size_bytes": 8, "shape": [2], "dtype": "int32"}]}, "target": ["c"], "executors": [], "style": "operator"}`),
			member("codegen/host/src/lib0.c", strings.ReplaceAll(graphLib, "tvmgen_net_add", "f")),
			member("src/tir-1.txt", tir),
		}
	}
	sig := "    def f(A: T.Buffer((4,), \"int8\"), b: T.Buffer((), \"float32\"), c_d: T.Buffer((2,), \"int32\")):\n"
	for _, c := range []struct{ tir, inputs, outputs string }{
		{
			sig + "        for i in range(4):\n            c_d[i] = A[i] * 2\n", "[A int8 (4,) b float32 ()]",
			"[c_d int32 (2,)]",
		},
		{
			sig + "        C_1 = T.Buffer((2,), \"int32\", data=A.data)\n        C_1[0] = 1\n        c_d[b] = C_1[1]\n",
			"[b float32 ()]", "[A int8 (4,) c_d int32 (2,)]",
		},
		{
			sig + "        T.call_extern(\"int32\", \"f\", A.data, c_d.data)\n", "[A int8 (4,) b float32 ()]",
			"[c_d int32 (2,)]",
		},
		{"primfn(A_1: handle) -> ()", "[arg0 int8 (4,) arg1 float32 ()]", "[arg2 int32 (2,)]"},
		{"", "[arg0 int8 (4,) arg1 float32 ()]", "[arg2 int32 (2,)]"},
	} {
		m := mlftest.Parse(t, archive(c.tir)...).Models[0]
		if fmt.Sprint(m.Inputs) != c.inputs || fmt.Sprint(m.Outputs) != c.outputs || m.Entry != "f" || len(m.Arguments) != 3 {
			t.Errorf("%q: %v -> %v of %s", c.tir, m.Inputs, m.Outputs, m.Entry)
		}
	}
}
