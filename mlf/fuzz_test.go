package mlf_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/mlf/mlftest"
)

// FuzzOpen reads any tar: what is accepted can be checked and unpacked, and stays in its folder.
func FuzzOpen(f *testing.F) {
	f.Add(mlftest.Tar(f, graphModel()...))
	f.Add(mlftest.Tar(f, older(1)...))
	f.Add(mlftest.Tar(f, cModel("small", "", "void* x_in_0;", "uint8_t* p_var")...))
	f.Fuzz(func(t *testing.T, data []byte) {
		a, err := mlf.Parse("fuzz.tar", data)
		if err != nil {
			return
		}
		_ = a.Check()
		top := t.TempDir()
		dir := filepath.Join(top, "in")
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		_ = a.Extract(dir) // a name may be longer than the file system takes
		entries, err := os.ReadDir(top)
		if err != nil || len(entries) != 1 {
			t.Fatalf("%v lies beside the folder, %v", entries, err)
		}
	})
}

// FuzzGraph reads any graph: in what is accepted every index leads somewhere, and reading its own text again gives
// the same graph.
func FuzzGraph(f *testing.F) {
	f.Add([]byte(graphJSON))
	f.Fuzz(func(t *testing.T, data []byte) {
		g, err := mlf.ParseGraph(data)
		if err != nil {
			return
		}
		for n, node := range g.Nodes {
			from, to := g.Entries(n)
			for e := from; e < to; e++ {
				if g.Tensor(e, "").Bytes < 0 {
					t.Fatalf("entry %d: %v", e, g.Tensor(e, ""))
				}
			}
			for _, e := range node.Inputs {
				if e < 0 || e >= from {
					t.Fatalf("node %d uses entry %d", n, e)
				}
			}
		}
		for _, e := range g.Heads {
			_ = g.Tensor(e, "")
		}
		for _, n := range g.Args {
			_ = g.Nodes[n].Name
		}
		var compact bytes.Buffer
		if err := json.Compact(&compact, data); err != nil {
			t.Fatal(err)
		}
		if again, err := mlf.ParseGraph(compact.Bytes()); err != nil || !reflect.DeepEqual(g, again) {
			t.Fatalf("%+v\nreads again as\n%+v, %v", g, again, err)
		}
	})
}

// FuzzParams reads any blob: what is accepted is written as the same bytes.
func FuzzParams(f *testing.F) {
	for _, file := range graphModel() {
		if file.Name == "parameters/net.params" {
			f.Add(file.Data)
			f.Add(append(file.Data[:0:0], file.Data[:40]...))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		params, err := mlf.ParseParams(data)
		if err != nil {
			return
		}
		back, err := mlf.EncodeParams(params)
		if err != nil || !bytes.Equal(back, data) {
			t.Fatalf("%x\nis written as\n%x, %v", data, back, err)
		}
	})
}

// FuzzObject reads any object: it says what it is or why it cannot be read.
func FuzzObject(f *testing.F) {
	for _, name := range []string{"digits_i8.graph_llvm_thumbv7m", "digits_i8.graph_llvm_rv32"} {
		a, err := mlf.Open(mlftest.Path(f, name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(a.Modules[0].Objects[0].Data)
	}
	f.Add([]byte("\x7fELF\x01\x01\x01"))
	f.Fuzz(func(t *testing.T, data []byte) {
		o, err := mlf.File{Name: "a.o", Data: data}.Info()
		if err == nil && o.Class == 0 {
			t.Fatalf("%+v", o)
		}
	})
}

// FuzzHeader reads any interface header: the fields of what is accepted have names.
func FuzzHeader(f *testing.F) {
	f.Add([]byte("struct tvmgen_m_inputs { void* x; };\nint32_t tvmgen_m_run(struct tvmgen_m_inputs* inputs);\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		h, err := mlf.ParseHeader(data)
		if err != nil {
			return
		}
		for _, field := range append(h.Inputs, h.Outputs...) {
			if field.Name == "" || field.Bytes < 0 {
				t.Fatalf("%+v", field)
			}
		}
	})
}

// FuzzRelay reads any text: whatever it finds are tensors of known size.
func FuzzRelay(f *testing.F) {
	f.Add("def @main(%a:0: Tensor[(1, 2), int8] /* x */, output_tensor_names=[\"y\"]) -> (Tensor[(1), int8], float32) {\n")
	f.Fuzz(func(t *testing.T, text string) {
		r := mlf.ParseRelay(text)
		for _, p := range append(r.Params, r.Results...) {
			if p.Shape == nil || p.Bytes < 0 {
				t.Fatalf("%+v", p)
			}
		}
	})
}
