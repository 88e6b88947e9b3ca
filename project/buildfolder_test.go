package project

import (
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/blueprint"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
	"github.com/boardsmith/boardsmith/internal/workdir"
	"github.com/boardsmith/boardsmith/templates"
)

// copyOfBaremetal returns a copy of the bare-metal template with other texts in template.json.
func copyOfBaremetal(t *testing.T, pairs ...string) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "baremetal") // boards know it by this name
	files, err := fs.Sub(templates.FS, "baremetal")
	must(t, err)
	must(t, os.CopyFS(dir, files))
	at := filepath.Join(dir, blueprint.TemplateFile)
	text, err := os.ReadFile(at)
	must(t, err)
	for i := 0; i < len(pairs); i += 2 {
		if !strings.Contains(string(text), pairs[i]) {
			t.Fatalf("%s has no %q", blueprint.TemplateFile, pairs[i])
		}
	}
	must(t, os.Chmod(at, 0o644))
	must(t, os.WriteFile(at, []byte(strings.NewReplacer(pairs...).Replace(string(text))), 0o644))
	return dir
}

// buildsElsewhere is a template whose build folder is called mydata.
func buildsElsewhere(t *testing.T) (dir string) {
	t.Helper()
	dir = copyOfBaremetal(t, `"build/`, `"mydata/`)
	at := filepath.Join(dir, "Makefile")
	text, err := os.ReadFile(at)
	must(t, err)
	must(t, os.Chmod(at, 0o644))
	must(t, os.WriteFile(at, []byte(strings.Replace(string(text), "BUILD := build\n", "BUILD := mydata\n", 1)), 0o644))
	return dir
}

// TestUsersFolderAsBuildFolder: a template, or an edited project.json, that names a folder of the user's as the build
// folder does not make any step remove a file of the user's there.
func TestUsersFolderAsBuildFolder(t *testing.T) {
	t.Parallel()
	const precious = "mydata/thesis.tex"
	spec := Spec{Board: "host", Model: mlftest.Tiny(t, nil)}
	for name, prepare := range map[string]func(t *testing.T, dir string) Spec{
		"another template": func(t *testing.T, dir string) Spec {
			other := spec
			other.Template, other.Force = buildsElsewhere(t), true
			return other
		},
		"edited project.json": func(t *testing.T, dir string) Spec {
			state := filepath.Join(dir, blueprint.StateFile)
			text, err := os.ReadFile(state)
			must(t, err)
			must(t, os.WriteFile(state, []byte(strings.ReplaceAll(string(text), `"build/`, `"mydata/`)), 0o644))
			return Spec{}
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "p")
			must(t, generated(t, dir, spec).Close())
			writeIn(t, dir, precious, "precious")
			writeIn(t, dir, "mydata/build.json", `{"format": 1, "build_id": "00112233445566778899aabbccddeeff",
				"others": {"mydata/thesis.tex": "00", "Makefile": "00"}}`) // of no build
			other := prepare(t, dir)
			p, err := load(dir, testEnv())
			must(t, err)
			if other.Board != "" {
				must(t, p.Generate(t.Context(), other))
				built(t, p)
			} else if _, err = p.Build(t.Context()); err == nil {
				t.Error("the build command makes build/, not mydata/")
			}
			must(t, p.Close())
			must(t, clean(t.Context(), dir, true, testEnv()))
			left := contents(t, dir)
			if delete(left, "mydata/build.json"); len(left) != 1 || left[precious] != "precious" {
				t.Errorf("clean left %v", slices.Sorted(maps.Keys(left)))
			}
		})
	}
}

// TestBuildFolderByHand: what make by hand leaves in the build folder stays through builds and clean, and no build uses
// it.
func TestBuildFolderByHand(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "p")
	p := generated(t, dir, Spec{Model: mlftest.Tiny(t, nil)})
	first := built(t, p)
	byHand := func(args ...string) string {
		t.Helper()
		out, err := exec.Command("make", append(args, "-C", dir)...).CombinedOutput()
		if err != nil {
			t.Fatalf("make: %v\n%s", err, out)
		}
		return string(out)
	}
	byHand("clean")
	byHand("-j2")
	const object = "build/model/lib1.o"
	writeIn(t, dir, object, "no object")
	if i := built(t, p); i.Digest != first.Digest {
		t.Error("the build after one by hand differs")
	}
	if contents(t, dir)[object] != "no object" {
		t.Errorf("%s was removed", object)
	}
	must(t, os.Remove(filepath.Join(dir, object)))
	if out := byHand("build/firmware.elf"); strings.Contains(out, "crt/src") {
		t.Errorf("make compiles the runtime once more after a build:\n%s", out)
	}
	built(t, p)
	must(t, p.Close())
	must(t, clean(t.Context(), dir, false, testEnv()))
	for name := range contents(t, dir) {
		if !strings.HasPrefix(name, "build/") || name == "build/build.json" || name == "build/firmware.elf" {
			t.Errorf("left behind: %s", name)
		}
	}
}

// TestFormerBuildFolder: a template with another build folder removes the results of the template before.
func TestFormerBuildFolder(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "p")
	spec := Spec{Board: "host", Model: mlftest.Tiny(t, nil)}
	p := generated(t, dir, spec)
	built(t, p)
	spec.Template = buildsElsewhere(t)
	writeIn(t, spec.Template, "build/new.txt", "a source of this template")
	must(t, p.Generate(t.Context(), spec))
	all := contents(t, dir)
	if _, has := all["build/firmware.elf"]; has || all["build/new.txt"] == "" {
		t.Errorf("the former build folder has its image: %v, the new template's file: %v", has, all["build/new.txt"] != "")
	}
	built(t, p)
	must(t, p.Close())
	must(t, clean(t.Context(), dir, false, testEnv()))
	if _, err := os.Stat(dir); err == nil {
		t.Errorf("left behind: %d files", len(contents(t, dir)))
	}
}

// TestReservedNames: a template uses no name of boardsmith's own files, and has no files in its build folder.
func TestReservedNames(t *testing.T) {
	t.Parallel()
	names := []string{
		workdir.StageFolder, blueprint.ModelTar, blueprint.StateFile, workdir.LockFile, workdir.TurnFile, workdir.HolderFile,
		blueprint.TemporaryPrefix + blueprint.StateFile + "1",
		"Project.json",
	}
	folder := copyOfBaremetal(t)
	good, err := os.ReadFile(filepath.Join(folder, blueprint.TemplateFile))
	must(t, err)
	try := func(what, name, text string) {
		t.Helper()
		must(t, os.WriteFile(filepath.Join(folder, blueprint.TemplateFile), []byte(text), 0o644))
		dir := filepath.Join(t.TempDir(), "p")
		p, err := generate(t.Context(), dir, Spec{Board: "host", Template: folder, Model: mlftest.Tiny(t, nil)}, testEnv())
		if err == nil {
			must(t, p.Close())
		}
		if failure.Of(err) != failure.Config || !strings.Contains(err.Error(), name) {
			t.Errorf("%s %s: %v", what, name, err)
		}
		if _, err := os.Stat(dir); err == nil {
			t.Errorf("%s %s: something was written", what, name)
		}
	}
	for _, name := range names {
		try("build folder", name, strings.ReplaceAll(string(good), `"build/`, `"`+name+`/`))
		for _, kind := range []string{"model", "runtime"} {
			try(kind, name, strings.Replace(string(good), `"landmarks": {`,
				`"landmarks": {"folders": {"`+kind+`": "`+name+`/x"},`, 1))
		}
		writeIn(t, folder, name, "x")
		try("file", name, string(good))
		must(t, os.Remove(filepath.Join(folder, name)))
	}
	try("file in the build folder", "src/", strings.ReplaceAll(string(good), `"build/`, `"src/`))
}
