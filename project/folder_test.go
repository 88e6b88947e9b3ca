package project

import (
	"context"
	"encoding/json"
	"errors"
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
	"github.com/boardsmith/boardsmith/internal/testkit"
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
	for _, name := range []string{"another template", "edited project.json"} {
		t.Run(name, func(t *testing.T) {
			p := generated(t, Spec{})
			dir := p.Dir()
			writeFile(t, p.at(precious), "precious")
			writeFile(t, p.at("mydata/build.json"), `{"format": 1, "build_id": "00112233445566778899aabbccddeeff",
				"others": {"mydata/thesis.tex": "00", "Makefile": "00"}}`) // of no build
			if name == "another template" {
				must(t, p.Generate(t.Context(), complete(t, Spec{Template: buildsElsewhere(t), Force: true})))
				built(t, p)
			} else {
				editFile(t, p.at(templatefile.StateFile), `"build/`, `"mydata/`)
				p = reopened(t, p)
				wantError(t, buildError(t, p), "") // the build command makes build/, not mydata/
			}
			must(t, p.Close())
			must(t, newBuilder().Clean(t.Context(), dir, true))
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
	byHand := func(arg string) string { return output(t, exec.Command("make", "-C", dir, arg)) }
	byHand("clean")
	byHand("-j2")
	if cachekey.Digest([]byte(readFile(t, first.Path))) != first.Digest {
		t.Error("a build by hand has other bytes")
	}
	const object = "build/model/lib1.o"
	writeIn(t, dir, object, "no object")
	if i := built(t, p); i.Digest != first.Digest {
		t.Error("the build after one by hand differs")
	}
	if readFile(t, p.at(object)) != "no object" {
		t.Errorf("%s was replaced", object)
	}
	must(t, os.Remove(p.at(object)))
	if out := byHand("build/firmware.elf"); strings.Contains(out, "crt/src") {
		t.Errorf("make compiles the runtime once more after a build:\n%s", out)
	}
	built(t, p)
	must(t, p.Close())
	must(t, newBuilder().Clean(t.Context(), dir, false))
	for name := range contents(t, dir) {
		if !strings.HasPrefix(name, "build/") || name == "build/build.json" || name == "build/firmware.elf" {
			t.Errorf("left behind: %s", name)
		}
	}
}

// TestFormerBuildFolder: a template with another build folder removes the results of the template before.
func TestFormerBuildFolder(t *testing.T) {
	t.Parallel()
	p := generated(t, Spec{})
	built(t, p)
	spec := complete(t, Spec{Template: buildsElsewhere(t)})
	writeIn(t, spec.Template, "build/new.txt", "a source of this template")
	must(t, p.Generate(t.Context(), spec))
	absent(t, p.at("build/firmware.elf"))
	readFile(t, p.at("build/new.txt"))
	built(t, p)
	must(t, p.Close())
	for range 2 { // the second one finds no folder
		must(t, newBuilder().Clean(t.Context(), p.Dir(), false))
		absent(t, p.Dir())
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
	file := filepath.Join(folder, templatefile.TemplateFile)
	good := readFile(t, file)
	try := func(name, old, text string) {
		t.Helper()
		writeFile(t, file, strings.ReplaceAll(good, old, text))
		dir := newDir(t)
		_, err := generateIn(t, dir, Spec{Template: folder})
		wantError(t, err, failure.Config, name)
		absent(t, dir)
	}
	for _, name := range names {
		try(name, `"build/`, `"`+name+`/`)
		for _, kind := range []string{"model", "runtime"} {
			try(name, `"landmarks": {`, `"landmarks": {"folders": {"`+kind+`": "`+name+`/x"},`)
		}
		writeIn(t, folder, name, "x")
		try(name, "x", "x")
		must(t, os.Remove(filepath.Join(folder, name)))
	}
	try("Makefile", `"firmware": "src"`, `"firmware": "Makefile"`)
	try("src/", `"build/`, `"src/`)
}

// TestInterruptedFolder stops Generate while it writes. The folder's error contains what was being generated, and the
// next Generate keeps the history of flashes.
func TestInterruptedFolder(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	b := newBuilder()
	p := generated(t, Spec{}, b)
	must(t, p.RecordFlash(built(t, p), device.FlashReport{Device: "chip:1", Wrote: 1, Erased: 1}, nil))
	b.Progress = func(e device.ProgressEvent) {
		if e.Step == "generate" {
			cancel()
		}
	}
	spec := complete(t, Spec{Options: boards.Options{LogLevel: "error", OperatorOpt: "O3"}})
	wantError(t, p.Generate(ctx, spec), failure.Interrupted)
	must(t, p.Close())
	_, err := b.Open(p.Dir())
	if stale := testkit.As[*UnfinishedError](t, err); stale.Board != "host" || stale.Template != "baremetal" ||
		stale.Options != spec.Options || stale.Archive != "tiny.tar" || stale.ModelName != "twice" {
		t.Errorf("%v: %+v", err, stale)
	}
	wantError(t, err, "", "generating it was interrupted")
	p = generatedIn(t, p.Dir(), spec)
	if got := p.state.Flashes; len(got) != 1 || got[0].Device != "chip:1" {
		t.Errorf("the flashes became %v", got)
	}
}

// TestProjectFileIsChecked changes a project.json. The project is neither opened, nor generated again, nor removed.
func TestProjectFileIsChecked(t *testing.T) {
	t.Parallel()
	p := generated(t, Spec{})
	dir, good := p.Dir(), readFile(t, p.at(templatefile.StateFile))
	must(t, p.Close())
	elf := func(path string) func(map[string]any) {
		return func(p map[string]any) { p["template"].(map[string]any)["elf"] = path }
	}
	digest := cachekey.Digest(nil)
	for name, change := range map[string]func(map[string]any){
		"another format":        func(p map[string]any) { p["format"] = projectfile.Format + 1 },
		"no format":             func(p map[string]any) { delete(p, "format") },
		"a file elsewhere":      func(p map[string]any) { p["files"] = map[string]any{"../x": digest} },
		"no digest":             func(p map[string]any) { p["files"] = map[string]any{"x": "?"} },
		"no files":              func(p map[string]any) { delete(p, "files") },
		"a pending elsewhere":   func(p map[string]any) { p["pending"] = map[string]any{"/x": digest} },
		"all is build folder":   elf("firmware.elf"),
		"sources are built":     elf("src/firmware.elf"),
		"build folder above it": elf("../p/firmware.elf"),
		"no template":           func(p map[string]any) { delete(p, "template") },
		"no board":              func(p map[string]any) { p["board"].(map[string]any)["name"] = "" },
		"an unknown field":      func(p map[string]any) { p["built_by"] = "hand" },
	} {
		t.Run(name, func(t *testing.T) {
			var project map[string]any
			must(t, json.Unmarshal([]byte(good), &project))
			change(project)
			data, err := json.Marshal(project)
			must(t, err)
			writeFile(t, p.at(templatefile.StateFile), string(data))
			before := contents(t, dir)
			_, opened := newBuilder().Open(dir)
			_, regenerated := generateIn(t, dir, Spec{Force: true})
			for _, err := range []error{opened, regenerated, newBuilder().Clean(t.Context(), dir, true)} {
				if wantError(t, err, failure.Config); errors.As(err, new(*UnfinishedError)) {
					t.Errorf("the error is %v", err)
				}
			}
			if !maps.Equal(before, contents(t, dir)) {
				t.Error("the folder was changed")
			}
		})
	}
}

// TestClosedProject calls all methods of a project whose folder others may have changed since, or removed.
func TestClosedProject(t *testing.T) {
	t.Parallel()
	p := generated(t, Spec{})
	i := built(t, p)
	modelOf(t, p)
	must(t, p.Close())
	must(t, p.Close())
	must(t, os.Remove(p.at(workdir.LockFile)))
	before := contents(t, p.Dir())
	for name, err := range map[string]error{
		"Generate":       p.Generate(t.Context(), complete(t, Spec{Options: boards.Options{LogLevel: "error"}})),
		"Build":          last(p.Build(t.Context())),
		"Run":            last(p.Run(t.Context(), newDesk(), "")),
		"OperatorLinker": last(p.OperatorLinker(t.Context())),
		"RecordFlash":    p.RecordFlash(i, device.FlashReport{Device: "chip:1", Wrote: 1}, nil),
		"Built":          last(p.Built()),
		"Edited":         last(p.Edited()),
		"Usage":          last(p.Usage(i)),
		"Model":          lastOf3(p.Model()),
	} {
		t.Run(name, func(t *testing.T) { wantError(t, err, failure.Internal, "was closed") })
	}
	if !maps.Equal(before, contents(t, p.Dir())) {
		t.Error("files of the closed project were changed")
	}
	absent(t, p.at(workdir.LockFile))
}

func last[T any](_ T, err error) error { return err }

func lastOf3[T, U any](_ T, _ U, err error) error { return err }

// The history has the last flashes, also after another load; doing nothing again is no news.
func TestFlashHistory(t *testing.T) {
	t.Parallel()
	p := generated(t, Spec{})
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
	p = reopened(t, p)
	got := p.state.Flashes
	if len(got) != maxFlashes || got[0].Sectors != 8 || got[17].Sectors != 25 || got[18].Reason != "it answered" ||
		got[19].Class != failure.Verify || got[19].Device != "chip:2" || time.Since(got[19].Time) > time.Hour ||
		got[19].BuildID != i.ID() {
		t.Errorf("%+v", got)
	}
	must(t, p.Generate(t.Context(), complete(t, Spec{Options: boards.Options{ArenaKiB: 512}})))
	if len(p.state.Flashes) != maxFlashes {
		t.Error("generating again loses the list of flashes")
	}
}
