package cmodel_test

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/boardsmith/boardsmith/cmodel"
	"github.com/boardsmith/boardsmith/internal/testkit"
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
		c := handmade(t, adder(group...))
		dir := unpack(t, c)
		for _, extension := range []string{".c", ".cpp"} {
			file := filepath.Join(dir, "main"+extension)
			write(t, file, "#include <tvm_net.h>\nint main(void) { return 0; }\n")
			must(t, compile(dir, file, dir+"/main.o"))
		}
	}
}

// TestMacroNames compares the macros of the generated header's includes with the names that tensors keep.
func TestMacroNames(t *testing.T) {
	c := handmade(t, adder())
	dir := unpack(t, c)
	said := output(t, dir, "gcc", "-dM", "-E", "-Iinclude", "include/tvm_net.h")
	macros := regexp.MustCompile(`(?m)^#define (\w+) `).FindAllStringSubmatch(said, -1)
	if len(macros) < 100 {
		t.Fatalf("only %d macros", len(macros))
	}
	for _, m := range macros {
		if c := handmade(t, adder(m[1])); len(c.Renamed) == 0 || c.Renamed[0].CName == m[1] {
			t.Errorf("an input keeps the name of the macro %s", m[1])
		}
	}
}

// TestExample compiles the example's main.c for a model whose name begins with a digit, and beside it for models whose
// names and tensors together read the same.
func TestExample(t *testing.T) {
	var codes []*cmodel.Code
	for _, x := range []struct{ model, input string }{{"2layer", "x"}, {"a", "b_c"}, {"a_b", "c"}} {
		codes = append(codes, handmade(t, renamed(x.model, x.input)))
	}
	dir := unpack(t, codes...)
	must(t, compile(dir, dir+"/main.c", dir+"/main.o"))
}

// TestManyDevices expects an error for more devices than a TVMModel can count.
func TestManyDevices(t *testing.T) {
	m := withHeader(mlf.Header{Run: []string{"inputs", "outputs", "devices"}}, "", "int32_t tvmgen_net_run(void) {}")
	for range 255 {
		m.Header.Devices = append(m.Header.Devices, fmt.Sprintf("npu%d", len(m.Header.Devices)))
	}
	handmade(t, m)
	m.Header.Devices = append(m.Header.Devices, "another")
	_, err := cmodel.Generate(archiv, m, cmodel.Options{})
	testkit.WantError(t, err, "", "256 devices")
}
