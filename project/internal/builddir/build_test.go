package builddir

import (
	"context"
	"encoding/hex"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/cache"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/internal/command"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/project/internal/buildenv"
	"github.com/boardsmith/boardsmith/project/internal/projectfile"
	"github.com/boardsmith/boardsmith/project/internal/templatefile"
	"github.com/boardsmith/boardsmith/project/internal/workdir"
)

var (
	must      = testkit.Must
	writeFile = testkit.WriteFile
	readFile  = testkit.ReadFile
	absent    = testkit.Absent
	wantError = testkit.WantError
	missingOf = testkit.As[*failure.MissingToolError]
)

// This file builds projects whose build command is a script: its "image" is the list of files that the folder got since
// the last run, and the number of runs in the folder. The tests run one after another: a process that begins beside a
// build inherits its folder's lock for a moment, and a build that follows then takes another folder.

const script = `set -e
mkdir -p build
[ -e build/stamp ] || touch -d 2000-01-01 build/stamp
find . -type f -newer build/stamp ! -path './build/*' ! -name '.boardsmith*' | sort >build/firmware.elf
touch build/stamp
echo run >>build/runs
cp build/runs build/firmware.map
`

// Sources of the model.
const (
	lib0 = "model/codegen/lib0.c"
	lib1 = "model/codegen/lib1.c"
)

// A fixture is a project that a script builds.
type fixture struct {
	*Build
	t   *testing.T
	log strings.Builder
}

// newFixture makes a project of these files beside the script, which runs more before it.
func newFixture(t *testing.T, more string, files map[string]string) *fixture {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "p")
	must(t, os.MkdirAll(dir, 0o755))
	tree, err := workdir.Open(dir)
	must(t, err)
	t.Cleanup(tree.Close)
	of := templatefile.Description{Build: []string{"sh", "build.sh"}, ELF: "build/firmware.elf", Map: "build/firmware.map"}
	state := &projectfile.State{
		Board: projectfile.Board{Name: "b", Board: boards.Board{Name: "b"}},
		Files: map[string]string{}, Template: projectfile.Template{Name: "t", Description: of},
	}
	state.Board.Toolchain.CC = "own-cc"
	f := &fixture{t: t, Build: &Build{
		State: state, Tree: tree, Cache: cache.New(t.TempDir(), cache.Options{}), Jobs: 1,
		Env: buildenv.Env{
			Template: &state.Template.Description, Dir: dir, Programs: []string{t.TempDir()}, Tools: &buildenv.Tools{},
		},
		Progress: func(string, int, int) {}, Explain: func(err error, _ string) error { return err },
		Check: func(string) error { return nil },
	}}
	f.Log = hclog.New(&hclog.LoggerOptions{Output: &f.log})
	f.program("own-cc", "case $1 in --version) echo cc 1;; *) echo native;; esac")
	f.write("build.sh", more+script)
	testkit.WriteFiles(t, dir, files)
	return f
}

func (f *fixture) at(name string) string { return filepath.Join(f.Tree.Dir, filepath.FromSlash(name)) }

func (f *fixture) write(name, text string) {
	f.t.Helper()
	writeFile(f.t, f.at(name), text)
}

func (f *fixture) read(name string) string {
	f.t.Helper()
	return string(readFile(f.t, f.at(name)))
}

// program writes a program that the build finds.
func (f *fixture) program(name, script string) {
	f.t.Helper()
	testkit.WriteProgram(f.t, filepath.Join(f.Env.Programs[0], name), "#!/bin/sh\n"+script+"\n")
}

// build builds, and returns the names of the results.
func (f *fixture) build() ([]string, error) {
	f.t.Helper()
	must(f.t, f.ReadInputs(f.t.Context()))
	return f.Run(f.t.Context())
}

// fails builds, which is an error.
func (f *fixture) fails(class failure.Class, texts ...string) {
	f.t.Helper()
	_, err := f.build()
	wantError(f.t, err, class, texts...)
}

// expect builds, and compares the files that the folder got, and the number of runs in it.
func (f *fixture) expect(runs int, files ...string) {
	f.t.Helper()
	if _, err := f.build(); err != nil {
		f.t.Fatal(err)
	}
	got := strings.Fields(strings.ReplaceAll(f.read("build/firmware.elf"), "./", ""))
	if n := strings.Count(f.read("build/firmware.map"), "run\n"); n != runs || !slices.Equal(got, files) {
		f.t.Errorf("run %d with %q; want run %d with %q", n, got, runs, files)
	}
}

// sources are a project's files besides build.sh.
func sources() map[string]string {
	return map[string]string{
		"src/a.c": "a", "src/a.h": "h", "src/link.ld": "l", "CMakeLists.txt": "c", "sub/meson.build": "m",
		lib0: "0", lib1: "1", "model/codegen/m.h": "h", "model/codegen/x.o": "o", "model/codegen/params.bin": "p",
		templatefile.OperatorsFile: "O2", templatefile.ConfigFile: "#define A",
	}
}

// TestFolder: what differs is written, with what depends on the model's names or on files that no compiler notes; what
// a build command does not notice itself chooses another folder.
func TestFolder(t *testing.T) {
	all := slices.Sorted(maps.Keys(sources()))
	all = slices.Insert(all, 1, "build.sh")
	slices.Sort(all)
	models := []string{lib0, lib1}
	configure := []string{"CMakeLists.txt", "sub/meson.build"}
	sorted := func(lists ...[]string) []string { return slices.Sorted(slices.Values(slices.Concat(lists...))) }
	changes := func(name string) func(*fixture) { return func(f *fixture) { f.write(name, "b") } }
	for _, c := range []struct {
		name   string
		change func(f *fixture)
		want   []string // written to the folder; nil: all, to another one
	}{
		{"nothing", func(*fixture) {}, []string{}},
		{"a source", changes("src/a.c"), []string{"src/a.c"}},
		{"a header", changes("src/a.h"), []string{"src/a.h"}},
		{"an object of the model", changes("model/codegen/x.o"), []string{"model/codegen/x.o"}},
		{
			"data of the model", changes("model/codegen/params.bin"),
			sorted(models, []string{"model/codegen/params.bin"}),
		},
		{
			"the flags of the model", changes(templatefile.OperatorsFile),
			sorted(models, configure, []string{templatefile.OperatorsFile}),
		},
		{
			"options of the model", func(f *fixture) { f.State.Options.OperatorOpt, f.State.Options.OperatorFlags = "O3", "-x" },
			[]string{},
		},
		{
			"a file more in the model", func(f *fixture) { f.write("model/codegen/lib2.c", "2") },
			sorted(models, configure, []string{"model/codegen/lib2.c"}),
		},
		{
			"a header less in the model", func(f *fixture) { must(t, os.Remove(f.at("model/codegen/m.h"))) },
			sorted(models, configure),
		},
		{"a file of the linker", changes("src/link.ld"), nil},
		{"a configure step", changes("CMakeLists.txt"), nil},
		{"a source more", changes("src/b.c"), nil},
		{"a header less", func(f *fixture) { must(t, os.Remove(f.at("src/a.h"))) }, nil},
		{"another option", func(f *fixture) { f.State.Options.ArenaKiB = 3 }, nil},
		{"another board", func(f *fixture) { f.State.Board.ArenaKiB = 3 }, nil},
		{"another template", func(f *fixture) { f.State.Template.Name = "u" }, nil},
		{"another command", func(f *fixture) { f.State.Template.Build = []string{"sh", "build.sh", "x"} }, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t, "", sources())
			f.expect(1, all...)
			c.change(f)
			if c.want != nil {
				f.expect(2, c.want...)
				return
			}
			if _, err := f.build(); err != nil || f.read("build/firmware.map") != "run\n" {
				t.Errorf("%v, runs %q", err, f.read("build/firmware.map"))
			}
		})
	}
	f := newFixture(t, "", sources())
	f.State.Template.ConfigureReads = []string{lib0, "src/*.h"}
	f.expect(1, all...)
	f.write(lib1, "b")
	f.expect(2, lib1)
	for _, name := range []string{lib0, "src/a.h"} {
		f.write(name, "b")
		if f.expect(1, all...); !f.Configures(name) || f.Configures(lib1) {
			t.Errorf("%s does not choose the folder", name)
		}
	}
}

// TestReconfigure: the configure step begins from nothing in the same folder after a change of what it takes into
// account: contents of files that are neither source nor header, and which files there are, but for headers.
func TestReconfigure(t *testing.T) {
	f := newFixture(t, "mkdir -p build/sub; echo >build/object; "+
		"[ -e build/sub/CMakeCache.txt ] || echo anew >>build/runs\ntouch build/sub/CMakeCache.txt\n", sources())
	f.State.Template.Reconfigure = []string{"src/*", "CMakeLists.txt", "*.conf"}
	var names []string
	for n, c := range []struct {
		name, text string
		runs       string
		want       []string
	}{
		{"src/a.c", "b", "run\n", []string{"src/a.c"}},
		{"src/link.ld", "b", "anew\nrun\n", []string{"CMakeLists.txt", "src/link.ld", "sub/meson.build"}},
		{"CMakeLists.txt", "b", "anew\nrun\n", []string{"CMakeLists.txt", "sub/meson.build"}},
		{"src/b.c", "b", "anew\nrun\n", []string{"CMakeLists.txt", "src/b.c", "sub/meson.build"}},
		{"x.conf", "b", "anew\nrun\n", []string{"CMakeLists.txt", "sub/meson.build", "x.conf"}},
		{"src/b.c", "", "anew\nrun\n", []string{"CMakeLists.txt", "sub/meson.build"}},
		{"src/b.h", "b", "", nil},
	} {
		if n == 0 {
			_, err := f.build()
			must(t, err)
		}
		before := f.read("build/firmware.map")
		if f.write(c.name, c.text); c.text == "" {
			must(t, os.Remove(f.at(c.name)))
		}
		_, err := f.build()
		must(t, err)
		runs, goesOn := strings.CutPrefix(f.read("build/firmware.map"), before)
		names = strings.Fields(strings.ReplaceAll(f.read("build/firmware.elf"), "./", ""))
		if goesOn != (c.want != nil) || goesOn && (runs != c.runs || !slices.Equal(names, c.want)) {
			t.Errorf("%s: in the same folder: %v; %q with %q", c.name, goesOn, runs, names)
		}
	}
}

// TestReads: a command reads its folder, what the template declares, programs and what belongs to the system. A file
// elsewhere is an error that names it, whatever way leads there.
func TestReads(t *testing.T) {
	if !command.Confines() {
		t.Skip("this system cannot limit what a command reads")
	}
	home, other := t.TempDir(), filepath.Join(t.TempDir(), "with space")
	t.Setenv("HOME", home)
	tools, onPath := filepath.Join(other, "tools", "bin"), filepath.Join(other, "vendor", "bin")
	t.Setenv("PATH", os.Getenv("PATH")+":"+onPath)
	current, err := os.Getwd()
	must(t, err)
	for name, text := range map[string]string{
		filepath.Join(other, "x.h"): "x", filepath.Join(home, "x.h"): "x", filepath.Join(home, ".config", "x.h"): "x",
		filepath.Join(home, ".platformio", "sdk", "x.h"): "x",
		filepath.Join(other, "tools", "lib", "x.h"):      "x", filepath.Join(tools, "own-tool"): "#!/bin/sh\n",
		filepath.Join(other, "tree", "x.h"): "x", filepath.Join(other, "out", "x.h"): "x",
		filepath.Join(other, "sdk", "v1", "x.h"): "x", filepath.Join(onPath, "x"): "x",
		filepath.Join(other, "vendor", "include", "x.h"): "x", filepath.Join(other, "snap"): "#!/bin/sh\n",
	} {
		must(t, os.MkdirAll(filepath.Dir(name), 0o755))
		testkit.WriteProgram(t, name, text)
	}
	must(t, os.Symlink(filepath.Join(other, "snap"), filepath.Join(tools, "of-snap")))
	for name, c := range map[string]struct{ script, outside string }{
		"by its path": {"cat \"$TREE/../x.h\"", other + "/x.h"},
		"by a link":   {"ln -s \"$TREE/../x.h\" y.h; cat y.h || cat \"$TREE/../x.h\"", other + "/x.h"},
		"quoted": {
			"cat <\"$TREE/../x.h\" || { echo \"file not found: $(cd \"$TREE/..\"; pwd)/x.h\"; exit 1; }", other + "/x.h",
		},
		"moved":               {"mkdir -p a b; mv \"$TREE/../y.h\" b || true; echo >a/z; mv a/z b/z; cat b/z", ""},
		"at home":             {"cat ~/x.h", home + "/x.h"},
		"a program's setting": {"cat ~/.config/x.h", ""},
		"an SDK at home":      {"cat ~/.platformio/sdk/x.h", home + "/.platformio/sdk/x.h"},
		"of a program":        {"cat \"$TREE/../tools/lib/x.h\"", ""},
		"in a tree":           {"cat \"$TREE/x.h\"", ""},
		"an outside input":    {"cat \"$TREE/../out/x.h\"", ""},
		"declared":            {"cat \"$TREE/../sdk/v1/x.h\"", ""},
		"on PATH":             {"cat \"$TREE/../vendor/bin/x\"", ""},
		"beside PATH":         {"cat \"$TREE/../vendor/include/x.h\"", other + "/vendor/include/x.h"},
		"where it was typed":  {"cat '" + current + "/build_test.go'", current + "/build_test.go"},
		"with a snap":         {"cat \"$TREE/../x.h\"", ""},
		"a temporary file":    {"t=$(mktemp); echo >\"$t\"; cat \"$t\" /etc/passwd /dev/null", ""},
	} {
		f := newFixture(t, "", nil)
		f.write("build.sh", "set -e\n"+c.script+"\n"+script)
		f.Env.Programs = append(f.Env.Programs, tools)
		f.Env.Variables = map[string]string{
			"TREE": filepath.Join(other, "tree"), "OUT": filepath.Join(other, "out"), "CROSS": "own-",
		}
		f.State.Template.Env = map[string]string{"TREE": "$TREE", "OUT": "$OUT", "NONE": "$NONE?"}
		f.State.Template.Outside, f.State.Template.Trees = []string{"$OUT/x.h", "$NONE/x.h"}, []string{"$TREE"}
		f.State.Template.Reads = []string{"$TREE/../sdk/v*", "$NONE", "~/none*", "$CROSS"}
		f.State.Template.Tools = []templatefile.Tool{{Name: "own-tool"}}
		isSnap := name == "with a snap"
		if isSnap {
			f.State.Template.Tools[0].Name = "of-snap"
		}
		_, err := f.build()
		want := "\n" + c.outside + " is outside of the project, and template t does not declare it"
		testkit.WantErrorIf(t, c.outside != "", err, failure.Config, want, "in trees")
		if strings.Contains(f.log.String(), "beside its inputs is not noticed") != isSnap {
			t.Errorf("%s: %s", name, &f.log)
		}
	}

	// Of the folders with what is installed by hand, only the template can open one.
	f := newFixture(t, "", nil)
	f.Env.Variables = map[string]string{"BY_HAND": "/usr", "CROSS": "/usr/bin/own-"}
	f.State.Template.Reads, f.State.Template.Build = []string{"$BY_HAND", "$CROSS"}, []string{"make"}
	for _, cc := range []string{"", "gcc", "/usr/bin/gcc", "/usr/local/bin/gcc"} {
		for _, place := range f.Env.Reads(t.Context(), cc, nil) {
			if strings.HasPrefix("/usr/local/include/", strings.TrimSuffix(place, "/")+"/") || !filepath.IsAbs(place) {
				t.Errorf("compiler %q: %q can be read", cc, place)
			}
		}
	}
	f.State.Template.Reads, f.State.Template.Trees = []string{"/usr/local"}, []string{"$BY_HAND"}
	places := f.Env.Reads(t.Context(), "", nil)
	for _, place := range []string{"/usr", "/usr/local"} {
		if !slices.Contains(places, place) {
			t.Errorf("%s, which the template declares, is not in %q", place, places)
		}
	}
}

// TestFailures: an error of a compiler or linker ends the build and keeps the folder. After another one, the command
// runs once more, from nothing: only if it succeeds, the folder is emptied.
func TestFailures(t *testing.T) {
	const fails = `echo try >>$TRIES
case $(cat model/codegen/lib0.c) in
	wrong) echo 'model/codegen/lib0.c:1:1: error: no semicolon' >&2; exit 1;;
	lost) echo 'cannot run ninja' >&2; exit 1;;
	link) echo 'ld: cannot find -lfoo' >&2; exit 1;;
	full) printf 'ld: region \140flash\047 overflowed by 4 bytes\n' >&2; exit 1;;
	disk) echo 'model/codegen/lib0.c:1:1: fatal error: error writing to /tmp/x.s: No space left on device' >&2; exit 1;;
	once) [ ! -e build/runs ] || { echo 'cannot run ninja' >&2; exit 1; };;
esac
`
	for _, c := range []struct {
		text, want string
		class      failure.Class
		tries      int
		kept       bool
	}{
		{"wrong", "model/codegen/lib0.c:1:1: error: no semicolon", failure.Compile, 1, true},
		{"full", "overflowed by 4 bytes", failure.DoesNotFit, 1, true},
		{"link", "cannot find -lfoo", failure.Link, 1, true},
		{"lost", "cannot run ninja", "", 2, true},
		{"disk", "No space left on device", failure.Host, 1, false},
	} {
		t.Run(c.text, func(t *testing.T) {
			tries := filepath.Join(t.TempDir(), "tries")
			f := newFixture(t, strings.ReplaceAll(fails, "$TRIES", tries), map[string]string{lib0: "right"})
			explained := 0
			f.Explain = func(err error, folder string) error {
				if _, failed := os.Stat(filepath.Join(folder, "build.sh")); failed == nil {
					explained++
				}
				return err
			}
			f.expect(1, "build.sh", lib0)
			must(t, os.Remove(tries))
			f.write(lib0, c.text)
			_, err := f.build()
			wantError(t, err, c.class, c.want)
			testkit.As[*buildenv.ToolError](t, err)
			if text, _ := os.ReadFile(tries); strings.Count(string(text), "try") != c.tries || explained != 1 {
				t.Errorf("%d tries, %d explanations", strings.Count(string(text), "try"), explained)
			}
			if strings.Contains(f.log.String(), "build from nothing, in another folder") != (c.tries > 1) {
				t.Errorf("%s", &f.log)
			}
			f.write(lib0, "right")
			if c.kept {
				f.expect(2, lib0)
			} else {
				f.expect(1, "build.sh", lib0)
			}
		})
	}
	f := newFixture(t, strings.ReplaceAll(fails, "$TRIES", filepath.Join(t.TempDir(), "tries")),
		map[string]string{lib0: "right"})
	f.expect(1, "build.sh", lib0)
	f.write(lib0, "once")
	f.expect(1, "build.sh", lib0)
	folder, err := f.folder()
	must(t, err)
	if first, err := f.prepare(t.Context(), folder); err != nil || !maps.Equal(first, f.r.inputs) {
		t.Errorf("the first build in the emptied folder had %v, %v", first, err)
	}

	for _, text := range []string{"wrong", "link", "lost"} {
		f = newFixture(t, "", map[string]string{lib0: text})
		f.write("build.sh", script+strings.ReplaceAll(fails, "$TRIES", filepath.Join(t.TempDir(), "tries")))
		if _, err := f.build(); err == nil {
			t.Error("a first build with an error succeeds")
		}
		f.write(lib0, "right")
		f.expect(2, lib0)
	}
}

// TestNotes: an error about a file that the folder lacks, or about a copy, says so, and names the project.
func TestNotes(t *testing.T) {
	denied := filepath.Join(t.TempDir(), "with space", "x.h")
	writeFile(t, denied, "")
	for _, c := range []struct{ name, output, want string }{
		{"git", "fatal: not a git repository", "the command runs in a copy of the inputs, no git work tree"},
		{"git, by the way", "fatal: not a git repository\nsrc/own.c:1:1: error: no", "src/own.c:1:1: error: no"},
		{
			"no input", "$PWD/notes/a.txt: No such file",
			"notes/a.txt is no input of template t, so it is not in the folder in which the command runs",
		},
		{"outside", "$PWD/../x: No such file", "../x is outside of the project"},
		{"outside, relative", "cannot open '../x'", "../x is outside of the project"},
		{"in the model", "model/codegen/lib0.c:1:1: fatal error: ../y: No such file", "!outside of the project"},
		{"from a folder in it", "../src/a.c:1:1: fatal error: b.h: No such file", "!outside of the project"},
		{"gcc", "src/own.c:1:10: fatal error: DENIED: Permission denied", "DENIED is outside"},
		{"clang", "src/own.c:1:10: fatal error: cannot open file 'DENIED': Permission denied", "DENIED is outside"},
		{"make", "make: DENIED: Permission denied", "DENIED is outside"},
		{"make, target", "make: *** No rule to make target 'DENIED', needed by 'x'.  Stop.", "DENIED is outside"},
		{"python", "error: PermissionError: [Errno 13] Permission denied: 'DENIED'", "DENIED is outside"},
		{
			"cmake", "CMake Error at CMakeLists.txt:1 (file):\n" +
				"  file failed to open for reading (Permission denied):\n\n    DENIED", "DENIED is outside",
		},
		{"not there", "$PWD/none: No such file", "!no input"},
		{"no input, relative", "kept.txt: No such file", "kept.txt is no input of template t"},
		{"an input, relative", "src/a.c: No such file", "!no input"},
		{"the archive", "model.tar: No such file", "!no input"},
		{"another message", "kept.txt: odd", "!no input"},
		{"generated", templatefile.ConfigFile + ":1:1: error: no", "!is a copy"},
		{
			"a copy", "src/a.c:1:1: error: no",
			"src/a.c is a copy: change it where it comes from (template t, a library, or beside the board file), and " +
				"generate again",
		},
		{"an own file", "src/own.c:1:1: error: no", "!is a copy"},
		{"a copy of the model", "model/codegen/lib0.c:1:1: error: no", "!is a copy"},
		{"the project", "$PWD/src/own.c:1:1: error: no", "PROJECT/src/own.c:1:1: error: no"},
		{"a folder of inputs", "$PWD/src: Is a directory", "!no input"},
		{"a result", "$PWD/build/x: No such file", "!no input"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if strings.Contains(c.output, "DENIED") && !command.Confines() {
				t.Skip("this system cannot limit what a command reads")
			}
			output := strings.ReplaceAll(c.output, "DENIED", denied)
			var err error
			failing := "echo \"" + output + "\" >&2\necho 'make: *** [Makefile:1: x] Error 1' >&2; exit 1\n"
			f := newFixture(t, failing, map[string]string{
				"src/a.c": "a", "src/own.c": "o", lib0: "0", "notes/a.txt": "n", "kept.txt": "k", ".hidden": "h",
				templatefile.ConfigFile: "c", templatefile.StateFile: "s", templatefile.ModelTar: "m",
				"build/old": "b", "../x": "x",
			})
			f.State.Template.Inputs = []string{"build.sh", "src", "model", "crt_config"}
			names := []string{"src/a.c", "src/own.c", lib0, "kept.txt", templatefile.ConfigFile, templatefile.ModelTar}
			f.State.Files, err = f.Tree.Digests(names)
			must(t, err)
			f.State.Files["src/own.c"] = "another"
			_, err = f.build()
			if err == nil {
				t.Fatal("it was built")
			}
			next := failure.Next(err)
			text := strings.ReplaceAll(err.Error(), f.Tree.Dir, "PROJECT")
			text = strings.ReplaceAll(text, denied, "DENIED")
			unwanted, isUnwanted := strings.CutPrefix(c.want, "!")
			failed := testkit.As[*buildenv.ToolError](t, err)
			if strings.Contains(string(failed.Tail), "/kept/") {
				t.Errorf("the end of the output: %s", failed.Tail)
			}
			if isUnwanted && strings.Contains(text, unwanted) || !isUnwanted && !strings.Contains(text+next, c.want) ||
				strings.Contains(text, "/kept/") ||
				!strings.Contains(next, f.Tree.Dir) && !strings.Contains(next, "of template t") && c.name != "git" ||
				failed.Class == failure.Config && strings.HasPrefix(c.name, "git") {
				t.Errorf("%v; %s", text, next)
			}
		})
	}
}

// TestChanges: an input that changes during the build is an error, and so is one that a command reads without noticing
// its change, if the build is compared with one from nothing.
func TestChanges(t *testing.T) {
	f := newFixture(t, "", map[string]string{"src/a.c": "a"})
	changing := "echo more >>" + f.at("src/a.c") + "\n"
	f.write("build.sh", changing+script)
	f.fails(failure.Config, "src/a.c changed during the build")

	ran := filepath.Join(t.TempDir(), "ran")
	f = newFixture(t, "touch "+ran+"\n", map[string]string{"src/a.c": "a"})
	must(t, f.ReadInputs(t.Context()))
	f.write("src/a.c", "b")
	_, err := f.Run(t.Context())
	wantError(t, err, "", "src/a.c changed during the build")
	absent(t, ran)

	f = newFixture(t, "", map[string]string{"src/a.c": "a", lib0: "0"})
	const once = "mkdir -p build; [ -e build/out ] || cat " + lib0 + " >build/out; cp build/out build/firmware.elf\n"
	f.write("build.sh", once)
	f.Fresh = true
	_, err = f.build()
	must(t, err)
	f.write(lib0, "1")
	f.fails(failure.Config, "does not notice its change: "+lib0, "configure_reads")
	if _, err := f.build(); err != nil || f.read("build/firmware.elf") != "1" {
		t.Errorf("in the emptied folder: %v", err)
	}
	f.write("build.sh", "mkdir -p build; date +%N$RANDOM >build/firmware.elf; pwd >>build/firmware.elf\n")
	f.fails(failure.Config, "it depends on the folder, the time or the order")

	f.write("build.sh", "mkdir -p build; own-generator >build/firmware.elf\n")
	for n, output := range []string{"one", "one", "two", "two"} {
		f.program("own-generator", "echo "+output) // it has a place, but no part in the key
		results, err := f.build()
		differs := failure.Of(err) == failure.Config && strings.Contains(err.Error(), "is not that of the last build")
		if differs != (n == 2) || err != nil && n != 2 {
			t.Errorf("build %d: %v", n, err)
		}
		if err == nil {
			_, err = f.Finish(results, [16]byte{1}, image.Size{})
			must(t, err)
		}
	}

	f.write("build.sh", "case $PWD in */kept/*) ;; *) echo \"$PWD/build.sh: cannot run\" >&2; exit 1;; esac\n"+script)
	f.fails("", f.at("build.sh")+": cannot run")
	f.Fresh = false
	f.write("build.sh", script)
	f.Check = func(string) error { return errors.New("refused") }
	f.fails("", "refused")
}

// TestResults: results go to the project and are recorded; those of the last build go before the next one.
func TestResults(t *testing.T) {
	f := newFixture(t, "mkdir -p build/sub; echo r >build/sub/x.a; echo r >build/sub/x.o; echo bin >build/f.bin\n"+
		`printf '[{"file": "%s/src/a.c", "directory": "%s/build"}]' "$PWD" "$PWD" >build/compile_commands.json`+"\n",
		map[string]string{"src/a.c": "a"})
	f.State.Template.Results = []string{"build/sub/*.a", "build/su*", "build/compile_commands.json"}
	f.State.Template.Forms = templatefile.Forms{Bin: "build/f.bin", Hex: "build/f.hex"}
	f.State.Board.Memory = nil
	results, err := f.build()
	want := []string{"build/compile_commands.json", "build/firmware.elf", "build/firmware.map", "build/sub/x.a"}
	if err != nil || !slices.Equal(results, want) {
		t.Fatalf("%q, %v", results, err)
	}
	if text := f.read("build/compile_commands.json"); !strings.Contains(text, `"`+f.at("src/a.c")+`"`) || !strings.Contains(text, `/kept/`) {
		t.Errorf("%s", text)
	}
	id := [16]byte{1, 2}
	record, err := f.Finish(results, id, image.Size{Text: 3})
	must(t, err)
	last := Last(f.Tree, f.State)
	if !reflect.DeepEqual(record, last) || last.BuildID != hex.EncodeToString(id[:]) || len(last.Others) != 3 ||
		last.Size.Text != 3 || len(last.Tools) != 1 || last.Tools[0].Name != "own-cc" || last.Inputs["src/a.c"] == "" {
		t.Fatalf("%+v", last)
	}
	must(t, f.ReadInputs(t.Context()))
	if !f.IsUpToDate(t.Context(), last) || f.IsUpToDate(t.Context(), nil) {
		t.Error("without a change, it is not up to date")
	}
	for _, name := range []string{"build/firmware.elf", "build/firmware.map"} {
		text := f.read(name)
		f.write(name, "mine")
		if again := Last(f.Tree, f.State); again != nil {
			t.Errorf("a changed result: %+v", again)
		}
		f.write(name, text)
	}
	f.write("build/firmware.map", "mine")
	f.write("build/notes", "mine")
	must(t, RemoveResults(f.Tree, "build", "build/firmware.elf"))
	left, err := filepath.Glob(f.at("build/*"))
	if err != nil || !slices.Equal(left, []string{f.at("build/firmware.map"), f.at("build/notes")}) {
		t.Errorf("%q stays, %v", left, err)
	}
	must(t, RemoveResults(f.Tree, "build", "build/firmware.elf"))
	sum, err := f.Tree.Digest("src/a.c")
	must(t, err)
	for _, name := range []string{"src/a.c", "build/../src/a.c"} { // of a record that no build wrote
		f.write("build/build.json", `{"format": 1, "build_id": "`+hex.EncodeToString(id[:])+`", "others": {"`+name+
			`": "`+sum+`"}}`)
		must(t, RemoveResults(f.Tree, "build", "build/firmware.elf"))
		f.read("src/a.c")
	}
	f.write("build/build.json", `{"format": 1, "build_id": "`+hex.EncodeToString(id[:])+`"}`)
	must(t, RemoveResults(f.Tree, "build", "build/firmware.elf"))
}

// TestUpToDate: whatever a build depends on makes the last one out of date.
func TestUpToDate(t *testing.T) {
	outside, tree := t.TempDir(), t.TempDir()
	inTree := filepath.Join(tree, "x")
	writeFile(t, inTree, "1")
	f := newFixture(t, "", map[string]string{"src/a.c": "a"})
	f.Env.Variables = map[string]string{"KIND": "gnu", "OUTSIDE": outside, "TREE": tree}
	writeFile(t, filepath.Join(outside, "a.h"), "1")
	f.State.Template.Env = map[string]string{"KIND": "$KIND", "WORD": "literal"}
	f.State.Template.Outside, f.State.Template.Trees = []string{"$OUTSIDE/a.h"}, []string{"$TREE"}
	f.State.Template.Prepare = [][]string{{"true"}}
	f.State.Template.Tools = []templatefile.Tool{{Name: "own-tool"}}
	f.State.Board.PostLink.Words = []string{"own-sign", "{out.bin}"}
	f.program("own-tool", "echo tool 1")
	f.program("own-sign", "echo sign 1")
	upToDate := func() bool {
		must(t, f.ReadInputs(t.Context()))
		return f.IsUpToDate(t.Context(), Last(f.Tree, f.State))
	}
	f.write(f.State.Template.ELF, "image")
	for _, c := range []struct {
		name   string
		change func()
	}{
		{"", func() {}},
		{"a source", func() { f.write("src/a.c", "b") }},
		{"the compiler", func() { f.program("own-cc", "echo cc 2") }},
		{"a tool", func() { f.program("own-tool", "echo tool 2") }},
		{"the signer", func() { f.program("own-sign", "echo sign 2") }},
		{"the signer's words", func() { f.State.Board.PostLink.Words[1] = "{out.hex}" }},
		{"the command", func() { f.State.Template.Build = []string{"sh", "build.sh", "x"} }},
		{"a command before it", func() { f.State.Template.Prepare[0] = []string{"true", "x"} }},
		{"a variable", func() { f.State.Template.Env["WORD"] = "another" }},
		{"the user's variable", func() { f.Env.Variables["KIND"] = "clang" }},
		{"what is outside", func() { writeFile(t, filepath.Join(outside, "a.h"), "2") }},
		{"a source tree", func() { writeFile(t, inTree, "two") }},
	} {
		if c.change(); upToDate() {
			t.Errorf("%s: without a build, it is up to date", c.name)
		}
		_, err := f.Finish([]string{f.State.Template.ELF}, [16]byte{1}, image.Size{})
		must(t, err)
		if !upToDate() {
			t.Errorf("%s: after a build, it is not up to date", c.name)
		}
	}
	for name, spoil := range map[string]func(){
		"own-sign": func() { must(t, os.Remove(filepath.Join(f.Env.Programs[0], "own-sign"))) },
		"own-cc":   func() { f.program("own-cc", "exit 1") },
	} {
		spoil()
		wantError(t, f.ReadInputs(t.Context()), "", name)
		f.program(name, "echo mended")
	}
}

// TestJobs: a build takes as many free tokens as it has sources to compile, or all if the command finds sources itself,
// and returns them.
func TestJobs(t *testing.T) {
	f := newFixture(t, "mkdir -p build; echo $1 >build/jobs\n", map[string]string{lib0: "0", lib1: "1"})
	f.Jobs, f.State.Template.Build = 4, []string{"sh", "build.sh", "{jobs}"}
	f.State.Template.Results = []string{"build/jobs"}
	expect := func(want string) {
		t.Helper()
		if _, err := f.build(); err != nil || strings.TrimSpace(f.read("build/jobs")) != want {
			t.Errorf("%s jobs, want %s, %v", f.read("build/jobs"), want, err)
		}
	}
	for range 2 {
		expect("4")
	}
	f.State.Template.Compile = []templatefile.CompileStep{{}}
	f.State.Template.Inputs = []string{"build.sh", "model"}
	expect("2")
	f.write(lib0, "1")
	expect("1")
}

// TestForms: the image's other forms are results of a board with memory; of a command that makes them on request, those
// that were asked for.
func TestForms(t *testing.T) {
	f := newFixture(t, "mkdir -p build; touch build/f.bin build/f.hex\n", nil)
	f.State.Template.Forms = templatefile.Forms{Bin: "build/f.bin", Hex: "build/f.hex"}
	f.State.Board.Memory = []boards.Region{{Name: "flash"}}
	both := []string{"build/f.bin", "build/f.hex", "build/firmware.elf", "build/firmware.map"}
	if results, err := f.build(); err != nil || !slices.Equal(results, both) {
		t.Errorf("%q, %v", results, err)
	}
	f.State.Template.Build = []string{"sh", "build.sh", "{forms}"}
	results, err := f.build()
	if err != nil || !slices.Equal(results, both[2:]) {
		t.Errorf("not asked for: %q, %v", results, err)
	}
	record, err := f.Finish(results, [16]byte{1}, image.Size{})
	must(t, err)
	if !f.IsUpToDate(t.Context(), record) {
		t.Error("it is not up to date")
	}
	f.Forms = true
	if f.IsUpToDate(t.Context(), record) {
		t.Error("forms that were not made are not noticed")
	}
	if results, err := f.build(); err != nil || !slices.Equal(results, both) {
		t.Errorf("asked for: %q, %v", results, err)
	}
}

// TestPrepare: commands before the build command run first, in no work tree, whatever is around; one
// that fails ends the build.
func TestPrepare(t *testing.T) {
	f := newFixture(t, "", nil)
	const first = "mkdir -p build; test $GIT_CEILING_DIRECTORIES = $(dirname $PWD) && echo first >build/runs"
	f.State.Template.Prepare = [][]string{{"sh", "-c", first}}
	if _, err := f.build(); err != nil || f.read("build/firmware.map") != "first\nrun\n" {
		t.Error(err)
	}
	f.State.Template.Prepare = [][]string{{"sh", "-c", "echo broken >&2; exit 1"}, {"touch", f.at("second")}}
	f.fails("", "broken")
	absent(t, f.at("second"))
	f.State.Template.Prepare = [][]string{{"sh", "-c", "true"}, {"sh", "-c", "exit 1"}}
	f.fails("", "-c true && ")
	f.State.Template.Prepare = [][]string{{"no-such-program"}}
	f.fails(failure.ToolMissing)
}

// TestProgress: sources that a command's lines name are progress, as are ninja's steps; a warning in a source of the
// user's own, and one of a configure step, is shown once.
func TestProgress(t *testing.T) {
	f := newFixture(t, "echo cc -c src/a.c; echo cc -c $PWD/src/own.c; echo cc src/a.c; echo '[3/9] Building x.o'\n"+
		"echo \"$PWD/src/own.c:1:1: warning: odd\" >&2; echo 'model/codegen/lib0.c:1:1: warning: odd' >&2\n"+
		"echo \"$PWD/src/a.c:1:1: warning: odd\"; echo \"$PWD/other.c:1:1: warning: odd\"\n"+
		"for i in 1 2; do echo \"CMake Warning at $PWD/a.cmake:1 (message):\" >&2; echo '  odd again' >&2; done\n",
		map[string]string{"src/a.c": "a", "src/own.c": "o", lib0: "0"})
	f.State.Template.Compile = []templatefile.CompileStep{{}}
	var events []string
	f.Progress = func(detail string, done, total int) {
		events = append(events, detail+" "+string(rune('0'+done))+"/"+string(rune('0'+total)))
	}
	_, err := f.build()
	must(t, err)
	if want := []string{"src/a.c 1/3", "src/own.c 2/3", "x.o 3/9"}; !slices.Equal(events, want) {
		t.Errorf("%q", events)
	}
	if text := f.log.String(); strings.Count(text, "warning: odd") != 2 ||
		strings.Count(text, "CMake Warning at a.cmake:1 (message): odd again") != 1 ||
		!strings.Contains(text, " src/own.c:1:1") || !strings.Contains(text, " src/a.c:1:1") {
		t.Errorf("%s", text)
	}
}

// TestEndedBuild: a build whose context has ended reads and runs nothing, and one that is cancelled leaves neither
// results nor a folder that the next one uses.
func TestEndedBuild(t *testing.T) {
	begun := filepath.Join(t.TempDir(), "begun")
	f := newFixture(t, "[ -e "+begun+" ] || { mkdir -p build; echo run >>build/runs; touch "+begun+"; sleep 60; }\n", nil)
	ended := testkit.Ended(t)
	if err := f.ReadInputs(ended); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	must(t, f.ReadInputs(t.Context()))
	short, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	if _, err := f.Run(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	absent(t, f.at("build/firmware.elf"))
	f.expect(1, "build.sh")
	give, err := f.Env.Tools.TakeJob(t.Context(), 1)
	must(t, err)
	defer give()
	if _, err := f.Run(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("while it waits for its turn: %v", err)
	}
}

// TestWithoutCache: without a usable cache, a build runs in a temporary folder, of which nothing stays.
func TestWithoutCache(t *testing.T) {
	f := newFixture(t, "", nil)
	file := filepath.Join(t.TempDir(), "file")
	writeFile(t, file, "")
	f.Cache = cache.New(filepath.Join(file, "cache"), cache.Options{})
	t.Setenv("TMPDIR", t.TempDir())
	f.expect(1, "build.sh")
	f.expect(1, "build.sh")
	if left, err := os.ReadDir(os.Getenv("TMPDIR")); err != nil || len(left) > 0 {
		t.Errorf("%v, %v", left, err)
	}
	if !strings.Contains(f.log.String(), "no build folder of the cache can be used") {
		t.Errorf("%s", &f.log)
	}
	t.Setenv("TMPDIR", file)
	f.fails("", file)
}

// TestUnreturned: a folder that cannot be returned to the cache is emptied before the next build.
func TestUnreturned(t *testing.T) {
	f := newFixture(t, "mkdir -p .boardsmith.folder\n", nil)
	f.expect(1, "build.sh")
	f.expect(1, "build.sh")
	if strings.Count(f.log.String(), "the build folder was returned to the cache with an error") != 2 {
		t.Errorf("%s", &f.log)
	}
}

// TestLibraryMissing: a command's error about the C library of a board that has none names what to install.
func TestLibraryMissing(t *testing.T) {
	f := newFixture(t, "echo 'stdio.h: No such file' >&2; exit 1\n", nil)
	other := func(of string) {
		t.Helper()
		if _, err := f.build(); err == nil || errors.As(err, new(*failure.MissingToolError)) {
			t.Errorf("of %s: %v", of, err)
		}
	}
	other("a process")
	f.State.Board.Memory, f.State.Board.Toolchain.Install = []boards.Region{{Name: "ram"}}, "get it"
	_, err := f.build()
	if m := missingOf(t, err); m.Install != "get it" || m.Tool != "the C library of own-cc" {
		t.Error(err)
	}
	f.write("build.sh", "echo lost >&2; exit 1\n")
	other("another error")
}

// TestToolElsewhere: a tool of another version, or at another path, chooses another folder: build commands write it
// down there.
func TestToolElsewhere(t *testing.T) {
	f := newFixture(t, "", nil)
	f.State.Template.Tools = []templatefile.Tool{{Name: "own-tool"}}
	f.program("own-tool", "echo tool 1")
	f.expect(1, "build.sh")
	f.expect(2)
	f.program("own-tool", "echo tool 2")
	f.expect(1, "build.sh")
	f.Env.Programs = []string{t.TempDir(), f.Env.Programs[0]}
	f.program("own-tool", "echo tool 2")
	f.expect(1, "build.sh")
}

// TestByHand: the build command runs in the project's folder.
func TestByHand(t *testing.T) {
	f := newFixture(t, "", nil)
	f.State.Template.Prepare = [][]string{{"sh", "-c", "echo first >prepared"}}
	words, err := f.ByHand(t.Context())
	if err != nil || !slices.Equal(words, []string{"sh", "build.sh"}) || f.read("build/runs") != "run\n" ||
		f.read("prepared") != "first\n" {
		t.Errorf("%q, %v", words, err)
	}
	f.write("build.sh", "exit 3\n")
	_, err = f.ByHand(t.Context())
	wantError(t, err, "", "exit status 3")
	f.State.Template.Env = map[string]string{"X": "$BOARDSMITH_UNSET"}
	_, err = f.ByHand(t.Context())
	wantError(t, err, failure.Config)
	f.State.Template.Env, f.State.Template.Build = nil, []string{"no-such-builder"}
	_, err = f.ByHand(t.Context())
	if missingOf(t, err).Tool != "no-such-builder" {
		t.Error(err)
	}
	f.State.Board.Toolchain.CC, f.State.Board.Toolchain.Install = "no-such-cc", "get it"
	_, err = f.ByHand(t.Context())
	for _, err := range []error{err, f.ReadInputs(t.Context())} {
		if m := missingOf(t, err); m.Tool != "no-such-cc" || m.Install != "get it" {
			t.Error(err)
		}
	}
}

// TestFoundCompiler: a board whose compiler only the build finds is completed by the build's file. The folder is
// emptied if the compiler there is another one.
func TestFoundCompiler(t *testing.T) {
	f := newFixture(t, "mkdir -p build; cp board.txt build/board.json\n", map[string]string{
		"board.txt": `{"toolchain": {"cc": "own-cc"}}`,
	})
	host, err := boards.Find("host", nil)
	must(t, err)
	f.State.Board = projectfile.Board{Name: "host", Board: *host}
	f.State.Board.Toolchain.CC, f.State.Template.Board = "", "build/board.json"
	results, err := f.build()
	if err != nil || f.Board == nil || f.Board.Toolchain.CC != "own-cc" || f.read("build/firmware.map") != "run\n" ||
		f.Board.Files != nil || f.Board.Origin != nil {
		t.Fatalf("%+v, %v", f.Board, err)
	}
	record, err := f.Finish(results, [16]byte{1}, image.Size{})
	must(t, err)
	if len(record.Detected) != 1 || record.Detected[0].Name != "own-cc" || !slices.Equal(record.Tools, record.Detected) {
		t.Errorf("%+v", record)
	}
	must(t, f.ReadInputs(t.Context()))
	if f.State.Built = nil; f.IsUpToDate(t.Context(), record) {
		t.Error("without the board that the build completed, it is up to date")
	}
	f.State.Built = f.Board
	if !f.IsUpToDate(t.Context(), record) {
		t.Error("it is not up to date")
	}
	f.expect(2)
	f.program("own-cc", "echo another")
	must(t, f.ReadInputs(t.Context()))
	if f.IsUpToDate(t.Context(), record) {
		t.Error("another compiler is not noticed")
	}
	f.expect(1, "board.txt", "build.sh")
	must(t, os.Remove(filepath.Join(f.Env.Programs[0], "own-cc")))
	f.fails(failure.ToolMissing)
	for _, text := range []string{"{", `{"nonsense": 1}`} {
		f.write("board.txt", text)
		f.fails(failure.Config, "what the build found out about the board: ")
	}
	f.program("own-cc", "exit 1")
	f.write("board.txt", `{"toolchain": {"cc": "own-cc"}}`)
	f.fails("", "own-cc")
	f.Board = nil
	f.write("build.sh", "mkdir -p build; cp board.txt build/board.json; exit 1\n")
	if _, err := f.build(); err == nil || f.Board == nil {
		t.Errorf("the board of a build that fails: %v", err)
	}
	f.write("build.sh", "mkdir -p build/board.json; touch build/firmware.elf\n")
	f.fails(failure.Config, "read ")
	f.write("build.sh", "mkdir -p build; touch build/firmware.elf\n")
	f.fails(failure.Config, "made no build/board.json")
}
