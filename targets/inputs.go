// This file takes the inputs of a run, and compares the project with them.

package targets

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/device"
	"github.com/boardsmith/boardsmith/examples/samples"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/internal/cli/boardsmithjson"
	"github.com/boardsmith/boardsmith/internal/cli/inputs"
	"github.com/boardsmith/boardsmith/internal/gitfolder"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/ndarray"
	"github.com/boardsmith/boardsmith/project"
)

// inputs returns the inputs, which it reads once.
func (v *invocation) inputs(ctx context.Context) (*inputs.Inputs, error) {
	if v.in != nil {
		return v.in, nil
	}
	in, err := inputs.Resolve(v.Env, v.Dir, v.load, func(c *boardsmithjson.Config, place string) (string, error) {
		builder := &project.Builder{Host: device.Host{Cache: v.usableCache()}, LockFile: inputs.LockFile(c, v.Dir)}
		return builder.Fetch(ctx, place)
	})
	if err != nil {
		return nil, err
	}
	v.in = in
	return in, nil
}

// load opens the project in dir and returns its inputs, or nil if there is none.
func (v *invocation) load(dir string) (*inputs.Made, error) {
	if !project.Exists(dir) {
		return nil, nil
	}
	p, err := v.builder(nil).Open(dir)
	if errors.As(err, &v.unfinished) {
		u := v.unfinished
		return &inputs.Made{
			Board: u.Board, Template: u.Template, From: u.Template, Model: u.Archive, ModelName: u.ModelName,
			Options: u.Options, Libraries: u.Libraries,
		}, nil
	}
	if err != nil {
		return nil, err
	}
	v.project = p
	return &inputs.Made{
		Board: p.Board().Name, Template: p.Template(), From: p.TemplateFrom(), Model: p.ArchiveName(),
		ModelName: p.ModelName(),
		Options:   p.Options(), Libraries: p.Libraries(),
	}, nil
}

// boardOf returns the board named by BOARD, for targets that need no project. If only a build finds out how the board
// is reached, it is the board of the project, once that is built.
func (v *invocation) boardOf(ctx context.Context) (*inputs.Inputs, *boards.Board, error) {
	in, err := v.inputs(ctx)
	if err != nil {
		return nil, nil, err
	}
	b, err := boards.Find(in.Board.Value, in.Path)
	if err != nil {
		return nil, nil, err
	}
	if b.Partial && v.project != nil && v.project.Board().Name == b.Name {
		b = v.project.Board()
	}
	if d := in.DeskFile.Find(in.Device); d != nil && d.Board != b.Name {
		return nil, nil, failure.New(failure.Config, "leave BOARD out", "%s in desk.json is a %s, not a %s", d.Name,
			d.Board, b.Name)
	}
	return in, b, nil
}

// matches returns an error unless the project is for the requested board and model.
func (v *invocation) matches(in *inputs.Inputs) error {
	p := v.project
	if in.Board.Asked && in.BoardName() != p.Board().Name {
		return v.madeFor("board", p.Board().Name, in.BoardName())
	}
	if in.Model.Asked && inputs.ArchiveName(in.Model.Value) != inputs.ArchiveName(p.ArchiveName()) {
		return v.madeFor("model", inputs.ArchiveName(p.ArchiveName()), inputs.ArchiveName(in.Model.Value))
	}
	if in.ModelName.Asked && in.ModelName.Value != p.ModelName() {
		return v.madeFor("model", p.ModelName(), in.ModelName.Value+" of "+inputs.ArchiveName(p.ArchiveName()))
	}
	return nil
}

func (v *invocation) madeFor(what, is, asked string) error {
	return failure.New(failure.Config, "choose another PROJECT, or generate it again: "+failure.Target("generate"),
		"project %s was made for %s %s, not for %s", v.Shown(v.project.Dir()), what, is, asked)
}

// isCurrent reports whether the project matches the requested inputs and its own are up to date.
func (v *invocation) isCurrent(in *inputs.Inputs) (bool, error) {
	p := v.project
	if in.OptionsAsked && in.Options != p.Options() {
		return false, nil
	}
	if in.LibrariesAsked && !slices.Equal(in.Libraries, p.Libraries()) {
		return false, nil
	}
	if in.Samples != "" {
		return false, nil // generating compares them
	}
	if in.Template.Asked && !isTemplate(in, p) {
		return false, nil
	}
	if !in.Model.Asked {
		return true, nil
	}
	digest := samples.Digest()
	if in.Model.Value != "" {
		a, err := mlf.Open(in.Model.Value)
		if err != nil {
			return false, err
		}
		digest = a.Digest
	}
	return digest == p.ArchiveDigest(), nil
}

// isTemplate reports whether a project has the requested template.
func isTemplate(in *inputs.Inputs, p *project.Project) bool {
	place := cmp.Or(in.Config.Templates[in.Template.Value], in.Template.Value)
	if gitfolder.IsRef(place) {
		return place == p.TemplateFrom()
	}
	return filepath.Base(in.Template.Value) == p.Template() && !gitfolder.IsRef(p.TemplateFrom())
}

// modelInputs holds the arrays to run with, and a description of their source.
func (v *invocation) modelInputs(m *mlf.Model) ([]ndarray.Named, string, error) {
	if samples, err := v.project.Samples(); err != nil || samples != nil {
		if err == nil && v.in.Input != "" {
			err = failure.New(failure.Config, "leave INPUT out, or generate the project without FIXED_INPUT",
				"INPUT=%s: the inputs are constants of the firmware", v.in.Input)
		}
		return nil, "the firmware's samples", err
	}
	if v.in.Input != "" {
		arrays, err := inputs.ReadArrays(v.in.Input, m)
		return arrays, "input from " + v.in.Input, err
	}
	if v.project.ArchiveDigest() == samples.Digest() {
		arrays, err := samples.Inputs()
		return arrays, "input from the bundled sample", err
	}
	return inputs.InventArrays(v.Env, m)
}

// canWriteOutput checks, before the work, that OUTPUT's folder exists.
func (v *invocation) canWriteOutput() error {
	if v.in.Output == "" {
		return nil
	}
	folder := filepath.Dir(v.in.Output)
	if info, err := os.Stat(folder); err != nil || !info.IsDir() {
		return failure.New(failure.Config, "create the folder first", "OUTPUT=%s: %s is not a folder", v.in.Output, folder)
	}
	return nil
}
