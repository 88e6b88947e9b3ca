// This file links objects of a compiled library as one, and explains that two define one symbol.

package cmodel

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/command"
	"github.com/boardsmith/boardsmith/internal/diagnostics"
	"github.com/boardsmith/boardsmith/mlf"
)

// objectDir is the folder of objects. Its path is relative, and -g names its parent as ".": its name is in no object.
const objectDir = ".objects"

// An object is one of a model, or of the runtime if model is "".
type object struct{ path, model string }

// source returns the name of the file that the object is made of: its own if the archive has the object.
func (o object) source() string { return strings.TrimSuffix(filepath.Base(o.path), ".o") }

// info returns what the object defines and lacks.
func (o object) info(dir string) (mlf.ObjectInfo, error) {
	data, err := os.ReadFile(filepath.Join(dir, o.path))
	if err != nil {
		return mlf.ObjectInfo{}, err
	}

	info, err := mlf.File{Name: o.path, Data: data}.Info()
	if err != nil {
		return info, failure.Errorf(failure.Compile, "%s: %w", filepath.Base(o.path), err)
	}
	return info, nil
}

// of names the object's owner.
func (o object) of() string {
	if o.model == "" {
		return "the runtime"
	}
	return "model " + o.model
}

// ofModel returns the objects of a model, of the runtime if model is "".
func ofModel(all []object, model string) []object {
	return slices.DeleteFunc(slices.Clone(all), func(o object) bool { return o.model != model })
}

// paths returns the paths of the objects of a model, of the runtime if model is "".
func paths(all []object, model string) (names []string) {
	for _, o := range ofModel(all, model) {
		names = append(names, o.path)
	}
	return names
}

// linkWhole links objects in dir as one. An archive would hide that two of them define one symbol.
func (c *Compiler) linkWhole(ctx context.Context, dir string, objects []object, to string) error {
	args := append(slices.Clone(c.flags), "-r", "-nostdlib", "-o", to)
	for _, o := range objects {
		args = append(args, o.path)
	}

	err := command.Command{Path: c.cc, Args: args, Dir: dir, Timeout: compileTimeout}.Run(ctx)
	var failed *command.Error
	if !errors.As(err, &failed) || ctx.Err() != nil {
		return err
	}

	symbol, _ := diagnostics.TwiceDefined(failed.Stderr)
	if symbol == "" {
		return failure.Errorf(failure.Link, "linking the models: %w\n%s", err, strings.TrimSpace(failed.Stderr))
	}

	const next = "rename it in one of them, or make it static"
	var both []object
	for _, o := range objects {
		if info, err := o.info(dir); err == nil && slices.Contains(info.Defined, symbol) {
			both = append(both, o)
		}
	}

	if len(both) < 2 { // with -flto, only the linker reads symbols
		return failure.New(failure.Link, next, "two sources define %s:\n%s", symbol, strings.TrimSpace(failed.Stderr))
	}
	return failure.New(failure.Link, next, "%s of %s and %s of %s both define %s", both[0].source(), both[0].of(),
		both[1].source(), both[1].of(), symbol)
}
