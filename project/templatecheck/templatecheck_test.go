//go:build !windows

package templatecheck

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/cache"
	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/examples/samples"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/cachekey"
	"github.com/boardsmith/boardsmith/internal/command"
	"github.com/boardsmith/boardsmith/internal/nextstep"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/drawn"
	"github.com/boardsmith/boardsmith/internal/testkit/failuretest"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
	"github.com/boardsmith/boardsmith/internal/testkit/testcache"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/project"
	"github.com/boardsmith/boardsmith/project/internal/buildenv"
	"github.com/boardsmith/boardsmith/project/internal/projectfile"
	"github.com/boardsmith/boardsmith/rpc"
)

// soundTemplate does what its template.json says, for a board with a memory map whose compiler is this computer's.
var soundTemplate = map[string]string{
	"boards/mine.json": `{"doc": "mine", "inherits": "cpu/native", "templates": ["sound"], "link": {"kind": "process"},
		"flash": {"programmer": "none"}, "arena_kib": 4, "place": {"code": "rom", "data": "ram"}, "memory": [
		{"name": "rom", "origin": "0x400000", "size": "0x100000", "exec": true, "nonvolatile": true},
		{"name": "ram", "origin": "0x600000", "size": "0x100000"}]}`,
	"templates/sound/template.json": `{"doc": "sound", "build": ["make", "-j{jobs}", "build/a.elf"],
	"tools": [{"name": "make", "install": "apt-get install make"}],
	"generate": ["crt_config/crt_config.h", "crt_config/operators.mk"],
	"inputs": ["Makefile", "a.ld", "src", "crt", "crt_config", "model/codegen"],
	"linker_script": "a.ld",
	"elf": "build/a.elf", "map": "build/a.map",
	"landmarks": {"parts": [{"symbol": "image_start", "end": "image_end"}],
		"kept": {"section": ".noinit"}},
	"areas": {"arena": [".arena"]},
	"compile": [{"files": ["src/*.c"], "flags": ["-Icrt_config"]}],
	"operators": {"compile": ["-Icrt/include"], "link": []},
	"options": ["arena_kib", "log_level", "operator_opt", "operator_flags"]}`,
	"templates/sound/Makefile": `include crt_config/operators.mk
SRC := src/main.c crt/src/runtime/double.c $(wildcard model/codegen/host/src/*.c)
OBJ := $(SRC:%.c=build/%.o)
FLAGS := -w -ffreestanding -fno-pie -fno-stack-protector -fno-asynchronous-unwind-tables -Icrt_config -Icrt/include
build/a.elf: $(OBJ) a.ld
	gcc -nostdlib -static -no-pie -Wl,--build-id=md5,-Map=build/a.map -T a.ld -o $@ $(OBJ)
build/%.o: %.c crt_config/operators.mk crt_config/crt_config.h src/start.h src/zero.inc Makefile
	@mkdir -p $(@D)
	gcc $(FLAGS) $(if $(findstring model/,$<),-$(OPERATOR_OPT) $(OPERATOR_FLAGS)) -c -o $@ $<
`,
	"templates/sound/a.ld": `SECTIONS {
	. = 0x400000; image_start = .;
	.note.gnu.build-id : { boardsmith_build_id = . + 16; KEEP(*(.note.gnu.build-id)) }
	.text : { *(.text*) *(.rodata*) *(.data*) } image_end = .; /DISCARD/ : { *(.note.*) }
	. = 0x600000; .bss (NOLOAD) : { *(.bss*) *(COMMON) }
	.arena (NOLOAD) : { *(.arena*) } .noinit (NOLOAD) : { *(.noinit*) } }
`,
	"templates/sound/src/start.h":  "int _start(void);\n",
	"templates/sound/src/zero.inc": "int zero;\n",
	"templates/sound/src/main.c": `#include "crt_config.h"
#include "start.h"
#include "zero.inc"
extern const volatile unsigned char boardsmith_build_id[];
unsigned char arena[BOARDSMITH_ARENA_BYTES] __attribute__((section(".arena,\"aw\",@nobits#")));
int record __attribute__((section(".noinit,\"aw\",@nobits#")));
int _start(void) { return boardsmith_build_id[0] + arena[0] + record; }
`,
	"templates/sound/port/new.c": "int port;\n",
}

// elsewhere is a file that no template declares.
var elsewhere, _ = filepath.Abs("example_test.go")

// A defect is a change of soundTemplate: a file's text, and what replaces it.
type defect struct{ check, file, text, by, reported string }

var defects = []defect{
	{"fields", "template.json", `"doc"`, `"docs"`, `field "docs" is not known; did you mean "doc"`},
	{"fields", "template.json", `"build/a.map"`, `"out/a.map"`, "is not in the build folder"},
	{"board", "template.json", `"doc"`, `"doc"`, "names template"}, // the template has another name
	{"build", "template.json", `"crt_config", "model`, `"model`, "crt_config/operators.mk is no input of template sound"},
	{"build", "template.json", `"a.ld", `, ``, "a.ld is no input of template sound"},
	{
		"build", "Makefile", "-Icrt_config", "-Icrt_config -include " + elsewhere,
		elsewhere + " is outside of the project, and template sound does not declare it",
	},
	{"files", "template.json", `"src/*.c"]`, `"source/*.c"]`, "compile: the project has no file"},
	{"build", "Makefile", "-Map=build/a.map", "-Map=build/b.map", "made no build/a.map"},
	{"build", "Makefile", "-o $@ $(OBJ)", "-o build/b.elf $(OBJ)", "made no build/a.elf"},
	{
		"folder", "Makefile", "gcc -nostdlib", "gcc -Wl,--defsym=lines=$(shell test -f build/lines || " +
			"wc -l <src/main.c >build/lines; cat build/lines) -nostdlib", "does not notice its change: src/main.c",
	},
	{
		"folder", "Makefile", "$(wildcard model/codegen/host/src/*.c)", "$(shell mkdir -p build; test -f build/list || " +
			"ls model/codegen/host/src/*.c >build/list; cat build/list)", "there is a file more",
	},
	{"checksum", "a.ld", "image_end = .;", "", "lacks a part that its template names"},
	{"folder", "Makefile", " src/start.h", "", "src/start.h was changed so that it does not compile, but sources that"},
	{
		"checksum", "a.ld", "*(.rodata*) *(.data*) } image_end = .;",
		"} image_end = .; .rodata : { *(.rodata*) *(.data*) }", "outside the ranges",
	},
	{"landmarks", "template.json", `".noinit"`, `".kept"`, "kept: the image has no .kept"},
	{"build", "Makefile", "--build-id=md5", "--build-id=none", "a.elf has no build id"},
	{"build id", "a.ld", ". + 16;", ".;", "which is not 16 bytes behind the start of .note.gnu.build-id"},
	{"sizes", "template.json", `[".arena"]`, `[".heap"]`, "the image has no arena"},
	{
		"operator", "Makefile", "build/%.o: %.c crt_config", "$(OBJ): $(SRC)\nbuild/%.o: %.c crt_config",
		"was changed, but these were compiled again: boardsmith_signatures.o, double.o, lib1.o, main.o",
	},
	{"operator", "Makefile", "build/%.o: %.c crt_config", "build/model/%.o: | model/%.c\n\t@mkdir -p $(@D)\n" +
		"\tgcc $(FLAGS) -c -o $@ model/$*.c\nbuild/%.o: %.c crt_config", "but it was not compiled again"},
	{"operator", "Makefile", "=md5", "=0x00112233445566778899aabbccddeeff", "but the build id is the same"},
	{"by hand", "Makefile", "--build-id=md5", "--build-id=uuid", "the id must be a hash of the file, not uuid"},
	{"by hand", "Makefile", "FLAGS := -w", "FLAGS := -w -g", "or other debugging information"},
	{"errors", "Makefile", "-c -o $@ $<", "-c -o $@ $< 2>/dev/null", "the build reported: make: ***"},
	{"options", "Makefile", "-$(OPERATOR_OPT)", "-O2", "option operator_opt is listed but has no effect"},
	{
		"options", "src/main.c", "arena[BOARDSMITH_ARENA_BYTES]", "arena[4096]",
		"option arena_kib is listed but has no effect",
	},
}

func TestMain(m *testing.M) {
	code := m.Run()
	testcache.Clean()
	os.Exit(code)
}

// builder returns a builder with the tests' cache.
func builder() *project.Builder {
	return &project.Builder{Host: device.Host{Cache: cache.New(testcache.Dir(), cache.Options{})}, Forms: true}
}

// generated returns the checks of a project.
func generated(t *testing.T, s project.Spec) *checking {
	t.Helper()
	p, err := builder().Generate(t.Context(), filepath.Join(t.TempDir(), "p"), s)
	testkit.Must(t, err)
	t.Cleanup(func() { testkit.Must(t, p.Close()) })
	state, err := projectfile.Read(p.Dir())
	testkit.Must(t, err)
	return &checking{p: p, state: state}
}

// soundHome writes soundTemplate, changed.
func soundHome(t *testing.T, file, text, by string) *project.Builder {
	t.Helper()
	testkit.Need(t, "make", "gcc")
	e, home := builder(), t.TempDir()
	e.Path = []string{home}
	testkit.WriteFiles(t, home, soundTemplate)
	if text != by {
		testkit.EditFile(t, filepath.Join(home, "templates/sound", file), text, by)
	}
	return e
}

// run runs the checks of a template with the smallest model, and lists those that passed and those that were skipped.
func run(t *testing.T, b *project.Builder, trial Trial) (passed, skipped []string, err error) {
	t.Helper()
	if trial.Model == "" {
		trial.Model = mlftest.Tiny(t, nil)
	}
	err = Run(t.Context(), b, trial, func(c Check) {
		if c.Skipped == "" {
			passed = append(passed, c.Name)
		} else {
			skipped = append(skipped, c.Name)
		}
	})
	return passed, skipped, err
}

func sound() Trial { return Trial{Spec: project.Spec{Template: "sound"}} }

// TestTemplateDefects checks that each defect of a template is reported by the check that is for it.
func TestTemplateDefects(t *testing.T) {
	t.Parallel()
	early := []string{"fields", "board", "files"}
	late := slices.DeleteFunc(slices.Clone(defects), func(d defect) bool { return slices.Contains(early, d.check) })
	late = drawn.Of(t, "defects of templates", late, 2)
	for _, d := range defects {
		if !slices.Contains(early, d.check) && !slices.Contains(late, d) ||
			strings.HasPrefix(d.reported, elsewhere) && !command.Confines() {
			continue
		}
		t.Run(d.check+" "+d.reported, func(t *testing.T) {
			t.Parallel()
			e, trial := soundHome(t, d.file, d.text, d.by), sound()
			if d.check == "board" {
				trial.Template = "other"
				testkit.Must(t, os.Rename(e.Path[0]+"/templates/sound", e.Path[0]+"/templates/other"))
			}
			_, _, err := run(t, e, trial)
			testkit.WantError(t, err, "", "check "+d.check+": ", d.reported)
			if class := failure.Of(err); class != failure.Config && class != failure.Link || failure.Next(err) == "" {
				t.Errorf("class %s, next step %q", class, failure.Next(err))
			}
		})
	}
}

// TestTemplateSound: the template without a defect passes all checks, and what is skipped is reported.
func TestTemplateSound(t *testing.T) {
	t.Parallel()
	passed, skipped, err := run(t, soundHome(t, "", "", ""), sound())
	if err != nil || len(passed) != len(List())-1 || !slices.Equal(skipped, []string{"run"}) {
		t.Errorf("%v; passed %q, skipped %q", err, passed, skipped)
	}
}

// TestZephyrChecked: Zephyr's template and the example with a board of it pass all checks, with the Zephyr in
// $ZEPHYR_BASE.
func TestZephyrChecked(t *testing.T) {
	t.Parallel()
	if !drawn.InFull() {
		t.Skip("only in the full tests")
	}
	testkit.Need(t, "west", "cmake", "ninja", "qemu-system-arm")
	if _, err := os.Stat(os.Getenv("ZEPHYR_BASE") + "/include/zephyr/kernel.h"); err != nil {
		t.Skipf("the example needs Zephyr 3.2: %v", err)
	}
	const app = "../../examples/own-zephyr-app"
	for template, path := range map[string][]string{app + "/app": {app}, "zephyr": nil} {
		trial := Trial{Spec: project.Spec{
			Board: "zephyr/mps2_an385", Template: template, Model: mlftest.Path(t, "add.aot_packed"),
			Options: boards.Options{ArenaKiB: 64},
		}}
		_, skipped, err := run(t, &project.Builder{Host: device.Host{Path: path}}, trial)
		if err != nil || !slices.Equal(skipped, []string{"run"}) { // no Run is given
			t.Errorf("%s: %v; skipped %q", template, err, skipped)
		}
	}
}

// TestTemplateModelSource: the checks change a C file of the archive, not one that was generated for it. They are
// skipped for an archive without a C file.
func TestTemplateModelSource(t *testing.T) {
	t.Parallel()
	for archive, want := range map[string]string{
		"conv_f32.aot_c":              "model/codegen/host/src/conv_f32_lib0.c",
		"digits_i8.graph_llvm_x86_64": "",
	} {
		c := generated(t, project.Spec{Board: "host", Model: mlftest.Path(t, archive)})
		name, err := c.modelSource()
		if _, skips := errors.AsType[skipped](err); name != want || skips != (want == "") {
			t.Errorf("%s: %q, %v", archive, name, err)
		}
	}
}

// TestTemplateProbe: the check of options adds to the model's C as it was generated, which is not the archive's in
// standalone firmware, and its changes do not hinder the next generation. The next step names the option.
func TestTemplateProbe(t *testing.T) {
	t.Parallel()
	spec := project.Spec{Board: "mps2_an385", Model: "../../examples/samples/" + samples.Name}
	c := generated(t, spec)
	c.Trial = Trial{Spec: project.Spec{Board: "mps2_an385", Template: "baremetal"}}
	for _, app := range []string{boards.Standalone, boards.RPC} {
		spec.Options.App = app
		restore, err := c.generateWithProbe(t.Context(), spec)
		testkit.Must(t, err)
		name, err := c.modelSource()
		testkit.Must(t, err)
		want, found := strings.CutSuffix(string(testkit.ReadFile(t, c.at(name))), "\n"+optionProbe+"\n")
		if !found || cachekey.Digest([]byte(want)) != c.state.Files[name] {
			t.Errorf("app=%s: %s is not as generated, with the probe", app, name)
		}
		testkit.Must(t, restore())
	}
	c.trying = "app=standalone"
	next := c.advice(check{}, &buildenv.ToolError{})
	if !strings.Contains(next, nextstep.Option("Spec.Options", c.trying)) {
		t.Errorf("next step %q", next)
	}
}

// TestTemplateWrongOutputs: with a model whose outputs are wrong, the bare-metal template fails one check on a process.
func TestTemplateWrongOutputs(t *testing.T) {
	t.Parallel()
	if !drawn.InFull() {
		t.Skip("only in the full tests")
	}
	wrong := failure.Errorf(failure.WrongAnswer, "1 instead of 2")
	_, _, err := run(t, builder(), Trial{
		Spec: project.Spec{Template: "baremetal"},
		Desk: &device.Desk{Host: builder().Host, Programmer: "none"},
		Run:  func(context.Context, *rpc.Session, *mlf.Model) error { return wrong },
	})
	testkit.WantError(t, err, failure.WrongAnswer, "check run: ")
}

// TestTemplateLacksTool: a program that is not installed is no defect, and nothing is built.
func TestTemplateLacksTool(t *testing.T) {
	t.Parallel()
	passed, skipped, err := run(t, soundHome(t, "template.json", `{"name": "make"`, `{"name": "no-such-tool"`), sound())
	if testkit.As[*failure.MissingToolError](t, err).Tool != "no-such-tool" || len(passed) != 3 ||
		len(skipped) != len(List())-3 {
		t.Errorf("%v, passed %q, skipped %q", err, passed, skipped)
	}
}

// TestTemplateWithoutTree: the files of the shipped template for an operating system are checked where that is not
// installed.
func TestTemplateWithoutTree(t *testing.T) {
	t.Setenv("ZEPHYR_BASE", "")
	t.Setenv("HOME", t.TempDir())
	passed, _, err := run(t, builder(), Trial{Spec: project.Spec{Board: "zephyr/mps2_an385", Template: "zephyr"}})
	if !slices.Equal(passed, []string{"fields", "board", "files"}) || failure.Next(err) == "" {
		t.Errorf("passed %q, %v", passed, err)
	}
}

// TestTemplateNamed: the checks find a template where the Builder does, with its variables.
func TestTemplateNamed(t *testing.T) {
	t.Parallel()
	e := soundHome(t, "template.json", `"options"`, `"env": {"SOUND": "$SOUND_BASE"}, "options"`)
	folder := filepath.Join(t.TempDir(), "elsewhere")
	testkit.Must(t, os.Rename(filepath.Join(e.Path[0], "templates/sound"), folder))
	e.Templates, e.Variables = map[string]string{"sound": folder}, map[string]string{"SOUND_BASE": "x"}
	if passed, _, err := run(t, e, sound()); err != nil {
		t.Errorf("%v after %q", err, passed)
	}
}

// TestTemplateObjects: an object of several sources counts as the project's, as CMake names it.
func TestTemplateObjects(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	for _, name := range []string{
		"Unity/unity_0_c.c.obj", "Unity/unity_runtime_c.c.obj", "a.o", "b.c.obj", "isr_tables.c.obj",
	} {
		testkit.WriteFile(t, filepath.Join(home, name), "")
	}
	state := &projectfile.State{Files: map[string]string{"src/a.c": "", "src/b.c": ""}}
	all, err := (&checking{home: home, state: state}).objects()
	if _, other := all[filepath.Join(home, "isr_tables.c.obj")]; err != nil || len(all) != 4 || other {
		t.Errorf("%v, %v", all, err)
	}
}

func TestContexts(t *testing.T) {
	trial := Trial{Spec: project.Spec{Template: "baremetal", Model: mlftest.Tiny(t, nil)}}
	failuretest.Ended(t, failuretest.Calls{
		"Run": func(ctx context.Context) error { return Run(ctx, builder(), trial, func(Check) {}) },
	})
}
