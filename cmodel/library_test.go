package cmodel_test

import (
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/cmodel"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
)

// TestSameFile refuses models of which a file has the name of another file in the folder.
func TestSameFile(t *testing.T) {
	for _, x := range []struct {
		models   string
		compiled bool
		want     string // in the error; "": none
	}{
		{"kws vww", true, ""},
		{"kws kws", false, "models kws and kws"},
		{"micro_runtime", false, "include/tvm_micro_runtime.h"},
		{"kws zephyr", false, "include/tvm_zephyr.h"},
		{"target", false, ""},
		{"target", true, "include/tvm_target.h"},
	} {
		var o cmodel.Options
		if x.compiled {
			o.Target = cmodel.TargetOf("host")
		}
		var codes []*cmodel.Code
		for name := range strings.FieldsSeq(x.models) {
			c, err := cmodel.Generate(archiv, renamed(name), o)
			must(t, err)
			codes = append(codes, c)
		}
		_, err := cmodel.Bundle(codes...)
		testkit.WantErrorIf(t, x.want != "", err, failure.Config, x.want)
	}
}

// TestTarget compiles main.c with the compiler of a library, and with others: the headers refuse these.
func TestTarget(t *testing.T) {
	const arm = "arm-none-eabi-gcc"
	testkit.Need(t, arm)
	m4 := []string{"-mcpu=cortex-m4", "-mthumb", "-mfloat-abi=hard"}
	predefined := output(t, ".", arm, append(m4, "-dM", "-E", "-x", "c", "/dev/null")...)
	target := cmodel.NewTarget("mps2_an386", "gcc 12", m4, predefined)
	testkit.Equal(t, "float ABI", target.FloatABI, "hard")
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
		_, err := run(dir, c.compiler, append(c.flags, "-Iinclude", "-fsyntax-only", "main.c")...)
		t.Log(c.name)
		testkit.WantErrorIf(t, c.differs != "", err, "", "lib/libmodels.a is for mps2_an386", c.differs+" differs")
	}
}
