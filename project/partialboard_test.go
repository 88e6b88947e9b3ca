package project

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/cache"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
	"github.com/boardsmith/boardsmith/project/internal/builddir"
	"github.com/boardsmith/boardsmith/project/internal/templatefile"
	"github.com/boardsmith/boardsmith/project/internal/workdir"
)

// systemTemplate stands for a template of an operating system that knows its boards. Its build command finds the
// compiler, and writes the board file.
const systemTemplate = `{"doc": "system", "build": ["sh", "build.sh", "{zephyr_board}"],
	"inputs": ["build.sh", "model/codegen"],
	"env": {"OS_BASE": "$OS_BASE", "CHOICE": "$CHOICE?", "OS_TOOLS": "$OS_TOOLS?"},
	"trees": ["$OS_BASE"], "reads": ["$OS_TOOLS"], "board": "out/board.json",
	"programmer_folder": "out/deep",
	"find": [{"name": "OS_BASE", "has": "VERSION", "in": ["{above}/system", "~/systemproject/system"]}],
	"generate": ["crt_config/crt_config.h"], "tools": [], "options": ["arena_kib"],
	"elf": "out/a.elf", "map": "out/a.map", "results": ["out/*"], "forms": {"bin": "out/a.bin"}}`

const systemFamily = `{"doc": "system", "partial": true, "templates": ["system"], "packet_bytes": 1024,
	"registry_bytes": 512, "log_level": "info", "runtime_opt": "Os", "operator_opt": "O2"}`

// systemBuild compiles one file with the compiler that the tree names, and counts its runs in the folder $COUNT.
const systemBuild = `set -e
mkdir -p out; echo run >> out/runs; touch out/a.map
cc=$(cat "$OS_BASE/cc"); echo "int main(void) { return $(cat "$OS_BASE/VERSION"); }" > out/m.c
"$cc" -Wl,--build-id=md5 -o out/a.elf out/m.c
sed "s|CC|$cc|; s|BOARD|$1|" "$OS_BASE/board.json" > out/board.json
`

const systemBoard = `{"doc": "BOARD, built", "arena_kib": 64, "elf": {"machine": "native"}, "link": {"kind": "process"},
"toolchain": {"cc": "CC", "ar": "ar"}, "flash": {"programmer": "none"}, "core_hz": 1000}`

// A systemDesk is a template, a family and a source tree of a system.
type systemDesk struct {
	t          *testing.T
	home, base string
	env        env
}

func newSystem(t *testing.T, changes ...string) *systemDesk {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("the build command is a shell script")
	}
	for _, tool := range []string{"sh", "gcc"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip(tool + " is not installed")
		}
	}
	s := &systemDesk{t: t, home: t.TempDir(), base: t.TempDir(), env: testEnv()}
	s.env.Path, s.env.Cache = []string{s.home}, newCache(t)
	s.write(s.home, "boards/family/system.json", systemFamily)
	s.write(s.home, "templates/system/template.json", strings.NewReplacer(changes...).Replace(systemTemplate))
	s.write(s.home, "templates/system/build.sh", systemBuild)
	s.write(s.base, "VERSION", "1\n")
	s.write(s.base, "board.json", systemBoard)
	s.write(s.base, "cc", "gcc\n")
	t.Setenv("OS_BASE", s.base)
	t.Setenv("OS_TOOLS", s.home)
	return s
}

func (s *systemDesk) write(dir, name, text string) {
	s.t.Helper()
	writeIn(s.t, dir, name, text)
}

func (s *systemDesk) spec(o boards.Options) Spec {
	return Spec{Board: "system/kit", Model: mlftest.Tiny(s.t, nil), Options: o}
}

// recipeOf returns the key of all that the last build depended on.
func recipeOf(t *testing.T, p *Project) string {
	t.Helper()
	tree, err := workdir.Open(p.dir)
	must(t, err)
	defer tree.Close()
	return builddir.Last(tree, &p.state).Recipe
}

func (s *systemDesk) project() *Project {
	s.t.Helper()
	return generated(s.t, s.spec(boards.Options{}), s.env)
}

// runs returns how often the build command ran since the build folder was emptied.
func (s *systemDesk) runs(p *Project) int {
	data := readFile(s.t, filepath.Join(p.Dir(), "out", "runs"))
	return strings.Count(string(data), "\n")
}

// TestCompletedBoard: a project has the whole board once it is built, also when it is opened again.
func TestCompletedBoard(t *testing.T) {
	s := newSystem(t)
	p := s.project()
	if b := p.Board(); !b.Partial || b.CoreHz != 0 || b.Name != "system/kit" {
		t.Errorf("before the build: %+v", b)
	}
	_, err := p.OperatorLinker(t.Context())
	wantError(t, err, failure.Config)
	first := built(t, p)
	check := func(p *Project) {
		t.Helper()
		b := p.Board()
		if b.Partial || b.CoreHz != 1000 || b.Doc != "kit, built" || b.PacketBytes != 1024 || b.Name != "system/kit" {
			t.Errorf("after the build: %+v", b)
		}
	}
	check(p)
	if first.Board != "system/kit" || first.BuildDir != filepath.Join(p.Dir(), "out", "deep") {
		t.Errorf("the image is for %s, its build %s", first.Board, first.BuildDir)
	}
	again := built(t, p)
	if !again.UpToDate || again.BuildID != first.BuildID {
		t.Error("nothing has changed, but it is built again")
	}
	check(p)
	must(t, p.Close())
	opened, err := s.env.builder().Open(p.Dir())
	must(t, err)
	defer opened.Close()
	check(opened)
	if i, err := opened.Built(); err != nil || i == nil {
		t.Errorf("the built image: %v, %v", i, err)
	}
	must(t, opened.Generate(t.Context(), s.spec(boards.Options{ArenaKiB: 32})))
	if !opened.Board().Partial {
		t.Error("what the build of other options found out is taken for these")
	}
	must(t, opened.Generate(t.Context(), s.spec(boards.Options{})))
	built(t, opened)
	check(opened)
}

// TestCompletedKeepsOwn: what the board's own file sets stays, also when the project is opened again.
func TestCompletedKeepsOwn(t *testing.T) {
	s := newSystem(t)
	s.write(s.home, "boards/system/kit.json", `{"inherits": "family/system", "core_hz": 7}`)
	p := s.project()
	must(t, p.Close())
	opened, err := s.env.builder().Open(p.Dir())
	must(t, err)
	defer opened.Close()
	built(t, opened)
	if b := opened.Board(); b.CoreHz != 7 || b.ArenaKiB != 64 {
		t.Errorf("the board is %+v", b)
	}
	same := opened.state.Inputs
	s.write(s.home, "boards/system/kit.json", `{"inherits": "family/system", "core_hz": 7, "doc": "another"}`)
	must(t, opened.Generate(t.Context(), s.spec(boards.Options{})))
	if opened.state.Inputs == same {
		t.Error("a field that the board's own file sets does not count")
	}
}

// TestCompletedRefused: the errors of a build's board file are of class config, name it, and have a next step.
func TestCompletedRefused(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"nothing":  {"rm out/board.json", "made no "},
		"a folder": {"rm out/board.json; mkdir out/board.json", "not a file"},
		"a pipe":   {"rm out/board.json; mkfifo out/board.json", "not a file"},
		"out of it": {
			"rm out/board.json; ln -s ../../x.json out/board.json; cp build.sh ../x.json", "leads out of the project",
		},
		"no JSON":        {"echo '{' > out/board.json", "the file is truncated"},
		"too large":      {"head -c 2000000 /dev/zero > out/board.json", "larger than"},
		"unknown field":  {`echo '{"core_mhz": 1}' > out/board.json`, `did you mean "core_hz"?`},
		"sources":        {`echo '{"sources": ["x.c"]}' > out/board.json`, "a build cannot change it"},
		"without a link": {`echo '{"arena_kib": 1}' > out/board.json`, "link.kind, memory, "},
		"no compiler":    {`sed -i 's/"gcc"/"no-such-cc"/' out/board.json`, "no-such-cc"},
		"another arch":   {`sed -i 's/"native"/"s390", "class": 64/' out/board.json`, "out/a.elf is for"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSystem(t)
			s.write(s.home, "templates/system/build.sh", systemBuild+c.text+"\n")
			p := s.project()
			_, err := p.Build(t.Context())
			isConfig := failure.Of(err) == failure.Config || name == "no compiler"
			if err == nil || !strings.Contains(err.Error(), c.want) || !isConfig {
				t.Fatalf("%v: %v", failure.Of(err), err)
			}
			if !strings.Contains(err.Error(), "out/board.json") && name != "no compiler" && name != "another arch" {
				t.Errorf("the file is not named: %v", err)
			}
			if next := failure.Next(err); next == "" || name == "without a link" && !strings.Contains(next, "boards/") {
				t.Errorf("%v: the next step is %q", err, next)
			}
			if !p.Board().Partial {
				t.Error("the board counts as complete")
			}
		})
	}
}

// TestPartialWithoutBoardFile: a project of a partial board whose template writes no board file is refused, as Generate
// refuses to make one.
func TestPartialWithoutBoardFile(t *testing.T) {
	s := newSystem(t)
	p := s.project()
	must(t, p.Close())
	name := filepath.Join(p.Dir(), templatefile.StateFile)
	data := readFile(t, name)
	text := strings.Replace(string(data), `"board": "out/board.json",`, "", 1)
	if text == string(data) {
		t.Fatal("project.json has no board file")
	}
	writeFile(t, name, text)
	_, err := s.env.builder().Open(p.Dir())
	wantError(t, err, failure.Config, "writes no board file")
}

// TestCompletedFits: whether the model fits is checked once the memory is known.
func TestCompletedFits(t *testing.T) {
	s := newSystem(t)
	s.write(s.base, "board.json", strings.Replace(systemBoard, `"arena_kib": 64`, `"arena_kib": 1`, 1))
	p := s.project()
	_, err := p.Build(t.Context())
	var fit *FitError
	if !errors.As(err, &fit) || fit.Part != "arena" || fit.Option == "" {
		t.Fatalf("%v", err)
	}
	name, kib, _ := strings.Cut(fit.Option, "=")
	n, err := strconv.Atoi(kib)
	if err != nil || name != "arena_kib" {
		t.Fatalf("option %q", fit.Option)
	}
	must(t, p.Generate(t.Context(), s.spec(boards.Options{ArenaKiB: n})))
	built(t, p)
	other := strings.Replace(systemTemplate, `"board": "out/board.json",`, "", 1)
	s.write(s.home, "templates/system/template.json", other)
	wantError(t, p.Generate(t.Context(), s.spec(boards.Options{})), failure.Config)
}

// TestSourceTree: a build covers the commit of a source tree and its changed files, and not where it lies. A tree
// without git counts by its files' times.
func TestSourceTree(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	s := newSystem(t)
	git := func(words ...string) {
		t.Helper()
		words = append([]string{
			"-C", s.base, "-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "init.defaultBranch=main",
		}, words...)
		if out, err := exec.Command("git", words...).CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", words, err, out)
		}
	}
	git("init", "-q")
	git("add", ".")
	git("commit", "-q", "-m", "one")
	p := s.project()
	seen := map[string]string{}
	fresh := func(what string) {
		t.Helper()
		i := built(t, p)
		if former, known := seen[recipeOf(t, p)]; known || i.UpToDate {
			t.Errorf("%s: the recipe of %q", what, former)
		}
		seen[recipeOf(t, p)] = what
		if again := built(t, p); !again.UpToDate {
			t.Errorf("%s: built again without a change", what)
		}
	}
	fresh("clean")
	s.write(s.base, "VERSION", "2\n")
	fresh("a changed file")
	s.write(s.base, "VERSION", "3\n")
	fresh("the same file, changed in another way")
	git("commit", "-q", "-a", "-m", "three")
	fresh("another commit")
	git("mv", "VERSION", "other name")
	s.write(s.base, "VERSION", "3\n")
	fresh("a renamed file")
	git("reset", "-q", "--hard")
	if err := os.Remove(filepath.Join(s.base, "other name")); err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	if built(t, p); seen[recipeOf(t, p)] != "another commit" {
		t.Errorf("reset to a commit: the recipe of %q", seen[recipeOf(t, p)])
	}
	moved := filepath.Join(t.TempDir(), "moved")
	must(t, os.Rename(s.base, moved))
	t.Setenv("OS_BASE", moved)
	if i := built(t, p); seen[recipeOf(t, p)] != "another commit" || !i.UpToDate {
		t.Errorf("moved: the recipe of %q", seen[recipeOf(t, p)])
	}
	s.base = moved
	must(t, os.RemoveAll(filepath.Join(moved, ".git")))
	fresh("without git")
	s.write(s.base, "VERSION", "4\n")
	fresh("without git, a changed file")
	s.write(s.base, "new", "")
	fresh("without git, a new file")
}

// TestTreeChanges: a source tree, or an outside input, that changes during a build is an error, and no image is stored.
func TestTreeChanges(t *testing.T) {
	s := newSystem(t, `"trees":`, `"outside": ["$OS_BASE/VERSION"], "trees":`)
	s.write(s.home, "templates/system/build.sh", systemBuild+`echo 5 > "$OS_BASE/VERSION"`+"\n")
	p := s.project()
	_, err := p.Build(t.Context())
	wantError(t, err, failure.Config, "$OS_BASE/VERSION, $OS_BASE changed during the build")
	if images, err := s.env.Cache.Images(func(cache.EntryInfo) bool { return true }); err != nil || len(images) != 0 {
		t.Errorf("the cache has %v, %v", images, err)
	}
}

// TestConfigured: boardsmith and Zephyr's CMake take the same number from a changed crt_config.h, or CMake refuses it.
func TestConfigured(t *testing.T) {
	t.Parallel()
	cmake, err := exec.LookPath("cmake")
	if err != nil {
		t.Skip("no cmake")
	}
	const refused = -1
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "CMakeLists.txt"), `cmake_minimum_required(VERSION 3.20)
project(test NONE)
include("${MODULE}/cmake/configured.cmake")
boardsmith_configured(number "${CMAKE_CURRENT_SOURCE_DIR}/crt_config.h" BOARDSMITH_ARENA_BYTES)
message("number ${number}")
`)
	module, err := filepath.Abs("../templates/zephyr/boardsmith")
	must(t, err)
	for text, want := range map[string]int64{
		"#define BOARDSMITH_ARENA_BYTES 32768":                               32768,
		"#define BOARDSMITH_ARENA_BYTES (32768)":                             32768,
		"#define BOARDSMITH_ARENA_BYTES 32768U  // 32 KiB":                   32768,
		"#define BOARDSMITH_ARENA_BYTES\t0x8000u /* 32 KiB */":               32768,
		"# define  BOARDSMITH_ARENA_BYTES (32 * 1024UL)":                     32768,
		"#define BOARDSMITH_ARENA_BYTES (1 << 15)":                           32768,
		"#define BOARDSMITH_ARENA_BYTES ((4 + 4) * 0x1000 - 8)":              32760,
		"#define BOARDSMITH_ARENA_BYTES 0":                                   0,
		"#define BOARDSMITH_ARENA_BYTES_MORE 4":                              0,
		"// #define BOARDSMITH_ARENA_BYTES 4":                                0,
		"":                                                                   0,
		"#define BOARDSMITH_ARENA_BYTES 0100":                                refused, // octal in C, decimal in CMake
		"#define BOARDSMITH_ARENA_BYTES":                                     refused,
		"#define BOARDSMITH_ARENA_BYTES OTHER":                               refused,
		"#define BOARDSMITH_ARENA_BYTES 4\n#define BOARDSMITH_ARENA_BYTES 8": refused,
	} {
		header := []byte("#define OTHER 4\n" + text + "\n")
		writeFile(t, filepath.Join(dir, "crt_config.h"), string(header))
		out, err := exec.Command(cmake, "-DMODULE="+module, "-S", dir, "-B", filepath.Join(dir, "build")).CombinedOutput()
		switch {
		case want == refused:
			said := strings.Join(strings.Fields(string(out)), " ") // CMake breaks lines by the length of the path
			if err == nil || !strings.Contains(said, "must be one number") {
				t.Errorf("%s: CMake says %s", text, out)
			}
			continue
		case err != nil || !strings.Contains(string(out), fmt.Sprintf("number %d\n", want)):
			t.Errorf("%s: CMake says %v %s, want %d", text, err, out, want)
		}
		if n, ok := defined(header, "BOARDSMITH_ARENA_BYTES"); n != want || want > 0 && !ok {
			t.Errorf("%s: %d, %v, want %d", text, n, ok, want)
		}
	}
}

// TestConfiguredArena: the arena is that of a changed crt_config.h, or else the board's; 0 there is no arena.
func TestConfiguredArena(t *testing.T) {
	t.Parallel()
	found := findBoard(t, "mps2_an385")
	for _, bytes := range []int64{0, 4096} {
		p := &Project{dir: t.TempDir()}
		p.state.Board.Board = *found
		file := filepath.Join(p.dir, filepath.FromSlash(templatefile.ConfigFile))
		writeFile(t, file, string(fmt.Appendf(nil, "#define BOARDSMITH_ARENA_BYTES %d\n", bytes)))
		if got, want := p.arenaBytes(), cmp.Or(bytes, int64(found.ArenaKiB)*1024); got != want {
			t.Errorf("%d bytes configured: %d, want %d", bytes, got, want)
		}
	}
}
