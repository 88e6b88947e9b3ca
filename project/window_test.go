package project

import (
	"debug/elf"
	"os"
	"path/filepath"
	"testing"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/internal/blueprint"
)

// TestWindowOfBoard checks the window for uploaded code of images without one, on a board that asks for 64 KiB: only
// firmware that has none passes, because it is standalone or because its configuration says so.
func TestWindowOfBoard(t *testing.T) {
	t.Parallel()
	found, err := boards.Find("mps2_an385", nil)
	must(t, err)
	for name, c := range map[string]struct {
		app, config string
		passes      bool
	}{
		"rpc":                {boards.RPC, "", false},
		"standalone":         {boards.Standalone, "", true},
		"written 0":          {boards.RPC, "#define BOARDSMITH_UPLOAD_BYTES 0\n", true},
		"written 4096":       {boards.Standalone, "#define BOARDSMITH_UPLOAD_BYTES 4096\n", false},
		"no arena of 0 KiB":  {boards.RPC, "#define BOARDSMITH_ARENA_BYTES 0\n", false},
		"standalone, as new": {boards.Standalone, "#define BOARDSMITH_UPLOAD_BYTES 0\n", true},
	} {
		p := &Project{dir: t.TempDir()}
		p.state.Board.Board = *found
		p.state.Board.Board.UploadKiB = 64
		p.state.Options.App = c.app
		p.state.Template.Contract.Window = "bare_upload_start"
		file := filepath.Join(p.dir, filepath.FromSlash(blueprint.ConfigFile))
		must(t, os.MkdirAll(filepath.Dir(file), 0o755))
		if c.config != "" {
			must(t, os.WriteFile(file, []byte(c.config), 0o644))
		}
		if err := p.checkWindow(map[string]elf.Symbol{}); (err == nil) != c.passes {
			t.Errorf("%s: %v", name, err)
		}
		if p.arenaBytes() == 0 {
			t.Errorf("%s: an arena of 0 bytes", name)
		}
	}
}
