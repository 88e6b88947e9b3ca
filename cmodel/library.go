// This file makes what a compiled library needs: what it was compiled for, and a header that checks it.

package cmodel

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/boardsmith/boardsmith/mlf"
)

// A target is what a library of compiled models was compiled for.
type target struct {
	Board    string   `json:"board"`
	Compiler string   `json:"compiler"` // the first line of its --version
	Flags    []string `json:"flags"`
	FloatABI string   `json:"float_abi"` // "soft", "single" or "double" registers for floats (RISC-V), "hard" (Arm)
	Macros   []macro  `json:"macros"`    // what the headers check
}

// A macro is one that the compiler predefines.
type macro struct {
	Name  string `json:"name"`
	Value string `json:"value"` // "" if it must not be defined
}

// The macros of compilers by which code for another core or calling convention is recognised. An ABI's must be the
// same. A feature that the library was compiled with must have the same value, so that a core with more of it, such as
// a later architecture, is refused too; other features are not checked.
var (
	abiMacros = []string{
		"__SIZEOF_POINTER__", "__BYTE_ORDER__", "__ARM_ARCH_PROFILE", "__ARM_SIZEOF_MINIMAL_ENUM", "__ARM_PCS_VFP",
		"__riscv_xlen", "__riscv_float_abi_single", "__riscv_float_abi_double", "__riscv_32e", "__x86_64__", "__aarch64__",
	}
	featureMacros = []string{"__ARM_ARCH", "__ARM_FEATURE_DSP", "__ARM_FEATURE_MVE", "__ARM_FP"}
)

// isExtension reports whether a macro is defined for an extension of RISC-V. The others of this prefix are for an ABI,
// for a compiler's choices, or for what a compiler's headers offer.
func isExtension(macro string) bool {
	name, ok := strings.CutPrefix(macro, "__riscv_")
	return ok && !slices.Contains(abiMacros, macro) && name != "arch_test" && !strings.HasPrefix(name, "cmodel_") &&
		!strings.HasSuffix(name, "_intrinsic") && name != "misaligned_slow" && name != "misaligned_avoid"
}

// newTarget makes a Target of the macros that a compiler prints by -dM -E.
func newTarget(board, compiler string, flags []string, predefined string) *target {
	defined := map[string]string{}
	for line := range strings.Lines(predefined) {
		if words := strings.SplitN(strings.TrimSpace(line), " ", 3); len(words) == 3 && words[0] == "#define" {
			defined[words[1]] = words[2]
		}
	}

	t := &target{Board: board, Compiler: compiler, Flags: append([]string{}, flags...), FloatABI: "soft"}
	extensions := slices.DeleteFunc(slices.Sorted(maps.Keys(defined)), func(m string) bool { return !isExtension(m) })
	for _, name := range slices.Concat(abiMacros, featureMacros, extensions) {
		// Of an ABI, also a macro that is not defined is checked.
		if value := defined[name]; value != "" || slices.Contains(abiMacros, name) {
			t.Macros = append(t.Macros, macro{name, value})
		}
	}

	for _, abi := range []struct{ macro, name string }{
		{"__ARM_PCS_VFP", "hard"},
		{"__riscv_float_abi_single", "single"},
		{"__riscv_float_abi_double", "double"},
		{"__x86_64__", "hard"},
		{"__aarch64__", "hard"},
	} {
		if defined[abi.macro] != "" {
			t.FloatABI = abi.name
		}
	}
	return t
}

// Check returns the header that fails to compile for another core or calling convention.
func (t *target) Check() mlf.File {
	var b strings.Builder
	fmt.Fprintf(&b, `// SPDX-License-Identifier: 0BSD
//
// Made by boardsmith: lib/libmodels.a is compiled for %s. Compile what uses it for the same core and calling convention.
// There is no guard, so that the header of every folder checks.
`, comment(t.Board))

	for _, m := range t.Macros {
		condition := "defined(" + m.Name + ")"
		if m.Value != "" {
			condition = "!defined(" + m.Name + ") || (" + m.Name + " != " + m.Value + ")"
		}
		fmt.Fprintf(&b, "\n#if %s\n#error \"lib/libmodels.a is for %s, compiled with %s: %s differs\"\n#endif\n", condition,
			comment(t.Board), comment(strings.Join(t.Flags, " ")), m.Name)
	}
	return mlf.File{Name: "include/tvm_target.h", Data: []byte(b.String())}
}
