package cmodel_test

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/cmodel"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit/drawn"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
)

// TestFragments builds main.c with the fragments for make and, in a full run, for CMake, and runs it.
func TestFragments(t *testing.T) {
	c, err := cmodel.Generate(archiv, adder(), cmodel.Options{})
	must(t, err)
	dir := unpack(t, c, generate(t, mlftest.Path(t, "twoin.aot_c"), cmodel.Options{}))
	user := t.TempDir()
	write(t, filepath.Join(user, "Makefile"), "include "+dir+"/models.mk\n"+
		"program: $(MODELS_LIB)\n\t$(CC) -Wall -Wextra -Wpedantic -Werror $(MODELS_INCLUDE) -o $@ $(MODELS)/main.c $< -lm\n")
	if said, err := run(user, "make", "CFLAGS=-O1"); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	if said, err := run(user, "./program"); err != nil {
		t.Errorf("%v\n%s", err, said)
	}
	if _, err := exec.LookPath("cmake"); err != nil || !drawn.InFull() {
		return
	}
	write(t, filepath.Join(user, "CMakeLists.txt"), "cmake_minimum_required(VERSION 3.20)\nproject(user C)\n"+
		"add_subdirectory("+dir+" models)\nadd_executable(user "+dir+"/main.c)\ntarget_link_libraries(user PRIVATE models)\n")
	for _, args := range [][]string{{"-B", "made"}, {"--build", "made"}} {
		if said, err := run(user, "cmake", args...); err != nil {
			t.Fatalf("%v\n%s", err, said)
		}
	}
	if said, err := run(user, "made/user"); err != nil {
		t.Errorf("%v\n%s", err, said)
	}
}

// TestSameFile refuses models of which a file has the name of another file in the folder.
func TestSameFile(t *testing.T) {
	named := func(name string, o cmodel.Options) *cmodel.Code {
		m := adder()
		m.Name = name
		for i := range m.Sources {
			m.Sources[i].Name = fmt.Sprintf("codegen/host/src/%s_lib%d.c", name, i)
		}
		c, err := cmodel.Generate(archiv, m, o)
		must(t, err)
		return c
	}
	compiled := cmodel.Options{Target: cmodel.TargetOf("host")}
	for _, x := range []struct {
		codes []*cmodel.Code
		want  string // in the error; "": none
	}{
		{[]*cmodel.Code{named("kws", compiled), named("vww", compiled)}, ""},
		{[]*cmodel.Code{named("kws", cmodel.Options{}), named("kws", cmodel.Options{})}, "models kws and kws"},
		{[]*cmodel.Code{named("micro_runtime", cmodel.Options{})}, "include/tvm_micro_runtime.h"},
		{[]*cmodel.Code{named("kws", cmodel.Options{}), named("zephyr", cmodel.Options{})}, "include/tvm_zephyr.h"},
		{[]*cmodel.Code{named("target", cmodel.Options{})}, ""},
		{[]*cmodel.Code{named("target", compiled)}, "include/tvm_target.h"},
	} {
		_, err := cmodel.Bundle(x.codes...)
		refused := failure.Of(err) == failure.Config && x.want != "" && strings.Contains(err.Error(), x.want)
		if refused != (x.want != "") || !refused && err != nil {
			t.Errorf("%s: %v", x.want, err)
		}
	}
}

// TestTarget compiles main.c with the compiler of a library, and with others: the headers refuse these.
func TestTarget(t *testing.T) {
	const arm = "arm-none-eabi-gcc"
	if _, err := exec.LookPath(arm); err != nil {
		t.Skip(arm + " is not installed")
	}
	m4 := []string{"-mcpu=cortex-m4", "-mthumb", "-mfloat-abi=hard"}
	predefined, err := run(t.TempDir(), arm, append(m4, "-dM", "-E", "-x", "c", "/dev/null")...)
	must(t, err)
	target := cmodel.NewTarget("mps2_an386", "gcc 12", m4, predefined)
	if target.FloatABI != "hard" {
		t.Errorf("float ABI %s", target.FloatABI)
	}
	dir := unpack(t, generate(t, mlftest.Path(t, "twoin.aot_c"), cmodel.Options{Target: target}))
	for _, c := range []struct {
		name, differs, compiler string
		flags                   []string
	}{
		{"the same", "", arm, m4},
		{"a float ABI", "__ARM_PCS_VFP", arm, []string{"-mcpu=cortex-m4", "-mthumb", "-mfloat-abi=softfp", "-mfpu=auto"}},
		{"a core", "__ARM_FEATURE_DSP", arm, []string{"-mcpu=cortex-m3", "-mthumb"}},
		{"sizes of enums", "__ARM_SIZEOF_MINIMAL_ENUM", arm, append(m4[:3:3], "-fno-short-enums")},
		{"this computer", "__ARM_ARCH", "gcc", nil},
	} {
		said, err := run(dir, c.compiler, append(c.flags, "-Iinclude", "-fsyntax-only", "main.c")...)
		if (err == nil) != (c.differs == "") ||
			c.differs != "" && !strings.Contains(said, "lib/libmodels.a is for mps2_an386") ||
			!strings.Contains(said, c.differs+" differs") && c.differs != "" {
			t.Errorf("%s: %v\n%s", c.name, err, said)
		}
	}
}
