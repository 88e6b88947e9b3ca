package project

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/project/internal/projectfile"
	"github.com/boardsmith/boardsmith/project/internal/templatefile"
	"github.com/boardsmith/boardsmith/templates"
)

// TestNoTemplateInGo checks that template.json holds everything particular to a template: Go code contains no name of
// its linker script or its port.
func TestNoTemplateInGo(t *testing.T) {
	t.Parallel()
	name := regexp.MustCompile(`\bbare_\w+|\blink\.ld\.S\b|"(stm32_chip|cortexm_\w+|take_pages|send_bytes|boardsmith_port)"`)
	read := 0
	must(t, filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && d.Name() == ".git" {
			return fs.SkipDir
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		read++
		data, err := os.ReadFile(path)
		for _, found := range name.FindAllString(string(data), -1) {
			t.Errorf("%s: %s is a name of the template baremetal", path, found)
		}
		return err
	}))
	if read < 100 {
		t.Errorf("only %d files were read", read)
	}
}

// An outsideTemplate stands for a template of an operating system with a source tree of its own. Its build command
// takes its environment from the template and from the user, and compiles files outside of the project.
const outsideTemplate = `{"doc": "outside", "build": ["sh", "build.sh", "{jobs}", "{zephyr_board}"], "inputs": ["build.sh"],
	"env": {"OS_BASE": "$OS_BASE", "VARIANT": "gnu tools", "TOOLCHAIN_PATH": "{toolchain}"}, "outside": ["$OS_BASE/VERSION", "$OS_BASE/kernel"],
	"generate": [], "tools": [], "options": [],
	"elf": "out/deep/a.elf", "map": "out/deep/a.map", "results": ["out/*"], "forms": {"bin": "out/deep/a.bin"}}`

// TestFirmwareFolder: a template gets the C that templates share in the folder that it names, and may replace files.
func TestFirmwareFolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writeIn(t, dir, "module/app/main.c", "int main(void) { return 0; }\n")
	find := func(folder string) (*templatefile.Template, error) {
		return findWith(t, dir, `"firmware": "`+folder+`"`)
	}
	common, err := fs.Glob(templates.FS, commonFolder+"/*.[ch]")
	must(t, err)
	if len(common) < 5 || !slices.Contains(common, commonFolder+"/port.h") {
		t.Fatalf("the common C is %q", common)
	}
	found, err := find("module/app")
	must(t, err)
	want := map[string]string{}
	for _, name := range common {
		want["module/app/"+path.Base(name)] = readFile(t, "../templates/"+name)
	}
	want["module/app/main.c"] = "int main(void) { return 0; }\n"
	checkPlanned(t, found, want)
	for _, folder := range []string{"..", "/src", "a/../b", ".", ".boardsmith.stage", "project.json/x"} {
		_, err := find(folder)
		wantError(t, err, failure.Config)
	}
}

// findWith returns outsideTemplate with more fields, in a folder.
func findWith(t *testing.T, dir, fields string) (*templatefile.Template, error) {
	t.Helper()
	writeIn(t, dir, templatefile.TemplateFile, strings.Replace(outsideTemplate, `"inputs"`, fields+`, "inputs"`, 1))
	return templatefile.Find(dir+"/", nil)
}

// checkPlanned compares files that a project of a template would have.
func checkPlanned(t *testing.T, of *templatefile.Template, want map[string]string) {
	t.Helper()
	a, err := mlf.Open(mlftest.Tiny(t, nil))
	must(t, err)
	b := findBoard(t, "host")
	b.Sources = nil
	pl := &plan{board: b, template: of, archive: a, model: a.Models[0], files: map[string]planned{}}
	must(t, pl.add())
	for name, text := range want {
		if got, err := pl.files[name].read(); err != nil || string(got) != text {
			t.Errorf("%s is %q (%v)", name, got, err)
		}
	}
}

// TestCopies: a project gets folders of other templates, in which files of its own template replace theirs.
func TestCopies(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writeIn(t, dir, "module/os/server.c", "int mine;\n")
	found, err := findWith(t, dir, `"copies": {"module": "zephyr/boardsmith"}`)
	must(t, err)
	checkPlanned(t, found, map[string]string{
		"module/os/start.c":  readFile(t, "../templates/zephyr/boardsmith/os/start.c"),
		"module/os/server.c": "int mine;\n",
	})
	for _, copies := range []string{
		`"..": "zephyr/boardsmith"`, `"project.json": "zephyr/boardsmith"`, `"a": "zephyr"`, `"a": "zephyr/../baremetal"`,
		`"a": "zephyr/nothing"`, `"a": "zephyr/prj.conf"`, `"a": "zephir/boardsmith"`,
	} {
		_, err := findWith(t, dir, `"copies": {`+copies+`}`)
		wantError(t, err, failure.Config)
	}
}

// An unreadableFolder is a file system with a folder that cannot be read.
type unreadableFolder struct{ fs.FS }

var errUnreadable = errors.New("unreadable")

func (f unreadableFolder) Open(name string) (fs.File, error) {
	if name == "src" {
		return nil, errUnreadable
	}
	return f.FS.Open(name)
}

// TestTemplateUnreadable: a project is not generated without the files that cannot be read.
func TestTemplateUnreadable(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writeIn(t, dir, "src/main.c", "int main(void) { return 0; }\n")
	pl := &plan{files: map[string]planned{}}
	err := pl.addTree(unreadableFolder{os.DirFS(dir)}, "", func(string) bool { return true })
	if wantError(t, err, failure.Config); !errors.Is(err, errUnreadable) {
		t.Errorf("%v", err)
	}
}

// TestTemplateLinks: links to files of the same folder are followed; others are errors that name the link.
func TestTemplateLinks(t *testing.T) {
	t.Parallel()
	for link, want := range map[string]error{
		"../secret.c": errLeadsOut, "/etc/passwd": errLeadsOut, "sub/../../secret.c": errLeadsOut, "up.c": errLeadsOut,
		"none.c": fs.ErrNotExist, "link.c": errManyLinks, "sub": errToFolder, "sub/a.c": nil, "beside.c": nil,
		"down/a.c": nil,
	} {
		home := t.TempDir()
		dir := filepath.Join(home, "template")
		writeIn(t, home, "secret.c", "secret\n")
		writeIn(t, dir, "sub/a.c", "int a;\n")
		for name, to := range map[string]string{
			"link.c": link, "excluded.c": "../secret.c", ".#a.c": "user@host.7", "sub/up": "..",
			"up.c": "../secret.c", "beside.c": "sub/a.c", "down": "sub",
		} {
			if err := os.Symlink(to, filepath.Join(dir, filepath.FromSlash(name))); err != nil {
				t.Skip(err)
			}
		}
		pl := &plan{files: map[string]planned{}}
		err := pl.addTree(os.DirFS(dir), "to", func(name string) bool { return name == "link.c" || name == ".#a.c" })
		if want != nil {
			if wantAdvice(t, err, failure.Config, filepath.Join(dir, "link.c")); !errors.Is(err, want) {
				t.Errorf("to %s: %v, want %v", link, err, want)
			}
			continue
		}
		must(t, err)
		if text, err := pl.files["to/link.c"].read(); string(text) != "int a;\n" || len(pl.files) != 1 {
			t.Errorf("to %s: %q, %v, %d files", link, text, err, len(pl.files))
		}
	}
}

// gitIn runs git in a folder, with a name and without the user's configuration.
func gitIn(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=a", "-c", "user.email=a@example.org"},
		args...)...)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
	return strings.TrimSpace(output(t, cmd))
}

func commitAll(t *testing.T, dir string) string {
	t.Helper()
	gitIn(t, dir, "add", "-A")
	gitIn(t, dir, "commit", "-q", "-m", "m")
	return gitIn(t, dir, "rev-parse", "HEAD")
}

// kiln makes a small template of that name in a folder, and returns the path of a board file for it.
func kiln(t *testing.T, dir string) (board string) {
	t.Helper()
	need(t, "git")
	putFiles(t, dir, map[string]string{
		templatefile.TemplateFile: `{"doc": "kiln", "build": ["sh", "build.sh"], "inputs": ["build.sh", "src"],
			"generate": [], "tools": [], "options": [], "elf": "out/kiln.elf",
			"map": "out/kiln.map"}`,
		"build.sh":   "set -e\ncc -g0 -o out/kiln.elf -Wl,-Map=out/kiln.map -Wl,--build-id=md5 src/kiln.c\n",
		"src/kiln.c": "int main(void) { return 1; }\n",
	})
	board = filepath.Join(t.TempDir(), "boards", "kiln_host.json")
	writeFile(t, board, `{"doc": "mine", "inherits": "cpu/native", "templates": ["kiln"], "link": {"kind": "process"},
		"flash": {"programmer": "none"}}`)
	return board
}

// TestOwnTemplateFails: an error names what the author of a template has to change: a file that is excluded from the
// inputs, the folder of a header; and the command that reproduces it includes what ran before.
func TestOwnTemplateFails(t *testing.T) {
	t.Parallel()
	const script = "set -e\ncc -g0 -o out/kiln.elf -Wl,-Map=out/kiln.map -Wl,--build-id=md5 src/kiln.c\n"
	for _, c := range []struct{ file, text, prepare, want, next string }{
		{
			"build.sh", "set -e\nsh tools/generate.sh\n" + script, ":", "tools/generate.sh is no input of template kiln",
			"name it in inputs of template kiln, or do not exclude it there",
		},
		{"src/kiln.c", "#include \"hal.h\"\n", ":", `the header is in folder "hal" of the project`, "folders of headers"},
		{
			"src/kiln.c", "#include \"hal.h\"\n", ": {zephyr_board}", `the header is in folder "hal" of the project`,
			"CMakeLists.txt: target_include_directories(app PRIVATE hal)",
		},
		{
			"src/kiln.c", "int x = y;\n", ":", "src/kiln.c is a copy: change it where it comes from (template kiln,",
			" sh -c : && ",
		},
		{"src/kiln.c", "#include \"end.h\"\n", ":", "In file included from ", " sh -c : && "},
	} {
		dir := filepath.Join(t.TempDir(), "a folder", "kiln")
		board := kiln(t, dir)
		putFiles(t, dir, map[string]string{
			templatefile.TemplateFile: `{"doc": "kiln", "prepare": [["sh", "-c", "` + c.prepare + `"]], "build": ["sh", "build.sh"],
				"inputs": ["!tools"], "generate": [], "tools": [], "options": [], "elf": "out/kiln.elf", "map": "out/kiln.map"}`,
			"tools/generate.sh": "", "hal/hal.h": "", "src/end.h": "int x = y;\n", c.file: c.text,
		})
		p := generatedIn(t, filepath.Join(t.TempDir(), "a folder", "p"), Spec{Board: board, Template: dir}, freshBuilder(t))
		wantError(t, buildError(t, p), "", c.want, c.next)
	}
}

func originOf(t *testing.T, p *Project) projectfile.Origin {
	t.Helper()
	s, err := projectfile.Read(p.Dir())
	must(t, err)
	if s.Template.Origin == nil {
		return projectfile.Origin{}
	}
	return *s.Template.Origin
}

// TestTemplateFromGit: project.json has the commit of a template that a URL and a branch name.
func TestTemplateFromGit(t *testing.T) {
	t.Parallel()
	repository := filepath.Join(t.TempDir(), "repository")
	board := kiln(t, filepath.Join(repository, "templates", "kiln"))
	gitIn(t, repository, "init", "-q", "-b", "main")
	url := "file://" + repository + "//templates/kiln@main"
	want := projectfile.Origin{URL: url, Commit: commitAll(t, repository)}
	p := generated(t, Spec{Board: board, Template: url}, freshBuilder(t))
	if got := originOf(t, p); got != want || p.Template() != "kiln" || p.TemplateFrom() != url {
		t.Errorf("%+v, %s, %s", got, p.Template(), p.TemplateFrom())
	}
	built(t, p)
}

// TestTemplateInWorkTree: a template's folder that is git's work tree has its commit in project.json, with what differs
// from it.
func TestTemplateInWorkTree(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "kiln")
	board := kiln(t, dir)
	spec := Spec{Board: board, Template: dir + "/", Model: mlftest.Tiny(t, nil)}
	p := generated(t, spec)
	if got := originOf(t, p); got != (projectfile.Origin{}) {
		t.Errorf("no repository, but %+v", got)
	}
	gitIn(t, dir, "init", "-q")
	commit := commitAll(t, dir)
	check := func(changed bool) {
		t.Helper()
		must(t, p.Generate(t.Context(), spec))
		if got := originOf(t, p); got.Commit != commit || (got.Changed != "") != changed || got.URL != "" {
			t.Errorf("%+v", got)
		}
	}
	check(false)
	writeIn(t, dir, "src/kiln.c", "int main(void) { return 2; }\n")
	check(true)
	commit = commitAll(t, dir)
	check(false)
	if p.TemplateFrom() != dir {
		t.Error(p.TemplateFrom())
	}
}

// TestTemplateWithoutCache: without a folder for the cache no template can be fetched.
func TestTemplateWithoutCache(t *testing.T) {
	for _, name := range []string{"BOARDSMITH_HOME", "XDG_CACHE_HOME", "HOME", "LocalAppData"} {
		t.Setenv(name, "")
	}
	_, err := generate(t, Spec{Template: "file:///nowhere@main"}, &Builder{})
	wantAdvice(t, err, "", "no cache folder")
}
