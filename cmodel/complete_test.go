package cmodel_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/cmodel"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
	"github.com/boardsmith/boardsmith/mlf"
)

// TestIncomplete refuses archives that lack code which the model calls, and names the function.
func TestIncomplete(t *testing.T) {
	for _, x := range []struct{ archive, without, want string }{
		{"sine.graph", "lib1.c", "function tvmgen_sine_fused_"},
		{"sine.aot_c", "lib1.c", "function tvmgen_sine_"},
		{"sine.aot_packed", "lib2.c", "function tvmgen_sine_"},
		{"add.aot_packed", "lib2.c", "function tvmgen_add_"},
		{"digits_i8.graph_llvm_thumbv7m", "lib1.o", "function tvmgen_"},
	} {
		a, m := open(t, mlftest.Path(t, x.archive))
		lacks := func(f mlf.File) bool { return strings.HasSuffix(f.Name, x.without) }
		if !slices.ContainsFunc(slices.Concat(m.Sources, m.Objects), lacks) {
			t.Errorf("%s has no %s", x.archive, x.without)
		}
		m.Sources, m.Objects = slices.DeleteFunc(m.Sources, lacks), slices.DeleteFunc(m.Objects, lacks)
		_, err := cmodel.Generate(a, m, cmodel.Options{})
		if failure.Of(err) != failure.Config || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%s without %s: %v", x.archive, x.without, err)
		}
	}
	a, m := open(t, mlftest.Path(t, "sine.aot_c"))
	m.Sources = append(m.Sources, mlf.File{Name: "codegen/host/src/lib9.cc"})
	if _, err := cmodel.Generate(a, m, cmodel.Options{}); err == nil || !strings.Contains(err.Error(), "lib9.cc: C++") {
		t.Errorf("a C++ source: %v", err)
	}
}
