// This file writes the C with which a user's own firmware runs models.

package targets

import (
	"cmp"
	"context"
	"os"
	"strings"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/cmodel"
	"github.com/boardsmith/boardsmith/examples/samples"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/boardsmithjson"
	"github.com/boardsmith/boardsmith/internal/files/atomicfolder"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/targets/internal/console"
	"github.com/boardsmith/boardsmith/targets/internal/inputs"
	"github.com/boardsmith/boardsmith/targets/internal/jsonlines"
)

// Embed writes the C with which your own firmware runs models, to a folder. MODEL names archives, separated by commas;
// with BOARD, it writes a library of them, too.
//
// Variables:
//
//	BOARD        a board's name: mage boards lists them [host]
//	MODEL        a model's archive, .tar or .tar.gz, or its description, .json … [the bundled sample, digits_i8]
//	MODEL_NAME   the name of the model in an archive that holds several [the archive's only one]
//	OPTIONS      name=value, separated by spaces: mage board:show NAME lists them [the board's own]
//	LIBRARIES    names, folders or git places of libraries, separated by commas [those of the project]
//	PARAMS       ram makes the parameters of graph models variables [flash]
//	TARGET       a named target of boardsmith.json
//	DRYRUN=1     prints what would be done, without doing it
func Embed(ctx context.Context, folder string) error { return doEmbed(ctx, folder) }

var doEmbed = namedTarget("embed", embedModels)

// embedInputs are the variables of embed.
type embedInputs struct {
	inputs.Dry
	Target    string   `var:"TARGET"`
	Board     string   `var:"BOARD"`
	Model     string   `var:"MODEL"`
	ModelName string   `var:"MODEL_NAME"`
	Options   []string `var:"OPTIONS" between:" "`
	Libraries []string `var:"LIBRARIES"`
	Params    string   `var:"PARAMS"`
}

func embedModels(ctx context.Context, c *console.Console, v embedInputs, folder string) error {
	if err := completeEmbed(c, &v); err != nil {
		return err
	}
	dir := c.Abs(folder)
	// Before the models are compiled, which takes a while.
	if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
		return notEmpty(c, dir)
	}

	compiler, err := boardCompiler(ctx, c, v)
	if err != nil {
		return err
	}
	codes, err := modelCodes(c, v.Model, v.ModelName, v.Params, compiler)
	if err != nil {
		return err
	}

	files, err := bundle(ctx, c, codes, compiler)
	if err != nil {
		return err
	}

	// Without a board, nothing was linked that would have shown symbols defined twice.
	if compiler == nil && len(codes) > 1 {
		if err := checkSymbols(ctx, c, codes, v.Libraries); err != nil {
			return err
		}
	}

	list := folderOf(files)
	if c.DryRun {
		return c.Would("write %d files to %s", len(list), c.Shown(dir))
	}

	if err := atomicfolder.Write(ctx, dir, list, func() error { return notEmpty(c, dir) }); err != nil {
		return err
	}

	compiled := ""
	if compiler != nil {
		compiled = ", or link lib/libmodels.a, compiled for " + compiler.Board.Name
	}
	names := printNames(c, codes)
	c.Printf("embed: %s holds %s; compile src/*.c with -Iinclude%s", c.Shown(dir), strings.Join(names, ", "),
		compiled)
	c.JSONLine(jsonlines.Models{Folder: dir, Models: names})

	return nil
}

// completeEmbed completes variables by the target that TARGET names, and by the model of boardsmith.json, whose board
// is that of firmware.
func completeEmbed(c *console.Console, v *embedInputs) error {
	config, err := boardsmithjson.Find(c.Dir)
	if err != nil {
		return err
	}
	if v.Target != "" {
		named, err := config.Target(v.Target)
		if err != nil {
			return err
		}
		if err := console.Complete(v, named); err != nil {
			return err
		}
	}

	if v.Model == "" {
		v.Model, v.ModelName = config.Model, cmp.Or(v.ModelName, config.ModelName)
	}
	return nil
}

// checkSymbols returns an error if models define one symbol, as this computer's compiler finds. It prints a doubt if
// that cannot compile them.
func checkSymbols(ctx context.Context, c *console.Console, codes []*cmodel.Code, libraries []string) error {
	host, err := boards.Find("host", nil)
	if err != nil {
		return err
	}

	compiler, err := libraryCompiler(ctx, c, host, boards.Options{}, libraries)
	if err == nil {
		_, err = bundle(ctx, c, codes, compiler)
	}

	if err == nil || ctx.Err() != nil || failure.Of(err) == failure.Link {
		return err
	}

	c.Printf("%s: whether the models define one symbol twice is not checked: %v", c.Step(), err)
	return nil
}

func notEmpty(c *console.Console, dir string) error {
	return failure.New(failure.Config, "remove it, or choose another folder", "%s is not empty", c.Shown(dir))
}

// printNames prints the names that differ in C and what is not certain, and returns the names of the models.
func printNames(c *console.Console, codes []*cmodel.Code) (names []string) {
	for _, code := range codes {
		names = append(names, code.Name)
		for _, r := range code.Renamed {
			c.Printf("%s: %s %q is %s in C: %s", c.Step(), r.Kind, r.Name, r.CName, r.Reason)
		}
		for _, doubt := range code.Unsure {
			c.Printf("%s: model %s may need a larger workspace: %s", c.Step(), code.Name, doubt)
		}
	}
	return names
}

// boardCompiler returns the compiler of BOARD with OPTIONS, nil if BOARD is not given.
func boardCompiler(ctx context.Context, c *console.Console, v embedInputs) (*cmodel.Compiler, error) {
	if v.Board == "" {
		return nil, nil
	}

	builder, err := searchBuilder(ctx, c)
	if err != nil {
		return nil, err
	}
	b, err := boards.Find(v.Board, builder.Path)
	if err != nil {
		return nil, err
	}

	options, err := boards.ParseOptions(v.Options)
	if err != nil {
		return nil, err
	}
	return libraryCompiler(ctx, c, b, options, v.Libraries)
}

// bundle makes the files of a folder with the models. A dry run compiles nothing.
func bundle(ctx context.Context, c *console.Console, codes []*cmodel.Code, compiler *cmodel.Compiler) (
	[]mlf.File, error,
) {
	if compiler == nil || c.DryRun {
		return cmodel.Bundle(codes...)
	}

	bar := c.Start("compiling for "+compiler.Board.Name, 0)
	defer bar.End()
	return compiler.Bundle(ctx, codes)
}

// folderOf returns the files and a list of them, by which a later build recognises them.
func folderOf(files []mlf.File) (list []atomicfolder.File) {
	for _, f := range files {
		list = append(list, atomicfolder.File{Name: f.Name, Data: f.Data})
	}
	return append(list, atomicfolder.Sums(list))
}

// modelCodes makes the C of the models in archives, whose paths are separated by commas: of the named model, or of all
// if name is "".
func modelCodes(
	c *console.Console, paths, name, params string, compiler *cmodel.Compiler,
) (codes []*cmodel.Code, err error) {
	archives, err := openArchives(c, paths)
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
		of := a.Models
		if name != "" {
			m, err := a.Model(name)
			if err != nil {
				return nil, err
			}
			of = []*mlf.Model{m}
		}
		for _, m := range of {
			models, names = append(models, chosen{a, m}), append(names, m.Name)
		}
	}

	inRAM, err := inputs.RAMParameters(params, names)
	if err != nil {
		return nil, err
	}

	for _, m := range models {
		o := cmodel.Options{RAMParameters: inRAM[m.model.Name]}
		if compiler != nil {
			o.Target, o.Unsure = compiler.Target, compiler.Unsure
		}
		code, err := cmodel.Generate(m.from, m.model, o)
		if err != nil {
			return nil, err
		}
		codes = append(codes, code)
	}
	return codes, nil
}

// openArchives opens those whose paths are separated by commas; "" is the bundled sample.
func openArchives(c *console.Console, paths string) (archives []*mlf.Archive, err error) {
	list, err := inputs.Archives(paths)
	if err != nil {
		return nil, err
	}

	for _, path := range list {
		var a *mlf.Archive
		if path == "" {
			a, err = mlf.Parse(samples.Name, samples.Archive())
		} else {
			a, err = mlf.Open(c.Abs(path))
		}
		if err != nil {
			return nil, err
		}
		archives = append(archives, a)
	}
	return archives, nil
}

// libraryCompiler returns the compiler of a board, which finds the headers of libraries.
func libraryCompiler(ctx context.Context, c *console.Console, b *boards.Board, o boards.Options, libraries []string) (
	*cmodel.Compiler, error,
) {
	compiler, err := cmodel.NewCompiler(ctx, b, o)
	if err != nil {
		return nil, err
	}

	builder, err := searchBuilder(ctx, c)
	if err != nil {
		return nil, err
	}
	compiler.Headers, compiler.Unsure, err = builder.HeaderFolders(ctx, b, libraries)
	return compiler, err
}
