// This file writes the C with which a user's own firmware runs models.

package targets

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/cmodel"
	"github.com/boardsmith/boardsmith/examples/samples"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/cli/inputs"
	"github.com/boardsmith/boardsmith/internal/cli/jsonlines"
	"github.com/boardsmith/boardsmith/internal/files/wholefolder"
	"github.com/boardsmith/boardsmith/mlf"
)

// embed writes the C of MODEL's models, and of the runtime what they use, to a new folder; with BOARD also a library of
// them.
func (v *invocation) embed(ctx context.Context, folder string) error {
	dir := folder
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(v.Dir, dir)
	}
	if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
		return v.notEmpty(dir)
	}
	c, err := v.compilerOf(ctx)
	if err != nil {
		return err
	}
	codes, err := v.embedded(v.Env("MODEL"), v.Env("MODEL_NAME"), c)
	if err != nil {
		return err
	}
	files, err := v.bundle(ctx, codes, c)
	if err != nil {
		return err
	}
	list := folderOf(files)
	if v.Env.On("DRYRUN") {
		return v.Would("write %d files to %s", len(list), v.Shown(dir))
	}
	if err := wholefolder.Write(ctx, dir, list, func() error { return v.notEmpty(dir) }); err != nil {
		return err
	}
	compiled := ""
	if c != nil {
		compiled = ", or link lib/libmodels.a, compiled for " + c.Board.Name
	}
	names := v.tellNames(codes)
	v.Printf("embed: %s holds %s; compile src/*.c with -Iinclude%s", v.Shown(dir), strings.Join(names, ", "),
		compiled)
	v.JSONLine(jsonlines.Models{Folder: dir, Models: names})
	return nil
}

func (v *invocation) notEmpty(dir string) error {
	return failure.New(failure.Config, "remove it, or choose another folder", "%s is not empty", v.Shown(dir))
}

// tellNames prints the names that differ in C and what is not certain, and returns the names of the models.
func (v *invocation) tellNames(codes []*cmodel.Code) (names []string) {
	for _, c := range codes {
		names = append(names, c.Name)
		for _, r := range c.Renamed {
			v.Printf("%s: %s %q is %s in C: %s", v.Step(), r.Kind, r.Name, r.CName, r.Why)
		}
		for _, why := range c.Unsure {
			v.Printf("%s: model %s may need a larger workspace: %s", v.Step(), c.Name, why)
		}
	}
	return names
}

// compilerOf returns the compiler of BOARD with OPTIONS, nil if BOARD is not given.
func (v *invocation) compilerOf(ctx context.Context) (*cmodel.Compiler, error) {
	name := v.Env("BOARD")
	if name == "" {
		return nil, nil
	}
	builder, err := v.search(ctx)
	if err != nil {
		return nil, err
	}
	b, err := boards.Find(name, builder.Path)
	if err != nil {
		return nil, err
	}
	options, err := boards.ParseOptions(strings.Fields(v.Env("OPTIONS")))
	if err != nil {
		return nil, err
	}
	return v.libraryCompiler(ctx, b, options, inputs.LibraryNames(v.Env("LIBRARIES")))
}

// bundle makes the files of a folder with the models. A dry run compiles nothing.
func (v *invocation) bundle(ctx context.Context, codes []*cmodel.Code, c *cmodel.Compiler) ([]mlf.File, error) {
	if c == nil || v.Env.On("DRYRUN") {
		return cmodel.Bundle(codes...)
	}
	bar := v.Start("compiling for "+c.Board.Name, 0)
	defer bar.End()
	return c.Bundle(ctx, codes)
}

// folderOf returns the files and a list of them, by which a later build recognises them.
func folderOf(files []mlf.File) (list []wholefolder.File) {
	for _, f := range files {
		list = append(list, wholefolder.File{Name: f.Name, Data: f.Data})
	}
	return append(list, wholefolder.Sums(list))
}

// embedded makes the C of the models in archives, whose paths are separated by commas: of one model, or of all if name
// is "".
func (v *invocation) embedded(paths, name string, compiler *cmodel.Compiler) (codes []*cmodel.Code, err error) {
	archives, err := v.archives(paths)
	if err != nil {
		return nil, err
	}
	type chosen struct {
		from  *mlf.Archive
		model *mlf.Model
	}
	var models []chosen
	var names []string
	for _, a := range archives {
		for _, m := range a.Models {
			if name == "" || m.Name == name {
				models, names = append(models, chosen{a, m}), append(names, m.Name)
			}
		}
	}
	if len(models) == 0 {
		return nil, failure.Errorf(failure.Config, "MODEL_NAME=%s: no archive of MODEL has such a model", name)
	}
	inRAM, err := inputs.RAMParameters(v.Env("PARAMS"), names)
	if err != nil {
		return nil, err
	}
	for _, m := range models {
		o := cmodel.Options{RAMParameters: inRAM[m.model.Name]}
		if compiler != nil {
			o.Target = compiler.Target
		}
		c, err := cmodel.Generate(m.from, m.model, o)
		if err != nil {
			return nil, err
		}
		codes = append(codes, c)
	}
	return codes, nil
}

// archives opens those whose paths are separated by commas; "" is the bundled sample.
func (v *invocation) archives(paths string) (archives []*mlf.Archive, err error) {
	list, err := inputs.Archives(paths)
	if err != nil {
		return nil, err
	}
	for _, path := range list {
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
		archives = append(archives, a)
	}
	return archives, nil
}
