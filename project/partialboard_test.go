package project

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
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
	builder    *Builder
}

func newSystem(t *testing.T, changes ...string) *systemDesk {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("the build command is a shell script")
	}
	need(t, "sh", "gcc")
	home, base := t.TempDir(), t.TempDir()
	putFiles(t, home, map[string]string{
		"boards/family/system.json": systemFamily, "templates/system/build.sh": systemBuild,
		"templates/system/template.json": strings.NewReplacer(changes...).Replace(systemTemplate),
	})
	putFiles(t, base, map[string]string{"VERSION": "1\n", "board.json": systemBoard, "cc": "gcc\n"})
	t.Setenv("OS_BASE", base)
	t.Setenv("OS_TOOLS", home)
	return &systemDesk{t, home, base, freshBuilder(t, home)}
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
	return generated(s.t, s.spec(boards.Options{}), s.builder)
}

// runs returns how often the build command ran since the build folder was emptied.
func (s *systemDesk) runs(p *Project) int {
	return strings.Count(readFile(s.t, p.at("out/runs")), "\n")
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
	check := func() {
		t.Helper()
		b := p.Board()
		if b.Partial || b.CoreHz != 1000 || b.Doc != "kit, built" || b.PacketBytes != 1024 || b.Name != "system/kit" {
			t.Errorf("after the build: %+v", b)
		}
	}
	check()
	if first.Board != "system/kit" || first.BuildDir != p.at("out/deep") {
		t.Errorf("the image is for %s, its build %s", first.Board, first.BuildDir)
	}
	again := built(t, p)
	if !again.UpToDate || again.BuildID != first.BuildID {
		t.Error("nothing has changed, but it is built again")
	}
	check()
	p = reopened(t, p)
	check()
	if i, err := p.Built(); err != nil || i == nil {
		t.Errorf("the built image: %v, %v", i, err)
	}
	must(t, p.Generate(t.Context(), s.spec(boards.Options{ArenaKiB: 32})))
	if !p.Board().Partial {
		t.Error("what the build of other options found out is taken for these")
	}
	must(t, p.Generate(t.Context(), s.spec(boards.Options{})))
	built(t, p)
	check()
}

// TestCompletedKeepsOwn: what the board's own file sets stays, also when the project is opened again.
func TestCompletedKeepsOwn(t *testing.T) {
	s := newSystem(t)
	s.write(s.home, "boards/system/kit.json", `{"inherits": "family/system", "core_hz": 7}`)
	p := reopened(t, s.project())
	built(t, p)
	if b := p.Board(); b.CoreHz != 7 || b.ArenaKiB != 64 {
		t.Errorf("the board is %+v", b)
	}
	same := p.state.Inputs
	s.write(s.home, "boards/system/kit.json", `{"inherits": "family/system", "core_hz": 7, "doc": "another"}`)
	must(t, p.Generate(t.Context(), s.spec(boards.Options{})))
	if p.state.Inputs == same {
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
			class, texts := failure.Config, []string{c.want}
			switch name {
			case "no compiler":
				class = failure.ToolMissing
			case "without a link":
				texts = append(texts, "boards/")
			}
			if name != "no compiler" && name != "another arch" {
				texts = append(texts, "out/board.json")
			}
			wantAdvice(t, buildError(t, p), class, texts...)
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
	editFile(t, p.at(templatefile.StateFile), `"board": "out/board.json",`, "")
	_, err := s.builder.Open(p.Dir())
	wantError(t, err, failure.Config, "writes no board file")
}

// TestCompletedFits: whether the model fits is checked once the memory is known.
func TestCompletedFits(t *testing.T) {
	s := newSystem(t)
	s.write(s.base, "board.json", strings.Replace(systemBoard, `"arena_kib": 64`, `"arena_kib": 1`, 1))
	p := s.project()
	fit := misfitOf(t, buildError(t, p))
	if fit.Part != "arena" || !strings.HasPrefix(fit.Option, "arena_kib=") {
		t.Errorf("%s: option %q", fit.Part, fit.Option)
	}
	spec := s.spec(boards.Options{})
	help(t, &spec.Options, fit)
	must(t, p.Generate(t.Context(), spec))
	built(t, p)
	other := strings.Replace(systemTemplate, `"board": "out/board.json",`, "", 1)
	s.write(s.home, "templates/system/template.json", other)
	wantError(t, p.Generate(t.Context(), s.spec(boards.Options{})), failure.Config)
}

// TestSourceTree: a build covers the commit of a source tree and its changed files, and not where it lies. A tree
// without git counts by its files' times.
func TestSourceTree(t *testing.T) {
	need(t, "git")
	s := newSystem(t)
	git := func(words ...string) { gitIn(t, s.base, words...) }
	git("init", "-q")
	commitAll(t, s.base)
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
	must(t, os.RemoveAll(filepath.Join(s.base, "other name")))
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
	wantError(t, buildError(t, s.project()), failure.Config, "$OS_BASE/VERSION, $OS_BASE changed during the build")
	if images, err := s.builder.Cache.Images(func(cache.EntryInfo) bool { return true }); err != nil || len(images) != 0 {
		t.Errorf("the cache has %v, %v", images, err)
	}
}

// TestConfigured: boardsmith and Zephyr's CMake take the same number from a changed crt_config.h, or CMake refuses it.
func TestConfigured(t *testing.T) {
	t.Parallel()
	need(t, "cmake")
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
		out, err := exec.Command("cmake", "-DMODULE="+module, "-S", dir, "-B", filepath.Join(dir, "build")).CombinedOutput()
		printed := fmt.Sprintf("number %d", want)
		if want == refused {
			printed = "must be one number,"
		}
		words := strings.Join(strings.Fields(string(out)), " ") // CMake breaks lines by the length of the path
		if (err != nil) != (want == refused) || !strings.Contains(words+" ", printed+" ") {
			t.Errorf("%s: CMake prints %v %s, want %d", text, err, out, want)
		}
		if want == refused {
			continue
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
		writeFile(t, p.at(templatefile.ConfigFile), fmt.Sprintf("#define BOARDSMITH_ARENA_BYTES %d\n", bytes))
		if got, want := p.arenaBytes(), cmp.Or(bytes, int64(found.ArenaKiB)*1024); got != want {
			t.Errorf("%d bytes configured: %d, want %d", bytes, got, want)
		}
	}
}
