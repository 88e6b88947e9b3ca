// This file makes new boards and templates, and helps editors with their files.

package targets

import (
	"cmp"
	"context"
	"path/filepath"
	"strings"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/cache"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/cli/jsonlines"
	"github.com/boardsmith/boardsmith/internal/cli/scaffold"
	"github.com/boardsmith/boardsmith/internal/cli/schemas"
)

// boardNew writes the new board's file into the first folder of the search path, else into this one.
func (v *invocation) boardNew(ctx context.Context, name string) error {
	builder, err := v.search(ctx)
	if err != nil {
		return err
	}
	path := builder.Path
	from := v.Env("FROM")
	if from == "" {
		return failure.New(failure.Config, "name the most similar board: FROM=nucleo_f746zg", "FROM names no board")
	}
	folder := v.ownFolder(path)
	if v.Env.On("DRYRUN") {
		return v.Would("make board %s from %s in %s", name, from, filepath.Join(v.Shown(folder), "boards"))
	}
	files, err := scaffold.Board(folder, name, from, path)
	if err != nil {
		return err
	}
	if _, err := boards.Find(files[0], path); err != nil {
		return err
	}
	for i, f := range files {
		files[i] = v.Shown(f)
	}
	v.Printf("board %s: made %s from %s", name, strings.Join(files, ", "), from)
	v.Printf("edit it, then check it: %s %s", v.Mage("board:check"), files[0])
	v.JSONLine(jsonlines.BoardNew{Board: name, Files: files})
	return nil
}

// ownFolder returns the first folder of the search path that is the user's, else this one: folders from git
// repositories are in the cache.
func (v *invocation) ownFolder(path []string) string {
	store, err := cache.DefaultDir()
	for _, folder := range path {
		if err != nil || !strings.HasPrefix(folder, store+string(filepath.Separator)) {
			return folder
		}
	}
	return v.Dir
}

// templateNew copies a template, with a board that builds with it.
func (v *invocation) templateNew(folder string) error {
	from := cmp.Or(v.Env("FROM"), "baremetal")
	if v.Env.On("DRYRUN") {
		return v.Would("copy template %s to %s", from, folder)
	}
	template, board, err := scaffold.Template(folder, from)
	if err != nil {
		return err
	}
	v.Printf("template %s: copied from %s to %s", template, from, filepath.Join(folder, "templates", template))
	v.Printf("board %s: made, which builds with it", board)
	v.Printf("edit them, then check them: BOARDSMITH_PATH=%s %s %s", folder, v.Mage("template:check"), template)
	v.JSONLine(jsonlines.TemplateNew{Template: template, Board: board, Folder: folder})
	return nil
}

// schemas writes the schemas to a folder.
func (v *invocation) schemas(folder string) error {
	dir := folder
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(v.Dir, dir)
	}
	if v.Env.On("DRYRUN") {
		return v.Would("write the schemas to %s", v.Shown(dir))
	}
	names, err := schemas.Write(dir)
	if err != nil {
		return err
	}
	v.Printf("schemas: wrote %s to %s", strings.Join(names, ", "), v.Shown(dir))
	v.JSONLine(jsonlines.Schemas{Folder: dir, Files: names})
	return nil
}
