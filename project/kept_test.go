//go:build !windows

package project

import (
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
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/boardsmith/boardsmith/cache"
	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/internal/testkit/drawn"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
)

// keptTemplate builds in kept folders. Its Makefile notes what it compiles.
const keptTemplate = `{"doc": "kept", "build": ["make", "-j{jobs}", "build/deep/a.elf"],
	"inputs": ["Makefile", "src", "crt/include", "crt_config", "model/codegen"],
	"results": ["build/compiled*"], 
	"generate": ["crt_config/crt_config.h"], "tools": [{"name": "make", "install": "apt-get install make"}],
	"options": [], "elf": "build/deep/a.elf", "map": "build/deep/a.map"}`

const keptMakefile = `SRC := $(sort $(wildcard src/*.c model/codegen/host/src/*.c))
OBJ := $(SRC:%.c=build/%.o)
FLAGS := -g -w -ffile-prefix-map='$(CURDIR)'=. -Icrt_config -Icrt/include -Imodel/codegen/host/include
build/deep/a.elf: $(OBJ)
	mkdir -p $(@D)
	gcc -Wl,--build-id=md5 -Wl,-Map=build/deep/a.map -o $@ $(OBJ)
build/%.o: %.c Makefile
	mkdir -p $(@D)
	echo $< >>build/compiled
	gcc $(FLAGS) -MMD -MP -c -o $@ '$(CURDIR)/$<'
-include $(wildcard $(OBJ:.o=.d))
.DELETE_ON_ERROR:
`

const keptMain = "int common(void);\nint main(void) { return common(); }\n"

// A keptDesk makes projects of that template, with a cache of its own.
type keptDesk struct {
	t    *testing.T
	home string
	env  env
}

func newKept(t *testing.T) *keptDesk {
	t.Helper()
	for _, tool := range []string{"make", "gcc"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip(tool + " is not installed")
		}
	}
	d := &keptDesk{t, t.TempDir(), testEnv()}
	d.env.Path, d.env.Cache = []string{d.home}, newCache(t)
	for name, text := range map[string]string{
		"boards/mine.json": `{"doc": "mine", "inherits": "cpu/native", "templates": ["keeps"],
			"link": {"kind": "process"}, "flash": {"programmer": "none"}}`,
		"templates/keeps/template.json": keptTemplate, "templates/keeps/Makefile": keptMakefile,
		"templates/keeps/src/main.c": keptMain, "templates/keeps/src/common.c": "int common(void) { return 0; }\n",
	} {
		writeIn(t, d.home, name, text)
	}
	return d
}

// project is one whose operator ends in a line.
func (d *keptDesk) project(line string) *Project {
	d.t.Helper()
	model := mlftest.Operator(d.t, mlftest.TinyOperator+line+"\n")
	return generated(d.t, Spec{Board: "mine", Model: model}, d.env)
}

// alone returns the image of such a project that is built from nothing.
func (d *keptDesk) alone(line string) *image.Image {
	d.t.Helper()
	other := *d
	other.env.Cache = cache.New(d.t.TempDir(), cache.Options{})
	return built(d.t, other.project(line))
}

// compiled lists what was compiled in a project's kept folder, sorted, from the n-th on.
func compiled(t *testing.T, p *Project, n int) []string {
	t.Helper()
	data := readFile(t, filepath.Join(p.Dir(), "build", "compiled"))
	names := strings.Fields(string(data))[n:]
	slices.Sort(names)
	return names
}

func (d *keptDesk) folders() int {
	d.t.Helper()
	list, err := d.env.Cache.List()
	must(d.t, err)
	return len(slices.DeleteFunc(list, func(e cache.EntryInfo) bool { return !e.Folder }))
}

const keptOperator = "model/codegen/host/src/lib1.c"

// TestKept: another project's build compiles only what differs, and gives the bytes of a build from nothing.
func TestKept(t *testing.T) {
	t.Parallel()
	d := newKept(t)
	first := d.project("// one")
	built(t, first)
	all := compiled(t, first, 0)
	if len(all) != 5 {
		t.Fatalf("compiled %v", all)
	}
	if again := built(t, first); !again.UpToDate {
		t.Error("built again without a change")
	}
	done := len(all)
	for round, line := range []string{"int two;", "// one", "int three;"} {
		p := d.project(line)
		got := built(t, p)
		if now := compiled(t, p, done); !slices.Equal(now, []string{keptOperator}) {
			t.Errorf("round %d compiles %v", round, now)
		}
		done++
		if want := d.alone(line); got.Digest != want.Digest || got.BuildID != want.BuildID || got.Size != want.Size {
			t.Errorf("%q: image %s, want %s", line, got.Digest, want.Digest)
		}
	}
	if n := d.folders(); n != 1 {
		t.Errorf("%d folders", n)
	}
	names := slices.Sorted(func(yield func(string) bool) {
		for name := range contents(t, filepath.Join(first.Dir(), "build")) {
			yield(name)
		}
	})
	if want := []string{"build.json", "compiled", "deep/a.elf", "deep/a.map"}; !slices.Equal(names, want) {
		t.Errorf("the project's build folder has %v, want %v", names, want)
	}
	out, err := exec.Command("make", "-C", first.Dir(), "build/deep/a.elf").CombinedOutput()
	if err != nil {
		t.Errorf("by hand: %v\n%s", err, out)
	}
}

// TestKeptInputs: a changed source is compiled alone; the model, if a header of it comes or goes. With another file
// that comes, everything is compiled, in a folder of its own; in the former one nothing is compiled after it went.
func TestKeptInputs(t *testing.T) {
	t.Parallel()
	d := newKept(t)
	p := d.project("")
	built(t, p)
	done := len(compiled(t, p, 0))
	step := func(what string, want ...string) {
		t.Helper()
		i := built(t, p)
		if now := compiled(t, p, done); !slices.Equal(now, want) {
			t.Errorf("%s compiles %v, want %v", what, now, want)
		}
		done += len(want)
		if i.UpToDate {
			t.Errorf("%s: up to date", what)
		}
	}
	all := compiled(t, p, 0)
	comes := func(name, text string, and ...string) {
		t.Helper()
		was := done
		writeIn(t, p.Dir(), name, text)
		done = 0
		step(name+", which comes,", append(all, and...)...)
		must(t, os.Remove(filepath.Join(p.Dir(), filepath.FromSlash(name))))
		done = was
		step(name + ", which went,")
	}
	comes("src/zextra.c", "int extra;\n", "src/zextra.c")
	data, err := os.ReadFile(filepath.Join(p.Dir(), "build", "deep", "a.elf"))
	if err != nil || strings.Contains(string(data), "extra") {
		t.Errorf("the removed source is in the image (%v)", err)
	}
	writeIn(t, p.Dir(), "src/common.c", "int common(void) { return 3; }\n")
	step("a changed source", "src/common.c")
	const header = "model/codegen/host/include/unnamed.h"
	writeIn(t, p.Dir(), header, "int unnamed;\n")
	ofModel := []string{"model/codegen/host/src/boardsmith_signatures.c", "model/codegen/host/src/lib0.c", keptOperator}
	step("a new header of the model", ofModel...)
	must(t, os.Remove(filepath.Join(p.Dir(), filepath.FromSlash(header))))
	step("a removed header of the model", ofModel...)
	comes("crt_config/string.h", "#include_next <string.h>\n")
	if n := d.folders(); n != 3 {
		t.Errorf("%d folders", n)
	}
}

// TestKeptLinks: what Emacs and Vim write while a source is edited is no input. What a kept folder could not have is an
// error.
func TestKeptLinks(t *testing.T) {
	t.Parallel()
	d := newKept(t)
	writeIn(t, d.home, "templates/keeps/src/main.c", "#include \"v.h\"\nint main(void) { return V; }\n")
	writeIn(t, d.home, "templates/keeps/src/v.h", "#define V 5\n")
	p := d.project("")
	built(t, p)
	src := filepath.Join(p.Dir(), "src")
	for _, name := range []string{".main.c.swp", "main.c~", "#main.c#"} {
		writeIn(t, src, name, "int other;\n")
	}
	must(t, os.Symlink("user@host.1", filepath.Join(src, ".#main.c")))
	if !built(t, p).UpToDate {
		t.Error("it is built again for files of an editor")
	}
	for to, want := range map[string]string{
		"nowhere": "a link that leads nowhere", "../crt": "a link to a folder",
		"v.h": "a link out of the project, by an absolute path or in a circle", "../../nowhere": "a link out of the project",
		filepath.Join(src, "main.c"): "a link out of the project, by an absolute path",
	} {
		must(t, os.RemoveAll(filepath.Join(src, "v.h")))
		must(t, os.Symlink(to, filepath.Join(src, "v.h")))
		_, err := p.Build(t.Context())
		if failure.Of(err) != failure.Config || !strings.Contains(err.Error(), "v.h cannot be an input: "+want) {
			t.Errorf("v.h leads to %s: %v, want %q", to, err, want)
		}
	}
	must(t, os.Remove(filepath.Join(src, "v.h")))
	must(t, syscall.Mkfifo(filepath.Join(src, "v.h"), 0o644))
	_, err := p.Build(t.Context())
	wantError(t, err, failure.Config, "v.h cannot be an input")
}

// TestKeptUnseen: a file of the project that is no input, and one beside the project, are named where the build command
// does not find them.
func TestKeptUnseen(t *testing.T) {
	t.Parallel()
	d := newKept(t)
	p := d.project("")
	writeIn(t, p.Dir(), "mine/own.h", "int own;\n")
	writeIn(t, filepath.Dir(p.Dir()), "beside/own.h", "int own;\n")
	for include, want := range map[string]string{
		"mine/own.h":      "\nmine/own.h is no input of template keeps, so it is not in the folder in which the command runs",
		"../beside/own.h": "\n../beside/own.h is outside of the project",
	} {
		writeIn(t, p.Dir(), "Makefile", strings.ReplaceAll(keptMakefile, "-MMD", "-include '$(CURDIR)/"+include+"' -MMD"))
		_, err := p.Build(t.Context())
		wantError(t, err, "", want)
	}
}

// TestKeptAll: without inputs in template.json, a file that a build reads only if it is there is an input, unless the
// template excludes it.
func TestKeptAll(t *testing.T) {
	t.Parallel()
	d := newKept(t)
	inputs := regexp.MustCompile(`"inputs": \[.*\]`)
	writeIn(t, d.home, "templates/keeps/template.json", inputs.ReplaceAllString(keptTemplate, `"inputs": ["!doc"]`))
	writeIn(t, d.home, "templates/keeps/Makefile",
		"-include make/rules.mk doc/rules.mk\n"+keptMakefile+"FLAGS += -DX=$(or $(X),0)\n")
	writeIn(t, d.home, "templates/keeps/src/main.c", "int main(void) { return X; }\n")
	writeIn(t, d.home, "templates/keeps/make/rules.mk", "X = 3\n")
	p := d.project("")
	mustExit(t, p, 3)
	writeIn(t, p.Dir(), "make/rules.mk", "X = 4\n")
	mustExit(t, p, 4)
	writeIn(t, p.Dir(), "doc/rules.mk", "X = 5\n")
	mustExit(t, p, 4)
}

// TestKeptAtOnce: builds at once have folders of their own, and give the same bytes as one after the other.
func TestKeptAtOnce(t *testing.T) {
	drawn.OnlyInFull(t, "TestOneBuilder and TestKept")
	t.Parallel()
	d := newKept(t)
	const n = 4
	// Each build command waits, for 30 seconds at most, until n have begun.
	writeIn(t, d.home, "templates/keeps/Makefile", keptMakefile+fmt.Sprintf(`
build/deep/a.elf: together
together:
	cd '%s' && touch $$$$ && for i in $$(seq 300); do set -- *; test $$# -ge %d && break; sleep 0.1; done
`, t.TempDir(), n))
	shared := d.env.builder()
	var all sync.WaitGroup
	images := make([]*image.Image, n)
	for i := range n {
		operator := mlftest.TinyOperator + fmt.Sprintf("int v%d;\n", i%2)
		model := mlftest.Operator(t, operator)
		dir := filepath.Join(t.TempDir(), "p")
		all.Go(func() {
			// A builder runs one such command at a time: first, each has its own.
			for _, builder := range []*Builder{d.env.builder(), shared, shared} {
				p, err := builder.Generate(t.Context(), dir, Spec{Board: "mine", Model: model})
				if err != nil {
					t.Error(err)
					return
				}
				if images[i], err = p.Build(t.Context()); err != nil {
					t.Error(err)
				}
				must(t, os.RemoveAll(filepath.Join(dir, "build")))
				must(t, p.Close())
			}
		})
	}
	all.Wait()
	for i, got := range images {
		if want := d.alone(fmt.Sprintf("int v%d;", i%2)); got == nil || got.Digest != want.Digest {
			t.Errorf("build %d: %+v, want %s", i, got, want.Digest)
		}
	}
	if got := d.folders(); got != n {
		t.Errorf("%d folders for %d builds at once", got, n)
	}
}

// TestKeptFails: after a failed build the folder is used again if it had been built before; the error's command runs in
// it.
func TestKeptFails(t *testing.T) {
	drawn.OnlyInFull(t, "TestKept and TestKeptKilled")
	t.Parallel()
	d := newKept(t)
	var failed *ToolError
	if _, err := d.project("wrong").Build(t.Context()); !errors.As(err, &failed) {
		t.Fatal(err)
	}
	p := d.project("")
	built(t, p)
	done := len(compiled(t, p, 0))
	if done != 6 {
		t.Errorf("after a first build that failed, %d files were compiled", done)
	}
	bad := d.project("wrong")
	_, err := bad.Build(t.Context())
	if !errors.As(err, &failed) || failed.Class != failure.Compile || !strings.Contains(failed.Message, "lib1.c") {
		t.Fatal(err)
	}
	if !strings.Contains(failed.Message, filepath.Join(bad.Dir(), keptOperator)) {
		t.Errorf("the error is not about the project's file: %s", failed.Message)
	}
	if !strings.HasPrefix(failed.Command, "cd "+bad.Dir()+" && ") {
		t.Errorf("the command is not for the project: %s", failed.Command)
	}
	if _, err := exec.Command("sh", "-c", failed.Command).Output(); err == nil {
		t.Errorf("%s succeeds", failed.Command)
	}
	if i, err := bad.Built(); i != nil || err != nil {
		t.Errorf("a failed build left %+v, %v", i, err)
	}
	good := d.project("int good;")
	if got, want := built(t, good), d.alone("int good;"); got.Digest != want.Digest {
		t.Error("other bytes after a failed build")
	}
	done = len(compiled(t, good, 0))
	for n, line := range []string{
		"wrong too", "int nowhere(void); int calls(void) { return nowhere(); }",
		`__asm__("wrong too");`, "int common(void) { return 1; }",
	} {
		if _, err := d.project(line).Build(t.Context()); err == nil {
			t.Errorf("%s: a wrong operator is built", line)
		}
		last := d.project(fmt.Sprintf("int last%d;", n))
		built(t, last)
		if now := compiled(t, last, done); !slices.Equal(now, []string{keptOperator, keptOperator}) {
			t.Errorf("%s: a wrong operator and another one compile %v", line, now)
		}
		done += 2
	}
	if d.folders() != 1 {
		t.Errorf("%d folders", d.folders())
	}
}

// TestKeptUnlinked: a template that has never been linked compiles only what changed, whatever fails behind the
// compiler.
func TestKeptUnlinked(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ rule, line string }{
		{"", "int nowhere(void); int calls(void) { return nowhere(); }"},
		{"LDLIBS := -lnowhere\n", ""},
		{"build/deep/a.elf: fails\nfails: $(OBJ); @echo 'KeyError: no such key'; false\n", ""},
	} {
		d := newKept(t)
		makefile := strings.ReplaceAll(keptMakefile, "$@ $(OBJ)", "$@ $(OBJ) $(LDLIBS)") + c.rule
		writeIn(t, d.home, "templates/keeps/Makefile", makefile)
		count := func() int {
			t.Helper()
			text := readFile(t, filepath.Join(keptDirs(t, d.env.Cache)[0], "build", "compiled"))
			return strings.Count(string(text), "\n")
		}
		for n := range 3 {
			if _, err := d.project(c.line + fmt.Sprintf(" // %d", n/2)).Build(t.Context()); err == nil {
				t.Fatalf("%s%s is built", c.rule, c.line)
			}
			if got, want := count(), 5+n/2; got != want {
				t.Errorf("%s%s: after %d attempts, %d files were compiled, want %d", c.rule, c.line, n+1, got, want)
			}
		}
	}
}

// TestKeptMovedTool: a kept folder may have the path of a tool that was moved since, which its key does not cover. Then
// the build begins anew in an empty folder, and the next one goes on in it.
func TestKeptMovedTool(t *testing.T) {
	d := newKept(t)
	writeIn(t, d.home, "templates/keeps/Makefile", keptMakefile+`
build/deep/a.elf: build/configured uses
build/configured:
	command -v helper >$@
uses: build/configured ; $$(cat build/configured)
`)
	path := os.Getenv("PATH")
	tool := func() (dir string) {
		dir = t.TempDir()
		writeIn(t, dir, "helper", "#!/bin/sh\n")
		must(t, os.Chmod(filepath.Join(dir, "helper"), 0o755))
		t.Setenv("PATH", dir+":"+path)
		return dir
	}
	was := tool()
	built(t, d.project("int one;"))
	must(t, os.Remove(filepath.Join(was, "helper")))
	tool()
	p := d.project("int two;")
	built(t, p)
	if n := len(compiled(t, p, 0)); n != 5 {
		t.Errorf("%d files are compiled after the tool was moved", n)
	}
	p = d.project("int three;")
	built(t, p)
	if now := compiled(t, p, 5); !slices.Equal(now, []string{keptOperator}) {
		t.Errorf("then %v are compiled", now)
	}
}

// keptObject is one that damages damages.
const keptObject = "$(CURDIR)/build/src/main.o"

// damages lets the first build of an operator with a word damage an object, which is then younger than its source. The
// build makes the file begun, and goes on with a command.
func (d *keptDesk) damages(word, then string) (begun string) {
	d.t.Helper()
	begun = filepath.Join(d.t.TempDir(), "begun")
	writeIn(d.t, d.home, "templates/keeps/Makefile", keptMakefile+`
build/deep/a.elf: $(if $(wildcard `+begun+`),,$(if $(shell grep `+word+" "+keptOperator+`),slow))
slow: $(OBJ) ; echo >`+keptObject+`; touch `+begun+"; "+then+"\n")
	return begun
}

// appears waits for a file, at most a minute.
func appears(name string) bool {
	for start := time.Now(); time.Since(start) < time.Minute; time.Sleep(5 * time.Millisecond) {
		if _, err := os.Stat(name); err == nil {
			return true
		}
	}
	return false
}

// TestKeptCancelled: a build that is cancelled in the middle leaves nothing that the next one uses.
func TestKeptCancelled(t *testing.T) {
	t.Parallel()
	d := newKept(t)
	begun := d.damages("cancelled", "sleep 60")
	built(t, d.project(""))
	p := d.project("int cancelled;")
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer cancel()
		appears(begun)
	}()
	_, err := p.Build(ctx)
	wantError(t, err, failure.Interrupted)
	if got, want := built(t, p), d.alone("int cancelled;"); got.Digest != want.Digest {
		t.Error("other bytes after a cancelled build")
	}
}

// keptChild is the main function of a process that builds in a kept folder and is killed.
func keptChild() int {
	b := &Builder{Host: device.Host{Path: []string{os.Args[1]}, Cache: cache.New(os.Args[2], cache.Options{})}}
	p, err := b.Open(os.Args[3])
	if err == nil {
		_, err = p.Build(context.Background())
	}
	fmt.Println(err)
	return 1
}

// TestKeptKilled kills a build while its tools run. The next one gets a folder that none of them changes.
func TestKeptKilled(t *testing.T) {
	t.Parallel()
	d := newKept(t)
	store, ended := t.TempDir(), filepath.Join(t.TempDir(), "ended")
	d.env.Cache = cache.New(store, cache.Options{})
	// Two seconds after the damage a tool would damage the object again, if it outlived the build.
	begun := d.damages("killed", "trap '' INT TERM; sleep 2; echo >>"+keptObject+"; touch "+ended)
	built(t, d.project(""))
	p := d.project("int killed;")
	must(t, p.Close())
	cmd := childCommand(t, "kept", d.home, store, p.Dir())
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	must(t, cmd.Start())
	if !appears(begun) {
		t.Fatal("the build has not begun")
	}
	must(t, cmd.Process.Kill())
	_ = cmd.Wait()
	again, err := d.env.builder().Open(p.Dir())
	must(t, err)
	defer again.Close()
	if got, want := built(t, again), d.alone("int killed;"); got.Digest != want.Digest {
		t.Error("other bytes after a killed build")
	}
	time.Sleep(2500 * time.Millisecond)
	if _, err := os.Stat(ended); err == nil {
		t.Error("a tool outlived its build, and changed the folder that was lent to another one")
	}
	for _, line := range []string{"int next;", "int last;"} {
		if got, want := built(t, d.project(line)), d.alone(line); got.Digest != want.Digest {
			t.Errorf("%s: other bytes a while after a killed build", line)
		}
	}
}

// TestKeptTools: another version of a tool has a folder of its own, and a folder that is damaged is not used.
func TestKeptTools(t *testing.T) {
	d := newKept(t)
	p := d.project("")
	first := built(t, p)
	bin := t.TempDir()
	writeIn(t, bin, "make", "#!/bin/sh\ncase \"$1\" in --version) echo make of another version;; *) exec "+
		lookPath(t, "make")+" \"$@\";; esac\n")
	must(t, os.Chmod(filepath.Join(bin, "make"), 0o755))
	path := os.Getenv("PATH")
	t.Setenv("PATH", bin+":"+path)
	p.builder = d.env.builder()
	if i := built(t, p); i.UpToDate || len(compiled(t, p, 0)) != 5 || d.folders() != 2 {
		t.Errorf("%s, compiled %v in %d folders", i.ID(), compiled(t, p, 0), d.folders())
	}
	t.Setenv("PATH", path)
	p.builder = d.env.builder()
	objects, err := filepath.Glob(filepath.Join(keptDirs(t, d.env.Cache)[0], "build", "src", "*.o"))
	if err != nil || len(objects) != 2 {
		t.Fatalf("%v, %v", objects, err)
	}
	for _, dir := range keptDirs(t, d.env.Cache) {
		writeFile(t, filepath.Join(dir, "build", "src", "common.o"), "")
	}
	if i := built(t, p); i.Digest != first.Digest || len(compiled(t, p, 0)) != 5 {
		t.Errorf("a damaged folder: compiled %v", compiled(t, p, 0))
	}
}

// TestKeptTimes: an object in a kept folder with another time than its build gave it is not used, because make would
// take it for newer than a changed source.
func TestKeptTimes(t *testing.T) {
	t.Parallel()
	d := newKept(t)
	p := d.project("")
	built(t, p)
	future := time.Now().Add(time.Hour)
	must(t, os.Chtimes(filepath.Join(keptDirs(t, d.env.Cache)[0], "build", "src", "common.o"), future, future))
	writeIn(t, p.Dir(), "src/common.c", "int common(void) { return 7; }\n")
	mustExit(t, p, 7)
}

// TestKeptModelHeader: a file of the firmware that names a header of the model is compiled for each content of that.
func TestKeptModelHeader(t *testing.T) {
	t.Parallel()
	d := newKept(t)
	writeIn(t, d.home, "templates/keeps/src/common.c",
		"#include \"../model/codegen/host/include/tiny_code.h\"\nint common(void) { return TINY_CODE; }\n")
	for want := 1; want < 3; want++ {
		model := mlftest.Tiny(t, map[string]string{
			"codegen/host/include/tiny_code.h": fmt.Sprintf("#define TINY_CODE %d\n", want),
		})
		p := generated(t, Spec{Board: "mine", Model: model}, d.env)
		mustExit(t, p, want)
	}
	if n := d.folders(); n != 1 {
		t.Errorf("%d folders", n)
	}
}

func lookPath(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	must(t, err)
	return path
}

// TestKeptNowhere: without a usable cache a temporary folder is used, and nothing of it stays.
func TestKeptNowhere(t *testing.T) {
	d := newKept(t)
	want := d.alone("")
	file := filepath.Join(t.TempDir(), "file")
	writeFile(t, file, "")
	d.env.Cache = cache.New(filepath.Join(file, "cache"), cache.Options{})
	t.Setenv("TMPDIR", t.TempDir())
	p := d.project("")
	if got := built(t, p); got.Digest != want.Digest {
		t.Error("other bytes")
	}
	if left, err := os.ReadDir(os.Getenv("TMPDIR")); err != nil || len(left) > 0 {
		t.Errorf("temporary files stay: %v, %v", left, err)
	}
}

// TestKeptInputChanges: an input that changes while it is built is an error, and the next build has its new content.
func TestKeptInputChanges(t *testing.T) {
	t.Parallel()
	d := newKept(t)
	p := d.project("")
	built(t, p)
	source := filepath.Join(p.Dir(), "src", "common.c")
	writeIn(t, p.Dir(), "src/main.c", keptMain+"int changing;\n")
	writeIn(t, p.Dir(), "Makefile", keptMakefile+"build/deep/a.elf: changes\nchanges: ; "+
		"echo 'int common(void) { return 7; }' >"+source+"\n")
	_, err := p.Build(t.Context())
	wantError(t, err, failure.Config, "src/common.c changed during the build")
	writeIn(t, p.Dir(), "Makefile", keptMakefile)
	mustExit(t, p, 7)
}

// TestFoundLibraries: other libraries of a compiler that only the build finds are noticed. A compiler that does not
// name them is used all the same.
func TestFoundLibraries(t *testing.T) {
	s := newSystem(t)
	s.write(s.base, "board.json", strings.Replace(systemBoard, `"core_hz"`,
		`"memory": [{"name": "ram", "origin": "0x20000000", "size": "0x00010000", "exec": true}],
"place": {"code": "ram", "data": "ram"}, "core_hz"`, 1))
	s.write(s.home, "mycc", `#!/bin/sh
case "$*" in *-###*) echo " -L$(dirname "$0")" >&2;; *) exec gcc "$@";; esac
`)
	must(t, os.Chmod(filepath.Join(s.home, "mycc"), 0o755))
	s.write(s.base, "cc", filepath.Join(s.home, "mycc"))
	p := s.project()
	for n, text := range []string{"one", "one", "two"} {
		s.write(s.home, "libm.a", text)
		if i := built(t, p); i.UpToDate != (n == 1) || s.runs(p) != 1 {
			t.Errorf("libm.a is %q: up to date: %v, %d runs", text, i.UpToDate, s.runs(p))
		}
	}
	s.write(s.home, "mycc", "#!/bin/sh\ncase \"$*\" in *-###*) exit 1;; *) exec gcc \"$@\";; esac\n")
	built(t, s.project())
}

// TestSmallestTemplate builds with a template that has four fields, and without each of them.
func TestSmallestTemplate(t *testing.T) {
	t.Parallel()
	fields := map[string]any{
		"build": []string{"make", "build/deep/a.elf"},
		"elf":   "build/deep/a.elf", "map": "build/deep/a.map",
		"generate": []string{"crt_config/crt_config.h"},
	}
	for without := range fields {
		t.Run("without "+without, func(t *testing.T) {
			d := newKept(t)
			rest := maps.Clone(fields)
			delete(rest, without)
			writeTemplate(t, d, rest)
			spec := Spec{Board: "mine", Model: mlftest.Tiny(t, nil)}
			b := Builder{Host: device.Host{Path: d.env.Path, Cache: d.env.Cache}}
			p, err := b.Generate(t.Context(), filepath.Join(t.TempDir(), "p"), spec)
			if err == nil {
				_, err = p.Build(t.Context())
				must(t, p.Close())
			}
			if err == nil {
				t.Error("it is not needed")
			}
		})
	}
	d := newKept(t)
	writeTemplate(t, d, fields)
	built(t, d.project(""))
}

func writeTemplate(t *testing.T, d *keptDesk, fields map[string]any) {
	t.Helper()
	data, err := json.Marshal(fields)
	must(t, err)
	writeIn(t, d.home, "templates/keeps/template.json", string(data))
}

// mustExit builds the project for the computer and runs its image, which must exit with want.
func mustExit(t *testing.T, p *Project, want int) {
	t.Helper()
	if got := exitOf(t, p); got != want {
		t.Errorf("it exits with %d, want %d", got, want)
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
	writeFile(t, file, "")
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
	drawn.OnlyInFull(t, "TestKept and TestConfigureReads")
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
		p := generated(t, Spec{Board: "mine", Model: mlftest.Tiny(t, files)}, d.env)
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
	wantError(t, err, failure.Config, "change: "+keptOperator, "configure_reads")
	p.builder.Fresh = false
	mustExit(t, p, lines+3) // the folder was emptied
	p.builder.Fresh = true
	built(t, p)
}

// TestConfigureAnew: a source of the model that comes, goes or gets another name is configured anew, in one folder.
func TestConfigureAnew(t *testing.T) {
	drawn.OnlyInFull(t, "TestConfigureReads and TestKept")
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
		"git describe --always": "the command runs in a copy of the inputs, no git work tree",
		"cat ../version":        "../version is outside of the project",
	} {
		writeIn(t, p.Dir(), "Makefile", keptMakefile+"build/deep/a.elf: asks\nasks: ; "+command+"\n")
		if _, err := p.Build(t.Context()); err == nil || !strings.Contains(err.Error()+failure.Next(err), want) {
			t.Errorf("%s: %v; %s", command, err, failure.Next(err))
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
	data := readFile(t, filepath.Join(p.Dir(), "build", "compile_commands.json"))
	if !strings.Contains(string(data), `"file": "`+p.Dir()+`/src/main.c"`) ||
		!strings.Contains(string(data), `"directory": "`+d.cacheDir()) {
		t.Errorf("compile commands: %s", data)
	}
}

func (d *keptDesk) cacheDir() string { return filepath.Dir(d.env.Cache.Fetched()) }
