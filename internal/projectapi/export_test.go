package projectapi

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/chipkeeper"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
)

// executable compiles the server's executable.
func executable(t *testing.T) string {
	t.Helper()
	path := t.TempDir() + "/" + Program
	build := exec.CommandContext(t.Context(), "go", "build", "-o", path, "../../cmd/"+Program)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return path
}

// kiln returns the file of a board with a template of its own.
func kiln(doc string) string {
	return `{"doc": "` + doc + `", "inherits": "cpu/native", "templates": ["kiln"],
		"link": {"kind": "process"}, "flash": {"programmer": "none"}}`
}

// TestExportTemplate: a template that boardsmith.json names goes into the folder, in which its board's projects find
// it; one that would be missing there is refused.
func TestExportTemplate(t *testing.T) {
	t.Parallel()
	own := t.TempDir()
	testkit.WriteFiles(t, own, map[string]string{
		"boards/kiln.json":       kiln("kiln"),
		"firmware/template.json": `{"doc": "kiln", "inherits": "minimal"}`,
		"firmware/Makefile":      "build/firmware.elf:\n",
		"server":                 "",
	})
	e := Export{Board: "kiln", Path: []string{own}, Executable: own + "/server"}
	err := e.Write(t.TempDir() + "/a")
	wantError(t, err, failure.Config, `template "kiln" of board kiln is not known`)
	e.Templates = map[string]string{"kiln": own + "/firmware"}
	dir := t.TempDir() + "/b"
	must(t, e.Write(dir))
	g := generation{Dir: t.TempDir() + "/p", Archive: mlftest.Path(t, "add.aot_packed")}
	must(t, folderAt(t, dir).Generate(t.Context(), g, nil))
}

// TestExportPrecedence: of boards and templates with one name, the first folder has those that are exported, as
// boards.Find has it, and a template has no files of another one.
func TestExportPrecedence(t *testing.T) {
	t.Parallel()
	e := Export{Board: "kiln", Executable: t.TempDir() + "/server"}
	writeFile(t, e.Executable, "")
	for _, doc := range []string{"first", "second"} {
		root := t.TempDir()
		e.Path = append(e.Path, root)
		testkit.WriteFiles(t, root, map[string]string{
			"boards/kiln.json":             kiln(doc),
			"templates/kiln/template.json": `{"doc": "` + doc + `", "inherits": "minimal"}`,
			"templates/kiln/" + doc + ".c": "",
		})
	}

	dir := t.TempDir() + "/exported"
	must(t, e.Write(dir))
	for _, name := range []string{"boards/kiln.json", "templates/kiln/template.json"} {
		testkit.WantText(t, string(readFile(t, dir+"/"+name)), "first")
	}
	if _, err := os.Stat(dir + "/templates/kiln/second.c"); err == nil {
		t.Error("the template has a file of the other one")
	}
}

// TestExport drives the real executable in an exported folder, from which nothing else is needed: archive, project,
// build, run.
func TestExport(t *testing.T) {
	t.Parallel()
	_ = folderOf(t, "none") // skips on Windows
	needTools(t, "host")
	own := t.TempDir()
	writeFile(t, own+"/boards/mine.json", string(readFile(t, "../../boards/host.json")))
	dir := t.TempDir() + "/a/template"
	keeper := t.TempDir() + "/" + chipkeeper.Program
	testkit.WriteProgram(t, keeper, "#!/bin/sh\n")
	e := Export{Board: "mine", Path: []string{own}, Executable: executable(t), Companions: []string{keeper}}
	must(t, e.Write(dir))
	wantError(t, e.Write(dir), "", "is not an empty folder")
	wantError(t, Export{Board: "nobody", Executable: e.Executable}.Write(dir+"2"), "")
	for _, outside := range []Export{
		{Board: own + "/boards/mine.json"}, {Board: "mine", Template: own}, {Board: "mine", Template: "none"},
	} {
		outside.Path, outside.Executable = e.Path, e.Executable
		wantError(t, outside.Write(dir+"2"), "", "BOARDSMITH_PATH")
	}
	wantError(t, Export{Executable: dir + "/no"}.Write(dir+"3"), "")
	left, err := os.ReadDir(filepath.Dir(dir))
	if err != nil || len(left) != 1 {
		t.Errorf("failed exports left %v, %v", left, err)
	}
	moved := t.TempDir() + "/moved"
	must(t, errors.Join(os.RemoveAll(own), os.Rename(dir, moved)))
	dir = moved

	home := "BOARDSMITH_HOME=" + t.TempDir()
	template := started(t, dir, home)
	archive := mlftest.Path(t, "add.aot_packed")
	made := t.TempDir() + "/p"
	must(t, template.Generate(archive, "", made, nil))
	if _, err := os.Stat(made + "/" + chipkeeper.Program); err != nil {
		t.Errorf("the keeper of emulated chips: %v", err)
	}
	// A project does not need the template.
	must(t, errors.Join(template.Close(), os.RemoveAll(dir)))
	p := started(t, made, home)
	testkit.Equal(t, "board", p.Info.Platform, "mine")
	l, _ := p.flashed(t)
	if runtime.GOOS == "linux" {
		checkPipes(t, p)
	}
	runOver(t, l, archive)
}

// checkPipes: of the processes, only this one and the server have the pipe for requests. If the server's child, the
// firmware, had it too, the server's end would not be the pipe's.
func checkPipes(t *testing.T, c *client) {
	t.Helper()
	raw, err := c.requests.SyscallConn()
	must(t, err)
	var pipe string
	err = raw.Control(func(fd uintptr) { pipe, err = os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd)) })
	if err != nil || !strings.HasPrefix(pipe, "pipe:") {
		t.Fatalf("%s, %v", pipe, err)
	}
	files, err := filepath.Glob("/proc/[0-9]*/fd/*")
	must(t, err)
	var owners []string
	for _, file := range files {
		if to, err := os.Readlink(file); err == nil && to == pipe { // processes may end meanwhile
			program, _ := os.Readlink(filepath.Dir(filepath.Dir(file)) + "/exe")
			owners = append(owners, filepath.Base(program))
		}
	}
	slices.Sort(owners)
	owners = slices.Compact(owners)
	self, err := os.Executable()
	must(t, err)
	testkit.Equal(t, "the pipe for requests is open in", owners, []string{Program, filepath.Base(self)})
}

// TestExportedC compiles what TVM copies from a template folder into archives.
func TestExportedC(t *testing.T) {
	t.Parallel()
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		t.Skip("no gcc")
	}
	dir := t.TempDir()
	for _, name := range []string{"crt_config.h", "platform.c"} {
		data, err := exported.ReadFile("export/" + name + ".template")
		must(t, err)
		writeFile(t, dir+"/"+name, string(data))
	}
	cmd := exec.CommandContext(t.Context(), gcc, "-std=c11", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-I"+dir,
		"-I../../crt/include", dir+"/platform.c")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
