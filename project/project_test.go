package project

import (
	"bytes"
	"context"
	"debug/elf"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/cache"
	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/internal/cachekey"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/corpus"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
	"github.com/boardsmith/boardsmith/internal/testkit/testcache"
	"github.com/boardsmith/boardsmith/project/internal/projectfile"
	"github.com/boardsmith/boardsmith/project/internal/templatefile"
	"github.com/boardsmith/boardsmith/project/internal/workdir"
	"github.com/boardsmith/boardsmith/rpc"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// leaseDir takes the place of the folder for leases of real probes, which all users share.
var leaseDir string

func TestMain(m *testing.M) {
	if os.Getenv(childMode) != "" {
		os.Exit(child())
	}
	dir, err := os.MkdirTemp("", "project-test-leases")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	leaseDir = filepath.Join(dir, "leases")
	code := m.Run()
	_ = os.RemoveAll(dir)
	testcache.Clean()
	os.Exit(code)
}

// testEnv loads images directly: emulated boards behind a probe are flash_test.go's. Its cache holds the compiled
// runtime for all tests that need no cache of their own.
func testEnv() env {
	host := device.Host{Cache: cache.New(testcache.Dir(), cache.Options{})}
	return env{Host: host, Programmer: "none", LeaseDir: leaseDir}
}

var (
	must      = testkit.Must
	writeFile = testkit.WriteFile
	putFiles  = testkit.WriteFiles
	readFile  = testkit.ReadFile
	editFile  = testkit.EditFile
	wantError = testkit.WantError
)

// generated makes a project in a folder of its own and closes it when the test ends. Without a board it is for the
// host, and without a model it has the smallest one.
func generated(t *testing.T, s Spec, in ...env) *Project {
	t.Helper()
	return generatedIn(t, filepath.Join(t.TempDir(), "p"), s, in...)
}

func generatedIn(t *testing.T, dir string, s Spec, in ...env) *Project {
	t.Helper()
	p, err := generateIn(t.Context(), dir, complete(t, s), envOf(in))
	if err != nil {
		t.Fatalf("generate: %v\n%s", err, failure.Next(err))
	}
	t.Cleanup(func() { must(t, p.Close()) })
	return p
}

// generate returns the project of such a specification, or the error.
func generate(t *testing.T, s Spec, in ...env) (*Project, error) {
	t.Helper()
	return generateIn(t.Context(), filepath.Join(t.TempDir(), "p"), complete(t, s), envOf(in))
}

func complete(t *testing.T, s Spec) Spec {
	t.Helper()
	if s.Board == "" {
		s.Board = "host"
	}
	if s.Model == "" && s.Archive == nil {
		s.Model = mlftest.Tiny(t, nil)
	}
	return s
}

func envOf(in []env) env {
	if len(in) > 0 {
		return in[0]
	}
	return testEnv()
}

func built(t *testing.T, p *Project) *image.Image {
	t.Helper()
	i, err := p.Build(t.Context())
	if err != nil {
		t.Fatalf("build: %v\n%s", err, failure.Next(err))
	}
	return i
}

// contents reads all files of a folder but the lock.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		locks := []string{workdir.LockFile, workdir.TurnFile, workdir.HolderFile}
		if err != nil || d.IsDir() || slices.Contains(locks, d.Name()) {
			return err
		}
		data, err := os.ReadFile(path)
		rel, _ := filepath.Rel(dir, path)
		all[filepath.ToSlash(rel)] = string(data)
		return err
	}))
	return all
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		must(t, os.MkdirAll("testdata", 0o755))
		writeFile(t, path, got)
		return
	}
	want := readFile(t, path)
	if got != string(want) {
		t.Errorf("%s differs (go test ./project -update rewrites it); got:\n%s", path, got)
	}
}

func TestGolden(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "p")
	generatedIn(t, dir, Spec{})
	var list strings.Builder
	for name := range sorted(contents(t, dir)) {
		if strings.HasPrefix(name, "crt/") {
			continue // as the runtime's sources are
		}
		info, err := os.Stat(filepath.Join(dir, name))
		must(t, err)
		fmt.Fprintf(&list, "%v %s\n", info.Mode(), name)
	}
	golden(t, "host.files", list.String())
	all := contents(t, dir)
	if all["crt/include/tvm/runtime/c_runtime_api.h"] == "" || all["crt/src/rpc/server.c"] == "" {
		t.Error("the runtime is not in crt/")
	}
	for name, text := range all {
		if strings.Contains(text, dir) || strings.Contains(text, filepath.Dir(dir)) {
			t.Errorf("%s has an absolute path in it", name)
		}
	}
	// The template's own defaults are what is generated for the host.
	for _, name := range []string{"crt_config/crt_config.h", "crt_config/board.mk", "crt_config/operators.mk"} {
		want := readFile(t, filepath.Join("..", "templates", "baremetal", name))
		if strings.Join(strings.Fields(all[name]), " ") != strings.Join(strings.Fields(string(want)), " ") {
			t.Errorf("%s: got\n%s\nthe template has\n%s", name, all[name], want)
		}
	}
}

func sorted(m map[string]string) func(func(string) bool) {
	names := make([]string, 0, len(m))
	for n := range m {
		names = append(names, n)
	}
	sort.Strings(names)
	return slices.Values(names)
}

func TestOptionsReachTheHeader(t *testing.T) {
	t.Parallel()
	p := generated(t, Spec{
		Options: boards.Options{ArenaKiB: 64, PacketBytes: 1024, LogLevel: "error", OperatorOpt: "O3"},
	})
	dir := p.Dir()
	all := contents(t, dir)
	for name, want := range map[string]string{
		"crt_config/crt_config.h": "#define BOARDSMITH_ARENA_BYTES 65536\n#define TVM_CRT_MAX_PACKET_SIZE_BYTES 1024\n",
		"crt_config/operators.mk": "OPERATOR_OPT := O3\n",
	} {
		if !strings.Contains(all[name], want) {
			t.Errorf("%s has not\n%s:\n%s", name, want, all[name])
		}
	}
	built(t, p)
	must(t, p.Close())
	q, err := load(dir, testEnv())
	must(t, err)
	defer q.Close()
	if q.Options() != p.Options() || q.Options().ArenaKiB != 64 {
		t.Errorf("after loading: %+v", q.Options())
	}
	if q.Board().Name != "host" || q.Template() != "baremetal" || q.ArchiveName() != "tiny.tar" ||
		len(q.ArchiveDigest()) != 64 {
		t.Errorf("after loading: board %s, template %s, model %s %s", q.Board().Name, q.Template(), q.ArchiveName(),
			q.ArchiveDigest())
	}
	if a, m, err := q.Model(); err != nil || m.Name != "twice" || a.Digest != q.ArchiveDigest() {
		t.Errorf("model: %v", err)
	}
}

func TestGenerateAgain(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "p")
	model := mlftest.Tiny(t, nil)
	p := generatedIn(t, dir, Spec{Model: model})
	if len(p.Wrote()) < 30 {
		t.Errorf("the first time it wrote only %q", p.Wrote())
	}
	before := contents(t, dir)
	must(t, p.Close())

	p = generatedIn(t, dir, Spec{Model: model})
	if len(p.Wrote()) != 0 || !same(before, contents(t, dir)) {
		t.Errorf("the second time it wrote %q", p.Wrote())
	}
	must(t, p.Close())

	other := mlftest.Tiny(t, map[string]string{
		"codegen/host/src/lib1.c": mlftest.TinyOperator + "// longer\n",
		"src/tir-1.txt":           "", "src/new.txt": "new",
	})
	p = generatedIn(t, dir, Spec{Model: other})
	want := []string{"model.tar", "model/codegen/host/src/lib1.c", "model/src/new.txt", "model/src/tir-1.txt"}
	if !slices.Equal(p.Wrote(), want) {
		t.Errorf("for another model it wrote %q, want %q", p.Wrote(), want)
	}
	if _, gone := contents(t, dir)["model/src/tir-1.txt"]; gone {
		t.Error("a file of the earlier model is still there")
	}
	must(t, p.Close())

	must(t, os.Remove(filepath.Join(dir, "src", "main.c")))
	p = generatedIn(t, dir, Spec{Model: other})
	if !slices.Equal(p.Wrote(), []string{"src/main.c"}) {
		t.Errorf("after a file was lost it wrote %q", p.Wrote())
	}
}

func same(a, b map[string]string) bool {
	if len(a) != len(b) {
		return false
	}
	for k := range a {
		if a[k] != b[k] {
			return false
		}
	}
	return true
}

func appendTo(t *testing.T, path, text string) {
	t.Helper()
	data := readFile(t, path)
	writeFile(t, path, string(append(data, text...)))
}

// operatorFile is the operator's source of mlftest.Tiny in a project.
const operatorFile = "model/codegen/host/src/lib1.c"

func TestEditedFiles(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "p")
	model := mlftest.Tiny(t, nil)
	p := generatedIn(t, dir, Spec{Model: model})
	first := built(t, p)
	main := filepath.Join(dir, "src", "main.c")
	original := readFile(t, main)
	const edit = "extern int mine;\nint mine; // mine\n"
	appendTo(t, main, edit)

	second := built(t, p)
	if second.ID() == first.ID() || !slices.Equal(second.Edited, []string{"src/main.c"}) || second.UpToDate {
		t.Errorf("build with an edited file: %+v", second)
	}
	if s := contents(t, dir)["project.json"]; !strings.Contains(s, `"edited": [`) {
		t.Errorf("project.json does not show the edited file:\n%s", s)
	}
	must(t, p.Close())

	text := mlftest.TinyOperator + "int second; // second\n"
	other := mlftest.Operator(t, text)
	p = generatedIn(t, dir, Spec{Model: other}) // main.c does not depend on the model
	if all := contents(t, dir); !slices.Equal(p.Preserved(), []string{"src/main.c"}) || all["src/main.c.orig"] != "" ||
		!strings.HasSuffix(all["src/main.c"], "// mine\n") || !strings.Contains(all[operatorFile], "// second") {
		t.Errorf("generate for another model beside an edited file: %q stayed", p.Preserved())
	}
	if third := built(t, p); !slices.Equal(third.Edited, []string{"src/main.c"}) || third.ID() == second.ID() {
		t.Errorf("build for another model with an edited file: %+v", third)
	}
	must(t, p.Close())

	operator := contents(t, dir)[operatorFile]
	appendTo(t, filepath.Join(dir, operatorFile), "// mine\n")
	before := contents(t, dir)
	_, err := generateIn(t.Context(), dir, Spec{Board: "host", Model: model}, testEnv())
	if !errors.Is(err, ErrEdited) || !strings.HasSuffix(err.Error(), "generated: "+operatorFile) ||
		failure.Of(err) != failure.Config {
		t.Fatalf("generate over an edited file: %v", err)
	}
	if !same(before, contents(t, dir)) {
		t.Error("the refused generate changed something")
	}
	writeIn(t, dir, operatorFile, operator)
	if err := clean(t.Context(), dir, false, testEnv()); !errors.Is(err, ErrEdited) {
		t.Errorf("clean: %v", err)
	}

	for i, copied := range []string{"src/main.c.orig", "src/main.c.orig.1"} {
		p = generatedIn(t, dir, Spec{Model: model, Force: true})
		all := contents(t, dir)
		if all["src/main.c"] != string(original) || all[copied] != string(original)+edit {
			t.Errorf("force %d: main.c replaced: %v, copy kept: %v", i, all["src/main.c"] == string(original), all[copied] != "")
		}
		if third := built(t, p); third.ID() != first.ID() || third.Digest != first.Digest {
			t.Errorf("force %d: the build is not the first one again", i)
		}
		must(t, p.Close())
		appendTo(t, main, edit)
	}

	writeFile(t, main, string(original))
	must(t, clean(t.Context(), dir, false, testEnv()))
	left := contents(t, dir)
	if len(left) != 2 || left["src/main.c.orig"] == "" {
		t.Errorf("after clean there are %d files", len(left))
	}
}

func TestFolderOfSomebodyElse(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "thesis.tex"), "x")
	_, err := generateIn(t.Context(), dir, Spec{Board: "host", Model: mlftest.Tiny(t, nil), Force: true}, testEnv())
	wantError(t, err, failure.Config, "is not a project")
	wantError(t, clean(t.Context(), dir, true, testEnv()), failure.Config)
	_, err = load(dir, testEnv())
	wantError(t, err, failure.Config)
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("the folder was touched: %v", entries)
	}
}

func TestBadSpecs(t *testing.T) {
	t.Parallel()
	good := mlftest.Tiny(t, nil)
	file := filepath.Join(t.TempDir(), "file")
	writeFile(t, file, "")
	for _, c := range []struct {
		name string
		spec Spec
		want string
	}{
		{"board", Spec{Board: "hots", Model: good}, `did you mean "host"?`},
		{
			"template",
			Spec{Board: "host", Template: "baremetl", Model: good},
			`template "baremetl" is not known; did you mean "baremetal"?`,
		},
		{"template folder", Spec{Board: "host", Template: "./no", Model: good}, `no folder`},
		{"no model", Spec{Board: "host"}, "no model"},
		{"model", Spec{Board: "host", Model: good + "x"}, "no such file"},
		{"not an archive", Spec{Board: "host", Model: file}, "empty"},
		{"module", Spec{Board: "host", Model: good, ModelName: "thrice"}, `no model "thrice"`},
		{"option", Spec{Board: "host", Model: good, Options: boards.Options{PacketBytes: 3}}, "packet_bytes"},
		{
			"C++",
			Spec{Board: "host", Model: mlftest.Tiny(t, map[string]string{"codegen/host/src/lib2.cc": "class X;"})},
			"C++ sources are not supported",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "a", "b")
			_, err := generateIn(t.Context(), dir, c.spec, testEnv())
			wantError(t, err, failure.Config, c.want)
			if _, err := os.Stat(filepath.Dir(dir)); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("it left something behind: %v", err)
			}
		})
	}
}

// TestUsersBoardAndTemplate builds a board with a source of its own beside its file, and a template of its own.
func TestUsersBoardAndTemplate(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	putFiles(t, home, map[string]string{
		"boards/mine.json": `{"doc": "mine", "inherits": "cpu/native", "templates": ["small", "baremetal"], "link": {"kind": "process"},
			"flash": {"programmer": "none"}, "sources": ["port/process.c", "extra.c"], "cflags": ["-DQUOTED=\"it's $x #1\""],
			"functions": [{"name": "mine.answer", "symbol": "answer_packed"}]}`,
		"boards/extra.c": "#include <tvm/runtime/c_runtime_api.h>\n" +
			"int answer_packed(TVMValue* a, int* c, int n, TVMValue* v, int* t, void* h);\n" +
			"int answer_packed(TVMValue* a, int* c, int n, TVMValue* v, int* t, void* h) { (void)a; (void)c; (void)n; " +
			"(void)h;\n" +
			"  const char* q = QUOTED; v->v_int64 = q[0] == 'i' ? 42 : 0; *t = kTVMArgInt; return 0; }\n",
		"templates/small/template.json": `{"doc": "small", "build": ["sh", "build.sh"], "inputs": ["build.sh", "crt", "src"], "generate": ["crt_config/crt_config.h"],
			"elf": "out/a.elf", "map": "out/a.map", "tools": [], "options": ["arena_kib"]}`,
		"templates/small/build.sh": "set -e\nprintf 'int main(void) { return 0; }' > out/m.c\n" +
			"cc -Wl,--build-id=md5,-Map=out/a.map -o out/a.elf out/m.c\n",
		"templates/small/port/process.c": "", "templates/small/out/old.o": "not copied",
	})
	model := mlftest.Tiny(t, nil)
	env := testEnv()
	env.Path = []string{home}
	own := generated(t, Spec{Board: "mine", Model: model}, env)
	all := contents(t, own.Dir())
	if all["out/old.o"] != "" || all["src/extra.c"] == "" || all["crt_config/board.mk"] != "" {
		t.Error("the user's template was not copied as it should")
	}
	if i := built(t, own); filepath.Base(i.Path) != "a.elf" {
		t.Errorf("built %s", i.Path)
	}
	_, err := generate(t, Spec{Board: "mine", Model: model, Options: boards.Options{LogLevel: "warn"}}, env)
	wantError(t, err, failure.Config, "log_level has no effect")
	p := generated(t, Spec{Board: "mine", Template: "baremetal", Model: model}, env)
	built(t, p)
	_, err = generate(t, Spec{Template: "small", Model: model},
		env)
	wantError(t, err, failure.Config, "does not build with template small")
}

// TestLaunchScript starts the server of TVM's Project API by the project's script, in each of its ways.
func TestLaunchScript(t *testing.T) {
	t.Parallel()
	p := generated(t, Spec{})
	server := []byte("#!/bin/sh\necho \"$0\" \"$@\"\n")
	onPath := t.TempDir()
	start := func(env ...string) (string, error) {
		cmd := exec.Command(filepath.Join(p.Dir(), "launch_microtvm_api_server.sh"), "x.py", "--read-fd", "3")
		cmd.Env = append([]string{"PATH=" + onPath + ":" + os.Getenv("PATH")}, env...)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if out, err := start(); err == nil ||
		!strings.Contains(out, "go install github.com/boardsmith/boardsmith/cmd/microtvm-api-server") {
		t.Errorf("without a server: %v, %s", err, out)
	}
	for _, path := range []string{
		filepath.Join(onPath, "microtvm-api-server"),
		filepath.Join(p.Dir(), "microtvm-api-server"), filepath.Join(onPath, "mine"),
	} {
		must(t, os.WriteFile(path, server, 0o755))
		env := "NOTHING=1"
		if filepath.Base(path) == "mine" {
			env = "BOARDSMITH_API_SERVER=" + path
		}
		if out, err := start(env); err != nil || out != path+" x.py --read-fd 3\n" {
			t.Errorf("%s: %v, %s", path, err, out)
		}
	}
}

func FuzzProjectJSON(f *testing.F) {
	corpus.Add(f)
	s := projectfile.State{
		Format: projectfile.Format, Board: projectfile.Board{Name: "host"},
		Template: projectfile.Template{
			Name: "baremetal",
			Description: templatefile.Description{
				Build: []string{"make"}, Inputs: []string{"src"}, ELF: "build/a.elf",
				Map: "build/a.map",
			},
		},
		Files: map[string]string{"src/main.c": cachekey.Digest(nil)},
	}
	s.Board.Toolchain.CC, s.Board.Toolchain.AR = "cc", "ar"
	good, err := s.Bytes()
	must(f, err)
	f.Add(good)
	s.Pending = s.Files
	pending, err := s.Bytes()
	must(f, err)
	f.Add(pending)
	for _, bad := range []string{
		`{}`, `{"format": 2}`, `[]`, `{"format":1,"files":{"../x":""}}`,
		`{"format":1,"template":{"elf":"/a/b"}}`, string(good) + "{}", string(good[:len(good)/2]),
	} {
		f.Add([]byte(bad))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := projectfile.Parse(data)
		if err != nil {
			return
		}
		for name := range s.Files {
			if !filepath.IsLocal(name) {
				t.Errorf("took the file %q", name)
			}
		}
		again, err := s.Bytes()
		must(t, err)
		twice, err := projectfile.Parse(again)
		if err != nil {
			t.Fatalf("the written state cannot be read: %v\n%s", err, again)
		}
		third, err := twice.Bytes()
		must(t, err)
		if !bytes.Equal(again, third) || !json.Valid(again) {
			t.Errorf("written twice it differs:\n%s\n%s", again, third)
		}
	})
}

// An env is what a test's builder and desk have.
type env struct {
	device.Host
	Jobs     int
	Fresh    bool
	Programs []string

	Programmer string
	Reflash    bool
	Wait       time.Duration
	File       *device.DeskFile
	StateDir   string
	Ledger     string
	LeaseDir   string
	Tool       func(name string) (path string, err error)
}

func (e env) builder() *Builder {
	return &Builder{Host: e.Host, Jobs: e.Jobs, Forms: true, Fresh: e.Fresh, Programs: e.Programs}
}

func (e env) desk() *device.Desk {
	return &device.Desk{
		Host: e.Host, Programmer: e.Programmer, Reflash: e.Reflash, Wait: e.Wait, File: e.File,
		StateDir: e.StateDir, Ledger: e.Ledger, LeaseDir: e.LeaseDir, Tool: e.Tool,
	}
}

func generateIn(ctx context.Context, dir string, s Spec, e env) (*Project, error) {
	return e.builder().Generate(ctx, dir, s)
}

func attach(ctx context.Context, b *boards.Board, which string, e env) (*device.Device, error) {
	return e.desk().Attach(ctx, b, which)
}

func load(dir string, e env) (*Project, error) { return e.builder().Open(dir) }

func clean(ctx context.Context, dir string, force bool, e env) error {
	return e.builder().Clean(ctx, dir, force)
}

// TestBoardIsCopy: nobody who asks for the board changes the project, whose kept folders depend on it.
func TestBoardIsCopy(t *testing.T) {
	t.Parallel()
	p := generated(t, Spec{})
	before := p.state.Board.Board
	p.Board().Link.Kind = "none"
	if after := p.state.Board.Board; !reflect.DeepEqual(before, after) {
		t.Errorf("%+v became %+v", before, after)
	}
}

// keptDirs returns the kept folders of a cache.
func keptDirs(t *testing.T, c *cache.Cache) (all []string) {
	t.Helper()
	f, err := c.Borrow(cachekey.Key{})
	must(t, err)
	f.Discard()
	dirs, err := filepath.Glob(filepath.Join(filepath.Dir(filepath.Dir(f.Dir)), "*", "*", "build"))
	must(t, err)
	for _, dir := range dirs {
		all = append(all, filepath.Dir(dir))
	}
	return all
}

// NewEnough reports whether the installed emulator supports the board's machine. Tests of all emulated boards skip a
// board for which it does not, with the reason in their log.
func NewEnough(t *testing.T, b *boards.Board) bool {
	t.Helper()
	_, emulator, err := device.MissingTools(t.Context(), b)
	must(t, err)
	if len(emulator) > 0 && emulator[0].Needs != "" {
		t.Logf("without board %s: %v: %s", b.Name, emulator[0], failure.Next(emulator[0]))
		return false
	}
	return true
}

func findBoard(t *testing.T, name string) *boards.Board {
	t.Helper()
	b, err := boards.Find(name, nil)
	must(t, err)
	return b
}

func newCache(t *testing.T) *cache.Cache {
	t.Helper()
	return cache.New(t.TempDir(), cache.Options{})
}

// running starts the project's firmware, which ends with the test.
func running(t *testing.T, p *Project) *rpc.Session {
	t.Helper()
	s, err := p.Run(t.Context(), testEnv().desk(), "")
	must(t, err)
	t.Cleanup(func() { _ = s.Close(context.Background()) })
	return s
}

func linkerOf(t *testing.T, p *Project) *OperatorLinker {
	t.Helper()
	l, err := p.OperatorLinker(t.Context())
	must(t, err)
	return l
}

// openELF opens an image's file until the test ends.
func openELF(t *testing.T, i *image.Image) *elf.File {
	t.Helper()
	f, err := elf.Open(i.Path)
	must(t, err)
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// needCompiler skips where the board's compiler is not installed.
func needCompiler(t *testing.T, b *boards.Board) {
	t.Helper()
	compiler, _, err := device.MissingTools(t.Context(), b)
	must(t, err)
	if len(compiler) > 0 {
		t.Skip(compiler[0])
	}
}
