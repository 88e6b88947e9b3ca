// This file makes the library of APP=library: the C of models and a compiled library, for somebody's own firmware.

package targets

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/cmodel"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/internal/files/atomicfolder"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/targets/internal/jsonlines"
)

// noFirmware is the error of a target that needs firmware.
func noFirmware() error {
	return failure.New(failure.Config, "APP=standalone makes firmware that runs the model",
		"APP=library makes a library, not firmware: it has the targets build, size and release")
}

// compileModels makes the files of the library.
func compileModels(ctx context.Context, j *job) (files []mlf.File, codes []*cmodel.Code,
	c *cmodel.Compiler, err error,
) {
	in := j.in
	b, err := boards.Find(in.Board, in.Path)
	if err != nil {
		return nil, nil, nil, err
	}

	if c, err = libraryCompiler(ctx, j.Console, b, in.Options, in.Libraries); err != nil {
		return nil, nil, nil, err
	}
	if codes, err = modelCodes(j.Console, in.Model, in.ModelName, in.Params, c); err != nil {
		return nil, nil, nil, err
	}

	files, err = bundle(ctx, j.Console, codes, c)
	return files, codes, c, err
}

// buildLibrary writes the library to OUTPUT, unless it is there. FORCE replaces another one.
func buildLibrary(ctx context.Context, j *job) error {
	folder := cmp.Or(j.in.Output, j.in.Project)
	if j.DryRun {
		return j.Would("build a library for board %s in %s", j.in.Board, folder)
	}

	files, codes, c, err := compileModels(ctx, j)
	if err != nil {
		return err
	}

	dir := j.Abs(folder)

	names, list := printNames(j.Console, codes), folderOf(files)
	line := jsonlines.Models{Folder: folder, Board: c.Board.Name, Models: names}

	if atomicfolder.Has(dir, list) {
		j.Printf("build: %s is up to date", folder)
		line.Status = jsonlines.StatusUpToDate
	} else {
		isOther := func() error { return errOther(j, dir, folder) }
		if err := atomicfolder.Write(ctx, dir, list, isOther); err != nil {
			return err
		}
		j.Printf("build: %s, %d files; link %s, compiled for %s", folder, len(list), cmodel.CompiledLibrary, c.Board.Name)
	}

	j.JSONLine(line)
	return nil
}

// errOther returns an error unless FORCE is set and dir has a library and nothing else, as it was written.
func errOther(j *job, dir, folder string) error {
	listed, err := atomicfolder.Listed(dir)
	if err != nil {
		return err
	}

	changed, err := atomicfolder.Changed(dir, listed)
	_, isLibrary := listed["models.mk"]
	switch {
	case err != nil:
		return err
	case !isLibrary:
		return failure.New(failure.Config, "choose another OUTPUT", "%s is not empty, and it is no library", folder)
	case changed != "":
		return failure.New(failure.Config, "move it elsewhere, or choose another OUTPUT",
			"%s has %s, which is not as boardsmith has written it", folder, changed)
	case !j.in.Force:
		return failure.New(failure.Config, "FORCE=1 replaces a library; or choose another OUTPUT",
			"%s is another library", folder)
	}
	return nil
}

// librarySize prints the memory of the library's objects.
func librarySize(ctx context.Context, j *job) error {
	if j.DryRun {
		return j.Would("compile a library for board %s, and print its size", j.in.Board)
	}

	files, _, c, err := compileModels(ctx, j)
	if err != nil {
		return err
	}
	sizes, err := c.Sizes(ctx, files)
	if err != nil {
		return err
	}

	var total image.Size
	var lines []jsonlines.Part
	row := func(name string, z image.Size) {
		j.Printf("%-32s %10d %10d %10d", name, z.Text, z.Data, z.BSS)
		lines = append(lines, jsonlines.Part{Part: name, Size: z})
	}

	j.Printf("%-32s %10s %10s %10s   bytes", "", "text", "data", "bss")
	for _, name := range slices.Sorted(maps.Keys(sizes)) {
		z := sizes[name]
		row(name, z)
		total.Text, total.Data, total.BSS = total.Text+z.Text, total.Data+z.Data, total.BSS+z.BSS
	}

	row("all", total)

	j.JSONLine(jsonlines.LibrarySize{Board: c.Board.Name, Sizes: lines})
	return nil
}
