//go:build !windows

package project

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/boardsmith/boardsmith/cache"
	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/image"
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
	putFiles(t, d.home, map[string]string{
		"boards/mine.json": `{"doc": "mine", "inherits": "cpu/native", "templates": ["keeps"],
			"link": {"kind": "process"}, "flash": {"programmer": "none"}}`,
		"templates/keeps/template.json": keptTemplate, "templates/keeps/Makefile": keptMakefile,
		"templates/keeps/src/main.c": keptMain, "templates/keeps/src/common.c": "int common(void) { return 0; }\n",
	})
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

func lookPath(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	must(t, err)
	return path
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
