// This file makes the library of APP=library: the C of models and a compiled library, for somebody's own firmware.

package targets

import (
	"cmp"
	"context"
	"maps"
	"path/filepath"
	"slices"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/cmodel"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/internal/cli/inputs"
	"github.com/boardsmith/boardsmith/internal/cli/jsonlines"
	"github.com/boardsmith/boardsmith/internal/files/wholefolder"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/release"
)

// noFirmware is the error of a target that needs firmware.
func noFirmware() error {
	return failure.New(failure.Config, "APP=standalone makes firmware that runs the model",
		"APP=library makes a library, not firmware: it has the targets build, size and release")
}

// compiledModels makes the files of the library.
func (v *invocation) compiledModels(ctx context.Context, in *inputs.Inputs) (files []mlf.File, codes []*cmodel.Code,
	c *cmodel.Compiler, err error,
) {
	b, err := boards.Find(in.Board.Value, in.Path)
	if err != nil {
		return nil, nil, nil, err
	}
	if c, err = v.libraryCompiler(ctx, b, in.Options, in.Libraries); err != nil {
		return nil, nil, nil, err
	}
	if codes, err = v.embedded(in.Model.Value, in.ModelName.Value, c); err != nil {
		return nil, nil, nil, err
	}
	files, err = v.bundle(ctx, codes, c)
	return files, codes, c, err
}

// libraryCompiler returns the compiler of a board, which finds the headers of libraries.
func (v *invocation) libraryCompiler(ctx context.Context, b *boards.Board, o boards.Options, libraries []string) (
	*cmodel.Compiler, error,
) {
	c, err := cmodel.NewCompiler(ctx, b, o)
	if err != nil {
		return nil, err
	}
	builder, err := v.search(ctx)
	if err != nil {
		return nil, err
	}
	c.Headers, err = builder.HeaderFolders(ctx, b, libraries)
	return c, err
}

// buildLibrary writes the library to OUTPUT, unless it is there. FORCE replaces another one.
func (v *invocation) buildLibrary(ctx context.Context, in *inputs.Inputs) error {
	shown := cmp.Or(in.Output, in.Project)
	if v.Env.On("DRYRUN") {
		return v.Would("build a library for board %s in %s", in.Board.Value, shown)
	}
	files, codes, c, err := v.compiledModels(ctx, in)
	if err != nil {
		return err
	}
	dir := shown
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(v.Dir, dir)
	}
	names, list := v.tellNames(codes), folderOf(files)
	line := jsonlines.Models{Folder: shown, Board: c.Board.Name, Models: names}
	if wholefolder.Has(dir, list) {
		v.Printf("build: %s is up to date", shown)
		line.Status = jsonlines.StatusUpToDate
	} else if err := wholefolder.Write(ctx, dir, list, func() error { return v.errOther(dir, shown) }); err != nil {
		return err
	} else {
		v.Printf("build: %s, %d files; link %s, compiled for %s", shown, len(list), cmodel.CompiledLibrary, c.Board.Name)
	}
	v.JSONLine(line)
	return nil
}

// errOther returns an error unless FORCE is set and dir has a library and nothing else, as it was written.
func (v *invocation) errOther(dir, shown string) error {
	listed, err := wholefolder.Listed(dir)
	if err != nil {
		return err
	}
	changed, err := wholefolder.Changed(dir, listed)
	_, isLibrary := listed["models.mk"]
	switch {
	case err != nil:
		return err
	case !isLibrary:
		return failure.New(failure.Config, "choose another OUTPUT", "%s is not empty, and it is no library", shown)
	case changed != "":
		return failure.New(failure.Config, "move it elsewhere, or choose another OUTPUT",
			"%s has %s, which is not as boardsmith has written it", shown, changed)
	case !v.Env.On("FORCE"):
		return failure.New(failure.Config, "FORCE=1 replaces a library; or choose another OUTPUT",
			"%s is another library", shown)
	}
	return nil
}

// librarySize prints the memory of the library's objects.
func (v *invocation) librarySize(ctx context.Context, in *inputs.Inputs) error {
	if v.Env.On("DRYRUN") {
		return v.Would("compile a library for board %s, and print its size", in.Board.Value)
	}
	files, _, c, err := v.compiledModels(ctx, in)
	if err != nil {
		return err
	}
	sizes, err := c.Sizes(ctx, files)
	if err != nil {
		return err
	}
	var all image.Size
	var lines []jsonlines.Part
	row := func(name string, z image.Size) {
		v.Printf("%-32s %10d %10d %10d", name, z.Text, z.Data, z.BSS)
		lines = append(lines, jsonlines.Part{Part: name, Text: z.Text, Data: z.Data, BSS: z.BSS})
	}
	v.Printf("%-32s %10s %10s %10s   bytes", "", "text", "data", "bss")
	for _, name := range slices.Sorted(maps.Keys(sizes)) {
		z := sizes[name]
		row(name, z)
		all.Text, all.Data, all.BSS = all.Text+z.Text, all.Data+z.Data, all.BSS+z.BSS
	}
	row("all", all)
	v.JSONLine(jsonlines.LibrarySize{Board: c.Board.Name, Sizes: lines})
	return nil
}

// releaseLibrary writes the library and what describes it to dir.
func (v *invocation) releaseLibrary(ctx context.Context, in *inputs.Inputs, dir string) error {
	if v.Env.On("DRYRUN") {
		return v.Would("write a release of a library for board %s to %s", in.Board.Value, dir)
	}
	files, codes, c, err := v.compiledModels(ctx, in)
	if err != nil {
		return err
	}
	sizes, err := c.Sizes(ctx, files)
	if err != nil {
		return err
	}
	o, err := v.releaseOptions(ctx, in)
	if err != nil {
		return err
	}
	r, err := release.OfLibrary(files, codes, c, sizes, o)
	if err != nil {
		return err
	}
	line := jsonlines.Release{Models: v.tellNames(codes)}
	line.Board = c.Board.Name
	return v.writeRelease(ctx, r, dir, line)
}
