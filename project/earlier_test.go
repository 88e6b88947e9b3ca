package project

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/internal/blueprint"
	"github.com/boardsmith/boardsmith/internal/mlftest"
)

// earlierFolder is a folder that a version before format 2 generated for lm3s6965evb: its project.json as that version
// wrote it, but for the digests, which are those of other contents.
func earlierFolder(t *testing.T, change func(project map[string]any)) (dir string) {
	t.Helper()
	recorded, err := os.ReadFile(filepath.Join("testdata", "format1", blueprint.StateFile))
	must(t, err)
	var project map[string]any
	must(t, json.Unmarshal(recorded, &project))
	files := project["files"].(map[string]any)
	dir = filepath.Join(t.TempDir(), "p")
	for name := range files {
		text := "generated as " + name
		files[name] = image.DigestOf([]byte(text))
		writeIn(t, dir, name, text)
	}
	writeIn(t, dir, "build/firmware.elf", "built")
	writeIn(t, dir, "build/build.json", `{"format": 1, "build_id": "00112233445566778899aabbccddeeff"}`)
	change(project)
	data, err := json.Marshal(project)
	must(t, err)
	writeIn(t, dir, blueprint.StateFile, string(data))
	return dir
}

func writeIn(t *testing.T, dir, name, text string) {
	t.Helper()
	at := filepath.Join(dir, filepath.FromSlash(name))
	must(t, os.MkdirAll(filepath.Dir(at), 0o755))
	must(t, os.WriteFile(at, []byte(text), 0o644))
}

func asRecorded(map[string]any) {}

// withFlash adds a flash as format 1 has it.
func withFlash(project map[string]any) {
	project["flashes"] = []any{map[string]any{
		"time": "2026-11-21T08:00:00Z", "device": "chip:1", "tool": "openocd",
		"sectors": 3,
	}}
}

// TestEarlierFolder generates over a folder of an earlier version and removes one, and loses no file of a person's.
func TestEarlierFolder(t *testing.T) {
	t.Parallel()
	spec := Spec{Board: "lm3s6965evb", Model: mlftest.Tiny(t, nil)}
	var b Builder
	for name, again := range map[string]func(dir string, force bool) error{
		"generate": func(dir string, force bool) error {
			s := spec
			s.Force = force
			p, err := b.Generate(t.Context(), dir, s)
			if err != nil {
				return err
			}
			return p.Close()
		},
		"clean": func(dir string, force bool) error { return b.Clean(t.Context(), dir, force) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := earlierFolder(t, withFlash)
			writeIn(t, dir, "src/mine.c", "of a person")
			writeIn(t, dir, "src/main.c", "changed by a person")
			before := contents(t, dir)
			var edited *EditedError
			if err := again(dir, false); !errors.As(err, &edited) || !slices.Equal(edited.Files, []string{"src/main.c"}) {
				t.Fatalf("with a changed file: %v", err)
			}
			if now := contents(t, dir); now["src/main.c"] != before["src/main.c"] || len(now) != len(before) {
				t.Error("the refusal changed the folder")
			}
			must(t, again(dir, true))
			now := contents(t, dir)
			if now["src/mine.c"] != before["src/mine.c"] {
				t.Error("a person's own file is gone")
			}
			if _, there := now["src/chip_lm3s.c"]; there { // its name in that version
				t.Error("a generated file was left behind")
			}
			if name == "clean" && len(now) != 1 {
				t.Errorf("left behind: %v", now)
			}
			if name == "generate" {
				must(t, again(dir, false))
				p, err := b.Open(dir)
				must(t, err)
				if f := p.Flashes(); len(f) != 1 || f[0].Programmer != "openocd" || f[0].Sectors != 3 {
					t.Errorf("the flashes became %v", f)
				}
				must(t, p.Close())
			}
		})
	}
}

// TestOpenEarlier checks the hints for folders of an earlier version, and of a later one.
func TestOpenEarlier(t *testing.T) {
	t.Parallel()
	var b Builder
	var earlier *StaleError
	_, err := b.Open(earlierFolder(t, asRecorded))
	if !errors.As(err, &earlier) || failure.Of(err) != failure.Config ||
		failure.Next(err) != "generate it again, for board lm3s6965evb from matmul_00.tar.gz" {
		t.Errorf("%v (%s)", err, failure.Next(err))
	}
	if earlier.Interrupted || earlier.ModelName != "matmul" || earlier.Template != "baremetal" ||
		len(earlier.ArchiveDigest) != 64 {
		t.Errorf("what it was generated from: %+v", earlier)
	}
	_, err = b.Open(earlierFolder(t, func(p map[string]any) {
		p["options"] = map[string]any{"log_level": "error", "arena_kib": 64, "of_then": 1}
	}))
	if want := (boards.Options{LogLevel: "error", ArenaKiB: 64}); !errors.As(err, &earlier) || earlier.Options != want {
		t.Errorf("options: %+v, want %+v", earlier.Options, want)
	}
	_, err = b.Open(earlierFolder(t, func(p map[string]any) { p["options"] = "in another format" }))
	if !errors.As(err, &earlier) || earlier.Options != (boards.Options{}) {
		t.Errorf("options in another format: %v, %+v", err, earlier.Options)
	}
	_, err = b.Open(earlierFolder(t, func(p map[string]any) {
		p["board"] = map[string]any{"name": "\x1b[31mhost"}
		p["model"] = map[string]any{"name": "a\nb.tar"}
	}))
	if next := failure.Next(err); next != `generate it again, for board "\x1b[31mhost" from "a\nb.tar"` {
		t.Errorf("with control characters: %s", next)
	}
	later := earlierFolder(t, func(p map[string]any) { p["format"] = stateFormat + 1 })
	_, err = b.Open(later)
	if errors.As(err, &earlier) || failure.Of(err) != failure.Config ||
		!strings.Contains(failure.Next(err), "use the version") {
		t.Errorf("of a later version: %v (%s)", err, failure.Next(err))
	}
	if err := b.Clean(t.Context(), later, true); failure.Of(err) != failure.Config {
		t.Errorf("cleaning one of a later version: %v", err)
	}
}

// TestEarlierIsChecked refuses what would lead out of the folder.
func TestEarlierIsChecked(t *testing.T) {
	t.Parallel()
	digest := image.DigestOf(nil)
	for what, change := range map[string]func(map[string]any){
		"a file elsewhere":      func(p map[string]any) { p["files"] = map[string]any{"../x": digest} },
		"no digest":             func(p map[string]any) { p["files"] = map[string]any{"x": "?"} },
		"no files":              func(p map[string]any) { delete(p, "files") },
		"a pending elsewhere":   func(p map[string]any) { p["pending"] = map[string]any{"/x": digest} },
		"all is build folder":   func(p map[string]any) { p["template"] = map[string]any{"elf": "firmware.elf"} },
		"sources are built":     func(p map[string]any) { p["template"] = map[string]any{"elf": "src/firmware.elf"} },
		"build folder above it": func(p map[string]any) { p["template"] = map[string]any{"elf": "../p/firmware.elf"} },
		"no template":           func(p map[string]any) { delete(p, "template") },
	} {
		dir := earlierFolder(t, change)
		before := fmt.Sprint(contents(t, dir))
		var b Builder
		if err := b.Clean(t.Context(), dir, true); failure.Of(err) != failure.Config {
			t.Errorf("%s: %v", what, err)
		}
		if fmt.Sprint(contents(t, dir)) != before {
			t.Errorf("%s: the folder was changed", what)
		}
	}
}
