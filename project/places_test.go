package project

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/files/abspath"
	"github.com/boardsmith/boardsmith/internal/testkit/mlftest"
	"github.com/boardsmith/boardsmith/project/internal/templatefile"
)

// putPlaces writes a board, a template and a library of the same names as those of other folders, into dir. Their files
// contain mark.
func putPlaces(t *testing.T, dir, mark string) {
	t.Helper()
	putFiles(t, dir, map[string]string{
		"boards/kit.json": `{"doc": "` + mark + `", "inherits": "cpu/native", "templates": ["oven"], "link": {"kind":
			"process"}, "flash": {"programmer": "none"}}`,
		"templates/oven/template.json": `{"doc": "` + mark + `", "build": ["true"], "elf": "out/o.elf", "map": "out/o.map",
			"generate": ["crt_config/libraries.mk"]}`,
		"templates/oven/oven.c":       "// " + mark + "\n",
		"libraries/heat/library.json": `{"headers": ["."], "licence": "0BSD"}`,
		"libraries/heat/heat.h":       "// " + mark + "\n",
	})
}

// TestPlacesAreRemembered: a project that was generated from paths finds board, template and library there again: from
// another working folder, where a search path has others of these names, and after it was moved together with them.
// Once they are gone, the error names the path.
func TestPlacesAreRemembered(t *testing.T) {
	home := t.TempDir()
	repo, others := filepath.Join(home, "repo"), filepath.Join(home, "others")
	putPlaces(t, repo, "mine")
	putPlaces(t, others, "other")
	t.Chdir(repo)
	model := mlftest.Tiny(t, nil)
	p := generatedIn(t, "build/p", Spec{
		Board: "boards/kit.json", Template: "templates/oven", Libraries: []string{"./libraries/heat"}, Model: model,
	})
	if state := readFile(t, p.at(templatefile.StateFile)); strings.Contains(state, home) {
		t.Errorf("project.json has an absolute path: %s", state)
	}
	must(t, p.Close())

	again := func(dir string) (*Project, error) {
		p, err := newBuilder(others).Open(filepath.Join(dir, "build", "p"))
		must(t, err)
		defer p.Close()
		return p, p.Generate(t.Context(), Spec{
			Board: p.BoardFrom(), Template: p.TemplateFrom(), Libraries: p.Libraries(), Model: model,
		})
	}
	t.Chdir(home)
	moved := filepath.Join(home, "a", "moved")
	must(t, os.Mkdir(filepath.Dir(moved), 0o755))
	for _, dir := range []string{repo, moved} {
		if dir != repo {
			must(t, os.Rename(repo, dir))
		}
		p, err := again(dir)
		must(t, err)
		for _, name := range []string{"oven.c", "libraries/heat/heat.h"} {
			if text := readFile(t, p.at(name)); text != "// mine\n" {
				t.Errorf("%s: %s is %q", dir, name, text)
			}
		}
		if len(p.Wrote()) != 0 || p.Board().Doc != "mine" || p.BoardFrom() != filepath.Join(dir, "boards", "kit.json") ||
			p.TemplateFrom() != filepath.Join(dir, "templates", "oven") ||
			!slices.Equal(p.Libraries(), []string{filepath.Join(dir, "libraries", "heat")}) {
			t.Errorf("%s: %s, %s, %s, wrote %s", dir, p.BoardFrom(), p.TemplateFrom(), p.Libraries(), p.Wrote())
		}
	}
	for _, name := range []string{"libraries/heat", "templates/oven", "boards/kit.json"} {
		gone := filepath.Join(moved, name)
		must(t, os.RemoveAll(gone))
		_, err := again(moved)
		wantAdvice(t, err, failure.Config, gone)
	}
}

// TestNamesStayNames: a project whose template and library were chosen by name finds them by name again, also where
// boardsmith.json has the names of places in git repositories.
func TestNamesStayNames(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	putPlaces(t, home, "mine")
	b := newBuilder()
	b.Templates = map[string]string{"oven": home + "/templates/oven"}
	b.Libraries = map[string]string{"warm": home + "/libraries/heat"}
	p := generated(t, Spec{Board: home + "/boards/kit.json", Libraries: []string{"warm"}}, b)
	if p.TemplateFrom() != "oven" || !slices.Equal(p.Libraries(), []string{"warm"}) {
		t.Errorf("%s, %s", p.TemplateFrom(), p.Libraries())
	}
}

// TestFromThroughLinks: what project.json records of a place leads to it from each name of the project's folder.
func TestFromThroughLinks(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	folder, board := filepath.Join(root, "a", "b", "work"), filepath.Join(root, "boards", "k.json")
	link := filepath.Join(root, "link")
	must(t, os.MkdirAll(folder, 0o755))
	must(t, os.Symlink(folder, link))
	for _, writer := range []string{folder, link} {
		from := fromOf(filepath.Join(writer, "build", "p"), board)
		for _, reader := range []string{folder, link} {
			if got := inSpec(filepath.Join(reader, "build", "p"), from, "k"); got != abspath.Resolved(board) {
				t.Errorf("written in %s, read in %s: %s", writer, reader, got)
			}
		}
	}
}
