// This file writes template folders for TVM's Python.

package targets

import (
	"cmp"
	"context"
	"path/filepath"

	"github.com/boardsmith/boardsmith/internal/boardsmithjson"
	"github.com/boardsmith/boardsmith/internal/chipkeeper"
	"github.com/boardsmith/boardsmith/internal/files/scratch"
	"github.com/boardsmith/boardsmith/internal/gitfolder"
	"github.com/boardsmith/boardsmith/internal/projectapi"
	"github.com/boardsmith/boardsmith/targets/internal/console"
	"github.com/boardsmith/boardsmith/targets/internal/inputs"
	"github.com/boardsmith/boardsmith/targets/internal/jsonlines"
)

// Export writes a template folder for TVM's Python. Projects of it are for BOARD, by TEMPLATE.
//
// Variables:
//
//	BOARD        a board's name: mage boards lists them [host]
//	TEMPLATE     a template's name, path or git place [the board's own]
//	DRYRUN=1     prints what would be done, without doing it
func (Template) Export(ctx context.Context, folder string) error { return doExport(ctx, folder) }

var doExport = namedTarget("template:export", exportTemplate)

// exportInputs are the variables of template:export.
type exportInputs struct {
	inputs.Dry
	Board    string `var:"BOARD"`
	Template string `var:"TEMPLATE"`
}

func exportTemplate(ctx context.Context, c *console.Console, v exportInputs, folder string) error {
	builder, err := searchBuilder(ctx, c)
	if err != nil {
		return err
	}

	config, err := boardsmithjson.Find(c.Dir)
	if err != nil {
		return err
	}

	e := projectapi.Export{
		Board: cmp.Or(v.Board, config.Board), Path: builder.Path, Templates: map[string]string{},
	}

	if template := cmp.Or(v.Template, config.Template); template != "" {
		e.Template = filepath.Base(template)
	}

	// The folder records paths, so a place of git is fetched now.
	for name, place := range builder.Templates {
		if gitfolder.IsRef(place) {
			if place, err = builder.Fetch(ctx, place); err != nil {
				return err
			}
		}
		e.Templates[name] = place
	}

	dir := c.Abs(folder)
	if c.DryRun {
		return c.Would("write a template folder for TVM to %s", c.Shown(dir))
	}

	built, err := scratch.Make("boardsmith-export-")
	if err != nil {
		return err
	}
	defer built.Remove()

	e.Executable = filepath.Join(built.Dir, projectapi.Program)
	if err := buildProgram(ctx, c, projectapi.Program, e.Executable); err != nil {
		return err
	}
	// The server looks for the keeper beside itself.
	keeper := filepath.Join(built.Dir, chipkeeper.Program)
	if err := buildProgram(ctx, c, chipkeeper.Program, keeper); err != nil {
		return err
	}
	e.Companions = []string{keeper}

	if err := e.Write(dir); err != nil {
		return err
	}

	c.Printf("template:export: %s is a template for TVM's Python", c.Shown(dir))
	c.JSONLine(jsonlines.Exported{Folder: dir})
	return nil
}
