// This file tests several folders of models in one program.

package cmodel_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/boardsmith/boardsmith/cmodel"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
)

// both is a program that runs the models of two folders.
const both = `#include <tvm_sine.h>
#include <tvm_twoin.h>

static uint8_t cats[TVM_twoin_INPUT_CATS_SIZE];
static float dogs[TVM_twoin_INPUT_DOGS_SIZE / sizeof(float)];
static float sums[TVM_twoin_OUTPUT_OUTPUT0_SIZE / sizeof(float)];
static float others[TVM_twoin_OUTPUT_OUTPUT1_SIZE / sizeof(float)];

int main(void) {
  const float x = 1.0F;
  float y = 0.0F;
  const TVM_sine_input sine_input = {&x};
  const TVM_sine_output sine_output = {&y};
  const TVM_twoin_input twoin_input = {cats, dogs};
  const TVM_twoin_output twoin_output = {sums, others};
  cats[0] = 2U;
  dogs[0] = 0.5F;
  if ((TVMExecute(&tvm_sine, &sine_input, &sine_output, NULL) != 0) ||
      (TVMExecute(&tvm_twoin, &twoin_input, &twoin_output, NULL) != 0)) {
    return 1;
  }
  return ((y > 0.74F) && (y < 0.94F) && (sums[0] > 2.4F) && (sums[0] < 2.6F)) ? 0 : 2;
}
`

// A pair is a folder in which two folders of models and what uses them lie.
type pair struct{ dir, first, second string }

// folders writes two archives as two folders, and a program that uses them. name is a name of the folder of all.
func folders(t *testing.T, name, first, second string) pair {
	t.Helper()
	p := pair{t.TempDir() + "/" + name, "one", "two"}
	write(t, p.dir+"/main.c", both)
	for folder, archive := range map[string]string{p.first: first, p.second: second} {
		dir := unpack(t, code(t, archive))
		must(t, os.Rename(dir, p.dir+"/"+folder))
	}
	return p
}

// change replaces text in a file of the pair.
func (p pair) change(t *testing.T, file, from, to string) {
	t.Helper()
	testkit.EditFile(t, p.dir+"/"+file, from, to)
}

// runtimeOf returns the line in which models.mk names its runtime.
func (p pair) runtimeOf(t *testing.T) string {
	t.Helper()
	text := testkit.ReadFile(t, p.dir+"/"+p.first+"/models.mk")
	_, rest, ok := strings.Cut(string(text), "MODELS_RUNTIME := ")
	id, _, end := strings.Cut(rest, "\n")
	if !ok || !end || len(id) != 16 {
		t.Fatalf("models.mk names runtime %q", id)
	}
	return id
}

// userMakefile has rules before and after the folders.
const userMakefile = `program: main.c
include one/models.mk two/models.mk
program: main.c $(MODELS_LIB)
	$(CC) $(CFLAGS) -Wall -Wextra -Wpedantic -Werror $(MODELS_INCLUDE) -o $@ main.c $(MODELS_LIB) $(LINK) -lm
`

const userCMake = `cmake_minimum_required(VERSION 3.20)
project(user C)
add_subdirectory(one)
add_subdirectory(two)
add_executable(program main.c)
target_link_libraries(program PRIVATE models)
`

// byMake builds the program, and returns what make prints.
func (p pair) byMake(t *testing.T, args ...string) (string, error) {
	t.Helper()
	write(t, p.dir+"/Makefile", userMakefile)
	return run(p.dir, "make", args...)
}

// byCMake builds the program by these lines after the user's, and returns what CMake prints.
func (p pair) byCMake(t *testing.T, lines string, args ...string) (string, error) {
	t.Helper()
	testkit.Need(t, "cmake")
	write(t, p.dir+"/CMakeLists.txt", userCMake+lines)
	printed, err := run(p.dir, "cmake", append([]string{"-B", "made"}, args...)...)
	if err != nil {
		return printed, err
	}
	return run(p.dir, "cmake", "--build", "made")
}

// partsOnce checks that no member of a library is there twice, and that all of the runtime's and both models' are.
func (p pair) partsOnce(t *testing.T, library string) {
	t.Helper()
	members := strings.Fields(output(t, p.dir, "ar", "t", library))
	slices.Sort(members)
	if len(slices.Compact(slices.Clone(members))) != len(members) {
		t.Errorf("%s has members twice: %v", library, members)
	}
	for _, part := range []string{
		"boardsmith_graph", "boardsmith_operators", "boardsmith_parameters", "tvm_sine", "tvm_twoin",
	} {
		if !slices.ContainsFunc(members, func(m string) bool { return strings.HasPrefix(m, part+".") }) {
			t.Errorf("%s lacks %s: %v", library, part, members)
		}
	}
}

// TestFoldersMake runs the models of two folders in one program, which make builds in one go. It compiles a model again
// after a change of a header, and nothing without a change.
func TestFoldersMake(t *testing.T) {
	for _, archives := range [][2]string{{"sine.graph", "twoin.aot_packed"}, {"twoin.aot_c", "sine.aot_packed"}} {
		p := folders(t, "user", archives[0], archives[1])
		t.Setenv("MODELS_RUNTIME", p.runtimeOf(t)) // of another make, which exports all of its variables
		_, err := p.byMake(t, "-j2", "CFLAGS=-O1")
		must(t, err)
		output(t, p.dir, "./program")
		p.partsOnce(t, "build/models/libmodels.a")
		_, err = p.byMake(t, "-q", "CFLAGS=-O1", "program")
		must(t, err) // without a change
		header, _, _ := strings.Cut(archives[0], ".")
		later := time.Now().Add(time.Hour)
		must(t, os.Chtimes(filepath.Join(p.dir, p.first, "include", "tvm_"+header+".h"), later, later))
		printed, err := p.byMake(t, "-n", "CFLAGS=-O1", "program")
		must(t, err)
		testkit.WantText(t, printed, "/tvm_"+header+".o")
	}
}

// TestFoldersCMake runs the models of two folders in one program, which CMake builds, in a folder with spaces. A
// definition of the user for the target is for the models of both.
func TestFoldersCMake(t *testing.T) {
	p := folders(t, "a user (2)", "twoin.aot_packed", "sine.graph")
	for lines, want := range map[string]int{
		"": 0, "target_compile_definitions(models PRIVATE TVM_sine_BUILTIN_WORKSPACE=0)\n": 1,
	} {
		_, err := p.byCMake(t, lines)
		must(t, err)
		_, err = run(p.dir, "made/program")
		var failed *exec.ExitError
		if err != nil && !errors.As(err, &failed) || err == nil && want != 0 || failed != nil && failed.ExitCode() != want {
			t.Errorf("with %q, want %d: %v", lines, want, err)
		}
		p.partsOnce(t, "made/one/libmodels.a")
	}
}

// TestFoldersOwnHeaders: a source finds the headers of its own folder, also if the other one has another header of that
// name.
func TestFoldersOwnHeaders(t *testing.T) {
	p := folders(t, "user", "sine.graph", "twoin.aot_packed")
	for folder, source := range map[string]string{p.first: "tvm_sine.c", p.second: "tvm_twoin.c"} {
		write(t, p.dir+"/"+folder+"/include/kernel.h", "#define KERNEL_OF_"+folder+" 1\n")
		path := folder + "/src/" + source
		p.change(t, path, "#include <string.h>", "#include <string.h>\n#include <kernel.h>\n#ifndef KERNEL_OF_"+folder+
			"\n#error \"the header of the other folder\"\n#endif")
	}
	_, err := p.byMake(t)
	must(t, err)
	_, err = p.byCMake(t, "")
	must(t, err)
}

// TestFoldersArm builds the models of two folders for a Cortex-M.
func TestFoldersArm(t *testing.T) {
	const arm = "arm-none-eabi-gcc"
	testkit.Need(t, arm)
	p := folders(t, "user", "sine.graph", "twoin.aot_packed")
	_, err := p.byMake(t, "CC="+arm, "AR=arm-none-eabi-ar", "CFLAGS=-mcpu=cortex-m4 -mthumb -O2",
		"LINK=--specs=nosys.specs")
	must(t, err)
	_, err = p.byCMake(t, "", "-DCMAKE_SYSTEM_NAME=Generic", "-DCMAKE_C_COMPILER="+arm,
		"-DCMAKE_TRY_COMPILE_TARGET_TYPE=STATIC_LIBRARY", "-DCMAKE_C_FLAGS=-mcpu=cortex-m4 -mthumb -O2",
		"-DCMAKE_EXE_LINKER_FLAGS=--specs=nosys.specs")
	must(t, err)
}

// TestFoldersRefused: folders that do not go together are an error before anything is compiled.
func TestFoldersRefused(t *testing.T) {
	for name, c := range map[string]struct {
		second string // archive
		change func(p pair)
		want   string
	}{
		"one model in both": {"sine.aot_c", func(pair) {}, "both have"},
		"another runtime": {"twoin.aot_c", func(p pair) {
			id := p.runtimeOf(t)
			for _, file := range []string{"models.mk", "models.cmake"} {
				p.change(t, p.second+"/"+file, id, "0123456789abcdef")
			}
		}, "has another runtime"},
	} {
		t.Run(name, func(t *testing.T) {
			p := folders(t, "user", "sine.graph", c.second)
			c.change(p)
			for tool, build := range map[string]func() (string, error){
				"make":  func() (string, error) { return p.byMake(t) },
				"CMake": func() (string, error) { return p.byCMake(t, "") },
			} {
				printed, err := build()
				printed = strings.Join(strings.Fields(printed), " ")
				if err == nil || !strings.Contains(printed, c.want) || !strings.Contains(printed, "two") ||
					strings.Contains(printed, ".o") {
					t.Errorf("%s: %v\n%s", tool, err, printed)
				}
			}
		})
	}
}

// TestSharedSymbol: two models that define one symbol are an error of make and CMake, which names the symbol, both
// models and both sources, whether they lie in two folders or in one. So is a variable that compilers may merge.
func TestSharedSymbol(t *testing.T) {
	for symbol, text := range map[string]string{
		"helper": "int helper(void);\nint helper(void) { return 3; }\n", "counter": "int counter;\n",
	} {
		sine, twoin := withUtil(t, "sine.graph", text), withUtil(t, "twoin.aot_c", text)
		p := folders(t, "user", "sine.graph", "twoin.aot_c")
		for folder, codes := range map[string][]*cmodel.Code{p.first: {sine}, p.second: {twoin}, "of both": {sine, twoin}} {
			must(t, os.RemoveAll(p.dir+"/"+folder))
			must(t, os.Rename(unpack(t, codes...), p.dir+"/"+strings.ReplaceAll(folder, " ", "_")))
		}
		check := func(tool string, build func() (string, error)) {
			t.Helper()
			for range 2 { // the failed build leaves nothing that the next one takes for finished
				_, err := build()
				t.Log(tool)
				testkit.WantError(t, err, "", symbol, "sine", "twoin", "sine_util", "twoin_util")
			}
		}
		check("make, two folders", func() (string, error) { return p.byMake(t, "CFLAGS=-fcommon") })
		check("CMake, two folders", func() (string, error) { return p.byCMake(t, "", "-DCMAKE_C_FLAGS=-fcommon") })
		write(t, p.dir+"/Makefile", "include of_both/models.mk\nall: $(MODELS_LIB)\n")
		check("make", func() (string, error) { return run(p.dir, "make") })
	}
}

// TestMakeSpaces: a path with spaces, by which make separates names, is an error that says so, also where a part of the
// path is another folder.
func TestMakeSpaces(t *testing.T) {
	p := folders(t, "user", "sine.graph", "twoin.aot_packed")
	must(t, os.Rename(p.dir+"/two", p.dir+"/my one"))
	for name, text := range map[string]string{ // of "my one", make takes "one" for the folder
		"a folder":     "include my\\ one/models.mk\nall: $(MODELS_LIB)\n",
		"of two":       "include one/models.mk\ninclude my\\ one/models.mk\nall: $(MODELS_LIB)\n",
		"MODELS_BUILD": "MODELS_BUILD := my build\ninclude one/models.mk\nall: $(MODELS_LIB)\n",
	} {
		write(t, p.dir+"/Makefile", text)
		printed, err := run(p.dir, "make")
		if err == nil || !strings.Contains(printed, "by which make separates names") &&
			!strings.Contains(printed, "make separates names by spaces") {
			t.Errorf("%s: %v\n%s", name, err, printed)
		}
	}
}

// TestTargetOfEachFolder: the header of each compiled folder checks its own target, and that the runtimes are equal.
func TestTargetOfEachFolder(t *testing.T) {
	const gcc = "gcc"
	predefined := output(t, ".", gcc, "-dM", "-E", "-x", "c", "/dev/null")
	header := func(macros string, archive string) string {
		o := cmodel.Options{Target: cmodel.NewTarget(archive, "gcc 12", nil, macros)}
		return unpack(t, generate(t, mlftest.Path(t, archive), o))
	}
	one, two := header(predefined, "sine.graph"), header(predefined, "twoin.aot_c")
	user := t.TempDir()
	write(t, user+"/main.c", both)
	check := func(second string) error {
		_, err := run(user, gcc, "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-I"+one+"/include", "-I"+second+"/include",
			"-fsyntax-only", "main.c")
		return err
	}
	must(t, check(two))
	other := header("#define __SIZEOF_POINTER__ 3\n", "twoin.aot_c")
	testkit.WantError(t, check(other), "", "is for twoin.aot_c")
	p := pair{dir: two}
	p.change(t, "include/tvm_target.h", "TVM_TARGET_RUNTIME 0x", "TVM_TARGET_RUNTIME 0x1 + 0x")
	p.change(t, "include/tvm_target.h", "TVM_TARGET_RUNTIME != 0x", "TVM_TARGET_RUNTIME != 0x1 + 0x")
	testkit.WantError(t, check(two), "", "different runtimes")
}
