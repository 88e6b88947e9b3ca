//go:build !windows

package project

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/boardsmith/boardsmith/cache"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
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
// of file it is; and what an assembler reads is read again.
func TestKeptThere(t *testing.T) {
	t.Parallel()
	d := newKept(t)
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
int main(void) { return two + 100 * MORE; }
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
	exits(2)
	writeIn(t, p.Dir(), "src/sub/more.c", "#define MORE 1\n")
	exits(102)
	writeIn(t, p.Dir(), "src/two.inc", "\x04")
	exits(104)
	must(t, os.Remove(filepath.Join(p.Dir(), "src/sub/more.c")))
	exits(4)
	writeIn(t, p.Dir(), "src/sub/more.h", "#define MORE 2\n")
	exits(204)
}

// TestKeptIncluded: what the model's sources read without their compiler's noting it, a file that is neither source nor
// header, has its present content in the image; and a header of the model comes before one of the system.
func TestKeptIncluded(t *testing.T) {
	t.Parallel()
	d := newKept(t)
	writeIn(t, d.home, "templates/keeps/src/main.c", "extern const char value;\nint limit(void);\n"+
		"int main(void) { return value + limit(); }\n")
	files := map[string]string{
		"codegen/host/src/lib1.c": mlftest.TinyOperator +
			`__asm__(".section .rodata\n.globl value\nvalue: .incbin \"model/codegen/host/data/value.bin\"\n.text\n");` +
			"\n#include <limits.h>\nint limit(void);\nint limit(void) {\n" +
			"#ifdef MINE\n return MINE;\n#else\n return 0;\n#endif\n}\n",
	}
	exits := func(want int) {
		t.Helper()
		p := generated(t, filepath.Join(t.TempDir(), "p"), Spec{Board: "mine", Model: mlftest.Tiny(t, files)}, d.env)
		mustExit(t, p, want)
	}
	for _, value := range []byte{7, 8} {
		files["codegen/host/data/value.bin"] = string(value)
		exits(int(value))
	}
	files["codegen/host/include/limits.h"] = "#define MINE 20\n"
	exits(28)
	files["codegen/host/include/limits.h"] = "#define MINE 30\n"
	exits(38)
	delete(files, "codegen/host/include/limits.h")
	exits(8)
	if n := d.folders(); n != 1 {
		t.Errorf("%d folders", n)
	}
}

// cmakeTemplate configures a build once, and reads a source of the model for that, in a way that no text of it shows.
var cmakeTemplate = map[string]string{
	"template.json": `{"doc": "cmake", "build": ["sh", "build.sh"], "generate": ["crt_config/crt_config.h"],
	"inputs": ["build.sh", "CMakeLists.txt", "src", "crt", "crt_config", "model/codegen"], "elf": "build/a.elf",
	"map": "build/a.map"}`,
	"build.sh": `set -e
[ -f build/cm/CMakeCache.txt ] || cmake -G "Unix Makefiles" -DCMAKE_C_COMPILER=gcc -S . -B build/cm >/dev/null
make -C build/cm VERBOSE=1
cp build/cm/a build/a.elf
cp build/cm/a.map build/a.map
`,
	"CMakeLists.txt": `cmake_minimum_required(VERSION 3.18)
project(a C)
cmake_language(CALL file STRINGS model/codegen/host/src/lib1.c LINES)
list(LENGTH LINES N)
file(GLOB model model/codegen/host/src/*.c)
add_executable(a src/main.c ${model})
target_compile_options(a PRIVATE -w)
target_compile_definitions(a PRIVATE N=${N})
target_include_directories(a PRIVATE crt_config crt/include model/codegen/host/include)
target_link_options(a PRIVATE -Wl,--build-id=md5 -Wl,-Map=a.map)
`,
	"src/main.c": "int more(void) __attribute__((weak));\n" +
		"int main(void) { return N + (more ? 100 : 0); }\n",
}

// newCMake is newKept with that template. With reads, template.json says what the configure step reads.
func newCMake(t *testing.T, reads bool) *keptDesk {
	t.Helper()
	d := newKept(t)
	if _, err := exec.LookPath("cmake"); err != nil {
		t.Skip("cmake is not installed")
	}
	must(t, os.RemoveAll(filepath.Join(d.home, "templates", "keeps")))
	for name, text := range cmakeTemplate {
		if reads && name == "template.json" {
			text = strings.Replace(text, `"elf"`, `"configure_reads": ["model/codegen/host/src/*.c"], "elf"`, 1)
		}
		writeIn(t, d.home, "templates/keeps/"+name, text)
	}
	return d
}

// TestConfigureReads: a file that the configure step reads is seen if template.json declares it. If not, a build that
// is compared with one from nothing fails and names the file, as does the template's check.
func TestConfigureReads(t *testing.T) {
	t.Parallel()
	declared := newCMake(t, true)
	// file() skips empty lines
	lines := strings.Count(mlftest.TinyOperator, "\n") - strings.Count(mlftest.TinyOperator, "\n\n")
	mustExit(t, declared.project("int a;"), lines+1)
	mustExit(t, declared.project("int a;\nint b;\nint c;"), lines+3)

	d := newCMake(t, false)
	mustExit(t, d.project("int a;"), lines+1)
	p := d.project("int a;\nint b;\nint c;")
	mustExit(t, p, lines+1) // not seen
	p.builder.Fresh = true
	_, err := p.Build(t.Context())
	if failure.Of(err) != failure.Config || !strings.Contains(err.Error(), "change: "+keptOperator) ||
		!strings.Contains(failure.Next(err), "configure_reads") {
		t.Errorf("compared with a build from nothing: %v; %s", err, failure.Next(err))
	}
	p.builder.Fresh = false
	mustExit(t, p, lines+3) // the folder was emptied
	p.builder.Fresh = true
	built(t, p)
}

// TestConfigureAnew: a source of the model that comes, goes or gets another name is configured anew, in one folder.
func TestConfigureAnew(t *testing.T) {
	t.Parallel()
	d := newCMake(t, false)
	p := d.project("")
	lines := exitOf(t, p)
	const more = "model/codegen/host/src/more.c"
	writeIn(t, p.Dir(), more, "int more(void);\nint more(void) { return 1; }\n")
	mustExit(t, p, lines+100)
	must(t, os.Rename(filepath.Join(p.Dir(), more), filepath.Join(p.Dir(), "model/codegen/host/src/other.c")))
	mustExit(t, p, lines+100)
	must(t, os.Remove(filepath.Join(p.Dir(), "model/codegen/host/src/other.c")))
	mustExit(t, p, lines)
	if n := d.folders(); n != 1 {
		t.Errorf("%d folders", n)
	}
}

func exitOf(t *testing.T, p *Project) int {
	t.Helper()
	cmd := exec.Command(built(t, p).Path)
	_ = cmd.Run()
	return cmd.ProcessState.ExitCode()
}

// TestFreshIsCompared: a build that gives the same bytes from nothing passes, also where nothing had to be built.
func TestFreshIsCompared(t *testing.T) {
	t.Parallel()
	d := newKept(t)
	d.env.Fresh = true
	p := d.project("")
	for range 2 {
		built(t, p)
	}
	writeIn(t, p.Dir(), "src/common.c", "int common(void) { return 3; }\n")
	mustExit(t, p, 3)
}

// TestKeptNoWorkTree: a command that asks git, or that reads a file beside the project, fails with a sentence.
func TestKeptNoWorkTree(t *testing.T) {
	t.Parallel()
	d := newKept(t)
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	p := d.project("")
	must(t, os.MkdirAll(d.cacheDir(), 0o755))
	gitIn(t, d.cacheDir(), "init", "-q") // a work tree around the cache is not the project's
	writeIn(t, filepath.Dir(p.Dir()), "version", "1\n")
	for command, want := range map[string]string{
		"git describe --always": "\nthe command runs in a copy of the inputs, no git work tree",
		"cat ../version":        "\n../version is outside of the project",
	} {
		writeIn(t, p.Dir(), "Makefile", keptMakefile+"build/deep/a.elf: asks\nasks: ; "+command+"\n")
		if _, err := p.Build(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", command, err)
		}
	}
}

// TestKeptNames: what the build command prints, and the compile commands that it writes, name the project's files.
func TestKeptNames(t *testing.T) {
	t.Parallel()
	d := newKept(t)
	text := strings.Replace(keptTemplate, `"build/compiled*"`, `"build/compile_commands.json"`, 1)
	writeIn(t, d.home, "templates/keeps/template.json", text)
	writeIn(t, d.home, "templates/keeps/Makefile", keptMakefile+"build/deep/a.elf: commands\ncommands: ; "+
		`echo '{"file": "$(CURDIR)/src/main.c", "directory": "$(CURDIR)/build"}' >build/compile_commands.json`+"\n")
	p := d.project("")
	var log strings.Builder
	p.builder.Log = hclog.New(&hclog.LoggerOptions{Level: hclog.Debug, Output: &log})
	built(t, p)
	if !strings.Contains(log.String(), p.Dir()+"/src/main.c") || strings.Contains(log.String(), d.cacheDir()) {
		t.Errorf("printed:\n%s", &log)
	}
	data, err := os.ReadFile(filepath.Join(p.Dir(), "build", "compile_commands.json"))
	must(t, err)
	if !strings.Contains(string(data), `"file": "`+p.Dir()+`/src/main.c"`) ||
		!strings.Contains(string(data), `"directory": "`+d.cacheDir()) {
		t.Errorf("compile commands: %s", data)
	}
}

func (d *keptDesk) cacheDir() string { return filepath.Dir(d.env.Cache.Fetched()) }
