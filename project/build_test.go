package project

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
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
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/ndarray"
	"github.com/boardsmith/boardsmith/project/internal/generator"
	"github.com/boardsmith/boardsmith/rpc"
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
	needBoardTools(t, board, nil)
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
		p := generatedIn(t, filepath.Join(t.TempDir(), name), Spec{Board: board, Model: model},
			env{Host: device.Host{Cache: newCache(t)}})
		images = append(images, built(t, p))
		all := contents(t, p.Dir())
		for name, text := range all {
			if strings.HasPrefix(text, "\x7fELF") && strings.Contains(text, filepath.Dir(p.Dir())) {
				t.Errorf("%s has the folder's path in it", name)
			}
			if strings.HasSuffix(name, ".d") {
				delete(all, name)
			}
		}
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
	needBoardTools(t, "microbit", nil)
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
			writeFile(t, path, string(good))
		}
	}
	if again := built(t, p); !again.UpToDate {
		t.Errorf("all as before: %+v", again)
	}
	writeFile(t, first.Hex, "garbage")
	want := readFile(t, first.Bin)
	writeFile(t, first.Bin, "")
	again := built(t, p)
	if got, err := os.ReadFile(first.Bin); err != nil || again.UpToDate || !bytes.Equal(got, want) {
		t.Errorf("built again: %+v, %v", again, err)
	}
}

// TestOperatorFlags checks that flags of operators change the model's objects, in one folder of the cache, in which the
// runtime is not compiled again.
func TestOperatorFlags(t *testing.T) {
	t.Parallel()
	c := newCache(t)
	ids := map[string]bool{}
	all := drawn.Of(t, "flags of operators", []string{"", "-O3", "lib1.c:-O3", "-O3,lib1.c:-O1"}, 2)
	var runtimes []time.Time
	for n, flags := range all {
		dir := filepath.Join(t.TempDir(), "p")
		b := &Builder{Host: device.Host{Cache: c}, Fresh: n > 0}
		p, err := b.Generate(t.Context(), dir, Spec{
			Board: "host", Model: mlftest.Tiny(t, nil), Options: boards.Options{OperatorFlags: flags},
		})
		must(t, err)
		i, err := p.Build(t.Context())
		must(t, err)
		must(t, p.Close())
		ids[i.ID()] = true
		for _, folder := range keptDirs(t, c) {
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
	_, err := (&Builder{}).Generate(t.Context(), t.TempDir(), Spec{
		Board: "host", Model: mlftest.Tiny(t, nil), Options: boards.Options{OperatorFlags: "lib9.c:-O3"},
	})
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
		_, err := p.Build(t.Context())
		if failure.Of(err) != failure.Config || !strings.Contains(err.Error(), "src/"+name+" cannot be an input") {
			t.Errorf("%s: %v", name, err)
		}
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
			needBoardTools(t, c.of, nil)
			file := readFile(t, filepath.Join("..", "boards", c.of+".json"))
			changed := strings.Replace(string(file), "{", "{"+c.fields+",", 1)
			e := testEnv()
			e.Path = []string{boardstest.Shelf(t, map[string]string{"x.json": changed})}
			p, err := generate(t, Spec{Board: "x"}, e)
			must(t, err)
			_, err = p.Build(t.Context())
			if c.want == "" {
				must(t, err)
			} else if err == nil || !strings.Contains(err.Error(), c.want) || failure.Of(err) != failure.Config {
				t.Errorf("got  %v (%v)\nwant %s", err, failure.Of(err), c.want)
			}
		})
	}
}

// TestCancel stops a build in the middle: no process stays, and the next build is as if nothing had been.
func TestCancel(t *testing.T) {
	t.Parallel()
	model := mlftest.Tiny(t, nil)
	own := env{Host: device.Host{Cache: newCache(t)}}
	p := generated(t, Spec{Model: model}, own)
	may := filepath.Join(t.TempDir(), "may") // without this file, make cannot end before it is cancelled
	slow := "\n$(BUILD)/firmware.elf: slow\nslow: $(MODEL_PART) $(RUNTIME) ; test -e " + filepath.ToSlash(may) +
		" || sleep 7200\n"
	appendTo(t, filepath.Join(p.Dir(), "Makefile"), slow)
	ctx, cancel := context.WithCancel(t.Context())
	p.builder.Progress = func(e device.ProgressEvent) {
		if e.Done == 3 {
			cancel()
		}
	}
	_, err := p.Build(ctx)
	wantError(t, err, failure.Interrupted)
	mark, err := os.OpenFile(keptDirs(t, own.Cache)[0]+".lock", os.O_RDWR, 0)
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
	q := generated(t, Spec{Model: model})
	appendTo(t, filepath.Join(q.Dir(), "Makefile"), slow)
	if want := built(t, q); got.Digest != want.Digest {
		t.Error("the build after a cancelled one differs")
	}
	_, err = generateIn(ctx, filepath.Join(t.TempDir(), "r"), Spec{Board: "host", Model: model}, testEnv())
	wantError(t, err, failure.Interrupted)
}

// TestWrappedCompiler: a script that calls the compiler with one more flag prints the compiler's version and target.
// Nothing that it compiled is taken from the cache for the compiler itself, and times of the two are not comparable.
func TestWrappedCompiler(t *testing.T) {
	t.Parallel()
	needBoardTools(t, "host", nil)
	cc, err := exec.LookPath("cc")
	must(t, err)
	wrapper := filepath.Join(t.TempDir(), "cc")
	testkit.WriteProgram(t, wrapper, fmt.Sprintf("#!/bin/sh\nexec %s \"$@\" -DWRAPPED\n", command.Quote(cc)))
	const c = "#ifndef WRAPPED\n#define WRAPPED 2\n#endif\nint f(void) { return WRAPPED; }"
	source := mlf.File{Name: "f.c", Data: []byte(c)}
	spec := Spec{Board: "host", Model: mlftest.Tiny(t, nil), Options: ramOptions("host")}
	window := rpc.Window{Base: 1 << 30, Bytes: 1 << 20}
	var compiled [3][]byte
	var compilers [3]string
	for n, programs := range [3][]string{{filepath.Dir(wrapper)}, nil, {filepath.Dir(wrapper)}} {
		b := testEnv().builder()
		b.Programs = programs
		p, err := b.Generate(t.Context(), filepath.Join(t.TempDir(), "p"), spec)
		must(t, err)
		defer p.Close()
		built(t, p)
		compilers[n], err = p.Toolchain()
		must(t, err)
		l := linkerOf(t, p)
		program, err := l.Link(t.Context(), Operators{Files: []mlf.File{source}, Entries: []string{"f"}}, window)
		must(t, err)
		compiled[n] = program.Bytes
	}
	if bytes.Equal(compiled[0], compiled[1]) || !bytes.Equal(compiled[0], compiled[2]) {
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
	needBoardTools(t, "host", nil)
	cc, err := exec.LookPath("cc")
	must(t, err)
	removing := t.TempDir()
	const script = "#!/bin/sh\ncase \"$*\" in *sub/f.c*) rm -r \"$PWD\";; esac\nexec %s \"$@\"\n"
	testkit.WriteProgram(t, filepath.Join(removing, "cc"), fmt.Sprintf(script, command.Quote(cc)))
	spec := Spec{Board: "host", Model: mlftest.Tiny(t, nil), Options: ramOptions("host")}
	o := Operators{
		Files:   []mlf.File{{Name: "sub/f.c", Data: []byte("#include \"missing.h\"\nint f(void) { return 0; }")}},
		Entries: []string{"f"},
	}
	for _, class := range []failure.Class{failure.Compile, failure.Host} {
		e := testEnv()
		if class == failure.Host {
			e.Programs = []string{removing}
		}
		l := linkerOf(t, generated(t, spec, e))
		_, err = l.Link(t.Context(), o, rpc.Window{Base: 1 << 30, Bytes: 1 << 20})
		wantError(t, err, class)
	}
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
	if _, err := exec.LookPath("make"); err != nil {
		t.Skip("no make")
	}
	dir := filepath.Join(t.TempDir(), "p")
	flags := "-funroll-loops,lib1.c:-fno-gcse"
	generatedIn(t, dir, Spec{
		Options: boards.Options{RuntimeOpt: "O1", OperatorOpt: "O3", OperatorFlags: flags},
	})
	var entries []generator.Command
	must(t, json.Unmarshal([]byte(contents(t, dir)[generator.CompileDatabase]), &entries))
	said, flagged := map[string][]string{}, map[string][]string{}
	for _, e := range entries {
		if e.Directory != generator.Here || e.Arguments[len(e.Arguments)-1] != e.File {
			t.Errorf("entry %+v", e)
		}
		said[e.File] = e.Arguments[:len(e.Arguments)-2]
	}
	make := exec.Command("make", "-n", "-B")
	make.Dir = dir
	out, err := make.Output()
	must(t, err)
	together := map[string][]string{} // sources, by the one that includes them
	for line := range strings.Lines(string(out)) {
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
	env := testEnv()
	env.Path = []string{boardstest.Shelf(t, map[string]string{"b.json": board})}
	_, err := generate(t, Spec{Board: "b"}, env)
	wantError(t, err, "", `b.json:7: sources: "port/uart/cmdsk.c" is not in `, `; did you mean "port/uart/cmsdk.c"?`)
}

// TestMissingSystem: an operator that calls what firmware does not have is an error that names the source, the function
// and what to use instead, in RPC and standalone firmware and in code for RAM, in a folder whose name has a pattern's
// characters.
func TestMissingSystem(t *testing.T) {
	t.Parallel()
	needBoardTools(t, "mps2_an385", nil)
	for _, app := range []string{boards.RPC, boards.Standalone} { // a build folder of which all use the runtime
		built(t, projectWith(t, "mps2_an385", mlftest.Tiny(t, nil), boards.Options{App: app}))
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
			source := strings.NewReplacer("<math.h>", c.include, "return 0;", c.statement+" return 0;").
				Replace(mlftest.TinyOperator)
			p := generatedIn(t, filepath.Join(t.TempDir(), "p [a-]*"), Spec{
				Board: "mps2_an385", Model: mlftest.Operator(t, source),
				Options: boards.Options{App: c.app},
			})
			calls := strings.HasPrefix(c.want, "calls ")
			check := func(where string, err error) {
				if failure.Of(err) != failure.Link || !strings.Contains(err.Error(), c.want) ||
					!strings.Contains(err.Error(), "lib1.c") || strings.Contains(err.Error(), "lib1.c calls") != calls ||
					!strings.Contains(failure.Next(err), c.next) || strings.Contains(failure.Next(err), "boardsmith-operators") {
					t.Errorf("%s: %v\nnext: %s", where, err, failure.Next(err))
				}
			}
			_, err := p.Build(t.Context())
			check("image", err)
			l := linkerOf(t, p)
			o, err := p.ModelOperators()
			must(t, err)
			_, err = l.Link(t.Context(), o, rpc.Window{Base: hypothetical, Bytes: 1 << 20})
			check("RAM", err)
		})
	}
}

// TestAssert: a failed assert of an operator, abort, and a division by zero with the flags of docs/faults.md are faults
// with their place, in the image of a chip, as standalone firmware, in a process, and in RAM. An assert has its
// condition in each.
func TestAssert(t *testing.T) {
	t.Parallel()
	needBoardTools(t, "mps2_an385", nil)
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
		source := strings.NewReplacer(
			"<math.h>", "<assert.h>\n#include <stdlib.h>", "return 0;", statements[name]+" return 0;",
		).Replace(mlftest.TinyOperator)
		model := mlftest.Operator(t, source)
		for _, c := range drawn.Of(t, "places of checks", []struct{ board, app, load string }{
			{"mps2_an385", boards.RPC, "flash"},
			{"host", boards.RPC, "flash"},
			{"mps2_an385", boards.RPC, "RAM"},
			{"host", boards.RPC, "RAM"},
			{"mps2_an385", boards.Standalone, "flash"},
		}, 2) {
			t.Run(fmt.Sprint(name, c), func(t *testing.T) { // in turn, in the build folders of those before
				options.App = c.app
				err := callTwice(t, projectWith(t, c.board, model, options), c.load)
				var faultErr *fault.Error
				if !errors.As(err, &faultErr) {
					t.Fatalf("%v", err)
				}
				if logs := strings.Contains(err.Error(), "lib1.c:14: Check failed: in[0] > 1000"); logs != (name == "assert") {
					t.Errorf("the condition in the error: %v, %v", logs, err)
				}
				isImage := c.board != "host" && c.app == boards.RPC && c.load == "flash"
				if isImage && (faultErr.Record.Reason != reason || faultErr.Operator != "twice" ||
					!slices.ContainsFunc(faultErr.Frames, func(f fault.Frame) bool { return strings.HasSuffix(f.File, "lib1.c") })) {
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
	source := strings.NewReplacer(
		"TVM_DLL int32_t twice", "int own(int n);\nTVM_DLL int32_t twice", "return 0;", "return own(in[0]);",
	).Replace(mlftest.TinyOperator)
	model := mlftest.Operator(t, source)
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
			needBoardTools(t, c.board, nil)
			p := projectWith(t, c.board, model, boards.Options{App: c.app})
			writeIn(t, p.Dir(), "src/own.c", own)
			err := callTwice(t, p, "flash")
			if faultErr := new(fault.Error); !errors.As(err, &faultErr) ||
				!strings.Contains(err.Error(), "own.c:5: Check failed: n < 0") {
				t.Errorf("%v", err)
			}
		})
	}
}

// projectWith generates a project in a new folder.
func projectWith(t *testing.T, board, model string, o boards.Options) *Project {
	t.Helper()
	return generated(t, Spec{Board: board, Model: model, Options: o})
}

// callTwice runs a project of mlftest.Tiny, over RPC with its model in flash or RAM or as standalone firmware, and
// returns the error of its operator.
func callTwice(t *testing.T, p *Project, load string) error {
	t.Helper()
	if p.Options().App == boards.Standalone {
		s, err := p.RunStandalone(t.Context(), testEnv().desk(), "")
		must(t, err)
		defer s.Close()
		_, err = s.Run(t.Context(), 1)
		return err
	}
	s, lib := started(t, p, load)
	twice, err := lib.Function(t.Context(), "twice")
	must(t, err)
	dtype, err := ndarray.ParseDType("int32")
	must(t, err)
	x, err := s.Empty(t.Context(), dtype, []int64{4})
	must(t, err)
	_, err = twice.Call(t.Context(), x, x)
	return err
}

// TestDateAndTime: a model that uses the date or the time is an error that names the line, unless the user's variable
// says which time it is: then builds in other folders on other days are equal.
func TestDateAndTime(t *testing.T) {
	t.Parallel()
	e := testEnv()
	project := func(date, macro string) *Project {
		e.Cache = newCache(t)
		line := "const char* volatile when;\n__attribute__((constructor)) static void at(void) { when = " + macro + "; }\n"
		model := mlftest.Operator(t, mlftest.TinyOperator+line)
		p := generated(t, Spec{Model: model}, e)
		p.builder.Variables = map[string]string{"SOURCE_DATE_EPOCH": date}
		return p
	}
	for _, macro := range drawn.Of(t, "macros of the time", []string{"__DATE__", "__TIME__", "__TIMESTAMP__"}, 1) {
		line := strings.Count(mlftest.TinyOperator, "\n") + 2
		at, want := fmt.Sprintf("model/codegen/host/src/lib1.c:%d:", line), "error: "+macro+" differs in each build"
		for _, date := range []string{"", "1700000000"} {
			p := project(date, macro)
			i, err := p.Build(t.Context())
			if isFixed := date != "" && macro != "__TIMESTAMP__"; !isFixed {
				if failure.Of(err) != failure.Compile || !strings.Contains(err.Error(), at) ||
					!strings.Contains(err.Error(), want) ||
					strings.Contains(failure.Next(err), "SOURCE_DATE_EPOCH") != (macro != "__TIMESTAMP__") {
					t.Errorf("%s, %q: %v; %s", macro, date, err, failure.Next(err))
				}
				continue
			}
			must(t, err)
			if again := built(t, project(date, macro)); again.Digest != i.Digest {
				t.Errorf("%s: other bytes in another folder", macro)
			}
			if other := built(t, project("1600000001", macro)); other.Digest == i.Digest {
				t.Errorf("%s: another date has no effect", macro)
			}
		}
	}
}
