//go:build !windows

package project

import (
	"context"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/boardsmith/boardsmith/cache"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit"
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
	t       *testing.T
	home    string
	builder *Builder
}

func newKept(t *testing.T) *keptDesk {
	t.Helper()
	need(t, "make", "gcc")
	home := t.TempDir()
	putFiles(t, home, map[string]string{
		"boards/mine.json": `{"doc": "mine", "inherits": "cpu/native", "templates": ["keeps"],
			"link": {"kind": "process"}, "flash": {"programmer": "none"}}`,
		"templates/keeps/template.json": keptTemplate, "templates/keeps/Makefile": keptMakefile,
		"templates/keeps/src/main.c": keptMain, "templates/keeps/src/common.c": "int common(void) { return 0; }\n",
	})
	return &keptDesk{t, home, freshBuilder(t, home)}
}

// project is one whose operator ends in a line.
func (d *keptDesk) project(line string) *Project {
	d.t.Helper()
	return generated(d.t, Spec{Board: "mine", Model: mlftest.Operator(d.t, mlftest.TinyOperator+line+"\n")}, d.builder)
}

// check builds a project whose operator ends in a line: the image is that of a build from nothing.
func (d *keptDesk) check(p *Project, line string) {
	d.t.Helper()
	other := keptDesk{d.t, d.home, freshBuilder(d.t, d.home)}
	got, want := built(d.t, p), built(d.t, other.project(line))
	if got.Digest != want.Digest || got.BuildID != want.BuildID || got.Size != want.Size {
		d.t.Errorf("%q: image %s, want %s", line, got.Digest, want.Digest)
	}
}

// compiled lists what was compiled in a project's kept folder, sorted, from the n-th on.
func compiled(t *testing.T, p *Project, n int) []string {
	t.Helper()
	return slices.Sorted(slices.Values(strings.Fields(readFile(t, p.at("build/compiled")))[n:]))
}

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
	for round, line := range []string{"int two;", "// one", "int three;"} {
		p := d.project(line)
		d.check(p, line)
		if now := compiled(t, p, len(all)+round); !slices.Equal(now, []string{operatorFile}) {
			t.Errorf("round %d compiles %v", round, now)
		}
	}
	if n := len(keptDirs(t, d.builder.Cache)); n != 1 {
		t.Errorf("%d folders", n)
	}
	names := slices.Sorted(maps.Keys(contents(t, first.at("build"))))
	if want := []string{"build.json", "compiled", "deep/a.elf", "deep/a.map"}; !slices.Equal(names, want) {
		t.Errorf("the project's build folder has %v, want %v", names, want)
	}
	output(t, exec.Command("make", "-C", first.Dir(), "build/deep/a.elf"))
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
	for _, name := range []string{".main.c.swp", "main.c~", "#main.c#"} {
		writeFile(t, p.at("src/"+name), "int other;\n")
	}
	must(t, os.Symlink("user@host.1", p.at("src/.#main.c")))
	if !built(t, p).UpToDate {
		t.Error("it is built again for files of an editor")
	}
	header := p.at("src/v.h")
	for to, want := range map[string]string{
		"nowhere": "a link that leads nowhere", "../crt": "a link to a folder",
		"v.h": "a link out of the project, by an absolute path or in a circle", "../../nowhere": "a link out of the project",
		p.at("src/main.c"): "a link out of the project, by an absolute path",
	} {
		must(t, os.RemoveAll(header))
		must(t, os.Symlink(to, header))
		wantError(t, buildError(t, p), failure.Config, "v.h cannot be an input: "+want)
	}
	must(t, os.Remove(header))
	must(t, syscall.Mkfifo(header, 0o644))
	wantError(t, buildError(t, p), failure.Config, "v.h cannot be an input")
}

// keptChild builds in a kept folder, until it is killed.
func keptChild(args []string) error {
	b := storeIn(args[1])
	b.Path = args[:1]
	p, err := b.Open(args[2])
	if err == nil {
		_, err = p.Build(context.Background())
	}
	return err
}

// TestKeptKilled kills a build while its tools run. The next one gets a folder that none of them changes.
func TestKeptKilled(t *testing.T) {
	t.Parallel()
	d, store := newKept(t), t.TempDir()
	d.builder.Cache = cache.New(store, cache.Options{})

	// The build damages an object, which is then younger than its source. Two seconds later a tool would damage it again,
	// if it outlived the build.
	const object = "$(CURDIR)/build/src/main.o"
	begun, ended := filepath.Join(t.TempDir(), "begun"), filepath.Join(t.TempDir(), "ended")
	writeIn(t, d.home, "templates/keeps/Makefile", keptMakefile+`
build/deep/a.elf: $(if $(wildcard `+begun+`),,$(if $(shell grep killed `+operatorFile+`),slow))
slow: $(OBJ) ; echo >`+object+`; touch `+begun+`; trap '' INT TERM; sleep 2; echo >>`+object+"; touch "+ended+"\n")
	built(t, d.project(""))
	p := d.project("int killed;")
	must(t, p.Close())
	cmd := childCommand(t, "kept", d.home, store, p.Dir())
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	must(t, cmd.Start())
	waitFor(t, begun)
	must(t, cmd.Process.Kill())
	_ = cmd.Wait()
	d.check(reopened(t, p), "int killed;")
	time.Sleep(2500 * time.Millisecond)
	absent(t, ended)
	for _, line := range []string{"int next;", "int last;"} {
		d.check(d.project(line), line)
	}
}

// waitFor waits for a file, at most a minute.
func waitFor(t *testing.T, name string) {
	t.Helper()
	for start := time.Now(); time.Since(start) < time.Minute; time.Sleep(5 * time.Millisecond) {
		if _, err := os.Stat(name); err == nil {
			return
		}
	}
	t.Fatal("no ", name)
}

// TestFoundLibraries: other libraries of a compiler that only the build finds are noticed. A compiler that does not
// name them is used all the same.
func TestFoundLibraries(t *testing.T) {
	s := newSystem(t)
	s.write(s.base, "board.json", strings.Replace(systemBoard, `"core_hz"`,
		`"memory": [{"name": "ram", "origin": "0x20000000", "size": "0x00010000", "exec": true}],
"place": {"code": "ram", "data": "ram"}, "core_hz"`, 1))
	cc := filepath.Join(s.home, "mycc")
	testkit.WriteProgram(t, cc, `#!/bin/sh
case "$*" in *-###*) echo " -L$(dirname "$0")" >&2;; *) exec gcc "$@";; esac
`)
	s.write(s.base, "cc", cc)
	p := s.project()
	for n, text := range []string{"one", "one", "two"} {
		s.write(s.home, "libm.a", text)
		if i := built(t, p); i.UpToDate != (n == 1) || s.runs(p) != 1 {
			t.Errorf("libm.a is %q: up to date: %v, %d runs", text, i.UpToDate, s.runs(p))
		}
	}
	testkit.WriteProgram(t, cc, "#!/bin/sh\ncase \"$*\" in *-###*) exit 1;; *) exec gcc \"$@\";; esac\n")
	built(t, s.project())
}
