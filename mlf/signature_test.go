package mlf_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
	"github.com/boardsmith/boardsmith/mlf"
)

// TestSignaturesOfArchives compares the signatures of TVM's archives with what their code requires of its arguments.
func TestSignaturesOfArchives(t *testing.T) {
	t.Parallel()
	want := map[string]string{
		"matmul_00":       "__tvm_main__ 3 3 3, matmul 3 3 3",
		"add.graph":       "__tvm_main__ 3 3 3, tvmgen_add_fused_add 3 3 3",
		"add.aot_packed":  "tvmgen_add___tvm_main__ 3 3 3, tvmgen_add_run 3 3 3",
		"add.aot_c":       "",
		"sine.aot_packed": "tvmgen_sine___tvm_main__ 2 2 3, tvmgen_sine_run 2 2 3",
	}
	tensors := map[string]string{
		"matmul_00": "[int8 [16 32] int8 [32 16] int32 [16 16]]", "add.graph": "[int8 [1 64] int8 [1 64] int8 [1 64]]",
		"sine.aot_packed": "[float32 [1 1] float32 [1 1]]",
	}
	for _, path := range mlftest.Archives(t) {
		a, err := mlf.Open(path)
		must(t, err)
		for _, m := range a.Models {
			got := signatures(m)
			if w, ok := want[mlftest.Name(path)]; ok && got != w {
				t.Errorf("%s: %s, want %s", mlftest.Name(path), got, w)
			}
			delete(want, mlftest.Name(path))
			if w, ok := tensors[mlftest.Name(path)]; ok && fmt.Sprint(shapes(m.Signatures()[0])) != w {
				t.Errorf("%s: %v, want %s", mlftest.Name(path), shapes(m.Signatures()[0]), w)
			}
			if m.Executor == mlf.Graph && m.ABI == mlf.ABIPacked && len(m.Functions) > 0 {
				for _, f := range m.Functions { // a node that only reshapes calls none
					if f != "__tvm_main__" && !strings.HasSuffix(f, "_flatten") && !strings.Contains(got, f+" ") {
						t.Errorf("%s: %s has no signature", mlftest.Name(path), f)
					}
				}
			}
		}
	}
	if len(want) > 0 {
		t.Errorf("not found: %v", want)
	}
}

func shapes(s mlf.Signature) (all []string) {
	for _, t := range s.Tensors {
		all = append(all, fmt.Sprint(t.DType, t.Shape))
	}
	return all
}

func signatures(m *mlf.Model) string {
	var all []string
	for _, s := range m.Signatures() {
		all = append(all, fmt.Sprintf("%s %d %d %d", s.Function, s.Leading, s.MinTensors, s.MaxTensors))
	}
	return strings.Join(all, ", ")
}

// TestSignaturesInDoubt changes what an archive states.
func TestSignaturesInDoubt(t *testing.T) {
	t.Parallel()
	registered := func(names ...string) string {
		return fmt.Sprintf("const TVMModule* TVMSystemLibEntryPoint(void) {\n"+
			"static const TVMFuncRegistry r = {\"\\%03o\\000%s\\000\", f};\n", len(names), strings.Join(names, `\000`))
	}
	const library = "codegen/host/src/lib0.c"
	const tir = "    def twice(A: T.Buffer((4,), \"int32\"), %sB: T.Buffer((4,), \"int32\")):\n        B[0] = A[0]\n"
	for name, x := range map[string]struct {
		changes map[string]string
		want    string
	}{
		"no text":  {nil, "twice 0 2 2"},
		"text":     {map[string]string{"src/tir-1.txt": fmt.Sprintf(tir, "")}, "twice 2 2 2"},
		"a scalar": {map[string]string{"src/tir-1.txt": fmt.Sprintf(tir, "n: T.int32, ")}, "twice 0 2 2"},
		"wrapper": {
			map[string]string{library: registered("twice", "__tvm_main__")}, "__tvm_main__ 0 2 2, twice 0 2 2",
		},
		"others":        {map[string]string{library: registered("twice", "__tvm_main__", "own")}, "twice 0 2 2"},
		"not in C":      {map[string]string{library: registered("own")}, ""},
		"many tensors":  {map[string]string{"metadata.json": manyTensors(256)}, ""},
		"fewer tensors": {map[string]string{"metadata.json": manyTensors(255)}, "twice 0 255 255"},
	} {
		a, err := mlf.Open(mlftest.Tiny(t, x.changes))
		must(t, err)
		testkit.Equal(t, name, signatures(a.Models[0]), x.want)
	}
}

// manyTensors returns metadata of an operator with so many tensors.
func manyTensors(n int) string {
	return `{"version": 7, "model_name": "twice", "export_datetime": "2020-01-01 00:00:00Z", "memory": {"twice": [` +
		strings.Join(slices.Repeat([]string{`{"size_bytes": 16, "shape": [4], "dtype": "int32", "input_binding": null}`}, n), ", ") +
		`]}, "target": ["c -keys=cpu"], "executors": [], "style": "operator"}`
}

// TestOtherKindsOfValues: an error names the field and the kind, not types of Go.
func TestOtherKindsOfValues(t *testing.T) {
	t.Parallel()
	const operator = `{"version": 7, "model_name": "twice", "export_datetime": "2020-01-01 00:00:00Z", "memory": [],` +
		` "target": ["c -keys=cpu"], "executors": [], "style": "operator"}`
	for text, want := range map[string]string{
		"[]": "metadata.json: a list, where an object belongs", `{"version": "7"}`: "version: a text, where a whole number belongs",
		operator: "memory: a list, where an object belongs",
	} {
		_, err := mlf.Open(mlftest.Tiny(t, map[string]string{"metadata.json": text}))
		testkit.WantError(t, err, "", want)
	}
}
