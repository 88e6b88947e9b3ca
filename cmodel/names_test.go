package cmodel_test

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/cmodel"
	"github.com/boardsmith/boardsmith/mlf"
)

// TestCompilerNames compiles models whose tensors have names of the compiler and of stdint.h, as C and as C++.
func TestCompilerNames(t *testing.T) {
	names := []string{
		"_Bool", "_Generic", "_Thread_local", "__inline", "__func__", "__LINE__", "INT32_MAX", "UINT8_C", "SIZE_MAX",
		"uint_fast8_t", "__", "__2", "_", "TVM_WEAK", "_x",
	}
	for group := range slices.Chunk(names, 5) {
		group = append(group, "last")
		c, err := cmodel.Generate(archiv, adder(group...), cmodel.Options{})
		must(t, err)
		dir := unpack(t, c)
		for _, extension := range []string{".c", ".cpp"} {
			file := filepath.Join(dir, "main"+extension)
			write(t, file, "#include <tvm_net.h>\nint main(void) { return 0; }\n")
			if err := compile(dir, file, filepath.Join(dir, "main.o")); err != nil {
				t.Errorf("%q: %v", group, err)
			}
		}
	}
}

// TestMacroNames compares the macros of the generated header's includes with the names that tensors keep.
func TestMacroNames(t *testing.T) {
	c, err := cmodel.Generate(archiv, adder(), cmodel.Options{})
	must(t, err)
	dir := unpack(t, c)
	said, err := run(dir, "gcc", "-dM", "-E", "-Iinclude", "include/tvm_net.h")
	if err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	macros := regexp.MustCompile(`(?m)^#define (\w+) `).FindAllStringSubmatch(said, -1)
	if len(macros) < 100 {
		t.Fatalf("only %d macros", len(macros))
	}
	for _, m := range macros {
		c, err := cmodel.Generate(archiv, adder(m[1]), cmodel.Options{})
		must(t, err)
		renamed := false
		for _, r := range c.Renamed {
			renamed = renamed || r.Name == m[1] && r.CName != m[1]
		}
		if !renamed {
			t.Errorf("an input keeps the name of the macro %s", m[1])
		}
	}
}

// TestExample compiles the example's main.c for a model whose name begins with a digit, and beside it for models whose
// names and tensors together read the same.
func TestExample(t *testing.T) {
	var codes []*cmodel.Code
	for _, x := range []struct{ model, input string }{{"2layer", "x"}, {"a", "b_c"}, {"a_b", "c"}} {
		m := adder(x.input)
		m.Name = x.model
		for i := range m.Sources {
			m.Sources[i].Name = fmt.Sprintf("codegen/host/src/%s_lib%d.c", x.model, i)
		}
		c, err := cmodel.Generate(archiv, m, cmodel.Options{})
		must(t, err)
		codes = append(codes, c)
	}
	dir := unpack(t, codes...)
	if err := compile(dir, filepath.Join(dir, "main.c"), filepath.Join(dir, "main.o")); err != nil {
		t.Error(err)
	}
}

// TestManyDevices expects an error for more devices than a TVMModel can count.
func TestManyDevices(t *testing.T) {
	m := &mlf.Model{
		Name: "net", Style: "full-model", Executor: mlf.AOT, Interface: "c", ABI: mlf.ABIUnpacked,
		Inputs: []mlf.Tensor{vector("x", int8s, 4)}, Outputs: []mlf.Tensor{vector("y", int8s, 4)},
		Header: &mlf.Header{
			Name: "net", Inputs: []mlf.Buffer{{Name: "x"}}, Outputs: []mlf.Buffer{{Name: "y"}},
			Run: []string{"inputs", "outputs", "devices"},
		},
		Headers: []mlf.File{{Name: "codegen/host/include/tvmgen_net.h"}},
		Sources: []mlf.File{{Name: "codegen/host/src/net_lib0.c", Data: []byte("int32_t tvmgen_net_run(void) {}")}},
	}
	for range 255 {
		m.Header.Devices = append(m.Header.Devices, fmt.Sprintf("npu%d", len(m.Header.Devices)))
	}
	if _, err := cmodel.Generate(archiv, m, cmodel.Options{}); err != nil {
		t.Errorf("255 devices: %v", err)
	}
	m.Header.Devices = append(m.Header.Devices, "another")
	_, err := cmodel.Generate(archiv, m, cmodel.Options{})
	if err == nil || !strings.Contains(err.Error(), "256 devices") {
		t.Errorf("256 devices: %v", err)
	}
}
