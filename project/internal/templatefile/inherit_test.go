package templatefile

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/testkit"
)

// TestInherits: a template has its parent's fields, each of which its own file replaces as a whole.
func TestInherits(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	put := func(name, text string) {
		writeFile(t, filepath.Join(folder, "templates", name, TemplateFile), text)
	}
	put("kiln", `{"doc": "kiln", "inherits": "minimal", "options": ["arena_kib"], "areas": {"stacks": [".mine"]}, "copies": {}}`)
	put("oven", `{"doc": "oven", "inherits": "kiln", "elf": "out/a.elf", "map": "out/a.map"}`)
	put("loop", `{"doc": "loop", "inherits": "loop"}`)
	put("lost", `{"doc": "lost", "inherits": "minmal"}`)
	put("out", `{"doc": "out", "inherits": "../kiln"}`)
	must(t, os.CopyFS(filepath.Join(folder, "kiln"), os.DirFS(filepath.Join(folder, "templates", "kiln"))))
	put("copy", `{"doc": "copy", "inherits": "minimal", "copies": {"x": "zephyr/nothing"}}`)
	put("parent", `{"doc": "parent", "inherits": "parents/minimal"}`)
	oven, err := Find("oven", []string{folder})
	must(t, err)
	if oven.Doc != "oven" || oven.ELF != "out/a.elf" || oven.Firmware != "boardsmith" || len(oven.Generate) != 3 ||
		!slices.Equal(oven.Options, []string{"arena_kib"}) || len(oven.Areas.Arena) != 0 || len(oven.Copies) != 0 {
		t.Errorf("%+v", oven)
	}
	refused := oven.CheckOptions(boards.Options{UploadKiB: 4})
	if !strings.HasSuffix(failure.Next(refused), "this template's options are: arena_kib") {
		t.Errorf("an option that it does not use: %v; %s", refused, failure.Next(refused))
	}
	for name, want := range map[string]string{
		"loop": "more than 3 templates inherit", "lost": `did you mean "minimal"`, "out": `"../kiln" is not known`,
		"copy":   "template copy: copies: zephyr/nothing: the template has no such folder",
		"parent": `"parents/minimal" is not known`,
	} {
		_, err := Find(name, []string{folder})
		testkit.WantError(t, err, failure.Config, want)
	}
}
