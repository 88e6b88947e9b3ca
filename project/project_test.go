package project

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/cachekey"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/corpus"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
	"github.com/boardsmith/boardsmith/project/internal/projectfile"
	"github.com/boardsmith/boardsmith/project/internal/templatefile"
)

func TestGolden(t *testing.T) {
	dir := generated(t, Spec{}).Dir()
	golden(t, "host.files", listed(t, dir))
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
		want := readFile(t, "../templates/baremetal/"+name)
		if !slices.Equal(strings.Fields(all[name]), strings.Fields(want)) {
			t.Errorf("%s: got\n%s\nthe template has\n%s", name, all[name], want)
		}
	}
}

// listed lists the files of a folder with their modes, except the runtime's sources.
func listed(t *testing.T, dir string) string {
	t.Helper()
	var list strings.Builder
	for _, name := range slices.Sorted(maps.Keys(contents(t, dir))) {
		if !strings.HasPrefix(name, "crt/") {
			info, err := os.Stat(filepath.Join(dir, name))
			must(t, err)
			fmt.Fprintf(&list, "%v %s\n", info.Mode(), name)
		}
	}
	return list.String()
}

func TestOptionsReachTheHeader(t *testing.T) {
	t.Parallel()
	p := generated(t, Spec{
		Options: boards.Options{ArenaKiB: 64, PacketBytes: 1024, LogLevel: "error", OperatorOpt: "O3"},
	})
	all := contents(t, p.Dir())
	for name, want := range map[string]string{
		"crt_config/crt_config.h": "#define BOARDSMITH_ARENA_BYTES 65536\n#define TVM_CRT_MAX_PACKET_SIZE_BYTES 1024\n",
		"crt_config/operators.mk": "OPERATOR_OPT := O3\n",
	} {
		if !strings.Contains(all[name], want) {
			t.Errorf("%s has not\n%s:\n%s", name, want, all[name])
		}
	}
	built(t, p)
	q := reopened(t, p)
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
	p := generated(t, Spec{})
	if len(p.Wrote()) < 30 {
		t.Errorf("the first time it wrote only %q", p.Wrote())
	}
	before := contents(t, p.Dir())
	wrote := func(model string, want ...string) {
		t.Helper()
		must(t, p.Generate(t.Context(), Spec{Board: "host", Model: model}))
		if !slices.Equal(p.Wrote(), want) {
			t.Errorf("it wrote %q, want %q", p.Wrote(), want)
		}
	}
	wrote(mlftest.Tiny(t, nil))
	if !maps.Equal(before, contents(t, p.Dir())) {
		t.Error("the second time it changed something")
	}

	other := mlftest.Tiny(t, map[string]string{
		"codegen/host/src/lib1.c": mlftest.TinyOperator + "// longer\n",
		"src/tir-1.txt":           "", "src/new.txt": "new",
	})
	wrote(other, "model.tar", operatorFile, "model/src/new.txt", "model/src/tir-1.txt")
	absent(t, p.at("model/src/tir-1.txt"))
	must(t, os.Remove(p.at("src/main.c")))
	wrote(other, "src/main.c")
}

// operatorFile is the operator's source of mlftest.Tiny in a project.
const operatorFile = "model/codegen/host/src/lib1.c"

func TestEditedFiles(t *testing.T) {
	t.Parallel()
	model := mlftest.Tiny(t, nil)
	p := generated(t, Spec{})
	dir, main := p.Dir(), p.at("src/main.c")
	first, original := built(t, p), readFile(t, main)
	const edit = "extern int mine;\nint mine; // mine\n"
	appendTo(t, main, edit)

	second := built(t, p)
	if second.ID() == first.ID() || !slices.Equal(second.Edited, []string{"src/main.c"}) || second.UpToDate {
		t.Errorf("build with an edited file: %+v", second)
	}
	if s := contents(t, dir)["project.json"]; !strings.Contains(s, `"edited": [`) {
		t.Errorf("project.json does not show the edited file:\n%s", s)
	}

	// main.c does not depend on the model.
	other := mlftest.Operator(t, mlftest.TinyOperator+"int second; // second\n")
	must(t, p.Generate(t.Context(), Spec{Board: "host", Model: other}))
	if all := contents(t, dir); !slices.Equal(p.Preserved(), []string{"src/main.c"}) || all["src/main.c.orig"] != "" ||
		!strings.HasSuffix(all["src/main.c"], "// mine\n") || !strings.Contains(all[operatorFile], "// second") {
		t.Errorf("generate for another model beside an edited file: %q stayed", p.Preserved())
	}
	if third := built(t, p); !slices.Equal(third.Edited, []string{"src/main.c"}) || third.ID() == second.ID() {
		t.Errorf("build for another model with an edited file: %+v", third)
	}

	operator := readFile(t, p.at(operatorFile))
	appendTo(t, p.at(operatorFile), "// mine\n")
	before := contents(t, dir)
	err := p.Generate(t.Context(), Spec{Board: "host", Model: model})
	wantError(t, err, failure.Config, "generated: "+operatorFile)
	must(t, p.Close())
	cleaned := newBuilder().Clean(t.Context(), dir, false)
	if !errors.Is(err, ErrEdited) || !errors.Is(cleaned, ErrEdited) || !maps.Equal(before, contents(t, dir)) {
		t.Errorf("files were changed, or the errors are %v and %v", err, cleaned)
	}
	writeFile(t, p.at(operatorFile), operator)

	for i, copied := range []string{"src/main.c.orig", "src/main.c.orig.1"} {
		p = generatedIn(t, dir, Spec{Model: model, Force: true})
		all := contents(t, dir)
		if all["src/main.c"] != original || all[copied] != original+edit {
			t.Errorf("force %d: main.c replaced: %v, copy kept: %v", i, all["src/main.c"] == original, all[copied] != "")
		}
		if third := built(t, p); third.ID() != first.ID() || third.Digest != first.Digest {
			t.Errorf("force %d: the build is not the first one again", i)
		}
		must(t, p.Close())
		appendTo(t, main, edit)
	}

	writeFile(t, main, original)
	must(t, newBuilder().Clean(t.Context(), dir, false))
	left := contents(t, dir)
	if len(left) != 2 || left["src/main.c.orig"] == "" {
		t.Errorf("after clean there are %d files", len(left))
	}
}

func TestFolderOfSomebodyElse(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "thesis.tex"), "x")
	_, err := generateIn(t, dir, Spec{Force: true})
	wantError(t, err, failure.Config, "is not a project")
	wantError(t, newBuilder().Clean(t.Context(), dir, true), failure.Config)
	_, err = newBuilder().Open(dir)
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
	for want, s := range map[string]Spec{
		`did you mean "host"?`: {Board: "hots", Model: good},
		`template "baremetl" is not known; did you mean "baremetal"?`: {Template: "baremetl", Model: good},
		`no folder`:         {Template: "./no", Model: good},
		"no model":          {},
		"no such file":      {Model: good + "x"},
		"empty":             {Model: file},
		`no model "thrice"`: {Model: good, ModelName: "thrice"},
		"packet_bytes":      {Model: good, Options: boards.Options{PacketBytes: 3}},
		"C++ sources are not supported": {
			Model: mlftest.Tiny(t, map[string]string{"codegen/host/src/lib2.cc": "class X;"}),
		},
	} {
		t.Run(want, func(t *testing.T) {
			s.Board = cmp.Or(s.Board, "host")
			home := filepath.Join(t.TempDir(), "a")
			_, err := newBuilder().Generate(t.Context(), filepath.Join(home, "b"), s)
			wantError(t, err, failure.Config, want)
			absent(t, home)
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
	b := newBuilder(home)
	own := generated(t, Spec{Board: "mine"}, b)
	all := contents(t, own.Dir())
	if all["out/old.o"] != "" || all["src/extra.c"] == "" || all["crt_config/board.mk"] != "" {
		t.Error("the user's template was not copied as it should")
	}
	if i := built(t, own); filepath.Base(i.Path) != "a.elf" {
		t.Errorf("built %s", i.Path)
	}
	_, err := generate(t, Spec{Board: "mine", Options: boards.Options{LogLevel: "warn"}}, b)
	wantError(t, err, failure.Config, "log_level has no effect")
	built(t, generated(t, Spec{Board: "mine", Template: "baremetal"}, b))
	_, err = generate(t, Spec{Template: "small"}, b)
	wantError(t, err, failure.Config, "does not build with template small")
}

// TestLaunchScript starts the server of TVM's Project API by the project's script, in each of its ways.
func TestLaunchScript(t *testing.T) {
	t.Parallel()
	p := generated(t, Spec{})
	onPath := t.TempDir()
	start := func(env ...string) (string, error) {
		cmd := exec.Command(p.at("launch_microtvm_api_server.sh"), "x.py", "--read-fd", "3")
		cmd.Env = append([]string{"PATH=" + onPath + ":" + os.Getenv("PATH")}, env...)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if out, err := start(); err == nil ||
		!strings.Contains(out, "go install github.com/boardsmith/boardsmith/cmd/microtvm-api-server") {
		t.Errorf("without a server: %v, %s", err, out)
	}
	for _, path := range []string{onPath + "/microtvm-api-server", p.at("microtvm-api-server"), onPath + "/mine"} {
		testkit.WriteProgram(t, path, "#!/bin/sh\necho \"$0\" \"$@\"\n")
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
