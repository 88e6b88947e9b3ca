// This file makes new boards, templates and descriptions of models, and helps editors with their files.

package targets

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/magefile/mage/mg"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/cache"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/command"
	"github.com/boardsmith/boardsmith/internal/modelfile"
	"github.com/boardsmith/boardsmith/targets/internal/console"
	"github.com/boardsmith/boardsmith/targets/internal/inputs"
	"github.com/boardsmith/boardsmith/targets/internal/jsonlines"
	"github.com/boardsmith/boardsmith/targets/internal/scaffold"
	"github.com/boardsmith/boardsmith/targets/internal/schemas"
)

// New copies the file of the board FROM for a new board.
//
// Variables:
//
//	DRYRUN=1     prints what would be done, without doing it
//	FROM         the board to start from
func (Board) New(ctx context.Context, name string) error { return doBoardNew(ctx, name) }

var doBoardNew = namedTarget("board:new", newBoard)

// fromInputs are the variables of board:new and model:new.
type fromInputs struct {
	inputs.Dry
	From string `var:"FROM"`
}

// newBoard writes the new board's file into the first folder of the search path, else into this one.
func newBoard(ctx context.Context, c *console.Console, v fromInputs, name string) error {
	builder, err := searchBuilder(ctx, c)
	if err != nil {
		return err
	}

	path := builder.Path
	from := v.From
	if from == "" {
		return failure.New(failure.Config, "name the most similar board: FROM=nucleo_f746zg", "FROM names no board")
	}

	folder := ownFolder(c, path)
	if c.DryRun {
		return c.Would("make board %s from %s in %s", name, from, filepath.Join(c.Shown(folder), "boards"))
	}

	files, err := scaffold.Board(folder, name, from, path)
	if err != nil {
		return err
	}

	// The new file is read once, so that a board which cannot be used is an error here.
	if _, err := boards.Find(files[0], path); err != nil {
		return err
	}

	for i, f := range files {
		files[i] = c.Shown(f)
	}

	c.Printf("board %s: made %s from %s", name, strings.Join(files, ", "), from)
	c.Printf("edit it, then check it: %s %s", c.Mage("board:check"), command.Quote(files[0]))
	c.JSONLine(jsonlines.BoardNew{Board: name, Files: files})

	return nil
}

// ownFolder returns the first folder of the search path that is the user's, else this one: folders from git
// repositories are in the cache.
func ownFolder(c *console.Console, path []string) string {
	store, err := cache.DefaultDir()
	for _, folder := range path {
		if err != nil || !strings.HasPrefix(folder, store+string(filepath.Separator)) {
			return folder
		}
	}
	return c.Dir
}

// Model holds the targets about one model.
type Model mg.Namespace

// New drafts the description of a model in plain C from its function in FROM. FROM is the C file or header that
// declares it.
//
// Variables:
//
//	DRYRUN=1     prints what would be done, without doing it
//	FROM         the C file or header with the function
func (Model) New(ctx context.Context, function string) error { return doModelNew(ctx, function) }

var doModelNew = namedTarget("model:new", newModel)

// newModel writes the description beside the file.
func newModel(ctx context.Context, c *console.Console, v fromInputs, function string) error {
	from := v.From
	if from == "" {
		return failure.New(failure.Config, "name the C file or header that declares the function: FROM=kws.h",
			"FROM names no file")
	}

	if info, err := os.Stat(c.Abs(from)); err != nil || !info.Mode().IsRegular() {
		return failure.New(failure.Config, "name the C file or header that declares the function", "FROM=%s: %w", from,
			cmp.Or(err, errors.New("not a file")))
	}

	// This computer's compiler reads the declaration, whatever board the model is for.
	host, err := boards.Find("host", nil)
	if err != nil {
		return err
	}

	draft, err := modelfile.New(ctx, host.Toolchain.CC, c.Abs(from), function)
	if err != nil {
		return err
	}

	file := filepath.Join(filepath.Dir(c.Abs(from)), draft.Name+".json")
	if c.DryRun {
		return c.Would("describe %s of %s in %s", function, from, c.Shown(file))
	}

	if err := draft.Write(file); err != nil {
		return err
	}

	c.Printf("model %s: described %s of %s in %s", draft.Name, function, from, c.Shown(file))
	for _, open := range draft.Open {
		c.Printf("fill in or confirm: %s", open)
	}
	c.JSONLine(jsonlines.ModelNew{Model: draft.Name, File: file, Open: draft.Open})

	return nil
}

// Template holds the targets about one template.
type Template mg.Namespace

// New copies the shipped template FROM to a new folder.
//
// Variables:
//
//	DRYRUN=1     prints what would be done, without doing it
//	FROM         the shipped template to copy
func (Template) New(ctx context.Context, folder string) error { return doTemplateNew(ctx, folder) }

var doTemplateNew = namedTarget("template:new", newTemplate)

// templateNewInputs are the variables of template:new.
type templateNewInputs struct {
	inputs.Dry
	From string `var:"FROM" default:"baremetal"`
}

func newTemplate(_ context.Context, c *console.Console, v templateNewInputs, folder string) error {
	from := v.From

	if c.DryRun {
		return c.Would("copy template %s to %s", from, folder)
	}

	template, board, err := scaffold.Template(folder, from)
	if err != nil {
		return err
	}

	c.Printf("template %s: copied from %s to %s", template, from, filepath.Join(folder, "templates", template))
	c.Printf("board %s: made, which builds with it", board)
	c.Printf("edit them, then check them: BOARDSMITH_PATH=%s %s %s", command.Quote(folder), c.Mage("template:check"),
		template)
	c.JSONLine(jsonlines.TemplateNew{Template: template, Board: board, Folder: folder})
	return nil
}

// Schemas writes a JSON Schema for each kind of file that you write, to a folder. Editors check files by them.
//
// Variables:
//
//	DRYRUN=1     prints what would be done, without doing it
func Schemas(ctx context.Context, folder string) error { return doSchemas(ctx, folder) }

var doSchemas = namedTarget("schemas", writeSchemas)

// schemasInputs are the variables of schemas.
type schemasInputs struct{ inputs.Dry }

func writeSchemas(_ context.Context, c *console.Console, _ schemasInputs, folder string) error {
	dir := c.Abs(folder)
	if c.DryRun {
		return c.Would("write the schemas to %s", c.Shown(dir))
	}

	names, err := schemas.Write(dir)
	if err != nil {
		return err
	}

	c.Printf("schemas: wrote %s to %s", strings.Join(names, ", "), c.Shown(dir))
	c.JSONLine(jsonlines.Schemas{Folder: dir, Files: names})
	return nil
}
