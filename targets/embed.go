// This file writes the C with which a user's own firmware runs models.

package targets

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"github.com/boardsmith/boardsmith/cmodel"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/samples"
)

// embed writes the C of MODEL's models, and of the runtime what they use, to a new folder; with BOARD also a library of
// them.
func (v *invocation) embed(ctx context.Context, folder string) error {
	dir := folder
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(v.Dir, dir)
	}
	if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
		return failure.New(failure.Config, "remove it, or choose another folder", "%s is not empty", v.Shown(dir))
	}
	var options cmodel.Options
	switch params := v.Env("PARAMS"); params {
	case "", "flash":
	case "ram":
		options.RAMParameters = true
	default:
		return failure.New(failure.Config, "", "PARAMS=%s is neither flash nor ram", params)
	}
	library, target, err := v.library(ctx)
	if err != nil {
		return err
	}
	options.Target = target
	codes, err := v.embedded(options)
	if err != nil {
		return err
	}
	files, err := cmodel.Bundle(codes...)
	if err != nil {
		return err
	}
	if v.Env.On("DRYRUN") {
		return v.Would("write %d files to %s", len(files), v.Shown(dir))
	}
	if err := v.writeModels(ctx, dir, files, library); err != nil {
		return err
	}
	compiled := ""
	if library != nil {
		compiled = ", or link lib/libmodels.a, compiled for " + library.board.Name
	}
	var names []string
	for _, c := range codes {
		names = append(names, c.Name)
		for _, r := range c.Renamed {
			v.Printf("embed: %s %q is %s in C: %s", r.Kind, r.Name, r.CName, r.Why)
		}
	}
	v.Printf("embed: %s holds %s; compile src/*.c with -Iinclude%s", v.Shown(dir), strings.Join(names, ", "),
		compiled)
	v.JSONLine(fields{"status": "done", "folder": dir, "models": names})
	return nil
}

// writeModels writes the files to a folder that does not exist or is empty, and compiles them if there is a library. If
// that fails, the folder is as it was.
func (v *invocation) writeModels(ctx context.Context, dir string, files []mlf.File, l *library) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	made, err := os.MkdirTemp(filepath.Dir(dir), ".embed-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(made)
	if err := os.Chmod(made, 0o755); err != nil {
		return err
	}
	for _, f := range files {
		path := filepath.Join(made, filepath.FromSlash(f.Name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, f.Data, 0o644); err != nil {
			return err
		}
	}
	if l != nil {
		bar := v.Start("compiling for "+l.board.Name, 0)
		err := l.build(ctx, made)
		bar.End()
		if err != nil {
			return err
		}
	}
	if err := os.Remove(dir); err != nil && !os.IsNotExist(err) { // an empty one
		return err
	}
	return os.Rename(made, dir)
}

// embedded makes the C of the models in the archives of MODEL.
func (v *invocation) embedded(o cmodel.Options) (codes []*cmodel.Code, err error) {
	name := v.Env("MODEL_NAME")
	for _, path := range strings.Split(v.Env("MODEL"), ",") {
		var a *mlf.Archive
		if path == "" {
			a, err = mlf.Parse(samples.Name, samples.Archive())
		} else {
			if !filepath.IsAbs(path) {
				path = filepath.Join(v.Dir, path)
			}
			a, err = mlf.Open(path)
		}
		if err != nil {
			return nil, err
		}
		for _, m := range a.Models {
			if name != "" && m.Name != name {
				continue
			}
			c, err := cmodel.Generate(a, m, o)
			if err != nil {
				return nil, err
			}
			codes = append(codes, c)
		}
	}
	if len(codes) == 0 {
		return nil, failure.New(failure.Config, "", "MODEL_NAME=%s: no archive of MODEL has such a model", name)
	}
	return codes, nil
}
