package device_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/cache"
	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/device/emulated"
	"github.com/boardsmith/boardsmith/internal/chipkeeper/keepertest"
	"github.com/boardsmith/boardsmith/internal/testkit"
	"github.com/boardsmith/boardsmith/internal/testkit/drawn"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
	"github.com/boardsmith/boardsmith/internal/testkit/testcache"
	"github.com/boardsmith/boardsmith/project"
)

// relativeHome makes a folder the working folder, by a symbolic link with a space in its name. It holds a board, a
// template and libraries of the user's, an archive, a runtime and openocd, some of them by links.
func relativeHome(t *testing.T, from string) {
	t.Helper()
	home := filepath.Join(t.TempDir(), "by a link")
	must(t, os.Symlink(t.TempDir(), home))
	crt, err := filepath.Abs("../crt")
	must(t, err)
	board := readFile(t, filepath.Join("..", "boards", from+".json"))
	template, archive := os.DirFS(filepath.Join(testkit.Root(t), "templates", "baremetal")), mlftest.Tiny(t, nil)
	t.Chdir(home)
	writeFile(t, "own boards/boards/mine.json", string(board))
	must(t, os.CopyFS("own/baremetal/templates/baremetal", template))
	for _, name := range []string{"one", "two", "shelf/libraries/three"} {
		name = filepath.Join("own", name)
		writeFile(t, filepath.Join(name, "library.json"), `{"doc": "x", "headers": ["."], "licence": "0BSD"}`)
		writeFile(t, filepath.Join(name, filepath.Base(name)+".h"), "")
	}
	must(t, os.Symlink(archive, "a model.tar"))
	must(t, os.Symlink(crt, "crt"))
	must(t, os.MkdirAll("the project's place", 0o755))
	must(t, os.Symlink("the project's place", "project"))
	must(t, os.Symlink(testcache.Dir(), "the cache"))
	must(t, os.Mkdir("tools", 0o755))
	if openocd, err := exec.LookPath("openocd"); err == nil {
		must(t, os.Symlink(openocd, "tools/openocd"))
	}
}

// TestRelativePaths: all paths of a builder, a desk and a project may be relative: a change of the working folder
// between the steps does not matter.
func TestRelativePaths(t *testing.T) {
	keepertest.Use(t)
	for _, from := range drawn.Of(t, "relative paths", []string{"host", "mps2_an385", "netduinoplus2"}, 1) {
		t.Run(from, func(t *testing.T) {
			elsewhere, further := t.TempDir(), t.TempDir()
			relativeHome(t, from)
			openocd, err := filepath.Abs("tools/openocd")
			must(t, err)
			builder := &project.Builder{
				Host: device.Host{
					Path: []string{"own boards", "own/shelf"}, Cache: cache.New("the cache", cache.Options{}),
				},

				Templates: map[string]string{"baremetal": "own/baremetal/templates/baremetal"},
				Libraries: map[string]string{"named": "own/one"}, LockFile: "lock.json", Programs: []string{"tools"},
			}
			desk := &device.Desk{
				Host:     device.Host{Path: []string{"own boards"}, Cache: builder.Cache},
				StateDir: "state", Ledger: "the ledger", LeaseDir: "leases",
				Probes: emulated.Probes(),
				Tool: func(name string) (string, error) {
					if name != "openocd" {
						return "", nil
					}
					here, err := os.Getwd()
					must(t, err)
					return filepath.Rel(here, openocd)
				},
			}
			ctx := t.Context()
			p, err := builder.Generate(ctx, "project", project.Spec{
				Board: "own boards/boards/mine.json", Template: "own/baremetal/templates/baremetal", Model: "a model.tar",
				Libraries: []string{"named", "own/two", "three"}, Runtime: "crt",
			})
			must(t, err)
			b, err := boards.Find("own boards/boards/mine.json", builder.Path)
			must(t, err)
			t.Cleanup(func() {
				if b.Flash.Emulated {
					must(t, last(desk.StopEmulated(context.Background(), b)))
				}
			})
			t.Cleanup(func() { must(t, p.Close()) })
			d, err := desk.Attach(ctx, b, "")
			must(t, err)
			t.Chdir(elsewhere)
			i, err := p.Build(ctx)
			must(t, err)
			report, err := d.Flash(ctx, i)
			must(t, err)
			must(t, p.RecordFlash(i, report, nil))
			t.Chdir(further)
			_, _, err = p.Model()
			must(t, err)
			mustAnswer(t, d, i)
			must(t, d.Close())

			again, err := builder.Generate(ctx, filepath.Join(t.TempDir(), "by name"), project.Spec{
				Board: "mine", Template: "baremetal", Model: filepath.Join(p.Dir(), "model.tar"),
				Libraries: []string{"named", "three"},
			})
			must(t, err)
			must(t, again.Close())
			t.Chdir(filepath.Dir(i.Path))
			own := *i
			own.Path, own.Map, own.Bin, own.Hex = filepath.Base(i.Path), "", "", ""
			d, err = desk.Attach(ctx, b, "")
			must(t, err)
			must(t, last(d.Flash(ctx, &own)))
			mustAnswer(t, d, &own)
			must(t, d.Close())
			for _, dir := range []string{elsewhere, further} {
				wantLen(t, 0, dir)(os.ReadDir(dir))
			}
		})
	}
}
