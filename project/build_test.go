package project

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/internal/command"
	"github.com/boardsmith/boardsmith/internal/files/filelock"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/boardstest"
	"github.com/boardsmith/boardsmith/internal/testkit/drawn"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
	"github.com/boardsmith/boardsmith/project/internal/generator"
	"github.com/boardsmith/boardsmith/rpc/fault"
)

// TestSameInputSameBytes builds in two folders, one of a name that shells and make stumble over, nothing cached, with
// an environment that would change the result if a tool saw it.
func TestSameInputSameBytes(t *testing.T) {
	// a chip's port has files in assembler
	for _, board := range drawn.Of(t, "boards of same bytes", []string{"host", "mps2_an385"}, 1) {
		t.Run(board, func(t *testing.T) { sameBytes(t, board) })
	}
}

func sameBytes(t *testing.T, board string) {
	model := mlftest.Tiny(t, nil)
	var images []*image.Image
	var trees []map[string]string
	for i, name := range []string{"p", "it's a $folder #1"} {
		if i == 1 {
			for _, v := range []string{
				"CFLAGS", "CPATH", "BOARD", "MODEL", "PROJECT", "VERBOSE", "MAKEFLAGS", "CC", "CRT",
				"BUILD", "LDFLAGS", "GCC_EXEC_PREFIX",
			} {
				t.Setenv(v, "-nonsense")
			}
		}
		p := generatedIn(t, filepath.Join(t.TempDir(), name), Spec{Board: board, Model: model}, freshBuilder(t))
		images = append(images, built(t, p))
		all := contents(t, p.Dir())
		for name, text := range all {
			if strings.HasPrefix(text, "\x7fELF") && strings.Contains(text, filepath.Dir(p.Dir())) {
				t.Errorf("%s has the folder's path in it", name)
			}
		}
		maps.DeleteFunc(all, func(name, _ string) bool { return strings.HasSuffix(name, ".d") })
		trees = append(trees, all)
	}
	if images[0].Digest != images[1].Digest || images[0].ID() != images[1].ID() {
		t.Errorf("build %s and build %s", images[0].ID(), images[1].ID())
	}
	for name, text := range trees[0] {
		if trees[1][name] != text {
			t.Errorf("%s differs", name)
		}
	}
}

// Each result is one that people take away: a build is up to date where all are as the last one left them.
func TestResultsUpToDate(t *testing.T) {
	t.Parallel()
	p := generated(t, Spec{Board: "microbit"})
	first := built(t, p)
	for _, path := range []string{first.Path, first.Map, first.Bin, first.Hex} {
		good := readFile(t, path)
		for name, damage := range map[string]func() error{
			"removed": func() error { return os.Remove(path) },
			"emptied": func() error { return os.WriteFile(path, nil, 0o644) },
			"changed": func() error { return os.WriteFile(path, append([]byte("x"), good[1:]...), 0o644) },
		} {
			must(t, damage())
			if i, err := p.Built(); i != nil || err != nil {
				t.Errorf("%s %s: %v", filepath.Base(path), name, err)
			}
			writeFile(t, path, good)
		}
	}
	if again := built(t, p); !again.UpToDate {
		t.Errorf("all as before: %+v", again)
	}
	writeFile(t, first.Hex, "garbage")
	want := readFile(t, first.Bin)
	writeFile(t, first.Bin, "")
	again := built(t, p)
	if again.UpToDate || readFile(t, first.Bin) != want {
		t.Errorf("built again: %+v", again)
	}
}

// TestOperatorFlags checks that flags of operators change the model's objects, in one folder of the cache, in which the
// runtime is not compiled again.
func TestOperatorFlags(t *testing.T) {
	t.Parallel()
	b := freshBuilder(t)
	ids := map[string]bool{}
	all := drawn.Of(t, "flags of operators", []string{"", "-O3", "lib1.c:-O3", "-O3,lib1.c:-O1"}, 2)
	var runtimes []time.Time
	for n, flags := range all {
		b.Fresh = n > 0
		ids[built(t, generated(t, Spec{Options: boards.Options{OperatorFlags: flags}}, b)).ID()] = true
		for _, folder := range keptDirs(t, b.Cache) {
			object, err := os.Stat(filepath.Join(folder, "build", "crt", "unity_runtime_c.o"))
			must(t, err)
			runtimes = append(runtimes, object.ModTime())
		}
	}
	if len(runtimes) != len(all) || len(slices.Compact(runtimes)) != 1 {
		t.Errorf("the runtime was compiled at %v", runtimes)
	}
	if len(ids) != len(all) {
		t.Errorf("%d build ids of %d choices of flags", len(ids), len(all))
	}
	_, err := generate(t, Spec{Options: boards.Options{OperatorFlags: "lib9.c:-O3"}})
	wantError(t, err, failure.Config, "the model has no C file lib9.c")
}

// TestNamesForMake: a file whose name make or its shell cannot have is named; others are compiled.
func TestNamesForMake(t *testing.T) {
	t.Parallel()
	p := generatedIn(t, filepath.Join(t.TempDir(), "a folder"), Spec{})
	for _, name := range []string{"ü #1.txt", "ü.c", "a'b.h", "a,b.c", "a=b.h"} {
		writeIn(t, p.Dir(), "src/"+name, "enum { x };\n")
	}
	built(t, p)
	for _, name := range []string{
		"my file.c", "my file.h", "my folder/a.c", "a$b.c", "a:b.h", "a;b.S", "a(1).c", "it's.c", "a\tb.c", "a|b.h",
	} {
		writeIn(t, p.Dir(), "src/"+name, "")
		wantError(t, buildError(t, p), failure.Config, "src/"+name+" cannot be an input")
		must(t, os.Remove(filepath.Join(p.Dir(), "src", name)))
	}
}

// TestImageForOtherCores: an image whose flags are another core's or calling convention's than the board's is an error.
func TestImageForOtherCores(t *testing.T) {
	drawn.OnlyInFull(t, "the tests of package imagecheck")
	t.Parallel()
	type core struct{ name, of, fields, want string }
	for _, c := range drawn.Of(t, "other cores", []core{
		{"Cortex-M4", "mps2_an385", `"cflags": ["-mcpu=cortex-m4"]`, "instruction set v7e-m, but board x needs"},
		{
			"hard float", "mps2_an385", `"cflags": ["-mcpu=cortex-m4", "-mfpu=fpv4-sp-d16", "-mfloat-abi=hard"]`,
			"hard-float instruction set v7e-m, but board x needs arm 32-bit little-endian soft-float instruction set v7-m",
		},
		{"softfp", "mps2_an386", `"cflags": ["-mfloat-abi=softfp"]`, "soft-float instruction set v7e-m, but board x"},
		{"board without hard float", "mps2_an386", `"elf": {"float_abi": "soft"}`, "hard-float instruction set v7e-m, but"},
		{
			"RISC-V with F", "sifive_e", `"cflags": ["-march=rv32imafc_zicsr_zifencei"]`,
			"f2p2_", // of the instruction set, by the compiler
		},
		{"RISC-V of hard float", "qemu_riscv64", `"elf": {"float_abi": "soft"}`, "double-float instruction set rv64"},
		{"Cortex-M3 for a Cortex-M4", "mps2_an386", `"cflags": ["-mcpu=cortex-m3", "-mfloat-abi=soft"],
			"elf": {"float_abi": "soft"}`, ""},
	}, 2) {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBuilder(boardstest.Shelf(t, map[string]string{"x.json": boardstest.Text(t, c.of, c.fields+",")}))
			err := buildError(t, generated(t, Spec{Board: "x"}, b))
			testkit.WantErrorIf(t, c.want != "", err, failure.Config, c.want)
		})
	}
}

// TestCancel stops a build in the middle: no process stays, and the next build is as if nothing had been.
func TestCancel(t *testing.T) {
	t.Parallel()
	p := generated(t, Spec{}, freshBuilder(t))
	may := filepath.Join(t.TempDir(), "may") // without this file, make cannot end before it is cancelled
	slow := "\n$(BUILD)/firmware.elf: slow\nslow: $(MODEL_PART) $(RUNTIME) ; test -e " + filepath.ToSlash(may) +
		" || sleep 7200\n"
	appendTo(t, p.at("Makefile"), slow)
	ctx, cancel := context.WithCancel(t.Context())
	p.builder.Progress = func(e device.ProgressEvent) {
		if e.Done == 3 {
			cancel()
		}
	}
	_, err := p.Build(ctx)
	wantError(t, err, failure.Interrupted)
	mark, err := os.OpenFile(keptDirs(t, p.builder.Cache)[0]+".lock", os.O_RDWR, 0)
	must(t, err)
	for end := testkit.Context(t); ; time.Sleep(10 * time.Millisecond) { // a busy computer ends processes later
		alone, err := filelock.Try(mark)
		must(t, err)
		if alone {
			break
		}
		if end.Err() != nil {
			t.Fatal("processes of the cancelled build are left")
		}
	}
	must(t, mark.Close())
	p.builder.Progress = nil
	writeFile(t, may, "")
	got := built(t, p)
	q := generated(t, Spec{})
	appendTo(t, q.at("Makefile"), slow)
	if want := built(t, q); got.Digest != want.Digest {
		t.Error("the build after a cancelled one differs")
	}
}

// TestWrappedCompiler: a script that calls the compiler with one more flag prints the compiler's version and target.
// Nothing that it compiled is taken from the cache for the compiler itself, and times of the two are not comparable.
func TestWrappedCompiler(t *testing.T) {
	t.Parallel()
	wrapper := ccScript(t, "exec %s \"$@\" -DWRAPPED\n")
	const source = "#ifndef WRAPPED\n#define WRAPPED 2\n#endif\nint f(void) { return WRAPPED; }"
	var compiled, compilers [3]string
	for n, programs := range [3][]string{{wrapper}, nil, {wrapper}} {
		b := newBuilder()
		b.Programs = programs
		p := generated(t, Spec{Options: ramOptions("host")}, b)
		built(t, p)
		var err error
		compilers[n], err = p.Toolchain()
		must(t, err)
		compiled[n] = string(linkedFar(t, linkerOf(t, p), operators(source, "f")).Bytes)
	}
	if compiled[0] == compiled[1] || compiled[0] != compiled[2] {
		t.Error("the cache takes the wrapper's object for the compiler's, or the two wrappers' differ")
	}
	if compilers[0] == compilers[1] || compilers[0] != compilers[2] {
		t.Errorf("compilers %q", compilers)
	}
}

// TestVanishedFiles: a compiler that finds no source because the temporary folder was removed is not the operator's
// fault.
func TestVanishedFiles(t *testing.T) {
	t.Parallel()
	o := operators("#include \"missing.h\"\nint f(void) { return 0; }", "f")
	for class, programs := range map[failure.Class][]string{
		failure.Compile: nil,
		failure.Host:    {ccScript(t, "case \"$*\" in *f.c*) rm -r \"$PWD\";; esac\nexec %s \"$@\"\n")},
	} {
		b := newBuilder()
		b.Programs = programs
		_, err := linkerOf(t, generated(t, Spec{Options: ramOptions("host")}, b)).Link(t.Context(), o, farWindow)
		wantError(t, err, class)
	}
}

// ccScript returns the folder of a script in the place of the compiler, whose path is %s in it.
func ccScript(t *testing.T, script string) string {
	t.Helper()
	need(t, "cc")
	cc, err := exec.LookPath("cc")
	must(t, err)
	dir := t.TempDir()
	testkit.WriteProgram(t, filepath.Join(dir, "cc"), "#!/bin/sh\n"+fmt.Sprintf(script, command.Quote(cc)))
	return dir
}

// plainFlag are flags of the Makefile that change nothing of what the code means, or only what it does at run time.
var plainFlag = regexp.MustCompile(`^(-pipe|-g1|-f(function|data)-sections|-f(file|debug)-prefix-map=.*|-fcallgraph-info=su|-f(no-)?sanitize.*|-W.*|-w|-Iport|-MMD|-MP)$`)

// noDate are the flags that refuse the date, or not, by the environment of a build: the file has none of them.
var noDate = regexp.MustCompile(`-D'__[A-Z]+__=_Pragma\([^']*'`)

// chosenFlag are the flags that options add.
var chosenFlag = regexp.MustCompile(`^-(O3|funroll-loops|fno-gcse)$`)

// TestCompileCommands compares compile_commands.json with what make would run.
func TestCompileCommands(t *testing.T) {
	t.Parallel()
	need(t, "make")
	flags := "-funroll-loops,lib1.c:-fno-gcse"
	p := generated(t, Spec{
		Options: boards.Options{RuntimeOpt: "O1", OperatorOpt: "O3", OperatorFlags: flags},
	})
	var entries []generator.Command
	must(t, json.Unmarshal([]byte(readFile(t, p.at(generator.CompileDatabase))), &entries))
	said, flagged := map[string][]string{}, map[string][]string{}
	for _, e := range entries {
		if e.Directory != generator.Here || e.Arguments[len(e.Arguments)-1] != e.File {
			t.Errorf("entry %+v", e)
		}
		said[e.File] = e.Arguments[:len(e.Arguments)-2]
	}
	together := map[string][]string{} // sources, by the one that includes them
	for line := range strings.Lines(output(t, exec.Command("make", "-C", p.Dir(), "-n", "-B"))) {
		words := strings.Fields(noDate.ReplaceAllString(line, ""))
		if len(words) == 0 {
			continue
		}
		if made, ok := strings.CutPrefix(words[len(words)-1], ">"); ok && words[0] == "printf" {
			together[made] = slices.DeleteFunc(words, func(w string) bool { return !strings.HasPrefix(w, "crt/") })
			continue
		}
		at := slices.Index(words, "-c")
		file := words[len(words)-1]
		files, included := together[file]
		if at < 0 || strings.HasPrefix(file, "build/") && !included {
			continue
		}
		runs := slices.DeleteFunc(words[:at], plainFlag.MatchString)
		if included {
			runs = slices.Delete(runs, len(runs)-2, len(runs)) // -iquote .
		} else {
			files = []string{file}
		}
		for _, file := range files {
			if !slices.Equal(said[file], runs) {
				t.Errorf("%s: the file has %q, make runs %q", file, said[file], runs)
			}
			delete(said, file)
		}
		flagged[file] = slices.DeleteFunc(runs, func(w string) bool { return !chosenFlag.MatchString(w) })
	}
	for file, want := range map[string]string{
		"lib0.c": "-O3 -funroll-loops", "lib1.c": "-O3 -funroll-loops -fno-gcse",
	} {
		if words := strings.Join(flagged["model/codegen/host/src/"+file], " "); words != want {
			t.Errorf("%s is compiled with %q, want %q", file, words, want)
		}
	}
	if len(entries) < 10 || len(said) > 0 {
		t.Errorf("of %d entries, make does not compile %v", len(entries), said)
	}
}

const bareBoard = `{"inherits": "cpu/native", "templates": ["baremetal"], "link": {"kind": "serial"}, "flash": {"programmer": "none"}, "arena_kib": 4,
"core_hz": 1000000, "watchdog_ms": 20, "defines": {"UART_BASE": "0x40004000", "A": "1"},
"memory": [{"name": "rom", "origin": 0, "size": 65536, "exec": true, "nonvolatile": true}, {"name": "ram", "origin": "0x20000000", "size": 32768}, {"name": "fast", "origin": "0x10000000", "size": 4096}],
"place": {"code": "rom", "data": "ram", "stack": "fast"}, "stack_bytes": 1024`

func TestSourceMissing(t *testing.T) {
	t.Parallel()
	board := bareBoard + ",\n\"sources\": [\n  \"port/process.c\",\n  \"port/uart/cmdsk.c\"]}"
	_, err := generate(t, Spec{Board: "b"}, newBuilder(boardstest.Shelf(t, map[string]string{"b.json": board})))
	wantError(t, err, "", `b.json:7: sources: "port/uart/cmdsk.c" is not in `, `; did you mean "port/uart/cmsdk.c"?`)
}

// TestMissingSystem: an operator that calls what firmware does not have is an error that names the source, the function
// and what to use instead, in RPC and standalone firmware and in code for RAM, in a folder whose name has a pattern's
// characters.
func TestMissingSystem(t *testing.T) {
	t.Parallel()
	for _, app := range []string{boards.RPC, boards.Standalone} { // a build folder of which all use the runtime
		built(t, generated(t, Spec{Board: "mps2_an385", Options: boards.Options{App: app}}))
	}
	cases := map[string]struct{ app, include, statement, want, next string }{
		"heap": {
			boards.RPC, "<stdlib.h>", "out[0] = (int32_t)(intptr_t)malloc(8);",
			"calls malloc, but firmware has no heap", "Workspace",
		},
		"streams": {
			boards.Standalone, "<stdio.h>", `printf("%d\n", in[0]);`, "calls printf, but firmware has no standard", "TVMLogf",
		},
		"exit": {
			boards.RPC, "<stdlib.h>", "exit((int)in[0]);", "calls exit, but firmware has nothing to return", "TVMPlatformAbort",
		},
		"other": {
			boards.RPC, "<math.h>", "extern long time(long*); out[0] = (int32_t)time(0);",
			"calls time, but firmware has no _gettimeofday", "remove the call",
		},
		"text": {
			boards.Standalone, "<stdio.h>", `char s[9]; out[0] = snprintf(s, 9, "%f", (double)in[0]);`,
			"calls snprintf, but firmware has no heap", "TVMLogf",
		},
		"random": {
			boards.Standalone, "<stdlib.h>", "out[0] = rand();", "calls rand, but firmware has no heap", "a state of your own",
		},
		"thread": {
			boards.Standalone, "<math.h>", "static _Thread_local int32_t v; out[0] = v++;", "firmware has no threads",
			"_Thread_local",
		},
		"undefined": {boards.RPC, "<math.h>", "extern int nowhere(void); out[0] = nowhere();", "nowhere", ""},
	}
	for _, name := range drawn.Of(t, "what firmware lacks", slices.Sorted(maps.Keys(cases)), 3) {
		c := cases[name]
		t.Run(name, func(t *testing.T) {
			p := generatedIn(t, filepath.Join(t.TempDir(), "p [a-]*"), Spec{
				Board: "mps2_an385", Options: boards.Options{App: c.app},
				Model: mlftest.Edited(t, "<math.h>", c.include, "return 0;", c.statement+" return 0;"),
			})
			o, err := p.ModelOperators()
			must(t, err)
			_, ofRAM := linkerOf(t, p).Link(t.Context(), o, farWindow)
			for _, err := range []error{buildError(t, p), ofRAM} {
				wantError(t, err, failure.Link, c.want, "lib1.c", c.next)
				calls := strings.Contains(fmt.Sprint(err), "lib1.c calls")
				if calls != strings.HasPrefix(c.want, "calls ") || strings.Contains(failure.Next(err), "boardsmith-operators") {
					t.Errorf("%v\nnext: %s", err, failure.Next(err))
				}
			}
		})
	}
}

// TestAssert: a failed assert of an operator, abort, and a division by zero with the flags of docs/faults.md are faults
// with their place, in the image of a chip, as standalone firmware, in a process, and in RAM. An assert has its
// condition in each.
func TestAssert(t *testing.T) {
	t.Parallel()
	statements := map[string]string{
		"assert": "assert(in[0] > 1000);", "abort": "abort();",
		"division": "static volatile int32_t zero; out[0] = in[0] / zero;",
	}
	for _, name := range drawn.Of(t, "checks of operators", []string{"assert", "abort", "division"}, 1) {
		options := boards.Options{}
		reason := fault.ReasonCheck
		if name == "division" {
			options.OperatorFlags = "-fsanitize=integer-divide-by-zero,-fsanitize-undefined-trap-on-error"
			reason = fault.ReasonHardware
		}
		model := mlftest.Edited(t, "<math.h>", "<assert.h>\n#include <stdlib.h>", "return 0;", statements[name]+" return 0;")
		for _, c := range drawn.Of(t, "places of checks", []struct{ board, app, load string }{
			{"mps2_an385", boards.RPC, "flash"},
			{"host", boards.RPC, "flash"},
			{"mps2_an385", boards.RPC, "RAM"},
			{"host", boards.RPC, "RAM"},
			{"mps2_an385", boards.Standalone, "flash"},
		}, 2) {
			t.Run(fmt.Sprint(name, c), func(t *testing.T) { // in turn, in the build folders of those before
				options.App = c.app
				err := callTwice(t, generated(t, Spec{Board: c.board, Model: model, Options: options}), c.load)
				f := faultOf(t, err)
				if logs := strings.Contains(err.Error(), "lib1.c:14: Check failed: in[0] > 1000"); logs != (name == "assert") {
					t.Errorf("the condition in the error: %v, %v", logs, err)
				}
				isImage := c.board != "host" && c.app == boards.RPC && c.load == "flash"
				if isImage && (f.Record.Reason != reason || f.Operator != "twice" ||
					!slices.ContainsFunc(f.Frames, func(f fault.Frame) bool { return strings.HasSuffix(f.File, "lib1.c") })) {
					t.Errorf("%v", err)
				}
			})
		}
	}
}

// TestAssertOfOwnFile: assert and abort in a project's own C, which is linked with the runtime, are faults with their
// place, on each kind of core.
func TestAssertOfOwnFile(t *testing.T) {
	t.Parallel()
	const own = "#include <assert.h>\n#include <stdlib.h>\nint own(int n);\n" +
		"int own(int n) {\n  assert(n < 0);\n  if (n == -1) {\n    abort();\n  }\n  return n;\n}\n"
	model := mlftest.Edited(t, "TVM_DLL int32_t twice", "int own(int n);\nTVM_DLL int32_t twice", "return 0;",
		"return own(in[0]);")
	for _, c := range drawn.Of(t, "asserts of own files", []struct{ board, app string }{
		{"mps2_an386", boards.RPC},
		{"microbit", boards.RPC},
		{"host", boards.RPC},
		{"qemu_riscv32", boards.RPC},
		{"mps2_an385", boards.Standalone},
		{"microbit", boards.Standalone},
		{"host", boards.Standalone},
	}, 2) {
		t.Run(c.board+" "+c.app, func(t *testing.T) {
			p := generated(t, Spec{Board: c.board, Model: model, Options: boards.Options{App: c.app}})
			writeFile(t, p.at("src/own.c"), own)
			err := callTwice(t, p, "flash")
			faultOf(t, err)
			wantError(t, err, "", "own.c:5: Check failed: n < 0")
		})
	}
}

// callTwice runs a project of mlftest.Tiny, over RPC with its model in flash or RAM or as standalone firmware, and
// returns the error of its operator.
func callTwice(t *testing.T, p *Project, load string) error {
	t.Helper()
	if p.Options().App == boards.Standalone {
		needBoard(t, p.Board())
		s, err := p.RunStandalone(t.Context(), newDesk(), "")
		must(t, err)
		defer s.Close()
		_, err = s.Run(t.Context(), 1)
		return err
	}
	s, lib := started(t, p, load)
	x := tensor(t, s)
	_, err := callIn(t, lib, "twice", x, x)
	return err
}

// TestDateAndTime: a model that uses the date or the time is an error that names the line, unless the user's variable
// says which time it is: then builds in other folders on other days are equal.
func TestDateAndTime(t *testing.T) {
	t.Parallel()
	project := func(date, macro string) *Project {
		b := freshBuilder(t)
		b.Variables = map[string]string{"SOURCE_DATE_EPOCH": date}
		line := "const char* volatile when;\n__attribute__((constructor)) static void at(void) { when = " + macro + "; }\n"
		return generated(t, Spec{Model: mlftest.Operator(t, mlftest.TinyOperator+line)}, b)
	}
	for _, macro := range drawn.Of(t, "macros of the time", []string{"__DATE__", "__TIME__", "__TIMESTAMP__"}, 1) {
		line := strings.Count(mlftest.TinyOperator, "\n") + 2
		at, want := fmt.Sprintf("model/codegen/host/src/lib1.c:%d:", line), "error: "+macro+" differs in each build"
		for _, date := range []string{"", "1700000000"} {
			p := project(date, macro)
			if date == "" || macro == "__TIMESTAMP__" {
				err := buildError(t, p)
				wantError(t, err, failure.Compile, at, want)
				if next := failure.Next(err); strings.Contains(next, "SOURCE_DATE_EPOCH") != (macro != "__TIMESTAMP__") {
					t.Errorf("%s, %q: next: %s", macro, date, next)
				}
				continue
			}
			digest := built(t, p).Digest
			if again := built(t, project(date, macro)); again.Digest != digest {
				t.Errorf("%s: other bytes in another folder", macro)
			}
			if other := built(t, project("1600000001", macro)); other.Digest == digest {
				t.Errorf("%s: another date has no effect", macro)
			}
		}
	}
}
