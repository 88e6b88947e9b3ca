package project

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/blueprint"
	"github.com/boardsmith/boardsmith/internal/filelock"
	"github.com/boardsmith/boardsmith/internal/mlftest"
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
// folder does not make any step empty it.
func TestUsersFolderAsBuildFolder(t *testing.T) {
	t.Parallel()
	const precious = "mydata/thesis.tex"
	spec := Spec{Board: "host", Model: mlftest.Tiny(t, nil)}
	whole := func(t *testing.T, dir string) {
		t.Helper()
		if contents(t, dir)[precious] != "precious" {
			t.Errorf("%s is gone", precious)
		}
	}
	refused := func(t *testing.T, err error) {
		t.Helper()
		if failure.Of(err) != failure.Config || !strings.Contains(err.Error(), "boardsmith did not make it") {
			t.Errorf("got %v", err)
		}
	}
	t.Run("another template", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "p")
		must(t, generated(t, dir, spec).Close())
		writeIn(t, dir, precious, "precious")
		before := contents(t, dir)
		other := spec
		other.Template, other.Force = buildsElsewhere(t), true
		_, err := generate(t.Context(), dir, other, testEnv())
		refused(t, err)
		if !same(before, contents(t, dir)) {
			t.Error("the refusal changed the folder")
		}
	})
	t.Run("edited project.json", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "p")
		must(t, generated(t, dir, spec).Close())
		state := filepath.Join(dir, blueprint.StateFile)
		text, err := os.ReadFile(state)
		must(t, err)
		must(t, os.WriteFile(state, []byte(strings.ReplaceAll(string(text), `"build/`, `"mydata/`)), 0o644))
		writeIn(t, dir, precious, "precious")
		p, err := load(dir, testEnv())
		must(t, err)
		_, err = p.Build(t.Context())
		refused(t, err)
		must(t, p.Close())
		whole(t, dir)
		must(t, clean(t.Context(), dir, true, testEnv()))
		whole(t, dir)
		if left := contents(t, dir); len(left) != 1 {
			t.Errorf("clean left %d files", len(left))
		}
	})
	t.Run("earlier version", func(t *testing.T) {
		dir := earlierFolder(t, func(p map[string]any) { p["template"] = map[string]any{"elf": "mydata/firmware.elf"} })
		writeIn(t, dir, precious, "precious")
		var b Builder
		must(t, b.Clean(t.Context(), dir, true))
		whole(t, dir)
	})
}

// TestBuildFolderByHand: boardsmith builds in and removes its build folder, also after somebody removed and made it
// again by hand.
func TestBuildFolderByHand(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "p")
	p := generated(t, dir, Spec{Model: mlftest.Tiny(t, nil)})
	first := built(t, p)
	for _, args := range [][]string{{"clean"}, {"-j2"}} {
		if out, err := exec.Command("make", append(args, "-C", dir)...).CombinedOutput(); err != nil {
			t.Fatalf("make: %v\n%s", err, out)
		}
	}
	if i := built(t, p); i.Digest != first.Digest {
		t.Error("the build after one by hand differs")
	}
	must(t, p.Close())
	must(t, clean(t.Context(), dir, false, testEnv()))
	if _, err := os.Stat(dir); err == nil {
		t.Errorf("left behind: %d files", len(contents(t, dir)))
	}
}

// TestFormerBuildFolder: a template with another build folder removes the one of the template before.
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
	if _, there := all["build/firmware.elf"]; there || all["build/new.txt"] == "" {
		t.Errorf("the former build folder has its image: %v, the new template's file: %v", there, all["build/new.txt"] != "")
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
		stageFolder, blueprint.ModelTar, blueprint.StateFile, lockFile, turnFile, holderFile, builtFile,
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

// TestMarkIsFree: waiting for the tools of a killed build leaves its mark unlocked.
func TestMarkIsFree(t *testing.T) {
	t.Parallel()
	p := generated(t, filepath.Join(t.TempDir(), "p"), Spec{Model: mlftest.Tiny(t, nil)})
	writeIn(t, p.Dir(), "build/"+unfinishedFile, "")
	folder, err := openTree(p.Dir())
	must(t, err)
	defer folder.close()
	must(t, p.awaitOrphans(t.Context(), folder))
	f, err := os.OpenFile(filepath.Join(p.Dir(), "build", unfinishedFile), os.O_RDWR, 0)
	must(t, err)
	defer f.Close()
	if ok, err := filelock.Try(f); err != nil || !ok {
		t.Errorf("the mark is locked (%v)", err)
	}
}
