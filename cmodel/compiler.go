// This file compiles models for a board, as a folder for somebody's own firmware.

package cmodel

import (
	"bytes"
	"cmp"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/internal/command"
	"github.com/boardsmith/boardsmith/internal/diagnostics"
	"github.com/boardsmith/boardsmith/internal/files/abspath"
	"github.com/boardsmith/boardsmith/internal/files/scratch"
	"github.com/boardsmith/boardsmith/internal/firmware"
	"github.com/boardsmith/boardsmith/internal/fit"
	"github.com/boardsmith/boardsmith/internal/modelfile"
	"github.com/boardsmith/boardsmith/internal/nextstep"
	"github.com/boardsmith/boardsmith/mlf"
)

// scratchPrefix begins the names of the folders in which the compiler runs.
const scratchPrefix = "boardsmith-models-"

// compileTimeout limits one run of a compiler.
const compileTimeout = 10 * time.Minute

// CompiledLibrary is the name of the library that Compiler.Bundle compiles.
const CompiledLibrary = "lib/libmodels.a"

// A Compiler compiles models for a board. It may be used from many goroutines.
type Compiler struct {
	Board  *boards.Board
	Target *target // what its headers check

	Headers  []string       // absolute paths of further folders in which #include searches: those of libraries
	Unsure   []string       // reasons why models that use these libraries may need more memory than computed
	Options  boards.Options // OperatorOpt and OperatorFlags; a zero field means the board's default
	Archiver string         // the first line of its --version; "" if it does not have this flag

	cc, ar string
	flags  []string
}

// NewCompiler finds the board's compiler and asks it for its version and macros. Of the options, a library has
// OperatorOpt and OperatorFlags. Errors: class config for a board without a compiler and for another option, those of a
// missing tool.
func NewCompiler(ctx context.Context, b *boards.Board, o boards.Options) (*Compiler, error) {
	if b.Toolchain.CC == "" {
		return nil, failure.New(failure.Config, nextstep.Target("embed")+" without a board writes the sources",
			"board %s names no compiler", b.Name)
	}

	own := boards.Options{OperatorOpt: o.OperatorOpt, OperatorFlags: o.OperatorFlags}
	for _, word := range o.Words() {
		if !slices.Contains(own.Words(), word) {
			return nil, failure.New(failure.Config, "leave it out: a library has operator_opt and operator_flags",
				"option %s is for firmware", word)
		}
	}

	c := &Compiler{Board: b, Options: own}
	c.flags = slices.Concat(b.CFlags, []string{"-" + cmp.Or(o.OperatorOpt, b.OperatorOpt)}, o.OperatorFlagsOf(""))

	for _, tool := range []struct {
		name string
		to   *string
	}{{b.Toolchain.CC, &c.cc}, {b.Toolchain.AR, &c.ar}} {
		var err error
		if *tool.to, err = command.Find(tool.name, b.Toolchain.Install); err != nil {
			return nil, err
		}
	}

	version, err := command.Ask(ctx, c.cc, "--version")
	if err != nil {
		return nil, err
	}

	// Some archivers have no --version: only the end of ctx is an error.
	if c.Archiver, err = command.Ask(ctx, c.ar, "--version"); ctx.Err() != nil {
		return nil, err
	}

	args := slices.Concat(c.flags, []string{"-dM", "-E", "-x", "c", os.DevNull})
	predefined, _, err := command.Command{Path: c.cc, Args: args, Timeout: compileTimeout}.Capture(ctx)
	if err != nil {
		return nil, err
	}

	c.Target = newTarget(b.Name, version, c.flags, predefined)
	return c, nil
}

// Bundle returns the files of a folder with the models, as the function Bundle does, and lib/libmodels.a. Equal models
// and compilers give equal bytes. Errors: class config if an object of a model is for another processor than the
// board's, or if a model calls a function of TVM that neither its archive nor the runtime has; class link if two
// objects define one symbol; class compile.
func (c *Compiler) Bundle(ctx context.Context, codes []*Code) ([]mlf.File, error) {
	files, err := Bundle(codes...)
	if err != nil {
		return nil, err
	}

	for _, code := range codes {
		for _, object := range code.Objects {
			if err := fit.CheckObject(c.Board, object); err != nil {
				return nil, fmt.Errorf("model %s: %w", code.Name, err)
			}
		}

		err := fit.CheckFPU(c.Board, code.Objects, func() ([]byte, error) { return command.CompileEmpty(ctx, c.cc, c.flags) })
		if err != nil {
			return nil, fmt.Errorf("model %s: %w", code.Name, err)
		}
	}

	folder, err := scratch.Make(scratchPrefix)
	if err != nil {
		return nil, err
	}
	defer folder.Remove()
	dir := folder.Dir

	for _, f := range files {
		path := filepath.Join(dir, filepath.FromSlash(f.Name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return nil, err
		}
		if err := os.WriteFile(path, f.Data, 0o644); err != nil {
			return nil, err
		}
	}

	if err := c.build(ctx, dir, files, codes); err != nil {
		return nil, err
	}
	data, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(CompiledLibrary)))
	return append(files, mlf.File{Name: CompiledLibrary, Data: data}), err
}

// build makes lib/libmodels.a of the sources and objects among the files, which are in dir. Equal files give equal
// bytes. Each model becomes one object, so that a firmware which defines one of its symbols, also by another library,
// does not link.
func (c *Compiler) build(ctx context.Context, dir string, files []mlf.File, codes []*Code) error {
	if err := os.MkdirAll(filepath.Join(dir, "lib"), 0o755); err != nil {
		return err
	}

	sources := pathsIn(files, "src", ".c")
	for _, name := range c.Options.OperatorFiles() {
		if !slices.Contains(sources, filepath.Join("src", name)) {
			return failure.Errorf(failure.Config, "option operator_flags: the models have no C file %s", name)
		}
	}

	owner := map[string]string{} // model by file; the first one of those that have it together
	for _, code := range slices.Backward(codes) {
		for _, f := range code.Files() {
			owner[filepath.FromSlash(f.Name)] = code.Name
		}
	}

	var all []object
	for _, name := range pathsIn(files, "lib", ".o") {
		all = append(all, object{path: name, model: owner[name]})
	}
	for _, source := range sources {
		o, err := c.compile(ctx, dir, source, owner[source], files)
		if err != nil {
			return err
		}
		all = append(all, o)
	}

	// All objects as one, only to find symbols that two of them define.
	if err := c.linkWhole(ctx, dir, all, filepath.Join(objectDir, "all.o")); err != nil {
		return err
	}

	members := paths(all, "")
	for _, code := range codes {
		whole := filepath.Join(objectDir, code.Name+".o")
		if err := c.linkWhole(ctx, dir, ofModel(all, code.Name), whole); err != nil {
			return err
		}
		members = append(members, whole)
	}

	// D: no times and owners, so that equal files give equal bytes.
	args := append([]string{"qcsD", filepath.FromSlash(CompiledLibrary)}, members...)
	return command.Command{Path: c.ar, Args: args, Dir: dir, Timeout: compileTimeout}.Run(ctx)
}

// compile makes the object of a file in src/.
func (c *Compiler) compile(ctx context.Context, dir, source, model string, files []mlf.File) (object, error) {
	name := filepath.Base(source)
	o := object{filepath.Join(objectDir, model, name+".o"), model}
	if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, o.path)), 0o755); err != nil {
		return o, err
	}

	// TVM's code has many warnings; those of a typed call show errors of a description.
	quiet := []string{"-w"}
	if strings.HasSuffix(name, modelfile.CallSuffix) {
		quiet = nil
	}

	noDate, env := command.Dated()
	args := slices.Concat(c.flagsOf(name), quiet, noDate, []string{
		"-std=gnu11", "-ffunction-sections", "-fdata-sections", "-fno-common", "-Iinclude",
	}, c.headerFlags(), []string{"-ffile-prefix-map=" + abspath.Of(dir) + "=.", "-c", source, "-o", o.path})

	err := command.Command{Path: c.cc, Args: args, Dir: dir, Env: env, Timeout: compileTimeout}.Run(ctx)
	if err != nil && ctx.Err() == nil {
		err = c.explained(name, files, err)
	}
	return o, err
}

// headerFlags returns the flags of the folders in Headers. No path of this computer gets into objects.
func (c *Compiler) headerFlags() (flags []string) {
	for i, dir := range c.Headers {
		flags = append(flags, "-I"+dir, fmt.Sprintf("-ffile-prefix-map=%s=headers%d", dir, i))
	}
	return flags
}

// explained returns the error of a source in src/ that does not compile.
func (c *Compiler) explained(source string, files []mlf.File, err error) error {
	var failed *command.Error
	if !errors.As(err, &failed) {
		return failure.Errorf(failure.Compile, "board %s: %s: %w", c.Board.Name, source, err)
	}

	_, message, _ := diagnostics.Explain(failed.Stderr, failed.Text)
	cause, next := "", ""
	if header, includer := diagnostics.MissingHeader(failed.Stderr); header != "" {
		if filepath.IsAbs(includer) {
			files = nil // of a library
		}
		cause, next = fit.ExplainHeader(header, includer, files,
			"name its library with "+nextstep.Option("Spec.Libraries", "FOLDER"))
	} else if diagnostics.LacksInstruction(message) {
		next = fit.NextProcessor
	}

	return failure.New(failure.Compile, next, "board %s: %s: %s: %w\n%s", c.Board.Name, source, failed.Tool, failed.Err,
		strings.TrimSpace(cmp.Or(message, failed.LastLine())+"\n"+cause))
}

// flagsOf returns the flags of a file in src/.
func (c *Compiler) flagsOf(name string) []string {
	// Those for all files are part of c.flags.
	all := len(c.Options.OperatorFlagsOf(""))
	return slices.Concat(c.flags, c.Options.OperatorFlagsOf(name)[all:])
}

// pathsIn returns the sorted paths, in the system's form, of the files in a folder whose names end so.
func pathsIn(files []mlf.File, folder, ext string) (paths []string) {
	for _, name := range namesIn(files, folder+"/", ext) {
		paths = append(paths, filepath.Join(folder, name))
	}
	slices.Sort(paths)
	return paths
}

// Sizes returns the memory of each model and of each part of the runtime in lib/libmodels.a among the files, by name.
func (c *Compiler) Sizes(ctx context.Context, files []mlf.File) (map[string]image.Size, error) {
	i := slices.IndexFunc(files, func(f mlf.File) bool { return f.Name == CompiledLibrary })
	if i < 0 {
		return nil, failure.Errorf(failure.Config, "the models are not compiled")
	}

	folder, err := scratch.Make(scratchPrefix)
	if err != nil {
		return nil, err
	}
	defer folder.Remove()

	archive := path.Base(CompiledLibrary)
	if err := os.WriteFile(filepath.Join(folder.Dir, archive), files[i].Data, 0o644); err != nil {
		return nil, err
	}

	// A folder of its own, so that all files in it are members.
	dir := filepath.Join(folder.Dir, "members")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}

	unpack := command.Command{Path: c.ar, Args: []string{"x", "../" + archive}, Dir: dir, Timeout: compileTimeout}
	if err := unpack.Run(ctx); err != nil {
		return nil, err
	}

	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}

	sizes := map[string]image.Size{}
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, err
		}
		f, err := elf.NewFile(bytes.NewReader(data))
		if err != nil {
			return nil, failure.Errorf(failure.Compile, "%s: %w", e.Name(), err)
		}
		sizes[strings.TrimSuffix(e.Name(), ".o")] = image.Size(firmware.SizeOf(f))
	}
	return sizes, nil
}
