package project

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/internal/blueprint"
	"github.com/boardsmith/boardsmith/internal/projectfile"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
)

func writeIn(t *testing.T, dir, name, text string) {
	t.Helper()
	at := filepath.Join(dir, filepath.FromSlash(name))
	must(t, os.MkdirAll(filepath.Dir(at), 0o755))
	must(t, os.WriteFile(at, []byte(text), 0o644))
}

// TestProjectFileIsChecked changes a project.json. The project is neither opened, nor generated again, nor removed.
func TestProjectFileIsChecked(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	spec := Spec{Board: "host", Model: mlftest.Tiny(t, nil)}
	p := generated(t, filepath.Join(home, "p"), spec)
	good, err := os.ReadFile(filepath.Join(p.Dir(), blueprint.StateFile))
	must(t, err)
	must(t, p.Close())
	digest := image.DigestOf(nil)
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
			must(t, os.WriteFile(filepath.Join(dir, blueprint.StateFile), data, 0o644))
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
