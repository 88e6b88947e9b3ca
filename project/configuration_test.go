//go:build !windows

package project

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/cache"
	"github.com/boardsmith/boardsmith/internal/mlftest"
)

// mustExit builds the project for the computer and runs its image, which must exit with want.
func mustExit(t *testing.T, p *Project, want int) {
	t.Helper()
	cmd := exec.Command(built(t, p).Path)
	if _ = cmd.Run(); cmd.ProcessState.ExitCode() != want {
		t.Errorf("it exits with %d, want %d", cmd.ProcessState.ExitCode(), want)
	}
}

// TestKeptSettles: what the build command remembers of its settings in a folder, as CMake does, reaches neither another
// project nor a later build of the same one, with a cache or without.
func TestKeptSettles(t *testing.T) {
	t.Parallel()
	d := newKept(t)
	writeIn(t, d.home, "templates/keeps/Makefile", keptMakefile+`include src/settings.mk
$(shell mkdir -p build; test -f build/remembered || echo $(X) >build/remembered)
FLAGS += -DX=$(shell cat build/remembered)
`)
	writeIn(t, d.home, "templates/keeps/src/main.c", "int common(void);\nint main(void) { return common() + X; }\n")
	writeIn(t, d.home, "templates/keeps/src/settings.mk", "X = 0\n")
	file := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(file, nil, 0o644))
	for _, at := range []string{t.TempDir(), filepath.Join(file, "cache")} {
		d.env.Cache = cache.New(at, cache.Options{})
		p := d.project("")
		writeIn(t, p.Dir(), "src/settings.mk", "X = 3\n")
		mustExit(t, p, 3)
		mustExit(t, d.project("int other;"), 0)
		writeIn(t, p.Dir(), "src/settings.mk", "X = 4\n")
		mustExit(t, p, 4)
	}
}

// TestKeptThere: what a command finds by a file's being there does not stay after the file came or went, whatever kind
// of file it is; and what compilers read but do not report is read again.
func TestKeptThere(t *testing.T) {
	t.Parallel()
	d := newKept(t)
	writeIn(t, d.home, "templates/keeps/Makefile", keptMakefile+`
$(shell mkdir -p build; test -f build/remembered || sed -n 's/.define VERSION //p' src/version.h >build/remembered)
FLAGS += -DX=$(shell cat build/remembered)
`)
	writeIn(t, d.home, "templates/keeps/src/version.h", "#define VERSION 1\n")
	writeIn(t, d.home, "templates/keeps/src/two.inc", "\x02")
	writeIn(t, d.home, "templates/keeps/src/main.c", `
#if __has_include("sub/more.c")
#include "sub/more.c"
#elif __has_include("sub/more.h")
#include "sub/more.h"
#else
#define MORE 0
#endif
__asm__(".section .rodata\ntwo: .incbin \"src/two.inc\"\n.text\n");
extern const unsigned char two;
int main(void) { return two + 10 * X + 100 * MORE; }
`)
	p := d.project("")
	exits := func(want int) {
		t.Helper()
		other := d.project("int other;")
		must(t, os.RemoveAll(filepath.Join(other.Dir(), "src")))
		must(t, os.CopyFS(filepath.Join(other.Dir(), "src"), os.DirFS(filepath.Join(p.Dir(), "src"))))
		mustExit(t, p, want)
		mustExit(t, other, want)
	}
	exits(12)
	writeIn(t, p.Dir(), "src/sub/more.c", "#define MORE 1\n")
	exits(112)
	writeIn(t, p.Dir(), "src/version.h", "#define VERSION 3\n")
	exits(132)
	writeIn(t, p.Dir(), "src/two.inc", "\x04")
	exits(134)
	must(t, os.Remove(filepath.Join(p.Dir(), "src/sub/more.c")))
	exits(34)
	writeIn(t, p.Dir(), "src/sub/more.h", "#define MORE 2\n")
	exits(234)
}

// TestKeptReads: what reads an input without a compiler's knowledge has its present content in every project: an
// assembler's directive, commands of a build file, and a source outside of the model that may include the model's
// header.
func TestKeptReads(t *testing.T) {
	t.Parallel()
	d := newKept(t)
	writeIn(t, d.home, "templates/keeps/Makefile", keptMakefile+`
$(shell mkdir -p build; test -f build/remembered || sed -n 's/.*VERSION = //p' src/version.c >build/remembered)
FLAGS += -DX=$(shell cat build/remembered)
$(shell test ! -f model/codegen/host/src/extra.c || touch build/extra)
FLAGS += -DEXTRA=$(words $(wildcard build/extra))
$(shell test -f build/listed || cat src/*.h >build/listed)
FLAGS += $(shell cat build/listed)
`)
	writeIn(t, d.home, "templates/keeps/src/list.cmake", "file(GLOB headers CONFIGURE_DEPENDS \"${here}/*.h\")\n")
	writeIn(t, d.home, "templates/keeps/src/listed.h", "-DLISTED=0\n")
	writeIn(t, d.home, "templates/keeps/src/version.c", "enum { VERSION = 1\n};\n")
	writeIn(t, d.home, "templates/keeps/src/value.s", ".byte 2\n")
	writeIn(t, d.home, "templates/keeps/src/main.c", `
#if __has_include("tiny_size.h")
#include "tiny_size.h"
#else
#define TINY_SIZE 0
#endif
__asm__(".section .rodata\nvalue: .include \"src/value.s\"\n.text\n");
extern const unsigned char value;
int main(void) { return value + 10 * TINY_SIZE + 50 * X + 100 * EXTRA + LISTED; }
`)
	files := map[string]string{}
	exits := func(want int) {
		t.Helper()
		files["codegen/host/src/lib1.c"] = mlftest.TinyOperator
		model := mlftest.Tiny(t, files)
		p := generated(t, filepath.Join(t.TempDir(), "p"), Spec{Board: "mine", Model: model}, d.env)
		mustExit(t, p, want)
	}
	exits(52)
	files["codegen/host/include/tiny_size.h"] = "#define TINY_SIZE 4\n"
	exits(92)
	writeIn(t, d.home, "templates/keeps/src/value.s", ".byte 3\n")
	exits(93)
	writeIn(t, d.home, "templates/keeps/src/version.c", "enum { VERSION = 2\n};\n")
	exits(143)
	files["codegen/host/include/tiny_size.h"] = "#define TINY_SIZE 1\n"
	exits(113)
	files["codegen/host/src/extra.c"] = "int extra;\n"
	exits(213)
	delete(files, "codegen/host/src/extra.c")
	exits(113)
	writeIn(t, d.home, "templates/keeps/src/listed.h", "-DLISTED=5\n")
	exits(118)
	files["codegen/host/src/reads.c"] = `__asm__(".data\n.globl value\n` +
		`value: .include \"model/codegen/host/include/of_model.h\"\n.text\n");` + "\n"
	writeIn(t, d.home, "templates/keeps/src/main.c", "extern char value;\nint main(void) { return value; }\n")
	for _, want := range []int{7, 8} {
		files["codegen/host/include/of_model.h"] = fmt.Sprintf(".byte %d\n", want)
		exits(want)
	}
}

// TestKeptReaders: ways in which a Makefile may read a source that is compiled, too. What it read it remembers.
func TestKeptReaders(t *testing.T) {
	t.Parallel()
	const remembered = "test -f build/remembered || { mkdir -p build; "
	for _, reader := range []string{
		"$(shell " + remembered + "sh src/probe.sh; } >build/remembered)\n",
		"$(shell " + remembered + "n=version; cat src/$$n.c; } >build/remembered)\n",
		"$(shell " + remembered + "cat src/v*.c; } >build/remembered)\n",
		"$(shell " + remembered + "cat \\\n src/version.c; } >build/remembered)\n",
		"NONE != " + remembered + "cat src/version.c; } >build/remembered\n",
	} {
		d := newKept(t)
		writeIn(t, d.home, "templates/keeps/Makefile", keptMakefile+reader+
			"FLAGS += -DX=$(shell sed -n 's/.*VERSION = //p' build/remembered)\n")
		writeIn(t, d.home, "templates/keeps/src/probe.sh", "cat src/version.c\n")
		writeIn(t, d.home, "templates/keeps/src/main.c", "int main(void) { return X; }\n")
		for _, want := range []int{1, 2} {
			writeIn(t, d.home, "templates/keeps/src/version.c", fmt.Sprintf("enum { VERSION = %d\n};\n", want))
			mustExit(t, d.project(""), want)
		}
	}
}

// TestReaders: build files that may read others, and what then configures builds: all sources and headers, and the
// model if they speak of it. Nothing more does if they only list what is compiled.
func TestReaders(t *testing.T) {
	t.Parallel()
	const ours, all = "src/version.c src/pins.h", "src/version.c src/pins.h " + keptOperator
	for text, want := range map[string]string{
		"file(STRINGS src/version.c lines)":                                           ours,
		`execute_process(COMMAND sh -c "echo $(ls) )" COMMAND cat src/version.c)`:     ours,
		`try_compile(ok "${dir}" SOURCES "${dir}/src/version.c")`:                     ours,
		"set(t src/version.c)\nFile (\n STRINGS ${t} lines)":                          ours,
		"file(GLOB all src/*)\nforeach(f ${all})\nfile(READ ${f} text)\nendforeach()": ours,
		"file(STRINGS src/${name}.h lines)":                                           ours,
		"execute_process(COMMAND python3 gen.py)":                                     ours,
		`include(CheckSymbolExists)\ncheck_symbol_exists(X "pins.h" FOUND)`:           ours,
		"file(STRINGS src/my\\ pins.h lines)":                                         ours,
		"add_custom_command(OUTPUT x COMMAND cat src/version.c)":                      ours,
		"file(STRINGS model/codegen/host/src/lib1.c lines)":                           all,
		"set(d ${here}/model)\nfile(GLOB all ${d}/*)\nfile(READ ${all} text)":         all,

		"# file(STRINGS src/version.c lines)\ntarget_sources(app PRIVATE src/version.c)": "",
		"file(GLOB sources CONFIGURE_DEPENDS \"${dir}/src/*.c\")":                        "",
		"function(mine name)\n target_sources(app PRIVATE ${name})\nendfunction()\nmine(src/version.c)\n" +
			"if(NOT (A AND B))\nsystem_sources(src/version.c)\nendif()": "",
		"other_sources(src/version.c)": ours,
	} {
		d := newKept(t)
		writeIn(t, d.home, "templates/keeps/src/version.c", "int version;\n")
		writeIn(t, d.home, "templates/keeps/src/pins.h", "int pin;\n")
		writeIn(t, d.home, "templates/keeps/src/read.cmake", text+"\n")
		if got := configuring(t, d, "src/version.c", "src/pins.h", keptOperator); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

// configuring returns which of the files configure builds in a project.
func configuring(t *testing.T, d *keptDesk, names ...string) string {
	t.Helper()
	p := d.project("")
	tree, err := openTree(p.Dir())
	must(t, err)
	defer tree.close()
	r, err := p.recipe(t.Context(), tree)
	must(t, err)
	return strings.Join(slices.DeleteFunc(names, func(name string) bool { return !r.configures[name] }), " ")
}

// TestAssembling: an assembler's directives in a source, in whatever form, read a file that no compiler reports.
func TestAssembling(t *testing.T) {
	t.Parallel()
	for source, want := range map[string]string{
		`__asm__(".incbin " "\"" SRC "/table.h\"");`:    "src/table.h",
		"__asm__(\".incbin \"\n\t\"\\\"table.h\\\"\");": "src/table.h",
		"__asm__(\".INCLUDE table.h\");":                "src/table.h",
		`#include "table.h"`:                            "",
	} {
		d := newKept(t)
		writeIn(t, d.home, "templates/keeps/src/table.h", "int table;\n")
		writeIn(t, d.home, "templates/keeps/src/reads.c", source+"\n")
		if got := configuring(t, d, "src/table.h", keptOperator); got != want {
			t.Errorf("%s: %q, want %q", source, got, want)
		}
	}
}

// TestBoardFolder: a template may have a folder of the name that the board's own files are in.
func TestBoardFolder(t *testing.T) {
	t.Parallel()
	d := newKept(t)
	text := strings.Replace(keptTemplate, `"src",`, `"src", "board",`, 1)
	writeIn(t, d.home, "templates/keeps/template.json", text)
	writeIn(t, d.home, "templates/keeps/board/limit.txt", "1001\n")
	if got := configuring(t, d, "board/limit.txt"); got == "" {
		t.Error("it configures nothing")
	}
}
