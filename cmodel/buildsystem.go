// This file makes what a user's build system needs of a folder of models.

package cmodel

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"path"
	"slices"
	"strings"
	"text/template"

	"github.com/boardsmith/boardsmith/internal/modelfile"
	"github.com/boardsmith/boardsmith/mlf"
)

// A folder is what the fragments for build systems print: names of files without their folders. Several folders of
// models become one library, which has the runtime of the first one.
type folder struct {
	Runtime   string   // identifies the runtime's files
	Parts     []string // its sources
	Sources   []string // all others
	OfTVM     []string // those of Sources that are TVM's
	Objects   []string
	Models    []modelSources
	Functions string // of main.c
}

type modelSources struct {
	Name    string // in C
	Sources []string
}

// runtimeID identifies the content of the runtime's files.
func runtimeID(files []mlf.File) string {
	h := sha256.New()
	for _, f := range files {
		fmt.Fprintf(h, "%q %x\n", f.Name, sha256.Sum256(f.Data))
	}
	return fmt.Sprintf("%x", h.Sum(nil)[:8])
}

// checkRuntime returns the lines of a header by which a source that uses compiled libraries of different runtimes does
// not compile.
func checkRuntime(id string) string {
	return fmt.Sprintf(`
#if defined(TVM_TARGET_RUNTIME) && (TVM_TARGET_RUNTIME != 0x%[1]s)
#error "these folders of models have different runtimes: write all of them by one version of boardsmith"
#endif
#define TVM_TARGET_RUNTIME 0x%[1]s
`, id)
}

// namesIn returns the names of the files in a folder whose names end so.
func namesIn(files []mlf.File, dir, ext string) (names []string) {
	for _, f := range files {
		if in, name := path.Split(f.Name); in == dir && path.Ext(name) == ext {
			names = append(names, name)
		}
	}
	return names
}

// integration returns files for make, CMake and Zephyr, and an example program, of a folder with the runtime's files
// and others.
func integration(codes []*Code, runtime, others []mlf.File) (files []mlf.File, err error) {
	d := folder{
		Runtime: runtimeID(runtime), Parts: namesIn(runtime, "src/", ".c"),
		Sources: namesIn(others, "src/", ".c"), Objects: namesIn(others, "lib/", ".o"),
	}

	for _, c := range codes {
		m := modelSources{Name: c.Name}
		for _, name := range namesIn(c.Files(), "src/", ".c") {
			if !slices.ContainsFunc(d.Models, func(o modelSources) bool { return slices.Contains(o.Sources, name) }) {
				m.Sources = append(m.Sources, name) // models of one archive may have code together
			}
		}
		d.Models = append(d.Models, m)

		// Warnings are off for TVM's code, and on for a typed call.
		for _, name := range namesIn(c.Archived(), "src/", ".c") {
			if slices.Contains(m.Sources, name) && !strings.HasSuffix(name, modelfile.CallSuffix) {
				d.OfTVM = append(d.OfTVM, name)
			}
		}
		d.Functions += c.example
	}

	for _, f := range []struct{ name, text string }{
		{"models.mk", modelsMk},
		{"models.cmake", modelsCMake},
		{"CMakeLists.txt", cmakeLists},
		{"whole.cmake", wholeCMake},
		{"zephyr/module.yml", zephyrModule},
		{"zephyr/CMakeLists.txt", zephyrCMake},
		{"main.c", exampleMain},
	} {
		var out bytes.Buffer
		t, err := template.New(f.name).Funcs(template.FuncMap{"join": strings.Join}).Parse(f.text)
		if err == nil {
			err = t.Execute(&out, d)
		}

		if err != nil {
			return nil, err
		}
		files = append(files, mlf.File{Name: f.name, Data: out.Bytes()})
	}
	return files, nil
}

const exampleMain = `// SPDX-License-Identifier: 0BSD
//
// Made by boardsmith: runs each model once, with inputs that are zero.
{{range .Models}}#include <tvm_{{.Name}}.h>
{{end}}
{{.Functions}}int main(void) {
  int32_t error = 0;
{{- range .Models}}
  if (error == 0) {
    error = run_{{.Name}}();
  }
{{- end}}
  return (int)error;
}
`

const modelsMk = `# SPDX-License-Identifier: 0BSD
#
# Made by boardsmith. Include this file, add $(MODELS_INCLUDE) to the flags of what uses the models, and link
# $(MODELS_LIB) -lm. CC, AR and CFLAGS are those of your Makefile; MODELS_BUILD is a folder for objects. The models of
# all folders whose models.mk you include become one library; MODELS is the last of these folders.
MODELS_GOAL := $(.DEFAULT_GOAL)
MODELS := $(patsubst %/,%,$(dir $(lastword $(MAKEFILE_LIST))))
MODELS_BUILD ?= build/models
MODELS_SOURCES := {{join .Sources " "}}
MODELS_EXTRA := {{join .Objects " "}}

ifneq ($(words $(MODELS_BUILD)),1)
$(error MODELS_BUILD is "$(MODELS_BUILD)", but make separates names by spaces: choose a folder without spaces)
endif
ifneq ($(words $(wildcard $(MODELS_SOURCES:%=$(MODELS)/src/%))),$(words $(MODELS_SOURCES)))
$(error $(MODELS)/src lacks a source of models.mk. If the path has spaces, by which make separates names, move the \
folder; else write it again)
endif

# How an object is compiled, and the library made. -w: TVM's code has many warnings; those of a typed call are errors of
# a description. An archive hides that two models define one symbol: linking all objects as one shows it.
define MODELS_COMPILE
@mkdir -p $(@D)
$(CC) $(CFLAGS) -std=gnu11 $(if $(filter %_call.c,$<),,-w) -ffunction-sections -fdata-sections -fno-common $(MODELS_OWN) -MMD -MP -c -o $@ $<
endef
define MODELS_ARCHIVE
@$(CC) $(CFLAGS) -r -nostdlib -o $(MODELS_BUILD)/whole.o $^ || { echo >&2 \
'Two of the models define one symbol? Rename it in one of them: objects are in folders named after models.'; exit 1; }
@rm -f $@ $(MODELS_BUILD)/whole.o
$(AR) qcsD $@ $^
endef

# The first folder's runtime is for all of them. What the environment says is of another make.
MODELS_OBJECTS :=
ifneq ($(origin MODELS_RUNTIME),file)
MODELS_RUNTIME := {{.Runtime}}
MODELS_INCLUDE :=
MODELS_FILES :=
MODELS_LIB := $(MODELS_BUILD)/libmodels.a
MODELS_OBJECTS := $(patsubst %.c,$(MODELS_BUILD)/%.o,{{join .Parts " "}})
$(MODELS_OBJECTS): $(MODELS_BUILD)/%.o: $(MODELS)/src/%.c
	$(MODELS_COMPILE)
$(MODELS_LIB):
	$(MODELS_ARCHIVE)
endif
ifneq ($(MODELS_RUNTIME),{{.Runtime}})
$(error $(MODELS) has another runtime than the folders of models before it: write all of them by one version of \
boardsmith)
endif
MODELS_TWICE := $(filter $(MODELS_SOURCES) $(MODELS_EXTRA),$(MODELS_FILES))
ifneq ($(MODELS_TWICE),)
$(error $(MODELS) and a folder of models before it both have $(MODELS_TWICE): include each folder once, and give the \
models different names when you export them)
endif
MODELS_FILES += $(MODELS_SOURCES) $(MODELS_EXTRA)
MODELS_INCLUDE += -I$(MODELS)/include
{{range .Models}}
MODELS_OF := $(patsubst %.c,$(MODELS_BUILD)/{{.Name}}/%.o,{{join .Sources " "}})
MODELS_OBJECTS += $(MODELS_OF)
$(MODELS_OF): $(MODELS_BUILD)/{{.Name}}/%.o: $(MODELS)/src/%.c
	$(MODELS_COMPILE)
{{end}}
$(MODELS_OBJECTS): MODELS_OWN := -I$(MODELS)/include
$(MODELS_LIB): $(MODELS_OBJECTS) $(MODELS_EXTRA:%=$(MODELS)/lib/%)

-include $(MODELS_OBJECTS:.o=.d)

# No rule of this file is your default goal, also where you include it first.
.DEFAULT_GOAL := $(MODELS_GOAL)
`

const modelsCMake = `# SPDX-License-Identifier: 0BSD
#
# Made by boardsmith: adds the models to the target models, which may have those of other folders. The first folder's
# runtime is for all of them.
set(MODELS_SOURCES
{{- range .Sources}}
  ${CMAKE_CURRENT_LIST_DIR}/src/{{.}}
{{- end}})
set(MODELS_OF_TVM
{{- range .OfTVM}}
  ${CMAKE_CURRENT_LIST_DIR}/src/{{.}}
{{- end}})
set(MODELS_OBJECTS
{{- range .Objects}}
  ${CMAKE_CURRENT_LIST_DIR}/lib/{{.}}
{{- end}})
set(MODELS_INCLUDE ${CMAKE_CURRENT_LIST_DIR}/include)

get_target_property(MODELS_RUNTIME models MODELS_RUNTIME)
if(NOT MODELS_RUNTIME)
  set_target_properties(models PROPERTIES MODELS_RUNTIME "{{.Runtime}}")
  list(APPEND MODELS_SOURCES
{{- range .Parts}}
    ${CMAKE_CURRENT_LIST_DIR}/src/{{.}}
{{- end}})
elseif(NOT MODELS_RUNTIME STREQUAL "{{.Runtime}}")
  message(FATAL_ERROR "${CMAKE_CURRENT_LIST_DIR} has another runtime than the folders of models before it: "
    "write all of them by one version of boardsmith")
endif()
foreach(MODELS_FILE IN LISTS MODELS_SOURCES MODELS_OBJECTS)
  get_filename_component(MODELS_NAME ${MODELS_FILE} NAME)
  get_target_property(MODELS_OTHER models MODELS_FOLDER_OF_${MODELS_NAME})
  if(MODELS_OTHER)
    message(FATAL_ERROR "${CMAKE_CURRENT_LIST_DIR} and ${MODELS_OTHER} both have ${MODELS_NAME}: "
      "give the models different names when you export them")
  endif()
  set_target_properties(models PROPERTIES MODELS_FOLDER_OF_${MODELS_NAME} ${CMAKE_CURRENT_LIST_DIR})
endforeach()

# A source finds the headers of its own folder first. TVM's code has many warnings.
set_source_files_properties(${MODELS_SOURCES} TARGET_DIRECTORY models PROPERTIES INCLUDE_DIRECTORIES ${MODELS_INCLUDE})
set_source_files_properties(${MODELS_OF_TVM} TARGET_DIRECTORY models PROPERTIES COMPILE_OPTIONS -w)
target_sources(models PRIVATE ${MODELS_SOURCES} ${MODELS_OBJECTS})
set_property(TARGET models APPEND PROPERTY MODELS_OBJECTS ${MODELS_OBJECTS})
set_property(TARGET models APPEND PROPERTY MODELS_NAMES
{{- range .Models}}
  "{{.Name}} in ${CMAKE_CURRENT_LIST_DIR}"
{{- end}})
`

const cmakeLists = `# SPDX-License-Identifier: 0BSD
#
# Made by boardsmith: add_subdirectory(this folder), then target_link_libraries(yours PRIVATE models). The models of all
# such folders become this one target.
enable_language(C)
if(NOT TARGET models)
  add_library(models STATIC)
  target_compile_options(models PRIVATE -ffunction-sections -fdata-sections -fno-common)
  target_link_libraries(models PUBLIC m)
  get_directory_property(MODELS_FLAGS COMPILE_OPTIONS)
  string(GENEX_STRIP "${MODELS_FLAGS}" MODELS_FLAGS)
  string(REPLACE ";" " " MODELS_FLAGS "${CMAKE_C_FLAGS} ${MODELS_FLAGS}")
  if(CMAKE_C_COMPILER_TARGET)
    string(APPEND MODELS_FLAGS " ${CMAKE_C_COMPILE_OPTIONS_TARGET}${CMAKE_C_COMPILER_TARGET}")
  endif()
  add_custom_command(TARGET models PRE_LINK VERBATIM COMMAND ${CMAKE_COMMAND} "-DCOMPILER=${CMAKE_C_COMPILER}"
    "-DFLAGS=${MODELS_FLAGS}" "-DOBJECTS=$<TARGET_OBJECTS:models>;$<TARGET_PROPERTY:models,MODELS_OBJECTS>"
    "-DMODELS=$<TARGET_PROPERTY:models,MODELS_NAMES>" -P ${CMAKE_CURRENT_LIST_DIR}/whole.cmake)
endif()
include(${CMAKE_CURRENT_LIST_DIR}/models.cmake)
target_include_directories(models PUBLIC ${MODELS_INCLUDE})
`

const wholeCMake = `# SPDX-License-Identifier: 0BSD
#
# Made by boardsmith: links all objects of the models as one. An archive hides that two models define one symbol.
separate_arguments(FLAGS NATIVE_COMMAND "${FLAGS}")
execute_process(COMMAND ${COMPILER} ${FLAGS} -r -nostdlib -o whole.o ${OBJECTS}
  RESULT_VARIABLE FAILED OUTPUT_VARIABLE PRINTED ERROR_VARIABLE PRINTED)
file(REMOVE whole.o)
if(PRINTED MATCHES "multiple definition|duplicate symbol")
  string(REPLACE ";" ", " MODELS "${MODELS}")
  message(FATAL_ERROR "${PRINTED}\nTwo of the models define one symbol: rename it in one of them. Models: ${MODELS}")
elseif(FAILED)
  message(WARNING "${PRINTED}\nIt is not checked whether two of the models define one symbol.")
endif()
`

const zephyrModule = `name: models{{range .Models}}_{{.Name}}{{end}}
build:
  cmake: zephyr
`

const zephyrCMake = `# SPDX-License-Identifier: 0BSD
#
# Made by boardsmith: a module of Zephyr. Name its folder in a manifest or, before find_package(Zephyr), in the list
# ZEPHYR_EXTRA_MODULES, which all versions of Zephyr read; Zephyr 3.3 and older ignore EXTRA_ZEPHYR_MODULES.
if(NOT TARGET models)
  zephyr_library_named(models)
endif()
include(${CMAKE_CURRENT_LIST_DIR}/../models.cmake)
zephyr_include_directories(${MODELS_INCLUDE})
`
