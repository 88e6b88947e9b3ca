package project

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/otiai10/copy"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/firmware"
	"github.com/boardsmith/boardsmith/internal/testkit/drawn"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
	"github.com/boardsmith/boardsmith/internal/testkit/rpctest"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/project/internal/builddir"
	"github.com/boardsmith/boardsmith/project/internal/buildenv"
	"github.com/boardsmith/boardsmith/project/internal/postlink"
	"github.com/boardsmith/boardsmith/project/internal/workdir"
)

// acme is a copy of the example of a custom board, with changed files.
type acme struct {
	t   *testing.T
	dir string
	b   *Builder

	model string // "": mlftest.Tiny
}

func newAcme(t *testing.T) *acme {
	t.Helper()
	need(t, "arm-none-eabi-gcc", "python3")
	a := &acme{t: t, dir: t.TempDir()}
	must(t, copy.Copy("../examples/custom-board/boards", filepath.Join(a.dir, "boards")))
	a.b = newBuilder(a.dir)
	return a
}

func (a *acme) path(file string) string { return filepath.Join(a.dir, "boards", file) }

// edit replaces text in a file of the example: pairs of old and new.
func (a *acme) edit(file string, pairs ...string) {
	a.t.Helper()
	editFile(a.t, a.path(file), pairs...)
}

// project generates a project for the board.
func (a *acme) project() *Project {
	a.t.Helper()
	return generated(a.t, Spec{Board: "kiln", Model: a.model}, a.b)
}

const (
	kilnFile   = "kiln.json"
	chipFile   = "chip/acme_m4.json"
	scriptFile = "chip/acme/acme_m4.ld"
)

// TestOwnScriptErrors: what is wrong with a linker script is named, by the linker (TestContract in package templates)
// or after the link (TestInspect in package imagecheck).
func TestOwnScriptErrors(t *testing.T) {
	t.Parallel()
	for _, c := range drawn.Of(t, "errors of own scripts", []struct{ old, new, want string }{
		{
			"bare_bss_end = _ebss;", "",
			"ld: error: linker_script: bare_bss_end is not defined: define it as in docs/chip.md",
		},
		{
			"KEEP(*(.init_array))", "*(.init_array)",
			"section .init_array of build/model/lib2.o is not in the image: from bare_init_start to bare_init_end, place KEEP(",
		},
		{"ORIGIN = 0x00008000", "ORIGIN = 0x00007E00", "reaches into region boot, which board kiln reserves"},
	}, 1) {
		a := newAcme(t)
		a.model = mlftest.Tiny(t, map[string]string{"codegen/host/src/lib2.c": `static volatile int begun;
__attribute__((constructor)) static void begin(void) { begun = 1; }
`})
		a.edit(scriptFile, c.old, c.new)
		wantError(t, buildError(t, a.project()), failure.Link, c.want)
	}
}

// TestOwnLibrary calls a library that lies beside the chip file. A write to the boot loader's memory is a fault, whose
// record the board's own linker script keeps over the reset.
func TestOwnLibrary(t *testing.T) {
	t.Parallel()
	a := newAcme(t)
	a.edit(chipFile, `"sources": [`, `"libraries": ["./acme/dsp"], "functions": [{"name": "use.dsp", "symbol": "use_dsp"}],
  "sources": ["acme/vendor/deep/down/use.c", `)
	putFiles(t, a.path("chip/acme"), map[string]string{
		"dsp/library.json": `{"doc": "d", "headers": ["."], "sources": ["dsp.c"], "licence": "0BSD"}`,
		"dsp/dsp.h":        "int dsp_answer(void);\n",
		"dsp/dsp.c":        "#include \"dsp.h\"\nint dsp_answer(void) { return 42; }\n",
		"vendor/deep/down/use.c": `#include <dsp.h>
#include <tvm/runtime/c_runtime_api.h>
#include "acme_m4.h"
int use_dsp(TVMValue* args, int* codes, int n, TVMValue* out, int* type, void* handle);
int use_dsp(TVMValue* args, int* codes, int n, TVMValue* out, int* type, void* handle) {
    (void)args; (void)codes; (void)handle;
    if (n == 1) {
        *(volatile uint32_t*)0x100U = 1;
    }
    out->v_int64 = dsp_answer();
    *type = kTVMArgInt;
    return 0;
}
`,
	})
	p := a.project()
	u := usageOf(t, p)
	if u.Stack == nil || u.Stack.Need < 100 || u.Stack.Have != 8192 || u.Stack.Handlers < 100 {
		t.Errorf("the stacks: %+v", u.Stack)
	}
	if len(p.Libraries()) != 0 || len(p.state.Libraries) != 1 {
		t.Errorf("%v, %+v", p.Libraries(), p.state.Libraries)
	}
	s := running(t, p)
	wantCall(t, 42, s, "use.dsp")
	_, err := callIn(t, s, "use.dsp", 1)
	if f := faultOf(t, err); len(f.Frames) == 0 || f.Frames[0].Function != "use_dsp" {
		t.Error(err)
	}
}

// TestOwnFileErrors: a file that is missing or outside of the board file's folder is named with the place that names
// it, and a template names what it cannot use.
func TestOwnFileErrors(t *testing.T) {
	t.Parallel()
	remove := func(a *acme, file string) { must(t, os.RemoveAll(a.path(file))) }
	link := func(a *acme, file string) { // its file lies elsewhere
		to := filepath.Join(t.TempDir(), "moved")
		must(t, os.Rename(a.path(file), to))
		must(t, os.Symlink(to, a.path(file)))
	}
	name := func(file, old, other string) func(*acme, string) {
		return func(a *acme, _ string) { a.edit(file, old, other) }
	}
	for _, c := range []struct {
		change     func(*acme, string)
		file, want string
	}{
		{
			func(a *acme, file string) { must(t, os.Rename(a.path(file), a.path("chip/acme/acme_m5.ld"))) }, scriptFile,
			`acme_m4.json:10: linker_script: "acme/acme_m4.ld": statat acme/acme_m4.ld: no such file or directory; did you mean "acme/acme_m5.ld"?`,
		},
		{remove, "sign.py", `kiln.json:6: post_link: "sign.py": `},
		{remove, "boot.hex", `kiln.json:8: link.args: "boot.hex": `},
		{link, "chip/acme/startup_acme_m4.c", `acme_m4.json:11: startup: "acme/startup_acme_m4.c": statat`},
		{link, "chip/acme/port.c", `acme_m4.json:13: sources: "acme/port.c": statat`},
		{link, "chip/acme/inc", `acme_m4.json:12: include: "acme/inc": statat`},
		{remove, "chip/acme/inc", `acme_m4.json:12: include: "acme/inc"`},
		{name(chipFile, `"acme/inc"`, `"acme/hal"`), "", `include: "acme/hal": there is no header`},
		{name(chipFile, `"acme/inc"`, `"acme/port.c"`), "", `include: "acme/port.c": not a folder`},
		{name(kilnFile, `"arena_kib"`, `"libraries": ["./dsp"], "arena_kib"`), "", `kiln.json:4: libraries: "./dsp"`},
		{
			name(kilnFile, `"arena_kib"`, `"libraries": ["dsp"], "arena_kib"`), "",
			`kiln.json:4: libraries: library "dsp" is not known`,
		},
	} {
		a := newAcme(t)
		c.change(a, c.file)
		_, err := generate(t, Spec{Board: "kiln"}, a.b)
		wantError(t, err, failure.Config, c.want)
	}
}

// TestOwnFilesUnused: a template that has its own linker script, or no make, names the field that it cannot use.
func TestOwnFilesUnused(t *testing.T) {
	t.Parallel()
	a := newAcme(t)
	firmware := readFile(t, "../examples/own-firmware/boards/own_mps2_an386.json")
	writeFile(t, a.path("a.c"), "#error compiled")
	template := filepath.Join(t.TempDir(), "firmware")
	must(t, os.CopyFS(template, os.DirFS("../examples/own-firmware/firmware")))
	writeFile(t, filepath.Join(template, "template.json"), `{"doc": "no libraries", "inherits": "minimal",
		"generate": ["crt_config/crt_config.h", "crt_config/operators.mk"]}`)
	for _, field := range []string{
		`"linker_script": "a.ld"`, `"startup": "a.c"`, `"include": ["a"]`, `"libraries": ["a"]`, `"sources": ["a.c"]`,
		`"stack_bytes": 4096`, `"runtime_opt": "O3"`, `"watchdog_ms": 100`, `"model_at": "0x1000"`, `"zephyr_board": "own"`,
	} {
		writeFile(t, a.path("own.json"), strings.Replace(firmware, "{", "{"+field+",", 1))
		_, err := generate(t, Spec{Board: "own", Template: template}, a.b)
		name, _, _ := strings.Cut(strings.Trim(field, `"`), `"`)
		wantError(t, err, "", "template firmware does not use "+name+" of board own")
	}
}

// TestPostLinkErrors: a command that fails leaves no result. Package postlink has the errors.
func TestPostLinkErrors(t *testing.T) {
	t.Parallel()
	a := newAcme(t)
	a.edit(kilnFile, `"{bin}", "{out.bin}"`, `"{out.bin}", "{bin}"`)
	p := a.project()
	wantError(t, buildError(t, p), failure.Link)
	in, err := workdir.Open(p.dir)
	must(t, err)
	defer in.Close()
	if again := builddir.Last(in, &p.state); again != nil {
		t.Errorf("a result remains: %+v", again)
	}
}

// TestPostLink: the image is what the command writes, in all its forms. Another command, or another file of it, is
// another build; without a change the command does not run again.
func TestPostLink(t *testing.T) {
	t.Parallel()
	a := newAcme(t)
	a.b.Cache = newCache(t)
	p := a.project()
	first := built(t, p)
	if !built(t, p).UpToDate {
		t.Error("built again without a change")
	}
	loads, err := firmware.Loads(openELF(t, first), first.Path)
	must(t, err)
	bin, err := postlink.Flat(loads)
	must(t, err)
	if loads[0].Addr != 0x8000 || !bytes.HasPrefix(bin, []byte{0x3D, 0xB8, 0xF3, 0x96}) {
		t.Errorf("at 0x%x: % x", loads[0].Addr, bin[:8])
	}
	folder := filepath.Join(keptDirs(t, a.b.Cache)[0], "build", "post_link")
	out, raw := readFile(t, filepath.Join(folder, "out.bin")), readFile(t, first.Bin)
	parsed, err := firmware.ParseHEX([]byte(readFile(t, first.Hex)))
	must(t, err)
	if !strings.HasPrefix(raw, out) || strings.Count(raw[len(out):], "\xFF") != len(raw)-len(out) || raw != string(bin) ||
		len(parsed) != 1 || string(parsed[0].Data) != raw {
		t.Errorf("%d bytes written, %d in the image, %d and %v in its forms", len(out), len(bin), len(raw), len(parsed))
	}
	absent(t, filepath.Join(folder, "linked.elf"), filepath.Join(folder, "linked.hex")) // which the command does not name

	spec := complete(t, Spec{Board: "kiln"})
	a.edit("sign.py", "version = (1,", "version = (2,")
	must(t, p.Generate(t.Context(), spec))
	second := built(t, p)
	if second.BuildID != first.BuildID || second.Digest == first.Digest {
		t.Errorf("another program after the link: build id %s after %s, the same image: %v", second.ID(), first.ID(),
			second.Digest == first.Digest)
	}
	a.edit(kilnFile, `"{bin}", "{out.bin}"`, `"{bin}", "{out.bin}", "--header-size", "512"`)
	must(t, p.Generate(t.Context(), spec))
	if third := built(t, p); third.UpToDate {
		t.Error("other arguments are not noticed")
	}
	must(t, os.RemoveAll(a.dir)) // a project is complete without the board's files
	p.builder.Forms = false
	must(t, os.Remove(second.Path))
	if i := built(t, p); i.Bin != "" {
		t.Errorf("a form that nobody asked for: %s", i.Bin)
	}
}

// TestPostLinkNeeds: doctor's list has the programs of boards on the search path.
func TestPostLinkNeeds(t *testing.T) {
	t.Parallel()
	a := newAcme(t)
	a.edit(kilnFile, `"python3"`, `"no-such-signer"`)
	needs, err := a.b.Needs(t.Context(), t.TempDir())
	must(t, err)
	if !slices.ContainsFunc(needs, func(n buildenv.Need) bool {
		return n.Board == "kiln" && n.Name == "no-such-signer" && failure.Of(n.Err) == failure.ToolMissing
	}) {
		t.Errorf("%+v", needs)
	}
}

// TestPreprocess asks for a source with its macros, and for text that follows it; neither builds anything.
func TestPreprocess(t *testing.T) {
	t.Parallel()
	p := generated(t, Spec{})
	text, err := p.Preprocess(t.Context(), "port/process.c", "", "-dD")
	must(t, err)
	for _, want := range []string{"# 1 \"src/process.c\"", "#define BOARDSMITH_CORE_HZ ", "process_ticks"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in %d bytes", want, len(text))
		}
	}
	text, err = p.Preprocess(t.Context(), "port/process.c", "here _GNU_SOURCE there\n")
	must(t, err)
	if text != "here 1 there\n" && text != "here there\n" { // without the pragmas of stdlib.h, which -Og has
		t.Errorf("the text that follows became %q", text)
	}
	absent(t, p.at("build"))
}

// TestCompileBehind compiles lines with what a source declares, and has the error name the line that is wrong.
func TestCompileBehind(t *testing.T) {
	t.Parallel()
	p := generated(t, Spec{})
	object, err := p.CompileBehind(t.Context(), "port/process.c", []string{"", "const void* behind = process_ticks;"})
	must(t, err)
	info, err := mlf.File{Name: "behind.o", Data: object}.Info()
	if err != nil || !slices.Contains(info.Defined, "behind") {
		t.Errorf("%+v, %v", info, err)
	}
	_, err = p.CompileBehind(t.Context(), "port/process.c", []string{"", "int behind = absent;"})
	if tool := toolOf(t, err); !strings.Contains(string(tool.Tail), "behind.c:2:") {
		t.Errorf("%v", err)
	}
}

func TestPreprocessErrors(t *testing.T) {
	t.Parallel()
	p := generated(t, Spec{})
	_, err := p.Preprocess(t.Context(), "port/absent.c", "")
	wantError(t, err, failure.Config, "port/absent.c is not in the project")
	writeFile(t, p.at("src/process.c"), "#include \"absent.h\"\n")
	_, err = p.Preprocess(t.Context(), "port/process.c", "")
	toolOf(t, err)
	wantError(t, err, failure.Compile, "absent.h", p.Dir())
	bomb := "#define A0 " + strings.Repeat("x", 1<<16) + "\n" // long, so that few expansions fill the output
	for i := range 10 {
		bomb += fmt.Sprintf("#define A%d A%d A%d\n", i+1, i, i)
	}
	writeFile(t, p.at("src/process.c"), bomb+"A10\n")
	if _, err = p.Preprocess(t.Context(), "port/process.c", ""); !errors.Is(err, errOutput) {
		t.Errorf("64 MB of output: %v", err)
	}
	must(t, p.Close())
	if _, err := p.Preprocess(t.Context(), "port/process.c", ""); err == nil {
		t.Error("a closed project preprocesses")
	}
}

// riscvStart is start-up code of a user's for RV32, by docs/chip.md alone.
const riscvStart = `
  .section .boardsmith.vectors, "ax", @progbits
  .globl bare_entry
bare_entry:
  csrci mstatus, 8
  csrw mie, zero
  .option push
  .option norelax
  la gp, __global_pointer$
  .option pop
  la t0, bare_trap
  csrw mtvec, t0
  la t0, bare_handler_stack_end
  csrw mscratch, t0
  la sp, bare_stack_end
  la tp, bare_tls_start
  li t0, 0x2000
  csrs mstatus, t0
  fscsr zero
  la a0, bare_data_load
  la a1, bare_data_start
  la a2, bare_data_end
1:
  bgeu a1, a2, 2f
  lw t0, (a0)
  sw t0, (a1)
  addi a0, a0, 4
  addi a1, a1, 4
  j 1b
2:
  la a1, bare_bss_start
  la a2, bare_bss_end
  jal 3f
  la a1, bare_model_bss_start
  la a2, bare_model_bss_end
  jal 3f
  fence.i
  la t0, own_starts
  li t1, 42
  sw t1, (t0)
  j bare_start
3:
  bgeu a1, a2, 4f
  sw zero, (a1)
  addi a1, a1, 4
  j 3b
4:
  ret
`

// TestOwnStartRISCV starts firmware by a board's own start-up code on RISC-V; what that lacks is named.
func TestOwnStartRISCV(t *testing.T) {
	drawn.OnlyInFull(t, "on a Cortex-M, TestOwnLibrary and TestOwnScriptErrors")
	t.Parallel()
	home := t.TempDir()
	board := `{"doc": "mine", "inherits": "chip/virt32", "templates": ["baremetal"], "startup": "FILE", "sources": ["own.c"],
		"functions": [{"name": "own.starts", "symbol": "own_starts_of"}], "arena_kib": 64, "link": {"kind": "qemu",
		"program": "qemu-system-riscv32", "args": ["-machine", "virt", "-bios", "none"]}, "flash": {"programmer": "none"}}`
	putFiles(t, home, map[string]string{
		"boards/mine.json":  strings.Replace(board, "FILE", "start.S", 1),
		"boards/lacks.json": strings.Replace(board, "FILE", "lacks.S", 1),
		"boards/start.S":    riscvStart,
		"boards/lacks.S":    strings.ReplaceAll(riscvStart, "bare_entry", "entry"),
		"boards/own.c": `#include <tvm/runtime/c_runtime_api.h>
int own_starts;
int own_starts_of(TVMValue* args, int* codes, int n, TVMValue* out, int* type, void* handle);
int own_starts_of(TVMValue* args, int* codes, int n, TVMValue* out, int* type, void* handle) {
    out->v_int64 = own_starts;
    *type = kTVMArgInt;
    return 0;
}
`,
	})
	b := newBuilder(home)
	s := running(t, generated(t, Spec{Board: "mine"}, b))
	wantCall(t, 42, s, "own.starts")
	rpctest.CallTwice(t, s)

	err := buildError(t, generated(t, Spec{Board: "lacks"}, b))
	wantError(t, err, "", "error: startup: bare_entry is not defined")
}
