package project

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit/boardstest"
	"github.com/boardsmith/boardsmith/internal/testkit/drawn"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
	"github.com/boardsmith/boardsmith/internal/testkit/rpctest"
	"github.com/boardsmith/boardsmith/mlf"
)

// A shelf is a folder of the user with three libraries and boards whose function calls them: a stand-in for a vendor's
// kernels, a hand-written one, and one in C++ with a constructor.
func shelf(t *testing.T) *Builder {
	t.Helper()
	home := t.TempDir()
	const board = `{"doc": "mine", "inherits": "CHIP", "templates": ["baremetal"], "sources": [SOURCES"use.c"],
		"functions": [{"name": "use.all", "symbol": "use_all"}], LINK}`
	chip := strings.NewReplacer("CHIP", "chip/mps2_an386", "SOURCES", "", "LINK", `"arena_kib": 64,
		"link": {"kind": "qemu", "program": "qemu-system-arm", "args": ["-machine", "mps2-an386"]},
		"flash": {"programmer": "none"}`).Replace(board)
	process := strings.NewReplacer("CHIP", "cpu/native", "SOURCES", `"port/process.c", `, "LINK",
		`"link": {"kind": "process"}, "flash": {"programmer": "none"}`).Replace(board)
	putFiles(t, home, map[string]string{
		"boards/with_host.json": process, "boards/with_m4.json": chip,
		"boards/use.c": `#include <nn/nn.h>
#include <plain.h>
#include <objects.h>
#include <tvm/runtime/c_runtime_api.h>
int use_all(TVMValue* args, int* codes, int n, TVMValue* out, int* type, void* handle);
int use_all(TVMValue* args, int* codes, int n, TVMValue* out, int* type, void* handle) {
    (void)args; (void)codes; (void)n; (void)handle;
    out->v_int64 = nn_add(plain_one(), objects_made());
    *type = kTVMArgInt;
    return 0;
}
`,
		"libraries/nn/library.json": `{"doc": "kernels", "headers": ["Include"], "sources": ["Source/*.c"],
			"flags": ["-O3", "-DNN_BASE=100"], "cores": ["cortex-m*", "native"], "licence": "Apache-2.0"}`,
		"libraries/nn/Include/nn/nn.h":   "int nn_add(int a, int b);\n",
		"libraries/nn/Source/nn_add.c":   "#include <nn/nn.h>\nint nn_add(int a, int b) { return NN_BASE + a + b; }\n",
		"libraries/nn/Source/nn_more.c":  "int nn_more(int a);\nint nn_more(int a) { return a; }\n",
		"libraries/plain/README.md":      "not copied\n",
		"libraries/plain/library.json":   `{"doc": "by hand", "headers": ["."], "sources": ["plain.c"], "licence": "0BSD"}`,
		"libraries/plain/plain.h":        "int plain_one(void);\n",
		"libraries/plain/plain.c":        "#include \"plain.h\"\nint plain_one(void) { return 1; }\n",
		"libraries/objects/library.json": `{"doc": "C++", "headers": ["."], "sources": ["*.cpp"], "licence": "MIT"}`,
		"libraries/objects/objects.h":    "#ifdef __cplusplus\nextern \"C\"\n#endif\nint objects_made(void);\n",
		"libraries/objects/objects.cpp": `#include "objects.h"
namespace {
struct Counter {
    int made;
    Counter() : made(20) {}
    virtual int count() { return made; }
};
Counter counter;
}
int objects_made(void) { return counter.count(); }
`,
		"libraries/heads/library.json": `{"doc": "no code", "headers": ["."], "sources": [], "licence": "0BSD"}`,
		"libraries/heads/plain.h":      "int plain_one(void);\n",
		"libraries/twin/library.json":  `{"doc": "another", "headers": [], "sources": ["twin.c"], "licence": "0BSD"}`,
		"libraries/twin/twin.c":        "int plain_one(void);\nint plain_one(void) { return 2; }\n",
		"libraries/riscv/library.json": `{"doc": "others", "headers": ["."], "sources": ["a.c"], "cores": ["rv*"], "licence": "0BSD"}`,
		"libraries/riscv/riscv.h":      "extern int a;\n",
		"libraries/riscv/a.c":          "int a;\n",
	})
	return newBuilder(home)
}

// threeLibraries are those that the boards' function calls.
var threeLibraries = []string{"nn", "plain", "objects"}

// shelfBoards are the boards that a run tries.
func shelfBoards() []string {
	if drawn.InFull() {
		return []string{"with_host", "with_m4"}
	}
	return []string{"with_host"}
}

// TestLibraries builds firmware with three libraries, whose functions return what they should.
func TestLibraries(t *testing.T) {
	t.Parallel()
	for _, board := range shelfBoards() {
		b := shelf(t)
		spec := complete(t, Spec{Board: board, Libraries: threeLibraries})
		p := generated(t, spec, b)
		absent(t, p.at("libraries/plain/README.md"))
		first := built(t, p)
		wantCall(t, 121, running(t, p), "use.all")
		if got := p.Libraries(); !slices.Equal(got, threeLibraries) {
			t.Error(got)
		}
		if u := usageOf(t, p); partOf(u, "libraries").Text == 0 {
			t.Errorf("%s: the libraries have no code: %+v", board, u.Parts)
		}

		q := generated(t, spec, b)
		if same := built(t, q); same.Digest != first.Digest || same.BuildID != first.BuildID {
			t.Error("the same libraries, another build")
		}
		readFile(t, q.at("build/libraries/nn.a"))
		absent(t, q.at("build/libraries/nn/Source/nn_add.c.o"))

		writeIn(t, b.Path[0], "libraries/plain/plain.c", "int plain_one(void);\nint plain_one(void) { return 3; }\n")
		must(t, p.Generate(t.Context(), spec))
		if again := built(t, p); again.BuildID == first.BuildID || again.Digest == first.Digest {
			t.Error("another library, the same build")
		}
	}
}

// callsLibraries is an operator of candidates, and twice one of a model, that call functions of libraries.
const callsLibraries = `
#include <nn/nn.h>
#include <objects.h>
#include <tvm/runtime/c_runtime_api.h>
int call(TVMValue* args, int* codes, int n, TVMValue* out, int* type, void* resource);
int call(TVMValue* args, int* codes, int n, TVMValue* out, int* type, void* resource) {
    out->v_int64 = nn_add((int)args[0].v_int64, objects_made());
    *type = kTVMArgInt;
    return 0;
}
`

// TestLibrariesInRAM: operators that are loaded into RAM call functions of the project's libraries, as do models for
// which firmware stays on the device, and operators that are linked into an image.
func TestLibrariesInRAM(t *testing.T) {
	t.Parallel()
	for _, board := range shelfBoards() {
		b := shelf(t)
		model := mlftest.Edited(t, "in[i] * 2", "2 * nn_more(in[i])", "#include <math.h>", "int nn_more(int);")
		p := generated(t, Spec{Board: board, Model: model, Libraries: threeLibraries}, b)
		_, err := p.OperatorLinker(t.Context())
		wantError(t, err, failure.Config) // libraries are not compiled
		r, s, _, err := startedInRAM(t, p)
		must(t, err)

		candidate := operators(callsLibraries, "call")
		lib, err := r.LoadRAM(t.Context(), s, candidate)
		must(t, err)
		wantCall(t, 127, lib, "call", 7)

		l := linkerOf(t, r)
		archive, err := l.Archive(t.Context(), map[string]Operators{"called": candidate}, nil)
		must(t, err)
		built(t, generated(t, Spec{Board: board, Archive: archive, Libraries: threeLibraries}, b))
		candidate.Files = append(candidate.Files, mlf.File{Name: "u.c", Data: []byte("int plain_one(void) { return 5; }\n")})
		_, err = l.Link(t.Context(), candidate, farWindow)
		wantError(t, err, "", "u.o and library plain both define plain_one")
		_, err = l.Link(t.Context(), operators("#include <riscv.h>", "call"), farWindow)
		wantError(t, err, "", "library riscv has it")
	}
}

// TestLibraryAndOthers: a symbol of a library that the model, the board, the runtime or the C library defines, too, is
// an error: it would be called in place of the library's own.
func TestLibraryAndOthers(t *testing.T) {
	t.Parallel()
	const (
		twin    = "int plain_one(void);\nint plain_one(void) { return 5; }\n"
		another = "libraries/nn/Source/another.c"
	)
	for _, c := range drawn.Of(t, "definitions beside a library's", []struct{ board, file, text, want string }{
		{"with_host", "", twin, "model/codegen/host/src/util.c and library plain both define plain_one"},
		{"with_host", "boards/use.c", twin, "src/use.c and library plain both define plain_one"},
		{"with_m4", "boards/use.c", twin, "src/use.c and library plain both define plain_one"},
		{"with_host", another, "int TVMFuncCall;", "runtime_c.o) and library nn both define TVMFuncCall"},
		{
			"with_m4", another, "void TVMLogf(void) {}", "library nn defines TVMLogf, but the weak definition in build/crt/" +
				"unity_RPC_c.o is linked",
		},
		{"with_m4", another, "int strlen(char* s) { return 1 / *s; }", "strlen.o) and library nn both define strlen"},
	}, 1) {
		b, files := shelf(t), map[string]string{}
		switch c.file {
		case "":
			files["codegen/host/src/util.c"] = c.text
		case another:
			writeIn(t, b.Path[0], c.file, c.text)
		default:
			appendTo(t, filepath.Join(b.Path[0], c.file), c.text)
		}
		spec := Spec{Board: c.board, Model: mlftest.Tiny(t, files), Libraries: threeLibraries}
		wantAdvice(t, buildError(t, generated(t, spec, b)), failure.Link, c.want)
	}
}

// TestLibraryErrors: what a library lacks or has twice is named, with the next step.
func TestLibraryErrors(t *testing.T) {
	t.Parallel()
	b := shelf(t)
	for _, c := range drawn.Of(t, "errors of libraries", []struct{ libraries, want, next string }{
		{"nn plain objects twin", "library plain and library twin both define plain_one", "leave one"},
		{"nn riscv", "library riscv is for the cores rv*, not for native", "leave it out"},
		{"nn nn", "library nn is given twice", "leave one"},
		{"plane", `library "plane" is not known; did you mean "plain"?`, "nn, objects, plain, riscv, twin"},
		{"nn plain", "objects.h", "library objects has it: generate with Spec.Libraries=nn,plain,objects"},
		{"nn objects heads", "plain_one", "library plain has it: generate with Spec.Libraries=nn,objects,heads,plain"},
		{b.Path[0] + "/boards", "library.json", "name the folder"},
		{"kernels.a", "library kernels.a: kernels.a/library.json: ", "belongs to objects of the model"},
	}, 2) {
		p, err := generate(t, Spec{Board: "with_host", Libraries: strings.Fields(c.libraries)}, b)
		if err == nil {
			err = buildError(t, p)
		}
		wantError(t, err, "", c.want, c.next)
	}
}

// TestLibraryThatAllocates reports that a library's workspace is in no figure: no archive has its size.
func TestLibraryThatAllocates(t *testing.T) {
	drawn.OnlyInFull(t, "the story libraries")
	t.Parallel()
	for _, row := range []struct {
		name, header string
		reported     bool
	}{
		{"macro", "#define NN_TAKE() TVMBackendAllocWorkspace(1, 0, 20000, 2, 8)\n", true},
		{"none", "#define NN_TAKE() 0\n", false},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "nn")
			putFiles(t, dir, map[string]string{
				"library.json": `{"doc": "x", "headers": ["inc"], "licence": "MIT"}`, "inc/nn.h": row.header,
			})
			p := generated(t, Spec{Libraries: []string{dir}})
			var log bytes.Buffer
			p.builder.Log = hclog.New(&hclog.LoggerOptions{Level: hclog.Warn, Output: &log})
			built(t, p)
			if got := strings.Contains(log.String(), "library nn allocates workspace, of unknown size"); got != row.reported {
				t.Errorf("reported: %v\n%s", got, &log)
			}
		})
	}
}

// TestLibraryFilesDetermineOperators links operators of equal text against two versions of a library, whose headers
// include a file that is no header: the cache must not return the former object.
func TestLibraryFilesDetermineOperators(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "nn")
	var programs []string
	for _, n := range []string{"1", "2"} {
		putFiles(t, dir, map[string]string{
			"library.json": `{"doc": "x", "headers": ["."], "licence": "MIT"}`,
			"nn.h":         "#include \"nn.def\"\n", "nn.def": "enum { NN = " + n + " };\n",
		})
		p := generated(t, Spec{Libraries: []string{dir}})
		built(t, p)
		program := linkedFar(t, linkerOf(t, p), operators("#include <nn.h>\nint w(void) { return NN; }\n", "w"))
		programs = append(programs, string(program.Bytes))
	}
	if programs[0] == programs[1] {
		t.Error("both programs are equal")
	}
}

// TestLibrariesOfMinimal: firmware with the rules of the template minimal, for make and for CMake, is linked with
// libraries, whose functions its model calls.
func TestLibrariesOfMinimal(t *testing.T) {
	drawn.OnlyInFull(t, "of the bare-metal template, TestLibraries")
	t.Parallel()
	need(t, "arm-none-eabi-gcc", "qemu-system-arm", "cmake", "ninja")
	const example = "../examples/own-firmware/"
	for _, system := range drawn.Of(t, "build systems of TestLibrariesOfMinimal", []string{"make", "cmake"}, 1) {
		t.Run(system, func(t *testing.T) {
			t.Parallel()
			b, home := shelf(t), t.TempDir()
			putFiles(t, home, map[string]string{
				"libraries/kern/library.json": `{"doc": "C", "headers": ["Include"], "sources": ["*.c"],
					"flags": ["-DKERN_BASE=100"], "licence": "0BSD"}`,
				"libraries/kern/Include/kern.h": "int kern_add(int a, int b);\n",
				"libraries/kern/add.c":          "#include <kern.h>\nint kern_add(int a, int b) { return KERN_BASE + a + b; }\n",
				"libraries/kern/more.c":         "int kern_more(int a);\nint kern_more(int a) { return a; }\n",
				"libraries/mixed/library.json": `{"doc": "C++ and assembler", "headers": ["."],
					"sources": ["*.cpp", "*.S"], "licence": "0BSD"}`,
				"libraries/mixed/mixed.cpp": `extern "C" int same(int);
extern "C" int mixed(int n) { return same(n); }
`,
				"libraries/mixed/same.S": ".syntax unified\n.thumb\n.global same\n.thumb_func\nsame: bx lr\n",
			})
			template := filepath.Join(home, "firmware")
			must(t, os.CopyFS(template, os.DirFS(example+"firmware")))
			if system == "cmake" {
				for _, name := range []string{"CMakeLists.txt", "template.json"} {
					writeIn(t, template, name, readFile(t, example+"cmake/"+name))
				}
				must(t, os.Remove(filepath.Join(template, "Makefile")))
			}
			b.Path = append([]string{home, example}, b.Path...)
			calls := mlftest.Edited(t, "in[i] * 2", "mixed(kern_more(in[i]) + kern_add(in[i], -BASE))", "#include <math.h>",
				"#include <kern.h>\nenum { BASE = 100 };\nint kern_more(int);\nint mixed(int);")
			const board = "own_mps2_an386"
			p := generated(t, Spec{
				Board: board, Template: template, Libraries: []string{"mixed", "kern", "heads"}, Model: calls,
			}, b)
			rpctest.CallTwice(t, running(t, p))
			if u := usageOf(t, p); partOf(u, "libraries").Text == 0 {
				t.Errorf("the libraries have no code: %+v", u.Parts)
			}
			built(t, generated(t, Spec{Board: board, Template: template}, b))
		})
	}
}

// TestTwiceDefined: the advice for a symbol that two files define is about the model only if a file is the model's.
func TestTwiceDefined(t *testing.T) {
	t.Parallel()
	const (
		first = "ld: build/src/a.o: in function `twin':\na.c:(.text+0x0): multiple definition of `twin'; "
		last  = ":(.text+0x0): first defined here"
	)
	for text, want := range map[string]string{
		"./a.c:1: multiple definition of `twin'; build/src/b.o" + last: "of the two files",
		first + "build/src/b.o:b.c" + last:                             "of the two files",
		first + "build/model/b.o:b.c" + last:                           "in the model",
		strings.Replace(first, "src", "model", 1) + "b.o:b.c" + last:   "in the model",
		first + "b.dir/model/codegen/host/src/b.c.obj:b.c" + last:      "in the model",
	} {
		explained := func(a *mlf.Archive) error { return (&Builder{}).explained(&ToolError{Message: text}, a, "", nil) }
		wantError(t, explained(&mlf.Archive{}), "", "rename twin", want)
		wantError(t, explained(nil), "", "in the model") // of operators alone
	}
}

// TestLFSPointer: a file that Git LFS has not fetched does not become firmware, from whatever folder it comes.
func TestLFSPointer(t *testing.T) {
	t.Parallel()
	pointer := "version https://git-lfs.github.com/spec/v1\noid sha256:" + strings.Repeat("4d", 32) + "\nsize 12\n"
	folder := filepath.Join(t.TempDir(), "tables")
	putFiles(t, folder, map[string]string{
		"library.json": `{"doc": "x", "headers": ["."], "licence": "0BSD"}`, "x.h": "", "table.h": pointer,
	})
	own, path := boardstest.With(t, "host", "own.c", pointer, nil)

	for name, s := range map[string]Spec{
		filepath.Join(folder, "table.h"): {Board: "host", Libraries: []string{folder}},
		"own.c":                          {Board: own},
	} {
		_, err := generate(t, s, newBuilder(path))
		wantAdvice(t, err, failure.Config, name, "Git LFS pointer")
	}
}
