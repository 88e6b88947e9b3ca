package mlf_test

import (
	"bytes"
	"debug/elf"
	"encoding/json"
	"fmt"
	"io/fs"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/internal/modelgraph"
	"github.com/boardsmith/boardsmith/internal/paramblob"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/corpus"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/ndarray"
)

var must = testkit.Must

// FuzzOpen reads arbitrary tars. Reading an accepted one again gives the same result, and its names stay below the
// folder that it is unpacked into.
func FuzzOpen(f *testing.F) {
	corpus.Add(f)
	f.Add(mlftest.Tar(f, graphModel()...))
	f.Add(mlftest.Tar(f, older(1)...))
	f.Add(mlftest.Tar(f, cModel("small", "", "void* x_in_0;", "uint8_t* p_var")...))
	f.Fuzz(func(t *testing.T, data []byte) {
		a, err := mlf.Parse("fuzz.tar", data)
		if err != nil {
			return
		}
		again, err := mlf.Parse("fuzz.tar", a.Raw)
		if err != nil || again.Digest != a.Digest || !reflect.DeepEqual(again.Files, a.Files) {
			t.Fatalf("it reads again as %v, %v", again, err)
		}
		testkit.Equal(t, "Check", fmt.Sprint(mlftest.Check(again)), fmt.Sprint(mlftest.Check(a)))
		for _, m := range a.Models { // each tensor's bytes, with its type and shape
			for _, x := range slices.Concat(m.Inputs, m.Outputs) {
				n, err := ndarray.Bytes(x.DType, x.Shape)
				if x.Shape != nil && (err != nil || int64(n) != x.Bytes) {
					t.Fatalf("model %s: %v has %d bytes, by its shape %d, %v", m.Name, x, x.Bytes, n, err)
				}
			}
		}
		for _, file := range a.Files {
			if !fs.ValidPath(file.Name) {
				t.Fatalf("the name %q leaves the folder that the archive is unpacked into", file.Name)
			}
		}
	})
}

// FuzzGraph reads arbitrary graphs: in an accepted one every index is valid, and reading its text again gives the
// same.
func FuzzGraph(f *testing.F) {
	corpus.Add(f)
	f.Add([]byte(graphJSON))
	f.Add([]byte(strings.ReplaceAll(graphJSON, "[2, 3]", "[-0, 3]")))
	f.Fuzz(func(t *testing.T, data []byte) {
		g, err := modelgraph.Parse(data)
		if err != nil {
			return
		}
		for n, node := range g.Nodes {
			from, to := g.Entries(n)
			for e := from; e < to; e++ {
				if g.Bytes(e) < 0 {
					t.Fatalf("entry %d: %d bytes", e, g.Bytes(e))
				}
			}
			for _, e := range node.Inputs {
				if e < 0 || e >= from {
					t.Fatalf("node %d uses entry %d", n, e)
				}
			}
		}
		checkGraph(t, g, data)
		var compact bytes.Buffer
		must(t, json.Compact(&compact, data))
		if again, err := modelgraph.Parse(compact.Bytes()); err != nil || !reflect.DeepEqual(g, again) {
			t.Fatalf("%+v\nreads again as\n%+v, %v", g, again, err)
		}
	})
}

// checkGraph compares names, places and shapes with the JSON's.
func checkGraph(t *testing.T, g *modelgraph.Graph, data []byte) {
	t.Helper()
	var raw struct {
		Nodes []struct{ Name string }
		Args  []int   `json:"arg_nodes"`
		Heads [][]int `json:"heads"`
		Rows  []int   `json:"node_row_ptr"`
		Attrs map[string][2]json.RawMessage
	}
	if err := json.Unmarshal(data, &raw); err != nil {
		t.Skipf("keys that differ in case only: %v", err)
	}
	if len(g.Nodes) != len(raw.Nodes) || !slices.Equal(g.Args, raw.Args) || len(g.Heads) != len(raw.Heads) {
		t.Fatalf("%d nodes, arguments %v, heads %v", len(g.Nodes), g.Args, g.Heads)
	}
	for i, n := range raw.Nodes {
		testkit.Equal(t, "node", g.Nodes[i].Name, n.Name)
	}
	for i, h := range raw.Heads {
		testkit.Equal(t, "output", g.Heads[i], raw.Rows[h[0]]+h[1])
	}
	if len(g.Shapes) == 0 {
		return
	}
	var shapes [][]int64
	err := json.Unmarshal(raw.Attrs["shape"][1], &shapes)
	if err != nil || !slices.EqualFunc(g.Shapes, shapes, slices.Equal) {
		t.Fatalf("shapes %v, want %s, %v", g.Shapes, raw.Attrs["shape"][1], err)
	}
}

// FuzzParams reads arbitrary blobs: an accepted one encodes to the same bytes.
func FuzzParams(f *testing.F) {
	corpus.Add(f)
	for _, file := range graphModel() {
		if file.Name == "parameters/net.params" {
			f.Add(file.Data)
			f.Add(append(file.Data[:0:0], file.Data[:40]...))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		params, err := paramblob.Parse(data)
		if err != nil {
			return
		}
		back, err := mlftest.EncodeParams(params)
		if err != nil || !bytes.Equal(back, data) {
			t.Fatalf("%x\nis written as\n%x, %v", data, back, err)
		}
	})
}

// FuzzObject reads arbitrary objects: the symbols equal the object's table, and trailing bytes change nothing.
func FuzzObject(f *testing.F) {
	for _, name := range []string{"digits_i8.graph_llvm_thumbv7m", "digits_i8.graph_llvm_rv32"} {
		a, err := mlf.Open(mlftest.Path(f, name))
		must(f, err)
		f.Add(a.Models[0].Objects[0].Data)
	}
	f.Add([]byte("\x7fELF\x01\x01\x01"))
	f.Fuzz(func(t *testing.T, data []byte) {
		o, err := mlf.File{Name: "a.o", Data: data}.Info()
		if err != nil {
			return
		}
		more, err := mlf.File{Name: "a.o", Data: append(slices.Clone(data), "behind it"...)}.Info()
		if err != nil || !reflect.DeepEqual(o, more) {
			t.Fatalf("%+v\nreads, with bytes behind it, as\n%+v, %v", o, more, err)
		}
		defined, undefined := globals(t, data)
		if !slices.Equal(o.Defined, defined) || !slices.Equal(o.Undefined, undefined) {
			t.Fatalf("defines %q and needs %q; its symbol table has %q and %q", o.Defined, o.Undefined, defined, undefined)
		}
		if o.Machine != elf.EM_ARM && (o.Arch != 0 || o.FloatABI != "" && o.Machine != elf.EM_RISCV) {
			t.Fatalf("%+v is for neither Arm nor RISC-V", o)
		}
	})
}

// globals returns an object's global symbols from its table.
func globals(t *testing.T, object []byte) (defined, undefined []string) {
	t.Helper()
	e, err := elf.NewFile(bytes.NewReader(object))
	must(t, err)
	symbols, _ := e.Symbols() // none, without a table
	for _, s := range symbols {
		bind, here := s.Info>>4, s.Section != elf.SHN_UNDEF
		if here && (bind == 1 || bind == 2) {
			defined = append(defined, s.Name)
		}
		if !here && bind == 1 {
			undefined = append(undefined, s.Name)
		}
	}
	return defined, undefined
}

// FuzzHeader reads arbitrary interface headers: a header written from the result reads the same.
func FuzzHeader(f *testing.F) {
	f.Add([]byte("struct tvmgen_m_inputs { void* x; };\nint32_t tvmgen_m_run(struct tvmgen_m_inputs* inputs);\n"))
	for _, name := range []string{"conv_pools.aot_c_pools", "twoin.aot_c"} {
		a, err := mlf.Open(mlftest.Path(f, name))
		must(f, err)
		f.Add(a.Models[0].Headers[0].Data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		h, err := mlf.ParseHeader(data)
		if err != nil {
			return
		}
		text := headerText(h)
		if strings.Contains(text, "//") || strings.Contains(text, "/*") {
			return // the name now begins a comment
		}
		if again, err := mlf.ParseHeader([]byte(text)); err != nil || !reflect.DeepEqual(h, again) {
			t.Fatalf("%+v\nis written as\n%s\nand reads as\n%+v, %v", h, text, again, err)
		}
	})
}

// headerText writes a header with h's declarations.
func headerText(h *mlf.Header) string {
	var b strings.Builder
	macro := func(name, suffix string, value any) {
		fmt.Fprintf(&b, "#define %s%s %v\n", strings.ToUpper("TVMGEN_"+h.Name+"_"+name), suffix, value)
	}
	structs := map[string][]string{"devices": h.Devices}
	for kind, fields := range map[string][]mlf.Buffer{"inputs": h.Inputs, "outputs": h.Outputs} {
		for _, f := range fields {
			structs[kind] = append(structs[kind], f.Name)
			macro(f.Name, "_SIZE", f.Bytes)
		}
	}
	for _, p := range h.Pools {
		structs["workspace_pools"] = append(structs["workspace_pools"], p.Name)
		if p.Data == "" {
			macro(p.Name, "_WORKSPACE_POOL_SIZE", p.Bytes)
			continue
		}
		macro(p.Name, "_CONSTANT_POOL_SIZE", p.Bytes)
		macro(p.Name, "_CONSTANT_POOL_DATA", "{0}")
	}
	for kind, names := range structs {
		fmt.Fprintf(&b, "struct tvmgen_%s_%s {\n", h.Name, kind)
		for _, name := range names {
			fmt.Fprintf(&b, "  void* %s;\n", name)
		}
		b.WriteString("};\n")
	}
	if h.Mapped {
		fmt.Fprintf(&b, "struct tvmgen_%s_inputs tvmgen_%s_map_inputs;\n", h.Name, h.Name)
	}
	var params []string
	for _, kind := range h.Run {
		params = append(params, "struct tvmgen_"+h.Name+"_"+kind+"* "+kind)
	}
	fmt.Fprintf(&b, "int32_t tvmgen_%s_run(%s);\n", h.Name, strings.Join(params, ", "))
	return b.String()
}

// FuzzRelay reads arbitrary texts: a signature written from the result reads the same.
func FuzzRelay(f *testing.F) {
	f.Add("def @main(%a:0: Tensor[(1, 2), int8] /* x */, output_tensor_names=[\"y\"]) -> (Tensor[(1), int8], float32) {\n")
	a, err := mlf.Open(mlftest.Path(f, "twoin.aot_packed"))
	must(f, err)
	f.Add(string(a.Find("src/twoin.relay").Data))
	f.Fuzz(func(t *testing.T, text string) {
		r := mlf.ParseRelay(text)
		written := relayText(r)
		if strings.Contains(written, "/*") {
			return // the name now begins a comment
		}
		if again := mlf.ParseRelay(written); !reflect.DeepEqual(r, again) {
			t.Fatalf("%+v\nis written as\n%s\nand reads as\n%+v", r, written, again)
		}
	})
}

// relayText writes r's signature.
func relayText(r *mlf.Relay) string {
	typeOf := func(t mlf.Tensor) string {
		if len(t.Shape) == 0 {
			return t.DType.String()
		}
		return "Tensor[(" + strings.Trim(strings.Join(strings.Fields(fmt.Sprint(t.Shape)), ", "), "[]") + "), " +
			t.DType.String() + "]"
	}
	var args, results, names []string
	for _, p := range r.Params {
		args = append(args, "%"+p.Name+": "+typeOf(p))
	}
	for _, n := range r.OutputNames {
		names = append(names, strconv.Quote(n))
	}
	if len(names) > 0 {
		args = append(args, "output_tensor_names=["+strings.Join(names, ", ")+"]")
	}
	for _, t := range r.Results {
		results = append(results, typeOf(t))
	}
	return "def @main(" + strings.Join(args, ", ") + ") -> (" + strings.Join(results, ", ") + ") {\n"
}
