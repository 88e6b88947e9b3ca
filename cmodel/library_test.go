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
	named := func(name string, o cmodel.Options) *cmodel.Code {
		c, err := cmodel.Generate(archiv, renamed(name), o)
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
