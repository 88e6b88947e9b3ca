// This file makes what a user's build system needs of a folder of models.

package cmodel

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/boardsmith/boardsmith/mlf"
)

// A Target is what a library of compiled models was compiled for.
type Target struct {
	Board    string   `json:"board"`
	Compiler string   `json:"compiler"` // the first line of its --version
	Flags    []string `json:"flags"`
	FloatABI string   `json:"float_abi"` // "soft", "single" or "double" registers for floats (RISC-V), "hard" (Arm)
	Macros   []Macro  `json:"macros"`    // what the headers check
}

// A Macro is one that the compiler predefines.
type Macro struct {
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

// NewTarget makes a Target of the macros that a compiler prints by -dM -E.
func NewTarget(board, compiler string, flags []string, predefined string) *Target {
	defined := map[string]string{}
	for line := range strings.Lines(predefined) {
		if words := strings.SplitN(strings.TrimSpace(line), " ", 3); len(words) == 3 && words[0] == "#define" {
			defined[words[1]] = words[2]
		}
	}
	t := &Target{Board: board, Compiler: compiler, Flags: append([]string{}, flags...), FloatABI: "soft"}
	extensions := slices.DeleteFunc(slices.Sorted(maps.Keys(defined)), func(m string) bool { return !isExtension(m) })
	for _, name := range slices.Concat(abiMacros, featureMacros, extensions) {
		if value := defined[name]; value != "" || slices.Contains(abiMacros, name) {
			t.Macros = append(t.Macros, Macro{name, value})
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
func (t *Target) Check() mlf.File {
	var b strings.Builder
	fmt.Fprintf(&b, `// SPDX-License-Identifier: 0BSD
//
// Made by boardsmith: lib/libmodels.a is compiled for %s. Compile what uses it for the same core and calling convention.
#ifndef TVM_TARGET_H_
#define TVM_TARGET_H_
`, comment(t.Board))
	for _, m := range t.Macros {
		condition := "defined(" + m.Name + ")"
		if m.Value != "" {
			condition = "!defined(" + m.Name + ") || (" + m.Name + " != " + m.Value + ")"
		}
		fmt.Fprintf(&b, "\n#if %s\n#error \"lib/libmodels.a is for %s, compiled with %s: %s differs\"\n#endif\n", condition,
			comment(t.Board), comment(strings.Join(t.Flags, " ")), m.Name)
	}
	b.WriteString("\n#endif  // TVM_TARGET_H_\n")
	return mlf.File{Name: "include/tvm_target.h", Data: []byte(b.String())}
}

// integration returns files for make, CMake and Zephyr, and an example program. sources are the names in src/.
func integration(codes []*Code, sources, objects []string) []mlf.File {
	var list, mute, example strings.Builder
	for _, s := range sources {
		fmt.Fprintf(&list, "\n  ${CMAKE_CURRENT_LIST_DIR}/src/%s", s)
	}
	for _, c := range codes {
		for _, s := range c.Sources {
			fmt.Fprintf(&mute, "\n  ${CMAKE_CURRENT_LIST_DIR}/src/%s", path.Base(s.Name))
		}
	}
	lib := ""
	for _, o := range objects {
		lib += "\n  ${CMAKE_CURRENT_LIST_DIR}/lib/" + o
	}
	for _, c := range codes {
		fmt.Fprintf(&example, "#include <tvm_%s.h>\n", c.Name)
	}
	example.WriteString("\n")
	for _, c := range codes {
		example.WriteString(c.example)
	}
	example.WriteString("int main(void) {\n  int32_t error = 0;\n")
	for _, c := range codes {
		fmt.Fprintf(&example, "  if (error == 0) {\n    error = run_%s();\n  }\n", c.Name)
	}
	example.WriteString("  return (int)error;\n}\n")
	return []mlf.File{
		{Name: "models.mk", Data: []byte(modelsMk)},
		{Name: "models.cmake", Data: []byte(fmt.Sprintf(modelsCMake, list.String(), mute.String(), lib))},
		{Name: "CMakeLists.txt", Data: []byte(cmakeLists)},
		{Name: "zephyr/module.yml", Data: []byte("name: models\nbuild:\n  cmake: zephyr\n")},
		{Name: "zephyr/CMakeLists.txt", Data: []byte(zephyrCMake)},
		{Name: "main.c", Data: []byte(exampleHead + example.String())},
	}
}

const exampleHead = `// SPDX-License-Identifier: 0BSD
//
// Made by boardsmith: runs each model once, with inputs that are zero.
`

const modelsMk = `# SPDX-License-Identifier: 0BSD
#
# Made by boardsmith. Include this file, add $(MODELS_INCLUDE) to the flags of what uses the models, and link
# $(MODELS_LIB) -lm. CC, AR and CFLAGS are those of your Makefile; MODELS_BUILD is a folder for objects.
MODELS_GOAL := $(.DEFAULT_GOAL)
MODELS := $(patsubst %/,%,$(dir $(lastword $(MAKEFILE_LIST))))
MODELS_BUILD ?= build/models
MODELS_INCLUDE := -I$(MODELS)/include
MODELS_LIB := $(MODELS_BUILD)/libmodels.a
MODELS_OBJECTS := $(patsubst $(MODELS)/src/%.c,$(MODELS_BUILD)/%.o,$(sort $(wildcard $(MODELS)/src/*.c)))

# -w: TVM's code has many warnings.
$(MODELS_OBJECTS): $(MODELS_BUILD)/%.o: $(MODELS)/src/%.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -std=gnu11 -w -ffunction-sections -fdata-sections $(MODELS_INCLUDE) -MMD -MP -c -o $@ $<

$(MODELS_LIB): $(MODELS_OBJECTS) $(sort $(wildcard $(MODELS)/lib/*.o))
	rm -f $@
	$(AR) rcsD $@ $^

-include $(MODELS_OBJECTS:.o=.d)

# No rule of this file is your default goal, also where you include it first.
.DEFAULT_GOAL := $(MODELS_GOAL)
`

const modelsCMake = `# SPDX-License-Identifier: 0BSD
#
# Made by boardsmith.
set(MODELS_SOURCES%s)
set(MODELS_OF_TVM%s)
set(MODELS_OBJECTS%s)
set(MODELS_INCLUDE ${CMAKE_CURRENT_LIST_DIR}/include)

# TVM's code has many warnings.
set_source_files_properties(${MODELS_OF_TVM} PROPERTIES COMPILE_OPTIONS -w)
`

const cmakeLists = `# SPDX-License-Identifier: 0BSD
#
# Made by boardsmith: add_subdirectory(this folder), then target_link_libraries(yours PRIVATE models).
enable_language(C)
include(${CMAKE_CURRENT_LIST_DIR}/models.cmake)
add_library(models STATIC ${MODELS_SOURCES} ${MODELS_OBJECTS})
target_include_directories(models PUBLIC ${MODELS_INCLUDE})
target_compile_options(models PRIVATE -ffunction-sections -fdata-sections)
target_link_libraries(models PUBLIC m)
`

const zephyrCMake = `# SPDX-License-Identifier: 0BSD
#
# Made by boardsmith: a module of Zephyr. Name its folder in a manifest or, before find_package(Zephyr), in the list
# ZEPHYR_EXTRA_MODULES, which all versions of Zephyr read; Zephyr 3.3 and older ignore EXTRA_ZEPHYR_MODULES.
include(${CMAKE_CURRENT_LIST_DIR}/../models.cmake)
zephyr_include_directories(${MODELS_INCLUDE})
zephyr_library_named(models)
zephyr_library_sources(${MODELS_SOURCES} ${MODELS_OBJECTS})
`
