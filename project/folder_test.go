package project

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/internal/cachekey"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
	"github.com/boardsmith/boardsmith/project/internal/projectfile"
	"github.com/boardsmith/boardsmith/project/internal/templatefile"
	"github.com/boardsmith/boardsmith/project/internal/workdir"
	"github.com/boardsmith/boardsmith/templates"
)

// copyOfBaremetal returns a copy of the bare-metal template with changes of its files: pairs of old and new texts.
func copyOfBaremetal(t *testing.T, changes map[string][]string) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "baremetal") // boards know it by this name
	files, err := fs.Sub(templates.FS, "baremetal")
	must(t, err)
	must(t, os.CopyFS(dir, files))
	for name, pairs := range changes {
		editFile(t, filepath.Join(dir, name), pairs...)
	}
	return dir
}

// buildsElsewhere is a template whose build folder is called mydata.
func buildsElsewhere(t *testing.T) (dir string) {
	t.Helper()
	return copyOfBaremetal(t, map[string][]string{
		templatefile.TemplateFile: {`"build/`, `"mydata/`}, "Makefile": {"BUILD := build\n", "BUILD := mydata\n"},
	})
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
			state := filepath.Join(dir, templatefile.StateFile)
			text := readFile(t, state)
			writeFile(t, state, strings.ReplaceAll(string(text), `"build/`, `"mydata/`))
			return Spec{}
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "p")
			must(t, generatedIn(t, dir, spec).Close())
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
	p := generated(t, Spec{})
	dir := p.Dir()
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
	if cachekey.Digest(readFile(t, first.Path)) != first.Digest {
		t.Error("a build by hand has other bytes")
	}
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
	p := generatedIn(t, dir, spec)
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
	for range 2 { // the second one finds no folder
		must(t, clean(t.Context(), dir, false, testEnv()))
		if _, err := os.Stat(dir); err == nil {
			t.Errorf("left behind: %d files", len(contents(t, dir)))
		}
	}
}

// TestReservedNames: a template uses no name of boardsmith's own files, and has no files in its build folder or in a
// file.
func TestReservedNames(t *testing.T) {
	t.Parallel()
	names := []string{
		workdir.StageFolder, templatefile.ModelTar, templatefile.StateFile, workdir.LockFile, workdir.TurnFile,
		workdir.HolderFile,
		templatefile.TemporaryPrefix + templatefile.StateFile + "1",
		"Project.json",
	}
	folder := copyOfBaremetal(t, nil)
	good := readFile(t, filepath.Join(folder, templatefile.TemplateFile))
	try := func(what, name, text string) {
		t.Helper()
		writeFile(t, filepath.Join(folder, templatefile.TemplateFile), text)
		dir := filepath.Join(t.TempDir(), "p")
		p, err := generateIn(t.Context(), dir, Spec{Board: "host", Template: folder, Model: mlftest.Tiny(t, nil)}, testEnv())
		if err == nil {
			must(t, p.Close())
		}
		wantError(t, err, failure.Config, name)
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
	try("firmware in a file", "Makefile", strings.Replace(string(good), `"firmware": "src"`, `"firmware": "Makefile"`, 1))
	try("file in the build folder", "src/", strings.ReplaceAll(string(good), `"build/`, `"src/`))
}

// TestInterruptedFolder stops Generate while it writes. The folder's error contains what was being generated, and the
// next Generate keeps the history of flashes.
func TestInterruptedFolder(t *testing.T) {
	t.Parallel()
	dir, model := filepath.Join(t.TempDir(), "p"), mlftest.Tiny(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	b := &Builder{Host: device.Host{Cache: testEnv().Cache}}
	p, err := b.Generate(ctx, dir, Spec{Board: "host", Model: model})
	must(t, err)
	must(t, p.RecordFlash(built(t, p), device.FlashReport{Device: "chip:1", Wrote: 1, Erased: 1}, nil))
	b.Progress = func(e device.ProgressEvent) {
		if e.Step == "generate" {
			cancel()
		}
	}
	spec := Spec{Board: "host", Model: model, Options: boards.Options{LogLevel: "error", OperatorOpt: "O3"}}
	wantError(t, p.Generate(ctx, spec), failure.Interrupted)
	must(t, p.Close())
	var stale *UnfinishedError
	_, err = b.Open(dir)
	if !errors.As(err, &stale) || stale.Board != "host" || stale.Template != "baremetal" ||
		stale.Options != spec.Options || stale.Archive != "tiny.tar" || stale.ModelName != "twice" {
		t.Fatalf("%v: %+v", err, stale)
	}
	wantError(t, err, "", "generating it was interrupted")
	p = generatedIn(t, dir, spec)
	if got := p.state.Flashes; len(got) != 1 || got[0].Device != "chip:1" {
		t.Errorf("the flashes became %v", got)
	}
}

func writeIn(t *testing.T, dir, name, text string) {
	t.Helper()
	at := filepath.Join(dir, filepath.FromSlash(name))
	writeFile(t, at, text)
}

// TestProjectFileIsChecked changes a project.json. The project is neither opened, nor generated again, nor removed.
func TestProjectFileIsChecked(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	spec := Spec{Board: "host", Model: mlftest.Tiny(t, nil)}
	p := generatedIn(t, filepath.Join(home, "p"), spec)
	good := readFile(t, filepath.Join(p.Dir(), templatefile.StateFile))
	must(t, p.Close())
	digest := cachekey.Digest(nil)
	for name, change := range map[string]func(map[string]any){
		"another format":        func(p map[string]any) { p["format"] = projectfile.Format + 1 },
		"no format":             func(p map[string]any) { delete(p, "format") },
		"a file elsewhere":      func(p map[string]any) { p["files"] = map[string]any{"../x": digest} },
		"no digest":             func(p map[string]any) { p["files"] = map[string]any{"x": "?"} },
		"no files":              func(p map[string]any) { delete(p, "files") },
		"a pending elsewhere":   func(p map[string]any) { p["pending"] = map[string]any{"/x": digest} },
		"all is build folder":   func(p map[string]any) { p["template"].(map[string]any)["elf"] = "firmware.elf" },
		"sources are built":     func(p map[string]any) { p["template"].(map[string]any)["elf"] = "src/firmware.elf" },
		"build folder above it": func(p map[string]any) { p["template"].(map[string]any)["elf"] = "../p/firmware.elf" },
		"no template":           func(p map[string]any) { delete(p, "template") },
		"no board":              func(p map[string]any) { p["board"].(map[string]any)["name"] = "" },
		"an unknown field":      func(p map[string]any) { p["built_by"] = "hand" },
	} {
		t.Run(name, func(t *testing.T) {
			var project map[string]any
			must(t, json.Unmarshal(good, &project))
			change(project)
			data, err := json.Marshal(project)
			must(t, err)
			dir := filepath.Join(home, "p")
			writeFile(t, filepath.Join(dir, templatefile.StateFile), string(data))
			before := fmt.Sprint(contents(t, dir))
			var b Builder
			forced := spec
			forced.Force = true
			_, opened := b.Open(dir)
			_, regenerated := b.Generate(t.Context(), dir, forced)
			for _, err := range []error{opened, regenerated, b.Clean(t.Context(), dir, true)} {
				var unfinished *UnfinishedError
				if failure.Of(err) != failure.Config || errors.As(err, &unfinished) {
					t.Errorf("the error is %v", err)
				}
			}
			if fmt.Sprint(contents(t, dir)) != before {
				t.Error("the folder was changed")
			}
		})
	}
}

// TestClosedProject calls all methods of a project whose folder others may have changed since, or removed.
func TestClosedProject(t *testing.T) {
	t.Parallel()
	spec := Spec{Board: "host", Model: mlftest.Tiny(t, nil)}
	p := generated(t, spec)
	i := built(t, p)
	_, _, err := p.Model()
	must(t, err)
	must(t, p.Close())
	must(t, p.Close())
	must(t, os.Remove(filepath.Join(p.Dir(), workdir.LockFile)))
	before := contents(t, p.Dir())
	other := spec
	other.Options.LogLevel = "error"
	for name, err := range map[string]error{
		"Generate":       p.Generate(t.Context(), other),
		"Build":          last(p.Build(t.Context())),
		"Run":            last(p.Run(t.Context(), testEnv().desk(), "")),
		"OperatorLinker": last(p.OperatorLinker(t.Context())),
		"RecordFlash":    p.RecordFlash(i, device.FlashReport{Device: "chip:1", Wrote: 1}, nil),
		"Built":          last(p.Built()),
		"Edited":         last(p.Edited()),
		"Usage":          last(p.Usage(i)),
		"Model":          lastOf3(p.Model()),
	} {
		if err == nil || !strings.Contains(err.Error(), "was closed") || failure.Of(err) != failure.Internal {
			t.Errorf("%s: %v", name, err)
		}
	}
	if !same(before, contents(t, p.Dir())) {
		t.Error("files of the closed project were changed")
	}
	if _, err := os.Stat(filepath.Join(p.Dir(), workdir.LockFile)); err == nil {
		t.Error("the closed project was locked again")
	}
}

func last[T any](_ T, err error) error { return err }

func lastOf3[T, U any](_ T, _ U, err error) error { return err }

// The history has the last flashes, also after another load; doing nothing again is no news.
func TestFlashHistory(t *testing.T) {
	t.Parallel()
	p := generated(t, Spec{})
	dir := p.Dir()
	i := &image.Image{Digest: "d1", BuildID: [16]byte{1}}
	record := func(r device.FlashReport, err error) {
		t.Helper()
		must(t, p.RecordFlash(i, r, err))
	}
	record(device.FlashReport{Reason: "no probe"}, nil) // nothing to remember
	for n := range 25 {
		record(device.FlashReport{Device: "chip:1", Programmer: "openocd", Erased: n + 1, Wrote: 100, Reason: "differs"}, nil)
	}
	for range 3 {
		record(device.FlashReport{Device: "chip:1", Programmer: "openocd", Reason: "it answered"}, nil)
	}
	record(device.FlashReport{Device: "chip:2", Erased: 7}, failure.Errorf(failure.Verify, "worn"))
	must(t, p.Close())
	p, err := load(dir, testEnv())
	must(t, err)
	defer p.Close()
	got := p.state.Flashes
	if len(got) != maxFlashes || got[0].Sectors != 8 || got[17].Sectors != 25 || got[18].Reason != "it answered" ||
		got[19].Class != failure.Verify {
		t.Errorf("%+v", got)
	}
	if got[19].Device != "chip:2" || time.Since(got[19].Time) > time.Hour || got[19].BuildID != i.ID() {
		t.Errorf("%+v", got[19])
	}
	must(t, p.Generate(t.Context(),
		Spec{Board: "host", Model: mlftest.Tiny(t, nil), Options: boards.Options{ArenaKiB: 512}}))
	if len(p.state.Flashes) != maxFlashes {
		t.Error("generating again loses the list of flashes")
	}
}
