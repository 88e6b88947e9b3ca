// This file writes template folders for TVM's Python.

package targets

import (
	"context"
	"os"
	"path/filepath"

	"github.com/boardsmith/boardsmith/internal/cli/jsonlines"
	"github.com/boardsmith/boardsmith/internal/virtualprobe"
	"github.com/boardsmith/boardsmith/projectapi"
)

// templateExport writes a folder that TVM's Python takes as a template.
func (v *invocation) templateExport(ctx context.Context, folder string) error {
	builder, err := v.search(ctx)
	if err != nil {
		return err
	}
	e := projectapi.Export{Board: v.Env("BOARD"), Template: v.Env("TEMPLATE"), Path: builder.Path}
	dir := folder
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(v.Dir, dir)
	}
	if v.Env.On("DRYRUN") {
		return v.Would("write a template folder for TVM to %s", v.Shown(dir))
	}
	built, err := os.MkdirTemp("", "boardsmith-export-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(built)
	e.Executable = filepath.Join(built, projectapi.Program)
	if err := v.buildProgram(ctx, projectapi.Program, e.Executable, projectapi.Install); err != nil {
		return err
	}
	keeper := filepath.Join(built, virtualprobe.Program)
	if err := v.buildProgram(ctx, virtualprobe.Program, keeper, virtualprobe.Install); err != nil {
		return err
	}
	e.Beside = []string{keeper}
	if err := e.Write(dir); err != nil {
		return err
	}
	v.Printf("template:export: %s is a template for TVM's Python", v.Shown(dir))
	v.JSONLine(jsonlines.Exported{Folder: dir})
	return nil
}
