// This file holds the targets generate, build and clean, and finds the image to use.

package targets

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/boardsmith/boardsmith/boards"
	"github.com/boardsmith/boardsmith/examples/samples"
	"github.com/boardsmith/boardsmith/failure"
	"github.com/boardsmith/boardsmith/image"
	"github.com/boardsmith/boardsmith/internal/cli/inputs"
	"github.com/boardsmith/boardsmith/internal/cli/jsonlines"
	"github.com/boardsmith/boardsmith/mlf"
	"github.com/boardsmith/boardsmith/ndarray"
	"github.com/boardsmith/boardsmith/project"
)

func (v *invocation) generate(ctx context.Context) error {
	in, err := v.inputs(ctx)
	if err != nil {
		return err
	}
	if v.Env.On("DRYRUN") {
		return v.Would("generate %s for board %s from %s", in.Project, in.Board.Value, inputs.ArchiveName(in.Model.Value))
	}
	if err := v.makeProject(ctx, in); err != nil {
		return err
	}
	if !in.OptionsAsked && in.Usual != v.project.Options() && in.Config.File != "" {
		v.Notef("note: the project keeps its own options, which differ from those in %s; OPTIONS sets them",
			v.Shown(in.Config.File))
	}
	return nil
}

// makeProject generates the project of the inputs and prints what changed.
func (v *invocation) makeProject(ctx context.Context, in *inputs.Inputs) error {
	spec := project.Spec{
		Board: in.Board.Value, ModelName: in.ModelName.Value, Template: in.Template.Value, Options: in.Options,
		Libraries: in.Libraries, Force: v.forced(),
	}
	if in.Library {
		return noFirmware()
	}
	if err := runsHere(runtime.GOOS, in); err != nil {
		return err
	}
	archive, err := v.archive(in)
	if err != nil {
		return err
	}
	spec.Archive = archive
	if spec.Samples, err = v.samples(in, archive); err != nil {
		return err
	}
	bar := v.Start("generate", 0)
	builder, p := v.builder(in), v.project
	if p != nil { // keep the lock since it was loaded
		err = p.Generate(ctx, spec)
	} else {
		p, err = builder.Generate(ctx, in.Project, spec)
	}
	bar.End()
	if err != nil {
		return err
	}
	v.project, v.image, v.unfinished = p, nil, nil
	r := jsonlines.Generate{Project: v.projectLine(), Step: "generate"} // build generates too
	if n := len(p.Wrote()); n > 0 {
		v.Printf("generate: %s for board %s from %s, %d files", in.Project, p.Board().Name,
			inputs.ArchiveName(p.ArchiveName()), n)
		r.Files = n
	} else {
		v.Printf("generate: %s is up to date", in.Project)
		r.Status = jsonlines.StatusUpToDate
	}
	if edited := p.Stayed(); len(edited) > 0 {
		v.Notef("note: left as they were changed by hand: %s", strings.Join(edited, ", "))
		r.Edited = edited
	}
	v.JSONLine(r)
	return nil
}

// samples returns the inputs that are compiled into standalone firmware: those of FIXED_INPUT, else the project's.
func (v *invocation) samples(in *inputs.Inputs, a *mlf.Archive) ([]ndarray.Named, error) {
	if in.Samples == "" {
		if v.project == nil || in.Options.App != boards.Standalone {
			return nil, nil
		}
		return v.project.Samples()
	}
	m, err := a.Model(in.ModelName.Value)
	if err != nil {
		return nil, err
	}
	arrays, err := inputs.ReadArrays(in.Samples, m)
	if err != nil {
		return nil, fmt.Errorf("FIXED_INPUT: %w", err)
	}
	return arrays, nil
}

// runsHere returns an error for a board that is a process, except on Linux. It accepts an unknown board, for which
// Generate returns a better error.
func runsHere(system string, in *inputs.Inputs) error {
	b, err := boards.Find(in.Board.Value, in.Path)
	if err != nil || b.Link.Kind != "process" || system == "linux" {
		return nil
	}
	return failure.New(failure.Config, "use an emulated (QEMU) or a hardware board: "+failure.Target("boards")+
		" lists them",
		"board %s is a process of Linux, and this is %s", b.Name, system)
}

// projectLine begins a JSON line about the project.
func (v *invocation) projectLine() jsonlines.Project {
	p := v.project
	return jsonlines.Project{
		Project: v.Shown(p.Dir()), Board: p.Board().Name, Model: inputs.ArchiveName(p.ArchiveName()),
		ModelSHA256: p.ArchiveDigest(),
	}
}

// imageLine begins a JSON line about the image that is flashed or run. The model of an image named by IMAGE is unknown.
func (v *invocation) imageLine(image *image.Image) jsonlines.Image {
	r := jsonlines.Image{Project: v.projectLine(), BuildID: image.ID()}
	if v.picked {
		r.Model, r.ModelSHA256 = "", ""
	}
	return r
}

// archive returns the archive to generate from: the requested one, else the project's, else the bundled sample.
func (v *invocation) archive(in *inputs.Inputs) (*mlf.Archive, error) {
	switch {
	case v.unfinished != nil && !in.Model.Asked:
		return formerArchive(in.Project, v.unfinished)
	case in.Model.Value != "" && (in.Model.Asked || v.project == nil):
		return mlf.Open(in.Model.Value)
	case in.Model.Asked || v.project == nil:
		return mlf.Parse(samples.Name, samples.Archive())
	}
	a, _, err := v.project.Model()
	if err != nil {
		return nil, err
	}
	return mlf.Parse(v.project.ArchiveName(), a.Raw)
}

// formerArchive returns the archive in the folder of a project that cannot be opened, which is to be generated again.
func formerArchive(dir string, unfinished *project.UnfinishedError) (*mlf.Archive, error) {
	a, err := mlf.Open(filepath.Join(dir, "model.tar"))
	if err == nil && a.Digest != unfinished.ArchiveDigest {
		err = errors.New("it was not yet written")
	}
	if err != nil {
		return nil, failure.New(failure.Config, "name the archive: MODEL=PATH", "%w; its archive: %w", unfinished, err)
	}
	a.Path = cmp.Or(unfinished.Archive, a.Path)
	return a, nil
}

// ready generates the project if there is none, or if a requested archive, option or board file differs. Without
// requests it uses the project as it is.
func (v *invocation) ready(ctx context.Context) error {
	in, err := v.inputs(ctx)
	if err != nil {
		return err
	}
	if v.project == nil {
		if v.unfinished != nil && !in.Derived {
			return v.unfinished // generating it again replaces files
		}
		return v.makeProject(ctx, in)
	}
	if err := v.matches(in); err != nil {
		return err
	}
	if !in.Model.Asked && !in.ModelName.Asked && !in.Board.Asked && !in.OptionsAsked && !in.Template.Asked &&
		in.Samples == "" {
		return nil
	}
	current, err := v.isCurrent(in)
	if err != nil {
		return err
	}
	edited, err := v.project.Edited()
	if err != nil {
		return err
	}
	if current && len(edited) > 0 && !v.forced() {
		return nil // generating would replace the user's changes
	}
	return v.makeProject(ctx, in)
}

func (v *invocation) build(ctx context.Context) error {
	in, err := v.inputs(ctx)
	if err != nil {
		return err
	}
	if in.Library {
		return v.buildLibrary(ctx, in)
	}
	if v.Env.On("DRYRUN") {
		return v.Would("build the firmware of %s for board %s", in.Project, in.Board.Value)
	}
	if err := v.ready(ctx); err != nil {
		return err
	}
	return v.makeImage(ctx)
}

// makeImage builds the project and prints the image's size.
func (v *invocation) makeImage(ctx context.Context) error {
	bar := v.Start("build", 0)
	image, err := v.project.Build(ctx)
	bar.End()
	if err != nil {
		return err
	}
	v.image = image
	if len(image.Edited) > 0 {
		v.Notef("note: built with files that were changed by hand: %s", strings.Join(image.Edited, ", "))
	}
	r := jsonlines.Build{
		Project: v.projectLine(), Step: "build", Image: v.Shown(image.Path), SHA256: image.Digest, BuildID: image.ID(),
		Edited: append([]string{}, image.Edited...), Text: image.Size.Text, Data: image.Size.Data, BSS: image.Size.BSS,
	}
	if image.UpToDate {
		v.Printf("build: %s is up to date", v.Shown(image.Path))
		r.Status = jsonlines.StatusUpToDate
	} else {
		z := image.Size
		v.Printf("build: %s, text %d, data %d, bss %d bytes", v.Shown(image.Path), z.Text, z.Data, z.BSS)
	}
	v.JSONLine(r)
	return nil
}

func (v *invocation) clean(ctx context.Context) error {
	in, err := v.inputs(ctx)
	if err != nil {
		return err
	}
	if v.project != nil {
		if err := v.matches(in); err != nil {
			return err
		}
	}
	if _, err := os.Stat(in.Project); errors.Is(err, fs.ErrNotExist) {
		v.Printf("clean: there is no %s", in.Project)
		v.JSONLine(jsonlines.Clean{Status: jsonlines.StatusUpToDate, Project: in.Project})
		return nil
	}
	if v.Env.On("DRYRUN") {
		return v.Would("remove %s", in.Project)
	}
	if err := v.forget(); err != nil { // Clean takes the lock itself
		return err
	}
	if err := v.builder(in).Clean(ctx, in.Project, v.Env.On("FORCE")); err != nil {
		var edited *project.EditedError
		if errors.As(err, &edited) {
			return failure.New(failure.Config, "FORCE=1 removes them too", "%w", err)
		}
		return err
	}
	v.Printf("clean: removed %s", in.Project)
	v.JSONLine(jsonlines.Clean{Project: in.Project})
	return nil
}

// built returns the image to use: the one named by IMAGE, else the project's, which it builds if this run has not.
func (v *invocation) built(ctx context.Context) (*image.Image, error) {
	if name := v.Env("IMAGE"); name != "" && !v.picked {
		if err := v.pick(ctx, name); err != nil {
			return nil, err
		}
	}
	if v.image == nil {
		if err := v.ready(ctx); err != nil {
			return nil, err
		}
		if err := v.makeImage(ctx); err != nil {
			return nil, err
		}
	}
	return v.image, nil
}

// imageOnBoard is IMAGE's value for the image that the board holds.
const imageOnBoard = "running"

// pick finds an image of an earlier build.
func (v *invocation) pick(ctx context.Context, name string) error {
	if err := v.ready(ctx); err != nil {
		return err
	}
	find := func() (*image.Image, error) { return v.images().Find(name) }
	if name == imageOnBoard {
		d, err := v.attached(ctx)
		if err != nil {
			return err
		}
		find = func() (*image.Image, error) { return d.Holds(ctx) }
	}
	image, err := find()
	if err != nil {
		return err
	}
	v.Notef("using %v, SHA-256 %s", image, image.Digest)
	v.image, v.picked = image, true
	return nil
}
